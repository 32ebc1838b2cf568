#include "sum_search.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "checked.hpp"
#include "dispatch.hpp"

namespace kdcode {
namespace {

constexpr std::size_t most_table_floats = std::size_t{1} << 26;  // 256 MiB
constexpr std::size_t most_costs = std::size_t{1} << 18;         // of the rows that are searched for together

template <class Value>
std::unique_ptr<Value[]> room_for(std::size_t count) {
  return std::unique_ptr<Value[]>(new (std::nothrow) Value[count]);
}

// Writes (size, dim) codewords as strips; see WordStrips.
void write_strips(const float* words, std::size_t size, std::size_t dim, float* strips) {
  for (std::size_t start = 0; start < size; start += 16, strips += (1 + dim) * 16) {
    std::fill(strips, strips + (1 + dim) * 16, 0.0f);
    for (std::size_t lane = 0; lane < 16; ++lane) {
      strips[lane] = no_cost;
      if (start + lane >= size) continue;
      const float* word = words + (start + lane) * dim;
      double norm = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        norm += static_cast<double>(word[i]) * word[i];
        strips[(1 + i) * 16 + lane] = word[i];
      }
      strips[lane] = std::min(static_cast<float>(norm / 2), no_cost);
    }
  }
}

}  // namespace

bool nearest_words(const float* rows, std::size_t n, const float* words, std::size_t size, std::size_t dim,
                   std::int64_t* places) {
  const std::size_t count = (size + 15) / 16;
  std::size_t floats;
  if (!multiply((1 + dim) * 16, count, &floats)) return false;
  const Floats strips = room_for<float>(floats);
  if (!strips) return false;
  write_strips(words, size, dim, strips.get());
  KDCODE_CHOSEN(sum_search_kernels).nearest(rows, n, {strips.get(), count, dim}, places);
  return true;
}

std::unique_ptr<SumSearch> SumSearch::make(const float* words, std::size_t length, std::size_t size, std::size_t dim) {
  std::size_t numbers, flat;
  if (!multiply(length, size, &flat) || flat > std::numeric_limits<std::uint32_t>::max() / 2) return nullptr;
  if (!multiply(flat + 16 * length, (1 + dim) * sizeof(float), &numbers)) return nullptr;
  std::unique_ptr<SumSearch> made(new (std::nothrow) SumSearch(length, size, dim));
  return made && made->take(words) ? std::move(made) : nullptr;
}

std::size_t SumSearch::place(std::size_t position) const { return position * strips() * (1 + dim_) * 16; }

WordStrips SumSearch::strips_of(std::size_t position) const {
  return {strips_.get() + place(position), strips(), dim_};
}

bool SumSearch::take(const float* words) {
  const std::size_t book = size_ * dim_, flat = length_ * size_, whole = strips() * 16;
  const auto energies = room_for<double>(length_), sums = room_for<double>(dim_);
  order_ = room_for<std::size_t>(length_);
  mean_ = room_for<float>(dim_);
  words_ = room_for<float>(length_ * book);
  strips_ = room_for<float>(place(length_));
  const Floats centred = room_for<float>(length_ * book);
  if (!energies || !sums || !order_ || !mean_ || !words_ || !strips_ || !centred) return false;
  std::fill(mean_.get(), mean_.get() + dim_, 0.0f);
  for (std::size_t position = 0; position < length_; ++position) {
    const float* own = words + position * book;
    std::fill(sums.get(), sums.get() + dim_, 0.0);
    for (std::size_t at = 0; at < book; ++at) sums[at % dim_] += own[at];
    for (std::size_t i = 0; i < dim_; ++i) {
      sums[i] /= static_cast<double>(size_);
      mean_[i] += static_cast<float>(sums[i]);
    }
    energies[position] = 0;
    for (std::size_t at = 0; at < book; ++at) {
      const float number = static_cast<float>(own[at] - sums[at % dim_]);
      centred[position * book + at] = number;
      energies[position] += static_cast<double>(number) * number;
    }
  }
  std::iota(order_.get(), order_.get() + length_, std::size_t{0});
  std::stable_sort(order_.get(), order_.get() + length_,
                   [&](std::size_t a, std::size_t b) { return energies[a] > energies[b]; });
  for (std::size_t position = 0; position < length_; ++position) {
    float* own = words_.get() + position * book;
    std::copy_n(centred.get() + order_[position] * book, book, own);
    write_strips(own, size_, dim_, strips_.get() + place(position));
  }
  std::size_t floats;
  if (length_ == 1 || !multiply(flat, length_ * whole, &floats) || floats > most_table_floats) return true;
  table_ = room_for<float>(floats);
  if (!table_) return false;
  for (std::size_t i = 0; i < length_ * book; ++i) centred[i] = -words_[i];  // costs are of −x·w
  for (std::size_t position = 0; position < length_; ++position) {
    KDCODE_CHOSEN(sum_search_kernels)
        .costs(centred.get(), flat, strips_of(position), false, table_.get() + position * flat * whole);
  }
  return true;
}

