// Rows of transform codes times queries: a query is rotated once, and then multiplied with the levels of every row.
//
// The products are rough where a query has one plane, and their distance from those of decoded vectors is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "block_rows.hpp"
#include "query_planes.hpp"
#include "transform.hpp"

namespace kdcode {

// What rows are compared by: their score is (dot product) · factor + offset, larger is nearer; and what is found.
struct LevelScan {
  const float* factors;  // (rows,), or null for ones
  const float* offsets;  // (rows,), or null for zeros
  float extra;           // how far a score may be off for other reasons than its dot product
  const float* floors;   // (queries,): rows are kept whose score may exceed this
  FoundRows found;
};

class LevelQueries {
 public:
  // (count, d) queries, compared in 1 to 3 planes; levels take at most `widest_planes` - 16 coordinates.
  LevelQueries(const Transform& codec, std::span<const double> queries, std::size_t count, unsigned planes);

  std::size_t count() const { return count_; }
  std::span<const float> slack() const { return slack_; }  // (count,) how far products may be off,
  std::span<const float> more() const { return more_; }    // and for each unit of a row's magnitudes

  // Looks at the rows from `first` to before `stop`. Gives the row that is next: one before `stop` where there may be
  // no room for more, or after trouble.
  std::size_t scan(const RowFinder& rows, std::size_t first, std::size_t stop, const LevelScan& scan,
                   DecodeTrouble* trouble) const;

  // Writes the dot products of these rows with all queries, those of a query `stride` after those of the one before.
  std::size_t score(const RowFinder& rows, std::size_t first, std::size_t stop, float* scores, std::size_t stride,
                    DecodeTrouble* trouble) const;

 private:
  struct Tile;
  static std::vector<double> rotated(const Transform& codec, std::span<const double> queries, std::size_t count);
  static std::vector<double> columns(const Transform& codec, std::span<const double> rotated, std::size_t count);
  void set_bases(std::span<const double> queries);
  void set_slack(std::span<const double> queries);
  std::size_t read(const RowFinder& rows, std::size_t first, std::size_t stop, Tile* tile,
                   DecodeTrouble* trouble) const;
  SixteenScores multiply(std::size_t start, Tile* tile) const;
  void add_large(std::size_t start, Tile* tile, SixteenScores* scores) const;

  const Transform& codec_;
  std::vector<double> rotated_;  // (count, d)
  QueryPlanes planes_;           // of levels, and of what the sides of the first coordinates add
  std::size_t count_;
  std::vector<float> slack_, more_, bases_;
};

}  // namespace kdcode
