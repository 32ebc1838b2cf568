// What lanes.hpp makes of the same numbers with each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "half.hpp"
#include "kernels.hpp"

namespace kdcode::tests {

struct LanesKernels {
  float (*dot)(const float* a, const float* b, std::size_t count);
  void (*from_half)(const Half* from, float* to);                                        // 16 values
  void (*gather)(const float* table, const std::int32_t* index, float* to);              // 16 values
  void (*multiply_add)(const std::int8_t* codes, float scale, float offset, float* to);  // 16 values
};

KDCODE_DECLARE_KERNELS(LanesKernels, lanes_kernels)

}  // namespace kdcode::tests
