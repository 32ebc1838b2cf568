// Sixteen lanes, in the vector extensions that GCC and clang share. Whatever the instruction set, a compiler makes the
// same operations of them, so all sets give the same bits; only the speed differs. Included by kernel files, so
// everything has internal linkage: `static`, and always inlined.
#pragma once

#include <cstddef>
#include <cstdint>

#include "half.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define KDCODE_LANE static inline __attribute__((always_inline))

namespace kdcode {

typedef float f32x16 __attribute__((vector_size(64)));
typedef std::int32_t i32x16 __attribute__((vector_size(64)));
typedef std::uint32_t u32x16 __attribute__((vector_size(64)));
typedef std::int16_t i16x16 __attribute__((vector_size(32)));
typedef std::uint16_t u16x16 __attribute__((vector_size(32)));
typedef std::int8_t i8x16 __attribute__((vector_size(16)));
typedef std::uint8_t u8x16 __attribute__((vector_size(16)));

typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x4 __attribute__((vector_size(16)));

// Sixteen values from any address, aligned or not: load<f32x16>(from).
template <class Vector, class Value>
KDCODE_LANE Vector load(const Value* from) {
  static_assert(sizeof(Vector) == 16 * sizeof(Value), "a vector has 16 values of this type");
  Vector lanes;
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <class Vector, class Value>
KDCODE_LANE void store(Value* to, Vector lanes) {
  static_assert(sizeof(Vector) == 16 * sizeof(Value), "a vector has 16 values of this type");
  __builtin_memcpy(to, &lanes, sizeof lanes);
}

// The first `count` values, and zeros; for what is left at the end of a loop.
template <class Vector, class Value>
KDCODE_LANE Vector load_first(const Value* from, std::size_t count) {
  Vector lanes = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i] = from[i];
  return lanes;
}

template <class Vector, class Value>
KDCODE_LANE void store_first(Value* to, Vector lanes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// The same value in all lanes: splat<f32x16>(0.5f).
template <class Vector, class Value>
KDCODE_LANE Vector splat(Value value) {
  return value - Vector{};  // minus +0.0 changes no float, not even -0.0
}

// Each lane as another type: convert<f32x16>(load<i8x16>(codes)).
template <class To, class From>
KDCODE_LANE To convert(From lanes) {
  return __builtin_convertvector(lanes, To);
}

// Sixteen float16 as float32, exactly; subnormal numbers, infinities and NaN too.
KDCODE_LANE f32x16 from_half(const Half* from) {
#if defined(__AVX512F__)
  __m256i halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  return (f32x16)_mm512_cvtph_ps(halves);
#else
  u16x16 halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  const u32x16 bits = convert<u32x16>(halves);
  // Shifted into place, a float16 is a float32 that is 2^112 too small; the product is exact and mends subnormals.
  const u32x16 magnitude = (bits & 0x7fffu) << 13;
  const f32x16 scaled = (f32x16)magnitude * 0x1p112f;
  const u32x16 special = (u32x16)(magnitude >= 0x0f800000u);  // infinities and NaN: all ones in the exponent
  const u32x16 value = ((u32x16)scaled & ~special) | ((magnitude | 0x7f800000u) & special);
  return (f32x16)(value | ((bits & 0x8000u) << 16));
#endif
}

// table[index] in each lane. Every index must have been checked.
KDCODE_LANE f32x16 gather(const float* table, i32x16 index) {
#if defined(__AVX512F__)
  return (f32x16)_mm512_i32gather_ps((__m512i)index, table, 4);
#else
  f32x16 lanes;
  for (int i = 0; i < 16; ++i) lanes[i] = table[index[i]];
  return lanes;
#endif
}

// The lanes added up in one fixed order: lane i and lane i + 8, of these i and i + 4, and so on.
KDCODE_LANE float sum(f32x16 lanes) {
  f32x8 low8, high8;
  __builtin_memcpy(&low8, &lanes, sizeof low8);
  __builtin_memcpy(&high8, reinterpret_cast<const char*>(&lanes) + sizeof low8, sizeof high8);
  const f32x8 eight = low8 + high8;
  f32x4 low4, high4;
  __builtin_memcpy(&low4, &eight, sizeof low4);
  __builtin_memcpy(&high4, reinterpret_cast<const char*>(&eight) + sizeof low4, sizeof high4);
  const f32x4 four = low4 + high4;
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// The same for integers, where the order does not matter as long as no sum exceeds 32 bits.
KDCODE_LANE std::int32_t sum(i32x16 lanes) {
  std::int32_t total = 0;
  for (int i = 0; i < 16; ++i) total += lanes[i];
  return total;
}

}  // namespace kdcode
