// Levels: blocks of rows to whole multiples of a step and back, by a trellis and an entropy coder.
//
// The coder is a range coder (Martin, 1979): a block is a number in [0, 1), every symbol narrows the interval that it
// may lie in, and a byte enters as soon as it is needed. Codes and ranges have 24 bits, so that the one division of a
// symbol is one of floats, sixteen at a time. Bytes after the end of a block count as zeros; what is left of its last
// bytes says of the first coordinates on which side of their level they lie. See docs/format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "level_tables.hpp"
#include "levels_kernels.hpp"
#include "trellis.hpp"

namespace kdcode {

inline constexpr std::size_t most_length = std::size_t{1} << 26;  // of a block: 16 are read with offsets of 31 bits
inline constexpr unsigned most_sides = 12, most_rows = 64, most_classes = 256, most_centroids = 1u << 13;

// What a codec is made of; see docs/format.md for what each array may be.
struct LevelShape {
  std::size_t dim = 0;              // d
  std::size_t rows = 1;             // of a block
  unsigned states = 1;              // of the trellis
  bool has_signs = true;            // whether levels may be negative
  std::uint32_t values = 1u << 16;  // what multiples are below, as 0, 1, 2, 3, 4 for 0, 1, -1, 2, -2
  std::span<const std::uint8_t> group_sizes, group_contexts;
  std::span<const std::uint32_t> lengths;  // bytes of a block, by class
  std::span<const std::int8_t> class_contexts;
  std::span<const std::uint16_t> magnitudes;
  std::span<const std::uint8_t> weights;
  std::span<const std::uint16_t> centroid_frequencies;
};

// A multiple that is no int8, in whose place a zero stands.
struct LargeLevel {
  std::size_t block;
  std::uint32_t place;  // in the levels of the block
  std::int32_t multiple;
};

// The first coordinates of a block that are known to lie above (1) or below (0) their level, the first one highest.
struct Sides {
  std::uint32_t count = 0, above = 0;
};

// Why bytes stand for no levels.
enum class Damage : std::uint8_t { none, too_long, too_large, no_symbol };

// What blocks are read to. Kept from call to call, for its memory.
struct ReadBlocks {
  // int8 levels, four coordinates after four: of one block after the other, or of 16 blocks side by side. Zeros stand
  // for multiples beyond int8, which are in `large` in the order of their places.
  std::vector<std::int8_t> levels;
  unsigned lane_bits = 0;              // 2^lane_bits blocks lie side by side
  std::vector<std::uint16_t> numbers;  // (blocks, rows) of centroids
  std::vector<Sides> sides;            // (blocks)
  std::vector<LargeLevel> large;
  std::size_t damaged = 0;          // the block that is damaged, if one is
  std::vector<std::uint8_t> bytes;  // copies of blocks, which nobody else changes while they are read

  std::size_t lanes() const { return std::size_t{1} << lane_bits; }
};

struct Op;

class LevelCodec {
 public:
  // Null, with a reason, where the parts do not fit together.
  static std::unique_ptr<LevelCodec> make(const LevelShape& shape, const char** why);

  std::size_t dim() const { return dim_; }
  std::size_t rows() const { return plan_.rows; }
  std::size_t width() const { return plan_.width; }  // of a row of levels, in whole quads
  std::size_t classes() const { return lengths_.size(); }
  std::size_t centroids() const { return number_starts_.size(); }
  std::uint32_t length(std::size_t own) const { return lengths_[own]; }
  std::uint32_t longest() const { return longest_; }
  const LevelTables& tables() const { return tables_; }
  const Trellis& trellis() const { return *trellis_; }
  unsigned sides() const { return plan_.sides; }                       // at most, of a block
  unsigned context_of(std::size_t coordinate, std::size_t own) const;  // of a coordinate in blocks of a class
  std::size_t active() const { return plan_.dim; }  // coordinates that have levels; all others are zero
  float number_bits(std::size_t number) const;

  // Reads n blocks of bytes with their classes. `end` is as far as anything may be read after their first bytes.
  Damage read(std::span<const std::uint8_t* const> blocks, std::span<const std::uint8_t> classes,
              const std::uint8_t* end, ReadBlocks* found) const;
  // Where the first four levels of a row are; from each to the next four it is 4 · lanes bytes.
  std::size_t first(const ReadBlocks& found, std::size_t block, std::size_t row) const {
    const std::size_t lane = block & (found.lanes() - 1), tile = (block >> found.lane_bits) * plan_.rows + row;
    return (tile * plan_.width << found.lane_bits) + 4 * lane;
  }

  // Whether the multiples of a block are those of their quantizers, within bounds, and zero where there are no levels.
  bool is_lawful(const std::int32_t* multiples) const;

  // Adds the magnitudes of a block to counts of (contexts, 2, magnitudes); larger ones count as the largest.
  void count(const std::int32_t* multiples, std::size_t own, std::size_t used, std::size_t magnitudes,
             std::int64_t* counts) const;

  // The bytes of a block of (rows · dim) multiples, `longest()` at most. Gives how many sides they have room for, which
  // are the first of `above`; below 0 where the levels take more than the class has.
  int write(const std::int32_t* multiples, const std::uint16_t* numbers, std::size_t own, std::uint32_t above,
            std::uint8_t* bytes) const;

 private:
  LevelCodec() = default;
  std::uint32_t stride() const;
  Damage read_lanes(std::span<const std::uint8_t> classes, std::size_t first, ReadBlocks* found) const;
  Damage read_one(std::size_t own, std::size_t block, ReadBlocks* found) const;
  void set_steps();
  void list(const std::int32_t* multiples, const std::uint16_t* numbers, std::size_t own, std::vector<Op>* ops) const;

  LevelPlan plan_{};
  std::size_t dim_ = 0;
  const Trellis* trellis_ = nullptr;
  LevelTables tables_;
  std::vector<std::uint8_t> group_sizes_, group_contexts_, group_of_;
  std::vector<std::uint16_t> bases_;  // (classes, groups) the first table of a group in blocks of a class
  std::vector<std::uint32_t> lengths_;
  std::vector<std::int8_t> class_contexts_;
  std::vector<std::uint32_t> steps_;
  std::vector<std::uint16_t> number_slots_;
  std::vector<std::uint32_t> number_starts_;
  std::uint32_t longest_ = 0, values_ = 0;
};

}  // namespace kdcode
