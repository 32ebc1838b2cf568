#include "lanes_kernels.hpp"

#include "columns.hpp"
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

void halves(const Half* from, float* to) {
  for (std::size_t i = 0; i < 16; i += lanes) put(to + i, numbers_at(from + i));
}

void gathered(const float* table, const std::int32_t* index, float* to) {
  store(to, gather(table, load<i32x16>(index)));
}

void multiply_add(const std::int8_t* codes, float scale, float offset, float* to) {
  store(to, convert<f32x16>(load<i8x16>(codes)) * splat<f32x16>(scale) + splat<f32x16>(offset));
}

void from_bytes(const std::uint8_t* from, std::uint16_t* shorts, std::uint32_t* ints, float* floats) {
  const u8x16 bytes = load<u8x16>(from);
  store(shorts, convert<u16x16>(bytes));
  store(ints, convert<u32x16>(bytes));
  store(floats, convert<f32x16>(bytes));
}

void to_bytes(const std::int32_t* from, std::int8_t* bytes, std::int16_t* shorts) {
  store(bytes, convert<i8x16>(load<i32x16>(from)));
  store(shorts, convert<i16x16>(load<i32x16>(from)));
}

// Gives back which lanes were too small.
std::uint32_t clamp(const std::int32_t* from, std::int32_t low, std::int32_t high, std::int32_t* to) {
  const i32x16 lanes = load<i32x16>(from);
  const i32x16 clamped = select(lanes < low, splat<i32x16>(low), smaller(lanes, splat<i32x16>(high)));
  store(to, clamped);
  return lane_mask(lanes < low);
}

void interleave(const std::int32_t* a, const std::int32_t* b, std::int32_t* even, std::int32_t* odd) {
  store(even, evens(load<i32x16>(a), load<i32x16>(b)));
  store(odd, odds(load<i32x16>(a), load<i32x16>(b)));
}

// In lane i, shifted left by i, then right by 3; lane 5 is replaced by lane 6.
void shift(const std::uint32_t* from, std::uint32_t* to) {
  const u32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  u32x16 shifted = (load<u32x16>(from) << lane) >> 3;
  shifted.set(5, shifted[6]);
  store(to, shifted);
}

// Four bytes from index[i], in the order that table[index[i]] says.
void look_up(const std::uint32_t* table, const std::uint32_t* index, const std::uint8_t* bytes, std::uint32_t* to) {
  const u32x16 places = load<u32x16>(index);
  store(to, shuffle4(gather_bytes(bytes, places), lookup16(load<u32x16>(table), places)));
}

}  // namespace

const LanesKernels KDCODE_KERNELS(lanes_kernels) = {dot,      halves, gathered,   multiply_add, from_bytes,
                                                    to_bytes, clamp,  interleave, shift,        look_up};

}  // namespace kdcode::tests
