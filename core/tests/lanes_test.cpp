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
  for (std::size_t count : {0u, 1u, 15u, 16u, 17u, 100u, 1000u}) {
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

TEST(lanes_become_wider_and_narrower) {
  std::uint8_t bytes[16];
  std::int32_t numbers[16];
  for (int i = 0; i < 16; ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 17);
    numbers[i] = i * 5000 - 40000;
  }
  std::uint16_t shorts[16];
  std::uint32_t ints[16];
  float floats[16];
  KDCODE_CHOSEN(lanes_kernels).from_bytes(bytes, shorts, ints, floats);
  for (int i = 0; i < 16; ++i) CHECK(shorts[i] == bytes[i] && ints[i] == bytes[i] && floats[i] == bytes[i]);
  std::int8_t narrow[16];
  std::int16_t middle[16];
  KDCODE_CHOSEN(lanes_kernels).to_bytes(numbers, narrow, middle);
  for (int i = 0; i < 16; ++i) {
    CHECK(narrow[i] == static_cast<std::int8_t>(numbers[i]) && middle[i] == static_cast<std::int16_t>(numbers[i]));
  }
}

TEST(lanes_are_compared_and_selected) {
  std::int32_t numbers[16], clamped[16];
  for (int i = 0; i < 16; ++i) numbers[i] = (i * 7) % 16 - 8;
  std::uint32_t small = 0;
  const std::uint32_t found = KDCODE_CHOSEN(lanes_kernels).clamp(numbers, -3, 5, clamped);
  for (int i = 0; i < 16; ++i) {
    small |= numbers[i] < -3 ? 1u << i : 0u;
    CHECK(clamped[i] == (numbers[i] < -3 ? -3 : numbers[i] > 5 ? 5 : numbers[i]));
  }
  CHECK(found == small);
}

TEST(lanes_are_taken_apart_and_shifted) {
  std::int32_t a[16], b[16], even[16], odd[16];
  std::uint32_t numbers[16], shifted[16];
  for (int i = 0; i < 16; ++i) {
    a[i] = i;
    b[i] = 16 + i;
    numbers[i] = 2654435761u * static_cast<unsigned>(i + 1);
  }
  KDCODE_CHOSEN(lanes_kernels).interleave(a, b, even, odd);
  KDCODE_CHOSEN(lanes_kernels).shift(numbers, shifted);
  for (int i = 0; i < 16; ++i) {
    CHECK(even[i] == 2 * i && odd[i] == 2 * i + 1);
    const int from = i == 5 ? 6 : i;
    CHECK(shifted[i] == numbers[from] << from >> 3);
  }
}

TEST(bytes_are_looked_up_and_shuffled) {
  std::uint32_t table[16], index[16], found[16];
  std::uint8_t bytes[19];
  for (unsigned i = 0; i < 19; ++i) bytes[i] = static_cast<std::uint8_t>(i * 13 + 5);
  for (unsigned i = 0; i < 16; ++i) {
    table[i] = (i & 3) | (i * 7 & 3) << 8 | (i / 4 & 3) << 16 | (3 - (i & 3)) << 24;
    index[i] = i * 11 % 16;
  }
  KDCODE_CHOSEN(lanes_kernels).look_up(table, index, bytes, found);
  for (unsigned i = 0; i < 16; ++i) {
    for (unsigned byte = 0; byte < 4; ++byte) {
      const std::uint32_t from = table[index[i]] >> (8 * byte) & 255;
      CHECK((found[i] >> (8 * byte) & 255) == bytes[index[i] + from]);
    }
  }
}
