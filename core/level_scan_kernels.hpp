// The loops of searches and scores: queries times sixteen rows of levels that lie side by side.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace kdcode {

// Queries in planes; see QueryPlanes. Plane p of query q is the number p · queries + q of `planes · queries`.
struct PlanesOfQueries {
  std::size_t queries, planes, quads;
  const std::int8_t* numbers;  // (planes · queries, quads, 4)
  const std::int32_t* excess;  // by how much products are too large when 128 is added to all levels
  const float* scales;         // (planes · queries)
};

// Sixteen rows or fewer, in two parts that lie side by side: (quads, 16, 4).
struct SixteenRows {
  const std::int8_t *levels, *others;
  std::size_t level_quads, other_quads;
};

// What the products of sixteen rows become: (base + step · sum over planes of scale · product) · factor + offset.
struct SixteenScores {
  std::size_t first, count;      // rows, the first `count` of the sixteen
  const std::int32_t* products;  // (planes · queries, 16)
  const float* bases;            // (queries, numbers)
  std::size_t numbers;
  const std::uint32_t* number;                       // (16)
  const float *steps, *lengths;                      // (16)
  const float* more;                                 // (queries, 16) to be added to the base, or null
  const float *factors, *offsets;                    // (count), or null
  const float *slack_fixed, *slack_length, *floors;  // (queries): slack = fixed + length · the length of the row
};

struct FoundRows {
  std::size_t room;
  std::int64_t* found;   // (queries, room) rows that are kept, written from `counts` on
  float *lows, *highs;   // (queries, room) between which their scores lie
  std::int64_t* counts;  // (queries), with room for 16 more
};

struct LevelScanKernels {
  // (planes · queries, 16) products.
  void (*multiply)(const PlanesOfQueries* queries, const SixteenRows* rows, std::int32_t* products);
  // (16) sums of the magnitudes of levels.
  void (*magnitudes)(const SixteenRows* rows, std::uint32_t* sums);
  // Keeps rows whose score may exceed the floor of a query.
  void (*keep)(const PlanesOfQueries* queries, const SixteenScores* scores, const FoundRows* found);
  // Writes the scores of a query `stride` after those of the one before.
  void (*write)(const PlanesOfQueries* queries, const SixteenScores* scores, float* to, std::size_t stride);
};

KDCODE_DECLARE_KERNELS(LevelScanKernels, level_scan_kernels)

}  // namespace kdcode
