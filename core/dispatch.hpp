// The instruction set that kernels run with: the best that the processor has, or the one that KDCODE_ISA names.
#pragma once

#include <array>
#include <string_view>

#include "kernels.hpp"

namespace kdcode {

// Avx2 has BMI, BMI2, F16C, FMA and LZCNT beside it; avx512 means F, BW, DQ, VL, VNNI and VBMI (Ice Lake, Zen 4, and
// later). Code for neon takes what every 64-bit ARM processor has.
enum class Isa { plain, avx2, avx512, neon };
inline constexpr std::array<std::string_view, 4> isa_names{"plain", "avx2", "avx512", "neon"};

// Whether this build has kernels for a set, and this processor runs them.
bool has_isa(Isa isa);

// The set in use, which is `plain` until one is chosen.
Isa isa();

// Takes a set into use; false if the processor lacks it. Not while kernels run in other threads.
bool use_isa(Isa isa);

// Takes the set with this name into use, or the best for an empty name; false if it is unknown or lacking.
bool choose_isa(std::string_view name);

}  // namespace kdcode

// The table of functions that belongs to the set in use.
#if defined(KDCODE_X86)
#define KDCODE_CHOSEN(table)                                 \
  (::kdcode::isa() == ::kdcode::Isa::avx512 ? table##_avx512 \
   : ::kdcode::isa() == ::kdcode::Isa::avx2 ? table##_avx2   \
                                            : table##_plain)
#elif defined(KDCODE_ARM64)
#define KDCODE_CHOSEN(table) (::kdcode::isa() == ::kdcode::Isa::neon ? table##_neon : table##_plain)
#else
#define KDCODE_CHOSEN(table) (table##_plain)
#endif
