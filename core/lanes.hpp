// Sixteen lanes as values: f32x16, i32x16, u8x16 and so on, with the operators of numbers. A value is as many registers
// as it takes: one with AVX-512, two with AVX2, four with SSE2 and NEON. (GCC keeps a vector that is wider than a
// register in memory.) All instruction sets make the same operations of them, so all give the same bits.
//
// Included by kernel files, so everything is in an anonymous namespace and always inlined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels.hpp"

#if defined(KDCODE_X86)
#include <immintrin.h>
#endif

#define KDCODE_LANE [[maybe_unused]] inline __attribute__((always_inline))
#define KDCODE_INLINE __attribute__((always_inline))  // for lambdas

namespace kdcode {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t register_bytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t register_bytes = 32;
#else
constexpr std::size_t register_bytes = 16;
#endif

template <class T, int N>
struct Vector;

template <class T, int N, bool whole>
struct VectorBits {  // one register, or a part of one
  typedef T Raw __attribute__((vector_size(N * sizeof(T))));
  Raw raw;
};

template <class T, int N>
struct VectorBits<T, N, false> {
  Vector<T, N / 2> low, high;
};

// What comparisons give: all bits of a lane, or none.
template <class T>
using MaskOf = std::conditional_t<
    sizeof(T) == 1, std::int8_t,
    std::conditional_t<sizeof(T) == 2, std::int16_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>>;

template <class T, int N>
struct Vector : VectorBits<T, N, N * sizeof(T) <= register_bytes> {
  using Value = T;
  using Mask = Vector<MaskOf<T>, N>;
  static constexpr int count = N;
  static constexpr bool whole = N * sizeof(T) <= register_bytes;

  Vector() = default;
  Vector(const Vector&) = default;
  Vector& operator=(const Vector&) = default;

