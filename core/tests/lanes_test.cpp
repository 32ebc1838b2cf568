#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "check.hpp"
#include "dispatch.hpp"
#include "lanes_kernels.hpp"

using namespace kdcode;
using namespace kdcode::tests;

namespace {

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::vector<float> made(count);
  for (float& number : made) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(static_cast<int>(seed >> 8) - (1 << 23)) * 0x1p-20f;
  }
  return made;
}

// The order that lanes.hpp promises, in plain C++.
float plain_dot(const std::vector<float>& a, const std::vector<float>& b) {
  float lanes[16] = {};
  for (std::size_t i = 0; i < a.size(); ++i) {
    volatile float product = a[i] * b[i];  // rounded by itself
    lanes[i % 16] += product;
  }
  for (std::size_t width = 8; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

float plain_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(float(fraction), -24) : std::ldexp(float(1024 + fraction), exponent - 25));
}

}  // namespace

TEST(dot_products_are_equal_to_the_bit) {
  for (std::size_t count : {0, 1, 15, 16, 17, 100, 1000}) {
    const auto a = numbers(count, 1), b = numbers(count, 2);
    CHECK(KDCODE_CHOSEN(lanes_kernels).dot(a.data(), b.data(), count) == plain_dot(a, b));
  }
}

TEST(every_half_becomes_its_float) {
  for (unsigned first = 0; first < 65536; first += 16) {
    Half halves[16];
    float found[16];
    for (unsigned i = 0; i < 16; ++i) halves[i].bits = static_cast<std::uint16_t>(first + i);
    KDCODE_CHOSEN(lanes_kernels).from_half(halves, found);
    for (unsigned i = 0; i < 16; ++i) {
      const float expected = plain_half(halves[i].bits);
      CHECK(std::isnan(expected) ? std::isnan(found[i])
                                 : std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected));
    }
  }
}

TEST(lanes_are_gathered_and_converted) {
  const auto table = numbers(100, 3);
  std::int32_t index[16];
  std::int8_t codes[16];
  float found[16];
  for (int i = 0; i < 16; ++i) {
    index[i] = (i * 37) % 100;
    codes[i] = static_cast<std::int8_t>(i * 17 - 128);
  }
  KDCODE_CHOSEN(lanes_kernels).gather(table.data(), index, found);
  for (int i = 0; i < 16; ++i) CHECK(found[i] == table[static_cast<std::size_t>(index[i])]);
  KDCODE_CHOSEN(lanes_kernels).multiply_add(codes, 0.3f, -1.7f, found);
  for (int i = 0; i < 16; ++i) {
    volatile float product = static_cast<float>(codes[i]) * 0.3f;
    CHECK(found[i] == product + -1.7f);
  }
}
