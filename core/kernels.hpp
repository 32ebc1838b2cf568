// How kernels are declared and named. A file <part>_kernels.cpp is compiled once for each instruction set, with
// KDCODE_ISA set to its name; all it exports is one table of functions, whose name ends with that of the set. This
// header is for those files too: it has nothing that a linker could take from the wrong copy.
//
//   sums_kernels.hpp   struct SumsKernels { void (*add)(...); };
//                      KDCODE_DECLARE_KERNELS(SumsKernels, sums_kernels)
//   sums_kernels.cpp   namespace { void add(...) {...} }
//                      const SumsKernels KDCODE_KERNELS(sums_kernels) = {add};
//   sums.cpp           KDCODE_CHOSEN(sums_kernels).add(...);      // from dispatch.hpp
//   CMakeLists.txt     kdcode_kernels(kdcode_core core/sums_kernels.cpp)
#pragma once

#if defined(__x86_64__) || defined(_M_X64)
#define KDCODE_X86 1
#elif defined(__aarch64__) || defined(_M_ARM64)
#define KDCODE_ARM64 1
#endif

#if defined(KDCODE_X86)
#define KDCODE_DECLARE_KERNELS(Type, table) extern const Type table##_plain, table##_avx2, table##_avx512;
#elif defined(KDCODE_ARM64)
#define KDCODE_DECLARE_KERNELS(Type, table) extern const Type table##_plain, table##_neon;
#else
#define KDCODE_DECLARE_KERNELS(Type, table) extern const Type table##_plain;
#endif

#define KDCODE_JOIN_AGAIN(table, isa) table##_##isa
#define KDCODE_JOIN(table, isa) KDCODE_JOIN_AGAIN(table, isa)
#define KDCODE_KERNELS(table) KDCODE_JOIN(table, KDCODE_ISA)
