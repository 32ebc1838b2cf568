// What lanes.hpp makes of the same numbers with each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "half.hpp"
#include "kernels.hpp"

namespace kdcode::tests {

struct LanesKernels {
  float (*dot)(const float* a, const float* b, std::size_t count);
  // The others read and write 16 values.
  void (*from_half)(const Half* from, float* to);
  void (*gather)(const float* table, const std::int32_t* index, float* to);
  void (*multiply_add)(const std::int8_t* codes, float scale, float offset, float* to);
  void (*from_bytes)(const std::uint8_t* from, std::uint16_t* shorts, std::uint32_t* ints, float* floats);
  void (*to_bytes)(const std::int32_t* from, std::int8_t* bytes, std::int16_t* shorts);
  std::uint32_t (*clamp)(const std::int32_t* from, std::int32_t low, std::int32_t high, std::int32_t* to);
  void (*interleave)(const std::int32_t* a, const std::int32_t* b, std::int32_t* evens, std::int32_t* odds);
  void (*shift)(const std::uint32_t* from, std::uint32_t* to);
  void (*look_up)(const std::uint32_t* table, const std::uint32_t* index, const std::uint8_t* bytes, std::uint32_t* to);
};

KDCODE_DECLARE_KERNELS(LanesKernels, lanes_kernels)

}  // namespace kdcode::tests
