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

#include "half.hpp"
#include "kernels.hpp"

#if defined(KDCODE_X86)
#include <immintrin.h>
#endif

#define KDCODE_LANE [[maybe_unused]] inline __attribute__((always_inline))

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
struct Lanes;

template <class T, int N, bool whole>
struct LanesBits {  // one register, or a part of one
  typedef T Raw __attribute__((vector_size(N * sizeof(T))));
  Raw raw;
};

template <class T, int N>
struct LanesBits<T, N, false> {
  Lanes<T, N / 2> low, high;
};

// What comparisons give: all bits of a lane, or none.
template <class T>
using MaskOf = std::conditional_t<
    sizeof(T) == 1, std::int8_t,
    std::conditional_t<sizeof(T) == 2, std::int16_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>>;

template <class T, int N>
struct Lanes : LanesBits<T, N, N * sizeof(T) <= register_bytes> {
  using Value = T;
  using Mask = Lanes<MaskOf<T>, N>;
  static constexpr int count = N;
  static constexpr bool whole = N * sizeof(T) <= register_bytes;

  Lanes() = default;
  Lanes(const Lanes&) = default;
  Lanes& operator=(const Lanes&) = default;

  // The same bits as another type: (u32x16)floats.
  template <class U>
    requires(sizeof(U) == sizeof(T) && !std::is_same_v<T, U>)
  KDCODE_LANE explicit Lanes(Lanes<U, N> other) {
    if constexpr (whole) {
      this->raw = (typename Lanes::Raw)other.raw;
    } else {
      this->low = (decltype(this->low))other.low;
      this->high = (decltype(this->high))other.high;
    }
  }
  // From a vector of the compiler's own, and to one: (i32x16)_mm512_setzero_si512().
  template <class Vector>
    requires(whole && sizeof(Vector) == N * sizeof(T) && !requires { typename Vector::Value; })
  KDCODE_LANE explicit Lanes(Vector vector) {
    this->raw = (typename Lanes::Raw)vector;
  }
  template <class Vector>
    requires(whole && sizeof(Vector) == N * sizeof(T) && !requires { typename Vector::Value; })
  KDCODE_LANE explicit operator Vector() const {
    return (Vector)this->raw;
  }
  // From all N values: u32x16 lane = {0, 1, 2, ...}.
  template <class... Values>
    requires(sizeof...(Values) == N)
  KDCODE_LANE Lanes(Values... values) {
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

using f32x16 = Lanes<float, 16>;
using i32x16 = Lanes<std::int32_t, 16>;
using u32x16 = Lanes<std::uint32_t, 16>;
using i16x16 = Lanes<std::int16_t, 16>;
using u16x16 = Lanes<std::uint16_t, 16>;
using i8x16 = Lanes<std::int8_t, 16>;
using u8x16 = Lanes<std::uint8_t, 16>;

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
template <class Vector>
KDCODE_LANE Vector splat(typename Vector::Value value) {
  Vector lanes;
  if constexpr (Vector::whole) {
    lanes.raw = value - typename Vector::Raw{};  // minus +0.0 changes no float, not even -0.0
  } else {
    lanes.low = lanes.high = splat<decltype(lanes.low)>(value);
  }
  return lanes;
}

#define KDCODE_LANES_OPERATOR(op, Result)                                    \
  template <class T, int N>                                                  \
  KDCODE_LANE Result operator op(Lanes<T, N> a, Lanes<T, N> b) {             \
    return each<Result>([](auto x, auto y) { return x op y; }, a, b);        \
  }                                                                          \
  template <class T, int N>                                                  \
  KDCODE_LANE Result operator op(Lanes<T, N> a, std::type_identity_t<T> b) { \
    return a op splat<Lanes<T, N>>(b);                                       \
  }                                                                          \
  template <class T, int N>                                                  \
  KDCODE_LANE Result operator op(std::type_identity_t<T> a, Lanes<T, N> b) { \
    return splat<Lanes<T, N>>(a) op b;                                       \
  }
#define KDCODE_LANES_ARITHMETIC(op)                                     \
  KDCODE_LANES_OPERATOR(op, KDCODE_LANES_SAME)                          \
  template <class T, int N, class Other>                                \
  KDCODE_LANE Lanes<T, N>& operator op## = (Lanes<T, N> & a, Other b) { \
    return a = a op b;                                                  \
  }
#define KDCODE_LANES_SAME Lanes<T, N>
#define KDCODE_LANES_MASK Lanes<MaskOf<T>, N>
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
KDCODE_LANE Lanes<T, N> operator-(Lanes<T, N> a) {
  return each<Lanes<T, N>>([](auto x) { return -x; }, a);
}
template <class T, int N>
KDCODE_LANE Lanes<T, N> operator~(Lanes<T, N> a) {
  return each<Lanes<T, N>>([](auto x) { return ~x; }, a);
}

// What `mask ? a : b` is to numbers.
template <class T, int N>
KDCODE_LANE Lanes<T, N> select(Lanes<MaskOf<T>, N> mask, Lanes<T, N> a, Lanes<T, N> b) {
  return each<Lanes<T, N>>([](auto m, auto x, auto y) { return m ? x : y; }, mask, a, b);
}
template <class T, int N>
KDCODE_LANE Lanes<T, N> smaller(Lanes<T, N> a, Lanes<T, N> b) {
  return select(a < b, a, b);
}
template <class T, int N>
KDCODE_LANE Lanes<T, N> larger(Lanes<T, N> a, Lanes<T, N> b) {
  return select(a > b, a, b);
}

// The lanes of two vectors with the numbers first, first + step, ...: the compiler makes one instruction or two of it.
template <int first, int step, class T, int N, int... I>
KDCODE_LANE auto picked(Lanes<T, N> a, Lanes<T, N> b, std::integer_sequence<int, I...>) {
  Lanes<T, int{sizeof...(I)}> lanes;
  lanes.raw = __builtin_shufflevector(a.raw, b.raw, (first + step * I)...);
  return lanes;
}

template <class T, int N>
KDCODE_LANE Lanes<T, N / 2> low_half(Lanes<T, N> lanes) {
  if constexpr (Lanes<T, N>::whole) {
    return picked<0, 1>(lanes, lanes, std::make_integer_sequence<int, N / 2>());
  } else {
    return lanes.low;
  }
}
template <class T, int N>
KDCODE_LANE Lanes<T, N / 2> high_half(Lanes<T, N> lanes) {
  if constexpr (Lanes<T, N>::whole) {
    return picked<N / 2, 1>(lanes, lanes, std::make_integer_sequence<int, N / 2>());
  } else {
    return lanes.high;
  }
}
template <class T, int N>
KDCODE_LANE Lanes<T, 2 * N> joined(Lanes<T, N> low, Lanes<T, N> high) {
  if constexpr (Lanes<T, 2 * N>::whole) {
    return picked<0, 1>(low, high, std::make_integer_sequence<int, 2 * N>());
  } else {
    Lanes<T, 2 * N> both;
    both.low = low;
    both.high = high;
    return both;
  }
}

// Of 2 N lanes in a row those with even numbers, or with odd ones.
template <class T, int N>
KDCODE_LANE Lanes<T, N> evens(Lanes<T, N> low, Lanes<T, N> high) {
  if constexpr (Lanes<T, N>::whole) {
    return picked<0, 2>(low, high, std::make_integer_sequence<int, N>());
  } else {
    return joined(evens(low.low, low.high), evens(high.low, high.high));
  }
}
template <class T, int N>
KDCODE_LANE Lanes<T, N> odds(Lanes<T, N> low, Lanes<T, N> high) {
  if constexpr (Lanes<T, N>::whole) {
    return picked<1, 2>(low, high, std::make_integer_sequence<int, N>());
  } else {
    return joined(odds(low.low, low.high), odds(high.low, high.high));
  }
}

// Sixteen values from any address, aligned or not: load<f32x16>(from).
template <class Vector>
KDCODE_LANE Vector load(const typename Vector::Value* from) {
  Vector lanes;
  lanes.take(from);
  return lanes;
}
template <class T, int N>
KDCODE_LANE void store(T* to, Lanes<T, N> lanes) {
  lanes.put(to);
}

// The first `some` values, and zeros; for what is left at the end of a loop.
template <class Vector>
KDCODE_LANE Vector load_first(const typename Vector::Value* from, std::size_t some) {
  typename Vector::Value all[Vector::count] = {};
  for (std::size_t i = 0; i < some; ++i) all[i] = from[i];
  return load<Vector>(all);
}
template <class T, int N>
KDCODE_LANE void store_first(T* to, Lanes<T, N> lanes, std::size_t some) {
  T all[N];
  store(all, lanes);
  for (std::size_t i = 0; i < some; ++i) to[i] = all[i];
}

// Each lane as another type: convert<f32x16>(load<i8x16>(codes)). Bytes become wider step by step, since compilers
// convert lane by lane where one step does not suffice; what does not fit in a narrower integer is cut off.
template <class To, class T, int N>
KDCODE_LANE To convert(Lanes<T, N> lanes) {
  using U = typename To::Value;
  constexpr bool widens = sizeof(U) > sizeof(T), narrows = sizeof(U) < sizeof(T);
  if constexpr (std::is_same_v<T, U>) {
    return lanes;
  } else if constexpr (!To::whole || !Lanes<T, N>::whole) {
    using Part = Lanes<U, N / 2>;
    return joined(convert<Part>(low_half(lanes)), convert<Part>(high_half(lanes)));
  } else if constexpr (widens && sizeof(T) < 4 && (sizeof(U) > 2 * sizeof(T) || std::is_floating_point_v<U>)) {
    using Wider =
        std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) == 1, std::int16_t, std::int32_t>,
                           std::conditional_t<sizeof(T) == 1, std::uint16_t, std::uint32_t>>;
    using Number = std::conditional_t<sizeof(T) == 2, std::int32_t, Wider>;  // of 16 bits both fit in a signed one
    return convert<To>(convert<Lanes<Number, N>>(lanes));
  } else if constexpr (narrows && std::is_floating_point_v<T>) {
    return convert<To>(convert<Lanes<std::int32_t, N>>(lanes));
  } else if constexpr (narrows && sizeof(U) * 2 < sizeof(T)) {
    return convert<To>(convert<Lanes<std::int16_t, N>>(lanes));
  } else {
    To converted;
    converted.raw = __builtin_convertvector(lanes.raw, typename To::Raw);
    return converted;
  }
}

