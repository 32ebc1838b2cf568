// Products of rows with a matrix, floats and int8, in one order of sums whatever the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace kdcode {

// A row of levels on its way to a vector; see ProductKernels::expand.
struct ExpandedRow {
  const std::int8_t* levels;  // in whole quads, each `pitch` bytes after the one before
  const float* base;          // (d) what is added: the mean, or a centroid
  float* vector;              // (d) written to
  float step;
  unsigned sides;     // how many of the first coordinates lie above or below their levels
  float weights[12];  // by how much, in steps
};

// The matrix of a rotation in int8. Blocks of 16 rows: (blocks, quads, 16, 4); rows beyond d are zeros.
struct ExpandMatrix {
  const std::int8_t* numbers;
  // With zeros up to `padded`, seven blocks after the last one:
  const float* scales;         // of each row
  const float* columns;        // (12, padded) the first columns as floats
  const std::int32_t* excess;  // of each row, by how much its products are too large when `bias` is added to all levels
  std::size_t quads, dim, padded;
  std::uint8_t bias;  // no level is larger, in size
  std::size_t run;    // quads whose products have room in 16 bits, two coordinates together; 0 where one has not
};

struct ProductKernels {
  // (n, m) products of (n, k) rows and a (k, m) matrix; each is a sum over k from first to last.
  void (*multiply)(const float* rows, std::size_t n, std::size_t k, const float* matrix, std::size_t m,
                   float* products);
  // Vectors of rows of levels: base + step · (scale · (matrix · levels) + columns · weights). `memory` has room for n
  // rows of levels, and 64 bytes.
  void (*expand)(const ExpandMatrix* matrix, const ExpandedRow* rows, std::size_t n, std::size_t pitch,
                 std::uint8_t* memory);
};

KDCODE_DECLARE_KERNELS(ProductKernels, product_kernels)

}  // namespace kdcode
