// Queries as int8 numbers, for products with rows of int8.
//
// A query is rounded to planes of int8, each 1/254 as coarse as the one before: one plane tells which rows may be among
// the nearest, three are as precise as float32. Sums of products are whole numbers, so all instruction sets give the
// same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "level_scan_kernels.hpp"

namespace kdcode {

inline constexpr unsigned most_planes = 3;
inline constexpr std::size_t widest_planes = 1 << 16;  // sums of products of bytes have room in 32 bits

class QueryPlanes {
 public:
  // (count, width) numbers in 1 to 3 planes; rows of levels are as wide, in whole quads. All products of a query that
  // is not finite are NaN.
  QueryPlanes(std::span<const double> queries, std::size_t count, unsigned planes);

  const PlanesOfQueries& view() const { return view_; }
  double away(std::size_t query) const { return away_[query]; }  // the largest distance of a number from its planes

 private:
  std::vector<std::int8_t> numbers_;
  std::vector<std::int32_t> excess_;
  std::vector<float> scales_;
  std::vector<double> away_;
  PlanesOfQueries view_;
};

// (rows, dim) int8 numbers, and a scale of each row.
struct Int8Rows {
  const std::int8_t* numbers;
  const float* scales;
  std::size_t rows, dim;
};

// Writes the products of the rows from `first` to before `stop` with all queries, those of a query `stride` after those
// of the one before.
void score_rows(const QueryPlanes& queries, const Int8Rows& rows, std::size_t first, std::size_t stop, float* scores,
                std::size_t stride);

}  // namespace kdcode