  // The same bits as another type: (u32x16)floats.
  template <class U>
    requires(sizeof(U) == sizeof(T) && !std::is_same_v<T, U>)
  KDCODE_LANE explicit Vector(Vector<U, N> other) {
    if constexpr (whole) {
      this->raw = (typename Vector::Raw)other.raw;
    } else {
      this->low = (decltype(this->low))other.low;
      this->high = (decltype(this->high))other.high;
    }
  }
  // From a vector of the compiler's own, and to one: (i32x16)_mm512_setzero_si512().
  template <class V>
    requires(whole && sizeof(V) == N * sizeof(T) && !requires { typename V::Value; })
  KDCODE_LANE explicit Vector(V vector) {
    this->raw = (typename Vector::Raw)vector;
  }
  template <class V>
    requires(whole && sizeof(V) == N * sizeof(T) && !requires { typename V::Value; })
  KDCODE_LANE explicit operator V() const {
    return (V)this->raw;
  }
  // From all N values: u32x16 lane = {0, 1, 2, ...}.
  template <class... Values>
    requires(sizeof...(Values) == N)
  KDCODE_LANE Vector(Values... values) {
    const T all[N] = {static_cast<T>(values)...};
    take(all);
  }
  KDCODE_LANE void take(const T* from) {
    if constexpr (whole) {
      __builtin_memcpy(&this->raw, from, sizeof *this);
    } else {
      this->low.take(from);
      this->high.take(from + N / 2);
    }
  }
  KDCODE_LANE void put(T* to) const {
    if constexpr (whole) {
      __builtin_memcpy(to, &this->raw, sizeof *this);
    } else {
      this->low.put(to);
      this->high.put(to + N / 2);
    }
  }
  // One lane. Both go through memory, and are for what is done seldom.
  KDCODE_LANE T operator[](std::size_t i) const {
    T all[N];
    put(all);
    return all[i];
  }
  KDCODE_LANE void set(std::size_t i, T value) {
    T all[N];
    put(all);
    all[i] = value;
    take(all);
  }
};

using f32x16 = Vector<float, 16>;
using i32x16 = Vector<std::int32_t, 16>;
using u32x16 = Vector<std::uint32_t, 16>;
using i16x16 = Vector<std::int16_t, 16>;
using u16x16 = Vector<std::uint16_t, 16>;
using i8x16 = Vector<std::int8_t, 16>;
using u8x16 = Vector<std::uint8_t, 16>;

// Calls `function` with 0, 1, ... n - 1 as constants. Compilers keep arrays in registers whose places are constants,
// and not always those whose places are the variables of a loop.
template <class Function, std::size_t... I>
KDCODE_LANE void unroll(Function function, std::index_sequence<I...>) {
  (function(std::integral_constant<std::size_t, I>()), ...);
}
template <std::size_t n, class Function>
KDCODE_LANE void unroll(Function function) {
  unroll(function, std::make_index_sequence<n>());
}

// Calls `function` with the registers of some lanes, part by part.
template <class Result, class Function, class... Arguments>
KDCODE_LANE Result each(Function function, Arguments... arguments) {
  Result result;
  if constexpr (Result::whole) {
    result.raw = (typename Result::Raw)function(arguments.raw...);
  } else {
    result.low = each<decltype(result.low)>(function, arguments.low...);
    result.high = each<decltype(result.high)>(function, arguments.high...);
  }
  return result;
}

// The same value in all lanes: splat<f32x16>(0.5f).
template <class V>
KDCODE_LANE V splat(typename V::Value value) {
  V lanes;
  if constexpr (V::whole) {
    lanes.raw = value - typename V::Raw{};  // minus +0.0 changes no float, not even -0.0
  } else {
    lanes.low = lanes.high = splat<decltype(lanes.low)>(value);
  }
  return lanes;
}

#define KDCODE_LANES_OPERATOR(op, Result)                                     \
  template <class T, int N>                                                   \
  KDCODE_LANE Result operator op(Vector<T, N> a, Vector<T, N> b) {            \
    return each<Result>([](auto x, auto y) { return x op y; }, a, b);         \
  }                                                                           \
  template <class T, int N>                                                   \
  KDCODE_LANE Result operator op(Vector<T, N> a, std::type_identity_t<T> b) { \
    return a op splat<Vector<T, N>>(b);                                       \
  }                                                                           \
  template <class T, int N>                                                   \
  KDCODE_LANE Result operator op(std::type_identity_t<T> a, Vector<T, N> b) { \
    return splat<Vector<T, N>>(a) op b;                                       \
  }
#define KDCODE_LANES_ARITHMETIC(op)                                       \
  KDCODE_LANES_OPERATOR(op, KDCODE_LANES_SAME)                            \
  template <class T, int N, class Other>                                  \
  KDCODE_LANE Vector<T, N>& operator op## = (Vector<T, N> & a, Other b) { \
    return a = a op b;                                                    \
  }
#define KDCODE_LANES_SAME Vector<T, N>
#define KDCODE_LANES_MASK Vector<MaskOf<T>, N>
KDCODE_LANES_ARITHMETIC(+)
KDCODE_LANES_ARITHMETIC(-)
KDCODE_LANES_ARITHMETIC(*)
KDCODE_LANES_ARITHMETIC(/)
KDCODE_LANES_ARITHMETIC(&)
KDCODE_LANES_ARITHMETIC(|)
KDCODE_LANES_ARITHMETIC(^)
KDCODE_LANES_ARITHMETIC(<<)
KDCODE_LANES_ARITHMETIC(>>)
KDCODE_LANES_OPERATOR(==, KDCODE_LANES_MASK)
KDCODE_LANES_OPERATOR(!=, KDCODE_LANES_MASK)
KDCODE_LANES_OPERATOR(<, KDCODE_LANES_MASK)
KDCODE_LANES_OPERATOR(<=, KDCODE_LANES_MASK)
KDCODE_LANES_OPERATOR(>, KDCODE_LANES_MASK)
KDCODE_LANES_OPERATOR(>=, KDCODE_LANES_MASK)
#undef KDCODE_LANES_OPERATOR
#undef KDCODE_LANES_ARITHMETIC
#undef KDCODE_LANES_SAME
#undef KDCODE_LANES_MASK

template <class T, int N>
KDCODE_LANE Vector<T, N> operator-(Vector<T, N> a) {
  return each<Vector<T, N>>([](auto x) { return -x; }, a);
}
template <class T, int N>
KDCODE_LANE Vector<T, N> operator~(Vector<T, N> a) {
  return each<Vector<T, N>>([](auto x) { return ~x; }, a);
}

