// Transform codes: blocks of levels, times a rotation, from the nearest of some centroids.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "block_rows.hpp"
#include "levels.hpp"
#include "product_kernels.hpp"

namespace kdcode {

// What a codec has beside its levels; arrays as docs/format.md has them. Copied.
struct TransformShape {
  std::span<const float> mean;           // (d)
  std::span<const float> steps;          // of a block, by class
  std::span<const float> sides;          // (at most 12) how far from their level the first coordinates lie, in steps
  std::span<const std::int8_t> matrix;   // (d, d) of the rotation, row by row; empty: none
  std::span<const float> matrix_scales;  // (d) of its rows
  std::span<const float> centroids;      // (P, d) in rotated coordinates, in units
  float unit = 1;                        // the step of rows that count as usual; coordinates are multiples of it
};

// Why rows were not decoded, and at which of them that was.
struct DecodeTrouble {
  RowTrouble row = RowTrouble::none;
  Damage damage = Damage::none;
  std::size_t at = 0;
  std::size_t begin = 0, length = 0;  // of the file, where it has to be checked first

  bool found() const { return row != RowTrouble::none || damage != Damage::none; }
};

class Transform {
 public:
  static std::unique_ptr<Transform> make(const LevelShape& levels, const TransformShape& shape, const char** why);

  // Takes the (d, d) rotation as it was before it was rounded, which `coordinates` needs. Only the first call counts: a
  // second thread may make one while `coordinates` runs in the first.
  void prepare(std::span<const float> rotation);
  bool is_prepared() const { return numbers_.empty() || !rotation_.empty(); }

  const LevelCodec& levels() const { return *levels_; }
  std::size_t dim() const { return levels_->dim(); }

  // (n, d) vectors of (n) rows, from the `done`-th on; that of `zero_row` is zero. Gives how far it came.
  std::size_t decode(const RowFinder& rows, std::span<const std::int64_t> numbers, std::size_t done,
                     std::int64_t zero_row, float* vectors, DecodeTrouble* trouble) const;

  // The same for codes: (n, d) multiples, and (n, 4) the centroid, the class, the number of sides and the sides.
  std::size_t read(const RowFinder& rows, std::span<const std::int64_t> numbers, std::size_t done,
                   std::int32_t* multiples, std::uint32_t* others, DecodeTrouble* trouble) const;

  // (n, d) vectors of (n) codes: (n, d) multiples, (n) classes, centroids (or null) and sides.
  void compose(std::size_t n, const std::int32_t* multiples, const std::uint8_t* classes, const std::uint16_t* numbers,
               const Sides* sides, float* vectors) const;

  // (n, d) vectors to (n, d) coordinates in units, such that the matrix leads back to the vectors.
  void coordinates(std::size_t n, const float* vectors, float* found) const;

  // The centroid of each of (n, d) coordinates that is nearest, in squared distance plus λ times its bits.
  void nearest(std::size_t n, const float* coordinates, float trade, std::uint16_t* numbers) const;

 private:
  friend class LevelQueries;

  Transform() = default;
  struct Chunk;
  std::size_t read_chunk(const RowFinder& rows, std::span<const std::int64_t> numbers, std::size_t done,
                         std::int64_t skipped, Chunk* chunk, DecodeTrouble* trouble) const;
  void set_rotation(const TransformShape& shape, std::uint32_t values);
  void set_run();
  void set_centroids();
  const float* base_of(std::size_t number) const;
  Sides sides_at(Sides all, std::size_t place) const;
  ExpandedRow row_of(const std::int8_t* levels, Sides sides, unsigned own, std::size_t number, float* vector) const;
  void finish(std::span<const ExpandedRow> rows, std::size_t pitch, std::vector<std::uint8_t>* memory) const;
  void add_level(std::size_t coordinate, float more, float* vector) const;

  std::unique_ptr<LevelCodec> levels_;
  float unit_ = 1;
  std::vector<float> mean_, steps_, sides_;
  std::vector<float> scales_, columns_;                 // of the matrix
  std::vector<float> rotation_, back_;                  // what writers need
  std::vector<std::int8_t> numbers_;                    // the matrix, row by row
  std::vector<float> centroids_, by_coordinate_, own_;  // in units; and -2 times them, transposed; and their squares
  std::vector<std::int8_t> matrix_;                     // as ExpandMatrix has it
  std::vector<std::int32_t> excess_;
  ExpandMatrix expand_{};
  mutable std::unique_ptr<std::atomic<const float*>[]> bases_;
  mutable std::vector<std::unique_ptr<float[]>> own_bases_;
  mutable std::mutex mutex_;
};

}  // namespace kdcode