TableCosts SumSearch::table_costs(std::size_t position) const {
  const float* table = table_ ? table_.get() + position * length_ * size_ * strips() * 16 : nullptr;
  return {nullptr, strips() * 16, table, nullptr, length_, table_ ? length_ : 0, length_, strips(), size_};
}

// Partial codes of one row.
struct SumSearch::Beam {
  std::size_t width, kept = 1;
  std::unique_ptr<float[]> sums, new_sums;            // (width,)
  std::unique_ptr<std::uint32_t[]> places;            // (width,)
  std::unique_ptr<std::uint32_t[]> codes, new_codes;  // (width, length) flat codes
  Floats left, new_left, costs;                       // where there is no table: (width, dim) residuals, and costs
};

// Adds a position to the partial codes of a row, whose own costs at the position are `own`.
bool SumSearch::extend(std::size_t position, const float* own, Beam* beam) const {
  const SumSearchKernels& kernels = KDCODE_CHOSEN(sum_search_kernels);
  TableCosts costs = table_costs(position);
  costs.own = own, costs.own_step = 0;
  costs.flat = beam->codes.get(), costs.depth = table_ ? position : 0;
  if (!table_) {
    kernels.costs(beam->left.get(), beam->kept, strips_of(position), true, beam->costs.get());
    costs.own = beam->costs.get(), costs.own_step = strips() * 16;
  }
  const std::size_t found =
      kernels.smallest(costs, beam->sums.get(), beam->kept, beam->width, beam->new_sums.get(), beam->places.get());
  if (found == 0) return false;
  for (std::size_t i = 0; i < found; ++i) {
    const std::size_t parent = beam->places[i] / size_;
    std::uint32_t* codes = beam->new_codes.get() + i * length_;
    std::copy_n(beam->codes.get() + parent * length_, position, codes);
    codes[position] = static_cast<std::uint32_t>(position * size_ + beam->places[i] % size_);
    if (table_) continue;
    const float* chosen = word(codes[position]);
    for (std::size_t k = 0; k < dim_; ++k) {
      beam->new_left[i * dim_ + k] = beam->left[parent * dim_ + k] - chosen[k];
    }
  }
  beam->kept = found;
  std::swap(beam->sums, beam->new_sums);
  std::swap(beam->codes, beam->new_codes);
  std::swap(beam->left, beam->new_left);
  return true;
}

// Writes (length, n, strips · 16) costs of (n, dim) rows, which are centred.
bool SumSearch::own_costs(const float* rows, std::size_t n, Floats* costs) const {
  const std::size_t each = n * strips() * 16;
  *costs = room_for<float>(length_ * each);
  if (!*costs) return false;
  for (std::size_t position = 0; position < length_; ++position) {
    KDCODE_CHOSEN(sum_search_kernels).costs(rows, n, strips_of(position), true, costs->get() + position * each);
  }
  return true;
}

bool SumSearch::encode(const float* rows, std::size_t n, std::size_t width, std::uint32_t* codes) const {
  const std::size_t whole = strips() * 16;
  std::size_t most = 1;  // as many partial codes as there can be
  for (std::size_t i = 0; i < length_ && most < width; ++i) most = multiply(most, size_, &most) ? most : width;
  Beam beam{std::min(width, most), 1, {}, {}, {}, {}, {}, {}, {}, {}};
  width = beam.width;
  beam.sums = room_for<float>(width), beam.new_sums = room_for<float>(width);
  beam.places = room_for<std::uint32_t>(width);
  beam.codes = room_for<std::uint32_t>(width * length_), beam.new_codes = room_for<std::uint32_t>(width * length_);
  if (!beam.sums || !beam.new_sums || !beam.places || !beam.codes || !beam.new_codes) return false;
  if (!table_) {
    beam.left = room_for<float>(width * dim_), beam.new_left = room_for<float>(width * dim_);
    beam.costs = room_for<float>(width * whole);
    if (!beam.left || !beam.new_left || !beam.costs) return false;
  }
  const std::size_t at_once = std::min(n, std::max<std::size_t>(1, most_costs / (length_ * whole)));
  const Floats centred = room_for<float>(at_once * dim_);
  if (!centred) return false;
  for (std::size_t start = 0; start < n; start += at_once) {
    const std::size_t some = std::min(at_once, n - start);
    for (std::size_t i = 0; i < some * dim_; ++i) centred[i] = rows[start * dim_ + i] - mean_[i % dim_];
    Floats costs;
    if (table_ && !own_costs(centred.get(), some, &costs)) return false;
    for (std::size_t row = 0; row < some; ++row) {
      beam.kept = 1, beam.sums[0] = 0;
      if (!table_) std::copy_n(centred.get() + row * dim_, dim_, beam.left.get());
      std::uint32_t* own = codes + (start + row) * length_;
      std::fill(own, own + length_, 0u);
      bool found = true;
      for (std::size_t i = 0; i < length_ && found; ++i) {
        found = extend(i, costs ? costs.get() + (i * some + row) * whole : nullptr, &beam);
      }
      for (std::size_t i = 0; i < length_ && found; ++i) {
        own[order_[i]] = beam.codes[i] - static_cast<std::uint32_t>(i * size_);
      }
    }
  }
  return true;
}