// The lanes added up in one fixed order: lane i and lane i + 8, of these i and i + 4, and so on.
template <class T, int N>
KDCODE_LANE T sum(Lanes<T, N> lanes) {
  if constexpr (N * sizeof(T) > 16) {
    return sum(low_half(lanes) + high_half(lanes));
  } else {
    static_assert(N == 4, "for types of 32 bits");
    return (lanes.raw[0] + lanes.raw[2]) + (lanes.raw[1] + lanes.raw[3]);
  }
}

// Sixteen float16 as float32, exactly; subnormal numbers, infinities and NaN too.
KDCODE_LANE f32x16 from_half(const Half* from) {
  static_assert(sizeof(Half) == 2);
  const u16x16 halves = load<u16x16>(&from->bits);
#if defined(__AVX512F__)
  return (f32x16)_mm512_cvtph_ps((__m256i)halves.raw);
#elif defined(__F16C__)
  const auto low = low_half(halves), high = high_half(halves);
  return joined((Lanes<float, 8>)_mm256_cvtph_ps((__m128i)low.raw),
                (Lanes<float, 8>)_mm256_cvtph_ps((__m128i)high.raw));
#else
  const u32x16 bits = convert<u32x16>(halves);
  // Shifted into place, a float16 is a float32 that is 2^112 too small; the product is exact and mends subnormals.
  const u32x16 magnitude = (bits & 0x7fffu) << 13;
  const f32x16 scaled = (f32x16)magnitude * 0x1p112f;
  const u32x16 value = (u32x16)select(magnitude >= 0x0f800000u, (f32x16)(magnitude | 0x7f800000u), scaled);
  return (f32x16)(value | (bits & 0x8000u) << 16);  // infinities and NaN have ones in all of the exponent
#endif
}

// table[index] in each lane, for tables of 32-bit values. Every index must have been checked.
template <class T, int N>
KDCODE_LANE Lanes<T, N> gather(const T* table, Lanes<std::int32_t, N> index) {
  static_assert(sizeof(T) == 4);
  if constexpr (!Lanes<T, N>::whole) {
    return joined(gather(table, index.low), gather(table, index.high));
  } else {
#if defined(__AVX512F__)
    return (Lanes<T, N>)_mm512_i32gather_epi32((__m512i)index.raw, table, 4);
#elif defined(__AVX2__)
    return (Lanes<T, N>)_mm256_i32gather_epi32(reinterpret_cast<const int*>(table), (__m256i)index.raw, 4);
#else
    Lanes<T, N> found;
    for (int i = 0; i < N; ++i) found.raw[i] = table[index.raw[i]];
    return found;
#endif
  }
}

// A bit for each lane of a mask.
template <class T, int N>
KDCODE_LANE std::uint32_t lane_bits(Lanes<T, N> mask) {
  static_assert(sizeof(T) == 4);
  if constexpr (!Lanes<T, N>::whole) {
    return lane_bits(mask.low) | lane_bits(mask.high) << (N / 2);
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

}  // namespace
}  // namespace kdcode
