// All rows of codes that are added up, compared with queries: those that may be among the best are kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "code_rows.hpp"

namespace kdcode {

// The score of a row is (sum of table entries · scale) · factor + offset; larger is nearer.
struct Scan {
  std::size_t queries;
  const float* tables;   // (queries, length, size): what each codeword adds to the dot product with each query
  const float* slack;    // (queries,): how far a sum may be from the exact dot product
  const float* factors;  // (rows,), or null for ones
  const float* offsets;  // (rows,), or null for zeros
  const float* floors;   // (queries,): rows are kept whose score, and slack · factor, exceed this
  const float* levels;   // of row scales
  std::size_t room;      // how many rows can be kept for each query
  std::int64_t* found;   // (queries, room) rows that are kept, written from `counts` on
  float *lows, *highs;   // (queries, room) between which their scores lie
  std::int64_t* counts;  // (queries,) how many are kept
};

// Looks at the rows from `first` to before `stop`. Comes back before where there may be no room for more.
Reached scan_rows(const CodeRows& rows, const CodeShape& shape, const Scan& scan, std::size_t first, std::size_t stop);

}  // namespace kdcode
