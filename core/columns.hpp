// Vectors as wide as a register, for loops whose lanes never meet: they give the same bits whatever the width, and the
// best code, since compilers split wider vectors badly. Where lanes are added to each other, see lanes.hpp. Included by
// kernel files, so everything has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "half.hpp"
#include "kernels.hpp"

#if defined(KDCODE_X86)
#include <immintrin.h>
#elif defined(KDCODE_ARM64)
#include <arm_neon.h>
#endif

#define KDCODE_COLUMN static inline __attribute__((always_inline))

namespace kdcode {

#if defined(__AVX512F__)
constexpr std::size_t lanes = 16;
#elif defined(__AVX2__)
constexpr std::size_t lanes = 8;
#else
constexpr std::size_t lanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * lanes)));
typedef std::int32_t Ints __attribute__((vector_size(4 * lanes)));
typedef std::uint16_t Shorts __attribute__((vector_size(4 * lanes)));  // twice as many lanes

KDCODE_COLUMN Floats all_of(float number) { return number - Floats{}; }  // minus +0.0 changes no number

KDCODE_COLUMN Floats numbers_at(const float* from) {
  Floats numbers;
  __builtin_memcpy(&numbers, from, sizeof numbers);
  return numbers;
}

KDCODE_COLUMN void put(float* to, Floats numbers) { __builtin_memcpy(to, &numbers, sizeof numbers); }

KDCODE_COLUMN Floats numbers_at(const std::int8_t* from) {
#if defined(__AVX512F__)
  return (Floats)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
  return (Floats)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
  std::int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
#if defined(KDCODE_X86)
  const __m128i bytes = _mm_cvtsi32_si128(four), shorts = _mm_unpacklo_epi8(bytes, bytes);
  return (Floats)_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(shorts, shorts), 24));
#elif defined(KDCODE_ARM64)
  return (Floats)vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(static_cast<std::uint32_t>(four))))));
#else
  return Floats{float(from[0]), float(from[1]), float(from[2]), float(from[3])};
#endif
#endif
}

KDCODE_COLUMN Floats numbers_at(const Half* from) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
  return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(KDCODE_ARM64)
  return (Floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&from->bits)));
#else
#if defined(KDCODE_X86)
  const Ints bits =
      (Ints)_mm_unpacklo_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)), _mm_setzero_si128());
#else
  const Ints bits = {from[0].bits, from[1].bits, from[2].bits, from[3].bits};
#endif
  // Subnormal numbers are made from their mantissas, so that it does not matter whether the processor knows others.
  const Ints size = bits & 0x7fff, subnormal = size < 0x400, special = size >= 0x7c00;
  const Floats small = __builtin_convertvector(size, Floats) * 0x1p-24f;
  const Ints usual = (size << 13) + (special ? Ints{} + (112 << 24) : Ints{} + (112 << 23));
  return (Floats)((subnormal ? (Ints)small : usual) | ((bits & 0x8000) << 16));
#endif
}

// Twice as many small integers as 16-bit ones.
KDCODE_COLUMN Shorts shorts_at(const std::int8_t* from) {
#if defined(__AVX512F__)
  return (Shorts)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
  return (Shorts)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(KDCODE_X86)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return (Shorts)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
#elif defined(KDCODE_ARM64)
  return (Shorts)vmovl_s8(vld1_s8(from));
#else
  Shorts shorts;
  for (std::size_t i = 0; i < 2 * lanes; ++i) shorts[i] = static_cast<std::uint16_t>(from[i]);
  return shorts;
#endif
}

// Writes 16-bit integers, which have signs, as floats, times a unit.
KDCODE_COLUMN void put(float* to, Shorts shorts, float unit) {
  std::int16_t values[2 * lanes];
  __builtin_memcpy(values, &shorts, sizeof values);
#if defined(__AVX512F__)
  for (int i = 0; i < 2; ++i) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + 16 * i));
    put(to + 16 * i, (Floats)_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(some)) * all_of(unit));
  }
#elif defined(__AVX2__)
  for (int i = 0; i < 2; ++i) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + 8 * i));
    put(to + 8 * i, (Floats)_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(some)) * all_of(unit));
  }
#else
  for (std::size_t i = 0; i < 2 * lanes; ++i) to[i] = static_cast<float>(values[i]) * unit;
#endif
}

}  // namespace kdcode