// What `mask ? a : b` is to numbers.
template <class T, int N>
KDCODE_LANE Vector<T, N> select(Vector<MaskOf<T>, N> mask, Vector<T, N> a, Vector<T, N> b) {
  return each<Vector<T, N>>([](auto m, auto x, auto y) { return m ? x : y; }, mask, a, b);
}
template <class T, int N>
KDCODE_LANE Vector<T, N> smaller(Vector<T, N> a, Vector<T, N> b) {
  return select(a < b, a, b);
}
template <class T, int N>
KDCODE_LANE Vector<T, N> larger(Vector<T, N> a, Vector<T, N> b) {
  return select(a > b, a, b);
}

// The lanes of two vectors with the numbers first, first + step, ...: the compiler makes one instruction or two of it.
template <int first, int step, class T, int N, int... I>
KDCODE_LANE auto picked(Vector<T, N> a, Vector<T, N> b, std::integer_sequence<int, I...>) {
  Vector<T, int{sizeof...(I)}> lanes;
  lanes.raw = __builtin_shufflevector(a.raw, b.raw, (first + step * I)...);
  return lanes;
}

template <class T, int N>
KDCODE_LANE Vector<T, N / 2> low_half(Vector<T, N> lanes) {
  if constexpr (Vector<T, N>::whole) {
    return picked<0, 1>(lanes, lanes, std::make_integer_sequence<int, N / 2>());
  } else {
    return lanes.low;
  }
}
template <class T, int N>
KDCODE_LANE Vector<T, N / 2> high_half(Vector<T, N> lanes) {
  if constexpr (Vector<T, N>::whole) {
    return picked<N / 2, 1>(lanes, lanes, std::make_integer_sequence<int, N / 2>());
  } else {
    return lanes.high;
  }
}
template <class T, int N>
KDCODE_LANE Vector<T, 2 * N> joined(Vector<T, N> low, Vector<T, N> high) {
  if constexpr (Vector<T, 2 * N>::whole) {
    return picked<0, 1>(low, high, std::make_integer_sequence<int, 2 * N>());
  } else {
    Vector<T, 2 * N> both;
    both.low = low;
    both.high = high;
    return both;
  }
}

// Of 2 N lanes in a row those with even numbers, or with odd ones.
template <class T, int N>
KDCODE_LANE Vector<T, N> evens(Vector<T, N> low, Vector<T, N> high) {
  if constexpr (Vector<T, N>::whole) {
    return picked<0, 2>(low, high, std::make_integer_sequence<int, N>());
  } else {
    return joined(evens(low.low, low.high), evens(high.low, high.high));
  }
}
template <class T, int N>
KDCODE_LANE Vector<T, N> odds(Vector<T, N> low, Vector<T, N> high) {
  if constexpr (Vector<T, N>::whole) {
    return picked<1, 2>(low, high, std::make_integer_sequence<int, N>());
  } else {
    return joined(odds(low.low, low.high), odds(high.low, high.high));
  }
}

// Sixteen values from any address, aligned or not: load<f32x16>(from).
template <class V>
KDCODE_LANE V load(const typename V::Value* from) {
  V lanes;
  lanes.take(from);
  return lanes;
}
template <class T, int N>
KDCODE_LANE void store(T* to, Vector<T, N> lanes) {
  lanes.put(to);
}

// The first `some` values, and zeros; for what is left at the end of a loop.
template <class V>
KDCODE_LANE V load_first(const typename V::Value* from, std::size_t some) {
#if defined(__AVX512F__)
  if constexpr (V::count == 16 && sizeof(typename V::Value) == 4) {
    const auto mask = static_cast<__mmask16>((1u << some) - 1);
    return (V)_mm512_maskz_loadu_epi32(mask, from);
  }
#endif
  typename V::Value all[V::count] = {};
  for (std::size_t i = 0; i < some; ++i) all[i] = from[i];
  return load<V>(all);
}
template <class T, int N>
KDCODE_LANE void store_first(T* to, Vector<T, N> lanes, std::size_t some) {
#if defined(__AVX512F__)
  if constexpr (N == 16 && sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1u << some) - 1), (__m512i)lanes);
    return;
  }
