// The loops that compare products of levels and queries with what has been found so far.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace kdcode {

// What a product begins with: that of a query with the centroid of the row and with what its sides add, of which there
// are two tables.
struct BeginRow {
  const float* base;  // (lanes,)
  const float *first, *later;
  float step;
};

// Of `count` rows that follow one another; all arrays of queries are in whole lanes.
struct KeepRows {
  std::size_t first, count;  // rows
  std::size_t queries, lanes;
  const float* products;  // (count, lanes) dot products, the first `queries` of each row
  const float* lengths;   // (count,) what `more` is multiplied by
  const float* slack;     // (lanes,) how far a product may be off,
  const float* more;      // (lanes,) and for each unit of length
  const float* floors;    // (lanes,) infinite beyond the queries
  const float* factors;   // (count,), or null for ones
  const float* offsets;   // (count,), or null for zeros
  std::size_t room;
  std::int64_t* found;  // (queries, room) rows that are kept, written from `counts` on
  float *lows, *highs;  // (queries, room) between which their scores lie
  std::int64_t* counts;
};

struct LevelScanKernels {
  // (n,) sums of the magnitudes of (n, width) levels.
  void (*magnitudes)(const std::int8_t* levels, std::size_t n, std::size_t width, std::uint32_t* sums);
  // (n, lanes) sums: base + (first + later) · step.
  void (*begin)(const BeginRow* rows, std::size_t n, std::size_t lanes, float* sums);
  // Keeps the rows whose score may exceed the floor of a query; see Scan.
  void (*keep)(const KeepRows* rows);
};

KDCODE_DECLARE_KERNELS(LevelScanKernels, level_scan_kernels)

}  // namespace kdcode
