#include "dispatch.hpp"

#include <cstddef>
#include <cstdint>

#if defined(KDCODE_X86)
#include <cpuid.h>
#endif

namespace kdcode {
namespace {

Isa chosen = Isa::plain;

#if defined(KDCODE_X86)

struct Registers {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(std::uint32_t leaf, std::uint32_t sub = 0) {
  Registers found;
  __get_cpuid_count(leaf, sub, &found.a, &found.b, &found.c, &found.d);  // leaves zeros where there is no such leaf
  return found;
}

// What the system saves when it switches threads: without it the registers must not be used.
std::uint32_t saved_state() {
  if ((cpuid(1).c & bit_OSXSAVE) == 0) return 0;
  std::uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

constexpr bool all(std::uint32_t flags, std::uint32_t wanted) { return (flags & wanted) == wanted; }

// The compilers' own __builtin_cpu_supports needs a library that not all of them bring.
bool has_avx2() {
  constexpr std::uint32_t bit_lzcnt = 1u << 5;
  return all(saved_state(), 0x06) && all(cpuid(1).c, bit_AVX | bit_FMA | bit_F16C | bit_POPCNT) &&
         all(cpuid(7).b, bit_AVX2 | bit_BMI | bit_BMI2) && all(cpuid(0x80000001).c, bit_lzcnt);
}

bool has_avx512() {
  return has_avx2() && all(saved_state(), 0xe6) &&
         all(cpuid(7).b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) &&
         all(cpuid(7).c, bit_AVX512VNNI | bit_AVX512VBMI);
}

#endif

}  // namespace

bool has_isa(Isa isa) {
  switch (isa) {
    case Isa::plain:
      return true;
#if defined(KDCODE_X86)
    case Isa::avx2:
      return has_avx2();
    case Isa::avx512:
      return has_avx512();
#elif defined(KDCODE_ARM64)
    case Isa::neon:
      return true;
#endif
    default:
      return false;
  }
}

Isa isa() { return chosen; }

bool use_isa(Isa isa) {
  if (!has_isa(isa)) return false;
  chosen = isa;
  return true;
}

bool choose_isa(std::string_view name) {
  if (name.empty()) return use_isa(Isa::avx512) || use_isa(Isa::avx2) || use_isa(Isa::neon) || use_isa(Isa::plain);
  for (std::size_t i = 0; i < isa_names.size(); ++i) {
    if (name == isa_names[i]) return use_isa(static_cast<Isa>(i));
  }
  return false;
}

}  // namespace kdcode
