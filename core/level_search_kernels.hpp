// The best levels of a block: what each coordinate may become, and the Viterbi algorithm over the states of the
// trellis.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace kdcode {

inline constexpr float far = 1e30f;  // the cost of what cannot be

// The best magnitude for each quantizer and parity, of `count` coordinates: choice 2q + p of coordinate i stands at
// [choice * stride + i].
struct LevelChoices {
  float* cost;  // squared error plus λ times bits
  float* bits;
  std::int32_t* magnitude;
  std::size_t stride;
};

struct LevelSearchKernels {
  // sizes: absolute coordinates in steps. tables: of each, the place in `bits` of quantizer 0; quantizer 1 follows
  // after `magnitudes` numbers.
  void (*choose)(const float* sizes, const std::int32_t* tables, std::size_t count, const float* bits,
                 std::int32_t magnitudes, float trade, LevelChoices choices);
  // total and bits: of the best path into each state; they begin as those of the first coordinate. decisions: a bit for
  // each coordinate and state, the parity that led there.
  void (*walk)(LevelChoices choices, std::size_t count, std::uint32_t states, std::uint32_t feedback,
               std::uint32_t forward, float* total, float* bits, std::uint16_t* decisions);
};

KDCODE_DECLARE_KERNELS(LevelSearchKernels, level_search_kernels)

}  // namespace kdcode
