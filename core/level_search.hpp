// The levels and the class of each block: the least squared error plus λ times bits.
//
// A block takes as many bytes as its class says, however many bits its levels need. Paths of neighbouring λ differ by
// leaps of some ten bits, so that λ is no means to fill a block to its end. Instead a block takes the shortest class
// that the best path fits into; what is left of its last bytes says on which side of their levels coordinates lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "levels.hpp"

namespace kdcode {

// What levels cost, by class: made once, for any number of searches.
class LevelCosts {
 public:
  // largest: the largest magnitude that a level may have.
  LevelCosts(const LevelCodec& codec, std::uint32_t largest);

  std::uint32_t magnitudes() const { return magnitudes_; }
  const float* bits() const { return bits_.data(); }
  // The places in `bits` of the coordinates of a row, in blocks of a class: those of quantizer 0. Quantizer 1 follows.
  const std::int32_t* tables(std::size_t own) const { return tables_.data() + own * active_; }

 private:
  std::uint32_t magnitudes_;
  std::size_t active_;
  std::vector<float> bits_;           // (contexts, 2, magnitudes)
  std::vector<std::int32_t> tables_;  // (classes, active)
};

class LevelSearch {
 public:
  // Both must outlive the search.
  LevelSearch(const LevelCodec& codec, const LevelCosts& costs);

  // What a block becomes.
  struct Found {
    std::size_t own = 0;      // its class
    int sides = -1;           // how many there is room for; -1: it fits into no class, not even as zeros
    std::uint32_t above = 0;  // the sides of the first 12 coordinates, the first one highest
  };

  // coordinates: (rows · dim) in steps; those from row `used` on are coded as zeros. numbers: of centroids.
  // allowed: classes by length. multiples and bytes are written to. Not for several threads at once.
  Found find(const float* coordinates, std::size_t used, const std::uint16_t* numbers, float trade,
             std::span<const std::uint8_t> allowed, std::int32_t* multiples, std::uint8_t* bytes);

 private:
  struct Path {
    std::size_t state = 0;
    float bits = 0;          // of the path that is chosen
    float natural_bits = 0;  // of the path with the least total
    bool fits = false;
  };
  Path best_path(std::size_t own, float trade, float room);
  void trace(std::size_t state, const float* coordinates, std::int32_t* multiples) const;
  std::size_t first_place(std::span<const std::uint8_t> allowed, float taken) const;
  std::uint32_t above(const float* coordinates, const std::int32_t* multiples) const;
  bool search(const float* coordinates, float trade, float taken, float margin, std::span<const std::uint8_t> allowed,
              std::int32_t* multiples, Found* found);

  const LevelCodec& codec_;
  const LevelCosts& costs_;
  std::vector<float> sizes_;  // of the coordinates of the block that have levels, one row after another
  std::size_t used_ = 0;      // how many of them are of rows that there are
  std::vector<float> choice_costs_, choice_bits_, total_, spent_;
  std::vector<std::int32_t> choice_magnitudes_;
  std::vector<std::uint16_t> decisions_;
};

}  // namespace kdcode
