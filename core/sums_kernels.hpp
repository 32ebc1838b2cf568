// Loops over codewords: sums of them, and products of their sums with a basis.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace kdcode {

enum class Number : std::uint8_t { float32, float16, int8 };

// Some positions of a code, whose codewords add up to some columns.
struct Block {
  std::size_t first, last;   // positions
  std::size_t start, width;  // columns
};

struct SumsJob {
  const void* words;  // (length, size, dim) stored numbers
  Number number;
  const float* scales;              // (length,) of the codewords of each position
  const std::int16_t* multipliers;  // (length,) see Sums; null where codewords are added up as floats
  const Block* blocks;              // in order
  std::size_t groups;               // how many
  std::size_t length, size, dim;    // D, K and e
  const std::uint32_t* codes;       // (rows, length + 1)
  std::size_t rows, width;          // width of a row of `out`
  float* out;                       // (rows, width)
};

struct ProductJob {
  const float* left;  // (rows, inner)
  const void* right;  // (inner, width) stored numbers
  Number number;
  std::size_t rows, inner, width;
  float* out;  // (rows, width)
};

struct SumsKernels {
  void (*add)(const SumsJob&);
  void (*multiply)(const ProductJob&);
  // Multiplies (rows, width) numbers by what `levels` has for the last of each row of (rows, stride) codes.
  void (*scale)(float* numbers, std::size_t rows, std::size_t width, const float* levels, const std::uint32_t* codes,
                std::size_t stride);
  // Whether none of so many numbers is infinite or no number.
  bool (*are_finite)(const float* numbers, std::size_t count);
};

KDCODE_DECLARE_KERNELS(SumsKernels, sums_kernels)

}  // namespace kdcode
