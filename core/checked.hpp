// Sizes that come from files or callers are multiplied and added with these, so that no product can wrap around.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace kdcode {

static_assert(std::endian::native == std::endian::little, "files are mapped as they are, and they are little-endian");

// Puts a * b into *product; false if it does not fit.
template <class T>
[[nodiscard]] constexpr bool multiply(T a, T b, T* product) {
  static_assert(std::is_unsigned_v<T>, "sizes are unsigned");
  if (b != 0 && a > std::numeric_limits<T>::max() / b) return false;
  *product = static_cast<T>(a * b);
  return true;
}

// Puts a + b into *sum; false if it does not fit.
template <class T>
[[nodiscard]] constexpr bool add(T a, T b, T* sum) {
  static_assert(std::is_unsigned_v<T>, "sizes are unsigned");
  if (a > std::numeric_limits<T>::max() - b) return false;
  *sum = static_cast<T>(a + b);
  return true;
}

// Turns a signed number, as files and numpy have them, into a size; false if it is negative or too large for this
// machine, whose sizes may have 32 bits.
[[nodiscard]] constexpr bool to_size(std::int64_t number, std::size_t* size) {
  if (number < 0 || static_cast<std::uint64_t>(number) > std::numeric_limits<std::size_t>::max()) return false;
  *size = static_cast<std::size_t>(number);
  return true;
}

}  // namespace kdcode