#endif
  T all[N];
  store(all, lanes);
  for (std::size_t i = 0; i < some; ++i) to[i] = all[i];
}

// Each lane as another type: convert<f32x16>(load<i8x16>(codes)). Bytes become wider step by step, since compilers
// convert lane by lane where one step does not suffice; what does not fit in a narrower integer is cut off.
template <class To, class T, int N>
KDCODE_LANE To convert(Vector<T, N> lanes) {
  using U = typename To::Value;
  constexpr bool widens = sizeof(U) > sizeof(T), narrows = sizeof(U) < sizeof(T);
  if constexpr (std::is_same_v<T, U>) {
    return lanes;
  } else if constexpr (!To::whole || !Vector<T, N>::whole) {
    using Part = Vector<U, N / 2>;
    return joined(convert<Part>(low_half(lanes)), convert<Part>(high_half(lanes)));
  } else if constexpr (widens && sizeof(T) < 4 && (sizeof(U) > 2 * sizeof(T) || std::is_floating_point_v<U>)) {
    using Wider =
        std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) == 1, std::int16_t, std::int32_t>,
                           std::conditional_t<sizeof(T) == 1, std::uint16_t, std::uint32_t>>;
    using Number = std::conditional_t<sizeof(T) == 2, std::int32_t, Wider>;  // of 16 bits both fit in a signed one
    return convert<To>(convert<Vector<Number, N>>(lanes));
  } else if constexpr (narrows && std::is_floating_point_v<T>) {
    return convert<To>(convert<Vector<std::int32_t, N>>(lanes));
  } else if constexpr (narrows && sizeof(U) * 2 < sizeof(T)) {
    return convert<To>(convert<Vector<std::int16_t, N>>(lanes));
  } else {
    To converted;
    converted.raw = __builtin_convertvector(lanes.raw, typename To::Raw);
    return converted;
  }
}

// The lanes added up in one fixed order: lane i and lane i + 8, of these i and i + 4, and so on.
template <class T, int N>
KDCODE_LANE T sum(Vector<T, N> lanes) {
  if constexpr (N * sizeof(T) > 16) {
    return sum(low_half(lanes) + high_half(lanes));
  } else {
    static_assert(N == 4, "for types of 32 bits");
    return (lanes.raw[0] + lanes.raw[2]) + (lanes.raw[1] + lanes.raw[3]);
  }
}

// table[index] in each lane, for tables of 32-bit values. Every index must have been checked.
template <class T, class Index, int N>
KDCODE_LANE Vector<T, N> gather(const T* table, Vector<Index, N> index) {
  static_assert(sizeof(T) == 4 && sizeof(Index) == 4);
  if constexpr (!Vector<T, N>::whole) {
    return joined(gather(table, index.low), gather(table, index.high));
  } else {
#if defined(__AVX512F__)
    return (Vector<T, N>)_mm512_i32gather_epi32((__m512i)index.raw, table, 4);
#elif defined(__AVX2__)
    return (Vector<T, N>)_mm256_i32gather_epi32(reinterpret_cast<const int*>(table), (__m256i)index.raw, 4);
#else
    Vector<T, N> found;
    for (int i = 0; i < N; ++i) found.raw[i] = table[index.raw[i]];
    return found;
#endif
  }
}

// Both 16-bit halves of each lane times those of another, added up. They have signs.
KDCODE_LANE u32x16 dot_halves(u32x16 a, u32x16 b) {
#if defined(__AVX512BW__)
  return (u32x16)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return each<u32x16>([](auto x, auto y) { return _mm256_madd_epi16((__m256i)x, (__m256i)y); }, a, b);
#else
  const i32x16 c = (i32x16)a, d = (i32x16)b;
  return (u32x16)((c >> 16) * (d >> 16) + (c << 16 >> 16) * (d << 16 >> 16));
#endif
}

// Has the compiler take numbers from memory one by one, and not from registers, which takes two instructions each.
template <class T, int N>
KDCODE_LANE void spill(T (&to)[N], Vector<T, N> lanes) {
  store(to, lanes);
  asm("" : "+m"(to));
}

