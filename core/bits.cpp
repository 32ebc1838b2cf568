#include "bits.hpp"

#include <algorithm>

namespace kdcode {

bool widths_are_valid(Widths widths) {
  return !widths.empty() &&
         std::all_of(widths.begin(), widths.end(), [](std::uint8_t bits) { return bits >= 1 && bits <= max_bits; });
}

std::size_t row_bytes(Widths widths) {
  std::uint64_t bits = 0;  // columns have 32 bits at most, and there are no more of them than bytes in memory
  for (const std::uint8_t width : widths) bits += width;
  return static_cast<std::size_t>((bits + 7) / 8);
}

template <class Value>
Misfit pack(const Value* values, std::size_t rows, Widths widths, std::uint8_t* packed) {
  for (std::size_t row = 0; row < rows; ++row) {
    std::uint64_t word = 0;
    unsigned filled = 0;
    for (std::size_t column = 0; column < widths.size(); ++column) {
      const auto value = static_cast<std::uint64_t>(*values++);  // what is negative has its highest bits set
      const unsigned bits = widths[column];
      if (value >> bits != 0) return {row, column, true};
      word |= value << filled;
      for (filled += bits; filled >= 8; filled -= 8, word >>= 8) *packed++ = static_cast<std::uint8_t>(word);
    }
    if (filled > 0) *packed++ = static_cast<std::uint8_t>(word);
  }
  return {0, 0, false};
}

template <class Value>
void unpack(const std::uint8_t* packed, std::size_t rows, Widths widths, Value* values) {
  const std::size_t bytes = row_bytes(widths);
  std::size_t left = rows * bytes;  // cannot wrap around: the caller has so many bytes
  for (std::size_t row = 0; row < rows; ++row, packed += bytes, left -= bytes) {
    const std::span<const std::uint8_t> from(packed, left);
    const bool inside = left - bytes >= 8;  // eight bytes can be read from each of the row
    std::uint64_t place = 0;
    for (const std::uint8_t bits : widths) {
      *values++ = static_cast<Value>(inside ? bits_within(packed, place, bits) : bits_at(from, place, bits));
      place += bits;
    }
  }
}

#define KDCODE_PACK(Value) template Misfit pack(const Value*, std::size_t, Widths, std::uint8_t*);
KDCODE_PACK(std::int8_t)
KDCODE_PACK(std::int16_t)
KDCODE_PACK(std::int32_t)
KDCODE_PACK(std::int64_t)
KDCODE_PACK(std::uint8_t)
KDCODE_PACK(std::uint16_t)
KDCODE_PACK(std::uint32_t)
KDCODE_PACK(std::uint64_t)
template void unpack(const std::uint8_t*, std::size_t, Widths, std::uint8_t*);
template void unpack(const std::uint8_t*, std::size_t, Widths, std::uint16_t*);
template void unpack(const std::uint8_t*, std::size_t, Widths, std::uint32_t*);

}  // namespace kdcode
