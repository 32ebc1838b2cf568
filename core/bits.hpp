// Small integers <-> packed bytes.
//
// The values of a row stand one after another, value j in the bits after those of value j - 1, where bit i of a row is
// bit i mod 8 (least significant first) of its byte i div 8. Rows start at a byte, so that any row is read alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kdcode {

inline constexpr unsigned max_bits = 32;

using Widths = std::span<const std::uint8_t>;  // bits of each column

// Whether there is a column, and each has 1 to 32 bits.
bool widths_are_valid(Widths widths);

// Bytes of one packed row.
std::size_t row_bytes(Widths widths);

// The first value that does not fit in the bits of its column.
struct Misfit {
  std::size_t row, column;
  bool found;
};

// Packs (rows, columns) values of any integer type into (rows, row bytes) bytes. Stops at a value that does not fit.
template <class Value>
Misfit pack(const Value* values, std::size_t rows, Widths widths, std::uint8_t* packed);

// Unpacks (rows, row bytes) bytes into (rows, columns) values of a type that holds the widest column.
template <class Value>
void unpack(const std::uint8_t* packed, std::size_t rows, Widths widths, Value* values);

// The value of `bits` bits, 57 at most, that starts at bit `place` of bytes, where eight more can be read.
inline std::uint64_t bits_within(const std::uint8_t* packed, std::uint64_t place, unsigned bits) {
  std::uint64_t word;
  std::memcpy(&word, packed + static_cast<std::size_t>(place / 8), sizeof word);  // one instruction
  return (word >> (place % 8)) & ((std::uint64_t{1} << bits) - 1);
}

// The same where the bytes end sooner; zeros follow them. The place lies in them, or at their end.
inline std::uint64_t bits_at(std::span<const std::uint8_t> packed, std::uint64_t place, unsigned bits) {
  const std::size_t first = static_cast<std::size_t>(place / 8), left = packed.size() - first;
  if (left >= 8) [[likely]]
    return bits_within(packed.data(), place, bits);
  std::uint64_t word = 0;
  std::memcpy(&word, packed.data() + first, left);
  return (word >> (place % 8)) & ((std::uint64_t{1} << bits) - 1);
}

}  // namespace kdcode
