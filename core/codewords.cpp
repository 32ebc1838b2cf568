#include "codewords.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "dispatch.hpp"

namespace kdcode {
namespace {

constexpr std::size_t most_rows = 32, most_floats = 1 << 15;

template <class Value>
std::unique_ptr<Value[]> array_of(std::size_t count) {
  return std::unique_ptr<Value[]>(new (std::nothrow) Value[count]);
}

// A float16 as a double: its mantissa, scaled by its exponent.
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double size = std::ldexp(exponent == 0 ? mantissa : mantissa + 1024, (exponent == 0 ? 1 : exponent) - 25);
  if (exponent == 31) size = mantissa == 0 ? HUGE_VAL : NAN;
  return bits & 0x8000 ? -size : size;
}

}  // namespace

double number_at(const Weight& weight, std::size_t leading, std::size_t place) {
  const double scale = weight.scales == nullptr ? 1.0 : weight.scales[leading];
  switch (weight.number) {
    case Number::float32:
      return scale * static_cast<const float*>(weight.numbers)[place];
    case Number::float16:
      return scale * half_value(static_cast<const std::uint16_t*>(weight.numbers)[place]);
    default:
      return scale * static_cast<const std::int8_t*>(weight.numbers)[place];
  }
}

Reached CodewordCodec::decode(const CodeRows& rows, const Asked& asked, float* vectors) const {
  const std::size_t dim = own_.embedding_dim, stride = own_.length + 1;
  const bool has_basis = own_.basis.numbers != nullptr;
  const std::size_t width = std::max({stride, dim, own_.inner_dim});
  const std::size_t at_once = std::max<std::size_t>(1, std::min({most_rows, asked.count, most_floats / width}));
  const auto codes = array_of<std::uint32_t>(at_once * stride);
  const auto scratch = array_of<float>(scratch_floats(at_once) + (has_basis ? at_once * own_.inner_dim : 0));
  if (!codes || !scratch) return {asked.done, Stop::no_memory};
  float* const coordinates = scratch.get() + scratch_floats(at_once);
  for (std::size_t start = asked.done; start < asked.count; start += at_once) {
    const std::size_t wanted = std::min(at_once, asked.count - start);
    const std::int64_t* numbers = asked.numbers == nullptr ? nullptr : asked.numbers + start;
    const Reached read = read_codes(rows, code_shape(), numbers, start, wanted, asked.count - start, codes.get());
    float* const out = vectors + start * dim;
    compose(codes.get(), read.place, scratch.get(), has_basis ? coordinates : out);
    finish(codes.get(), read.place, coordinates, out);
    if (asked.zero_row >= 0 && numbers != nullptr) {
      for (std::size_t i = 0; i < read.place; ++i) {
        if (numbers[i] == asked.zero_row) std::fill_n(out + i * dim, dim, 0.0f);
      }
    }
    const auto& kernels = KDCODE_CHOSEN(sums_kernels);
    const bool all_finite = kernels.are_finite(out, read.place * dim);
    for (std::size_t i = 0; i < read.place && !all_finite; ++i) {
      if (kernels.are_finite(out + i * dim, dim)) continue;
      const Wide found = decode_wide(codes.get() + i * stride, out + i * dim);
      if (found == Wide::no_memory) return {start + i, Stop::no_memory};
      if (found == Wide::too_large && asked.finite) return {start + i, Stop::too_large};
    }
    if (read.why != Stop::none) return {start + read.place, read.why};
  }
  return {asked.count, Stop::none};
}

// Coordinates to vectors, times the scales of rows; they are the same array where there is no basis.
void CodewordCodec::finish(const std::uint32_t* codes, std::size_t rows, float* coordinates, float* vectors) const {
  const auto& kernels = KDCODE_CHOSEN(sums_kernels);
  const std::size_t inner = own_.inner_dim, dim = own_.embedding_dim;
  if (own_.basis.numbers != nullptr) {
    if (own_.basis.scales != nullptr) {
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t i = 0; i < inner; ++i) coordinates[row * inner + i] *= own_.basis.scales[i];
      }
    }
    kernels.multiply({coordinates, own_.basis.numbers, own_.basis.number, rows, inner, dim, vectors});
  }
  if (own_.level_count != 0) kernels.scale(vectors, rows, dim, own_.levels, codes, own_.length + 1);
}

CodewordCodec::Wide CodewordCodec::decode_wide(const std::uint32_t* codes, float* vector) const {
  const std::size_t inner = own_.inner_dim, dim = own_.embedding_dim;
  const auto coordinates = array_of<double>(inner);
  if (!coordinates || !compose_wide(codes, coordinates.get())) return Wide::no_memory;
  const double level = own_.level_count == 0 ? 1.0 : own_.levels[codes[own_.length]];
  bool fits = true;
  for (std::size_t column = 0; column < dim; ++column) {
    double number = own_.basis.numbers == nullptr ? coordinates[column] : 0.0;
    for (std::size_t i = 0; own_.basis.numbers != nullptr && i < inner; ++i) {
      number += coordinates[i] * number_at(own_.basis, i, i * dim + column);
    }
    vector[column] = static_cast<float>(number * level);
    fits = fits && std::isfinite(vector[column]);
  }
  return fits ? Wide::fits : Wide::too_large;
}

}  // namespace kdcode
