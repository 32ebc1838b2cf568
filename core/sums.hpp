// Linear, product and grouped codes: coordinates in blocks, each the sum of its positions' codewords.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "codewords.hpp"

namespace kdcode {

class Sums final : public CodewordCodec {
 public:
  // Positions and columns are split among `groups` blocks as evenly as possible, larger parts first.
  // Null where the shape is none, or there is no memory.
  static std::unique_ptr<Sums> make(const Codewords& codewords, std::size_t groups);

 protected:
  std::size_t scratch_floats(std::size_t) const override { return 0; }
  void compose(const std::uint32_t* codes, std::size_t rows, float* scratch, float* coordinates) const override;
  bool compose_wide(const std::uint32_t* codes, double* coordinates) const override;

 private:
  Sums(const Codewords& codewords, std::size_t groups);
  bool are_multiples() const;

  std::vector<Block> blocks_;
  // What the scales of int8 codewords in a block were as multiples of one unit, when this was made. The sum of a block
  // is at most 256, so that sums of int8 numbers, each times its multiplier, have room in 16 bits.
  std::vector<std::int16_t> multipliers_;
};

}  // namespace kdcode
