#include "sums.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"

namespace kdcode {
namespace {

constexpr int most_in_sum = 256;
constexpr double same_scale = 4e-7;  // more than float32 rounds scales by

// Small integers that `count` scales are to each other as, added to a list; false where there are none.
bool add_multipliers(const float* scales, std::size_t count, std::vector<std::int16_t>* found) {
  if (count > most_in_sum) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!(std::isfinite(scales[i]) && scales[i] > 0)) return false;
  }
  const double largest = *std::max_element(scales, scales + count);
  for (int most = 1; most <= most_in_sum; ++most) {
    double sum = 0;
    bool fits = true;
    for (std::size_t i = 0; i < count && fits; ++i) {
      const double ratio = scales[i] * (most / largest), whole = std::nearbyint(ratio);
      sum += whole;
      fits = std::abs(ratio - whole) <= same_scale * whole && sum <= most_in_sum;
    }
    if (!fits) continue;
    for (std::size_t i = 0; i < count; ++i) {
      found->push_back(static_cast<std::int16_t>(std::nearbyint(scales[i] * (most / largest))));
    }
    return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<Sums> Sums::make(const Codewords& own, std::size_t groups) {
  if (groups == 0 || groups > own.length || groups > own.inner_dim) return nullptr;
  if (own.dim != own.inner_dim / groups + (own.inner_dim % groups != 0)) return nullptr;
  return std::unique_ptr<Sums>(new Sums(own, groups));
}

Sums::Sums(const Codewords& own, std::size_t groups) : CodewordCodec(own) {
  const auto start_of = [groups](std::size_t count, std::size_t group) {
    return count / groups * group + std::min(group, count % groups);
  };
  bool has_multipliers = own.codebook.number == Number::int8 && own.codebook.scales != nullptr;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t first = start_of(own.length, group), start = start_of(own.inner_dim, group);
    blocks_.push_back({first, start_of(own.length, group + 1), start, start_of(own.inner_dim, group + 1) - start});
    const std::size_t count = blocks_.back().last - first;
    has_multipliers = has_multipliers && add_multipliers(own.codebook.scales + first, count, &multipliers_);
  }
  if (!has_multipliers) multipliers_.clear();
}

// Whether the scales are still what the multipliers say: somebody may have written to them.
bool Sums::are_multiples() const {
  if (multipliers_.empty()) return false;
  const float* scales = codewords().codebook.scales;
  for (const Block& block : blocks_) {
    const float unit = scales[block.first] / multipliers_[block.first];
    for (std::size_t i = block.first; i < block.last; ++i) {
      if (!(std::abs(multipliers_[i] * unit - scales[i]) <= 1e-6f * scales[i])) return false;
    }
  }
  return true;
}

void Sums::compose(const std::uint32_t* codes, std::size_t rows, float*, float* coordinates) const {
  const Codewords& own = codewords();
  const std::int16_t* multipliers = are_multiples() ? multipliers_.data() : nullptr;
  KDCODE_CHOSEN(sums_kernels)
      .add({own.codebook.numbers, own.codebook.number, codebook_scales(), multipliers, blocks_.data(), blocks_.size(),
            own.length, own.size, own.dim, codes, rows, own.inner_dim, coordinates});
}

bool Sums::compose_wide(const std::uint32_t* codes, double* coordinates) const {
  const Codewords& own = codewords();
  for (const Block& block : blocks_) {
    for (std::size_t column = 0; column < block.width; ++column) {
      double sum = 0;
      for (std::size_t position = block.first; position < block.last; ++position) {
        sum += number_at(own.codebook, position, (position * own.size + codes[position]) * own.dim + column);
      }
      coordinates[block.start + column] = sum;
    }
  }
  return true;
}

}  // namespace kdcode
