// Small integers <-> packed bytes.
//
// The values of a row stand one after another, value j in the bits after those of value j - 1, where bit i of a row is
// bit i mod 8 (least significant first) of its byte i div 8. Rows start at a byte, so that any row is read alone.
#pragma once

#include <cstddef>
#include <cstdint>
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

// The value of `bits` bits that starts at bit `place`; bits beyond the last byte are zero.
std::uint32_t bits_at(std::span<const std::uint8_t> packed, std::uint64_t place, unsigned bits);

}  // namespace kdcode
