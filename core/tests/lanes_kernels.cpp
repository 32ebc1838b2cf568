#include "lanes_kernels.hpp"

#include "lanes.hpp"

namespace kdcode::tests {
namespace {

float dot(const float* a, const float* b, std::size_t count) {
  f32x16 total = {};
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) total += load<f32x16>(a + i) * load<f32x16>(b + i);
  total += load_first<f32x16>(a + i, count - i) * load_first<f32x16>(b + i, count - i);
  return sum(total);
}

void halves(const Half* from, float* to) { store(to, from_half(from)); }

void gathered(const float* table, const std::int32_t* index, float* to) {
  store(to, gather(table, load<i32x16>(index)));
}

void multiply_add(const std::int8_t* codes, float scale, float offset, float* to) {
  store(to, convert<f32x16>(load<i8x16>(codes)) * splat<f32x16>(scale) + splat<f32x16>(offset));
}

}  // namespace

const LanesKernels KDCODE_KERNELS(lanes_kernels) = {dot, halves, gathered, multiply_add};

}  // namespace kdcode::tests
