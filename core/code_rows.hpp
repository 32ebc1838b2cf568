// Rows of packed codes, in memory or in a mapped file, and the one place where they are read.
//
// A row is `length` codes of `position_bits` each and, where rows have scales, the level of its scale in `level_bits`;
// bits stand as in bits.hpp. An array of unsigned integers is such rows too, with 8, 16 or 32 bits for each of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "file_pieces.hpp"

namespace kdcode {

// What codes are of: each is below `size`, and the level, if there are levels, below their number.
struct CodeShape {
  std::size_t length, size, levels;
};

struct CodeRows {
  const std::uint8_t* bytes;  // (count, row_bytes)
  std::size_t count, row_bytes;
  unsigned position_bits, level_bits;  // 1 to 32; level_bits is 0 where rows have no scales
  FilePieces pieces;                   // of the file
  std::size_t file_start;              // where `bytes` begins in it
};

// Why a call stopped before its end.
enum class Stop : std::uint8_t { none, no_row, unchecked, no_code, too_large, no_memory };

// How far a call came: all before `place` is done.
struct Reached {
  std::size_t place;
  Stop why;
};

// Whether rows hold codes of this shape, and `pieces` cover them.
bool rows_are_valid(const CodeRows& rows, const CodeShape& shape);

// Whether the pieces that `count` rows from `row` on lie in match their digests.
bool is_checked(const CodeRows& rows, std::size_t row, std::size_t count);

// Unpacks `count` rows into (count, length + 1) integers, which are in range when it returns. The last of each row is
// its level, 0 where rows have no scales. `numbers` says which rows, of which there may be more that are read next, up
// to `ahead`; where it is null, they are those from `first` on.
Reached read_codes(const CodeRows& rows, const CodeShape& shape, const std::int64_t* numbers, std::size_t first,
                   std::size_t count, std::size_t ahead, std::uint32_t* codes);

}  // namespace kdcode