// The squared distance between a centred row and a sum of codewords.
float SumSearch::distance(const float* row, const std::uint32_t* flat) const {
  float parts[4] = {};
  for (std::size_t i = 0; i < dim_; ++i) {
    float left = row[i];
    for (std::size_t position = 0; position < length_; ++position) left -= word(flat[position])[i];
    parts[i % 4] += left * left;
  }
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

bool SumSearch::sweep(const float* rows, std::size_t n, const Sweeps& sweeps, std::uint32_t* codes) const {
  const SumSearchKernels& kernels = KDCODE_CHOSEN(sum_search_kernels);
  const std::size_t whole = strips() * 16;
  const Floats centred = room_for<float>(n * dim_);
  const auto flat = room_for<std::uint32_t>(n * length_), places = room_for<std::uint32_t>(n),
             before = room_for<std::uint32_t>(length_);
  const auto inverse = room_for<std::size_t>(length_);
  Floats costs, left;
  if (!centred || !flat || !places || !before || !inverse) return false;
  for (std::size_t i = 0; i < n * dim_; ++i) centred[i] = rows[i] - mean_[i % dim_];
  for (std::size_t i = 0; i < length_; ++i) inverse[order_[i]] = i;
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t i = 0; i < length_; ++i) {
      flat[row * length_ + i] = static_cast<std::uint32_t>(i * size_) + codes[row * length_ + order_[i]];
    }
  }
  if (table_) {
    if (!own_costs(centred.get(), n, &costs)) return false;
  } else {
    costs = room_for<float>(n * whole), left = room_for<float>(n * dim_);
    if (!costs || !left) return false;
  }
  for (std::size_t s = 0; s < sweeps.count; ++s) {
    bool changed = false;
    for (std::size_t visit = s * length_; visit < (s + 1) * length_; ++visit) {
      const std::size_t position = inverse[sweeps.order[visit]];
      TableCosts own = table_costs(position);
      own.own = costs.get() + (table_ ? position * n * whole : 0);
      own.flat = flat.get(), own.skipped = position;
      if (!table_) {  // what the other codewords leave over
        std::copy_n(centred.get(), n * dim_, left.get());
        for (std::size_t row = 0; row < n; ++row) {
          for (std::size_t i = 0; i < length_; ++i) {
            if (i == position) continue;
            const float* other = word(flat[row * length_ + i]);
            for (std::size_t k = 0; k < dim_; ++k) left[row * dim_ + k] -= other[k];
          }
        }
        kernels.costs(left.get(), n, strips_of(position), true, costs.get());
      }
      const float temperature = sweeps.temperatures[s];
      const float* noise = temperature > 0 ? sweeps.noise + sweeps.places[visit] : nullptr;
      kernels.choose(own, n, noise, temperature / 2, places.get());  // costs are half of what they stand for
      for (std::size_t row = 0; row < n; ++row) {
        std::uint32_t& code = flat[row * length_ + position];
        const std::uint32_t chosen = static_cast<std::uint32_t>(position * size_) + places[row];
        if (places[row] >= size_ || chosen == code) continue;
        code = chosen;
        changed = true;
      }
    }
    if (!changed && !(sweeps.temperatures[s] > 0)) break;
  }
  for (std::size_t row = 0; row < n; ++row) {
    std::uint32_t *own = codes + row * length_, *found = flat.get() + row * length_;
    for (std::size_t i = 0; i < length_; ++i) before[i] = static_cast<std::uint32_t>(i * size_) + own[order_[i]];
    const float* vector = centred.get() + row * dim_;
    if (sweeps.keeps_nearer && !(distance(vector, found) < distance(vector, before.get()))) continue;
    for (std::size_t i = 0; i < length_; ++i) own[order_[i]] = found[i] - static_cast<std::uint32_t>(i * size_);
  }
  return true;
}

}  // namespace kdcode
