#include "code_rows.hpp"

#include <algorithm>

#include "bits.hpp"
#include "checked.hpp"

namespace kdcode {
namespace {

// So many rows before their use, bytes are fetched from memory.
constexpr std::size_t rows_ahead = 32;

// The numbers of rows belong to the caller, who may write to them meanwhile: what is checked must be what is used.
std::size_t read_once(const std::int64_t* number) {
  const std::int64_t read = *const_cast<const volatile std::int64_t*>(number);
  std::size_t size = 0;
  return to_size(read, &size) ? size : ~std::size_t{0};
}

void unpack_row(const CodeRows& rows, std::size_t length, std::size_t row, std::uint32_t* codes) {
  const std::size_t start = row * rows.row_bytes, left = rows.count * rows.row_bytes - start;
  const std::uint8_t* bytes = rows.bytes + start;
  const auto value_at = [bytes, left](std::size_t place, unsigned bits) {
    return static_cast<std::uint32_t>(bits_at({bytes, left}, place, bits));
  };
  codes[length] = rows.level_bits ? value_at(length * rows.position_bits, rows.level_bits) : 0;
  if (rows.position_bits == 8) {
    for (std::size_t i = 0; i < length; ++i) codes[i] = bytes[i];
  } else if (rows.position_bits == 4) {
    for (std::size_t i = 0; i < length; ++i) codes[i] = bytes[i / 2] >> (4 * (i % 2)) & 15u;
  } else if (left >= rows.row_bytes + 8) {  // eight bytes can be read from each of the row
    for (std::size_t i = 0, place = 0; i < length; ++i, place += rows.position_bits) {
      codes[i] = static_cast<std::uint32_t>(bits_within(bytes, place, rows.position_bits));
    }
  } else {
    for (std::size_t i = 0; i < length; ++i) codes[i] = value_at(i * rows.position_bits, rows.position_bits);
  }
}

// Looks at the unpacked integers, which nobody else can write to.
bool in_range(const CodeRows& rows, const CodeShape& shape, const std::uint32_t* codes) {
  std::uint32_t most = 0;
  if (rows.position_bits < 32 && shape.size >> rows.position_bits) {
    most = 0;  // so few bits have no larger value
  } else {
    for (std::size_t i = 0; i < shape.length; ++i) most = std::max(most, codes[i]);
  }
  return most < shape.size && (rows.level_bits == 0 || codes[shape.length] < shape.levels);
}

}  // namespace

bool rows_are_valid(const CodeRows& rows, const CodeShape& shape) {
  const auto bits_are_valid = [](unsigned bits) { return bits >= 1 && bits <= 32; };
  if (!bits_are_valid(rows.position_bits) || (rows.level_bits != 0) != (shape.levels != 0)) return false;
  if (rows.level_bits != 0 && !bits_are_valid(rows.level_bits)) return false;
  std::size_t bits = 0, bytes = 0;
  if (!multiply(shape.length, std::size_t{rows.position_bits}, &bits) ||
      !add(bits, std::size_t{rows.level_bits}, &bits))
    return false;
  if (rows.row_bytes != bits / 8 + (bits % 8 != 0) || !multiply(rows.count, rows.row_bytes, &bytes)) return false;
  return rows.pieces.cover(rows.file_start, bytes);
}

bool is_checked(const CodeRows& rows, std::size_t row, std::size_t count) {
  return rows.pieces.are_good(rows.file_start + row * rows.row_bytes, count * rows.row_bytes);
}

Reached read_codes(const CodeRows& rows, const CodeShape& shape, const std::int64_t* numbers, std::size_t first,
                   std::size_t count, std::size_t ahead, std::uint32_t* codes) {
  const auto fetch = [&](std::size_t place) {
    const std::size_t row = numbers == nullptr ? first + place : read_once(numbers + place);
    if (row < rows.count) __builtin_prefetch(rows.bytes + row * rows.row_bytes);
  };
  for (std::size_t place = 0; place < std::min(rows_ahead, count); ++place) fetch(place);
  for (std::size_t place = 0; place < count; ++place, codes += shape.length + 1) {
    if (place + rows_ahead < ahead) fetch(place + rows_ahead);
    const std::size_t row = numbers == nullptr ? first + place : read_once(numbers + place);
    if (row >= rows.count) return {place, Stop::no_row};
    if (!is_checked(rows, row, 1)) return {place, Stop::unchecked};
    unpack_row(rows, shape.length, row, codes);
    if (!in_range(rows, shape, codes)) return {place, Stop::no_code};
  }
  return {count, Stop::none};
}

}  // namespace kdcode
