// The loops of levels: 16 blocks read side by side, and rows of levels times the rotation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace kdcode {

constexpr std::uint32_t escape_values = 0x80808080;  // of the symbol that is an escape: no tuple has -128

// What a reader knows of a codec: plain pointers into LevelCodec, whose indices were checked when it was made.
struct LevelPlan {
  const std::uint8_t* slots;        // LevelTables
  const std::uint32_t* symbols;     // LevelTables, as pairs
  const std::uint8_t* group_sizes;  // of a row: 1, 2 or 4 coordinates each
  const std::uint8_t* group_contexts;
  const std::uint32_t* steps;          // (5, 3, 16): see LevelCodec
  const std::uint16_t* number_slots;   // 2^15 and one more, or null: the centroid at each place
  const std::uint32_t* number_starts;  // of each centroid: start << 16 | frequency
  std::uint32_t groups, dim, width;    // of a row: groups, coordinates that have levels, and these in whole quads
  std::uint32_t rows, contexts;
  std::uint32_t sides;           // at most, of a block
  std::uint32_t first_table[5];  // by size of a group: the number of its table of context 0 without ones
};

// Sixteen blocks that are read side by side, as structure of arrays.
struct LaneBlocks {
  std::int32_t class_context[16];
  std::uint32_t length[16];
  // What is found: whether a number was beyond all symbols, and what is left for sides, below 0 where levels are too
  // long for their block; and the sides.
  std::uint32_t is_damaged[16];
  std::int32_t room[16];
  std::uint32_t above[16];
};

// A group of coordinates that some of sixteen readers found an escape for; places in bits.
struct EscapedGroup {
  std::uint32_t code[16], range[16], place[16], values[16], pattern[16], context[16];
};

// Reads on in those lanes of a batch that have a bit in `escaped`. The group begins `at` levels after the block.
using ReadEscaped = void (*)(void* self, std::size_t batch, std::uint32_t escaped, std::uint32_t at, unsigned size,
                             EscapedGroup* group);

struct LevelKernels {
  // bytes: of 16 blocks for each of 1 or 2 `blocks`, which take turns to wait, `stride` apart, with zeros after each;
  // the last 4 bytes of a stride are never consumed. levels: (batches, rows, quads, 16, 4) int8. numbers: (blocks,
  // rows) of centroids.
  void (*read)(const LevelPlan* plan, const std::uint8_t* bytes, std::uint32_t stride, LaneBlocks* blocks,
               std::size_t batches, std::int8_t* levels, std::uint16_t* numbers, ReadEscaped escaped, void* self);
  // What the first `count` of 256 classes of four bits add up to, where class i stands for `more[i]`.
  std::uint32_t (*add_classes)(const std::uint8_t* classes, std::uint32_t count, const std::uint8_t* more);
};

KDCODE_DECLARE_KERNELS(LevelKernels, levels_kernels)

}  // namespace kdcode