// Eight pairs from eight places, side by side.
KDCODE_LANE u32x16 load_pairs(const std::uint32_t* const (&from)[8]) {
#if defined(__AVX2__)
  const auto two = [&](int i) KDCODE_INLINE {
    long long pair[2];
    __builtin_memcpy(&pair[0], from[i], 8);
    __builtin_memcpy(&pair[1], from[i + 1], 8);
    return _mm_set_epi64x(pair[1], pair[0]);
  };
  const __m256i low = _mm256_set_m128i(two(2), two(0)), high = _mm256_set_m128i(two(6), two(4));
  return joined(Vector<std::uint32_t, 8>(low), Vector<std::uint32_t, 8>(high));
#else
  std::uint32_t values[16];
  for (int i = 0; i < 8; ++i) __builtin_memcpy(values + 2 * i, from[i], 8);
  return load<u32x16>(values);
#endif
}

// A bit for each lane of a mask.
template <class T, int N>
KDCODE_LANE std::uint32_t lane_mask(Vector<T, N> mask) {
  static_assert(sizeof(T) == 4);
  if constexpr (!Vector<T, N>::whole) {
    return lane_mask(mask.low) | lane_mask(mask.high) << (N / 2);
  } else {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask.raw);
#elif defined(__AVX2__)
    return static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)mask.raw));
#elif defined(KDCODE_X86)
    return static_cast<std::uint32_t>(_mm_movemask_ps((__m128)mask.raw));
#else
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < N; ++i) bits |= (static_cast<std::uint32_t>(mask.raw[i]) & 1u) << i;
    return bits;
#endif
  }
}

// Four bytes from each of sixteen places, which need not be aligned; all of them must be readable.
template <int N>
KDCODE_LANE Vector<std::uint32_t, N> gather_bytes(const std::uint8_t* from, Vector<std::uint32_t, N> places) {
  if constexpr (!Vector<std::uint32_t, N>::whole) {
    return joined(gather_bytes(from, places.low), gather_bytes(from, places.high));
  } else {
#if defined(__AVX512F__)
    return (Vector<std::uint32_t, N>)_mm512_i32gather_epi32((__m512i)places.raw, from, 1);
#elif defined(__AVX2__)
    return (Vector<std::uint32_t, N>)_mm256_i32gather_epi32(reinterpret_cast<const int*>(from), (__m256i)places.raw, 1);
#else
    Vector<std::uint32_t, N> found;
    for (int i = 0; i < N; ++i) {
      std::uint32_t four;
      __builtin_memcpy(&four, from + places.raw[i], sizeof four);
      found.raw[i] = four;
    }
    return found;
#endif
  }
}

// table[index] in each lane, where indices are below 16.
KDCODE_LANE u32x16 lookup16(u32x16 table, u32x16 index) {
#if defined(__AVX512F__)
  return (u32x16)_mm512_permutexvar_epi32((__m512i)index, (__m512i)table);
#elif defined(__AVX2__)
  return each<u32x16>(
      [&](auto places) {
        const __m256i one = (__m256i)places;
        const __m256i low = _mm256_permutevar8x32_epi32((__m256i)table.low.raw, one);
        const __m256i high = _mm256_permutevar8x32_epi32((__m256i)table.high.raw, one);
        return _mm256_blendv_ps((__m256)low, (__m256)high, (__m256)_mm256_slli_epi32(one, 28));
      },
      index);
#else
  std::uint32_t values[16];
  store(values, table);
  return gather(values, index);
#endif
}

// The four bytes of each lane in the order that the four bytes of `order` say, each below 4.
KDCODE_LANE u32x16 shuffle4(u32x16 lanes, u32x16 order) {
#if defined(__AVX2__)
  const u32x16 first = {0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c,
                        0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c};
#if defined(__AVX512BW__)
  return (u32x16)_mm512_shuffle_epi8((__m512i)lanes, (__m512i)(order + first));
#else
  return each<u32x16>([](auto four, auto places) { return _mm256_shuffle_epi8((__m256i)four, (__m256i)places); }, lanes,
                      order + first);
#endif
#else
  u32x16 found = {};
  for (unsigned i = 0; i < 4; ++i) found |= (lanes >> ((order >> (8 * i) & 3u) * 8) & 0xffu) << (8 * i);
  return found;
#endif
}

}  // namespace
}  // namespace kdcode
