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

// A table that fits in the cache is always quicker than residuals; a larger one where vectors are wide enough.
constexpr std::size_t small_table = std::size_t{1} << 22, most_table = std::size_t{1} << 26;
constexpr std::size_t dims_for_position = 8;
constexpr std::size_t most_costs = std::size_t{1} << 20;  // of the rows that are searched for together

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
  if (length_ == 1 || !multiply(flat, length_ * whole, &floats) || floats > most_table) return true;
  if (floats > small_table && dims_for_position * length_ > dim_) return true;
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

// Partial codes of some rows, `width` at most of each.
class SumSearch::Beams {
 public:
  Beams(const SumSearch& search, std::size_t rows, std::size_t width) : search_(search), rows_(rows), width_(width) {}

  bool make() {
    const std::size_t all = rows_ * width_, length = search_.length_, whole = search_.strips() * 16;
    kept_ = room_for<std::size_t>(rows_);
    sums_ = room_for<float>(all), new_sums_ = room_for<float>(width_);
    places_ = room_for<std::uint32_t>(width_);
    codes_ = room_for<std::uint32_t>(all * length), new_codes_ = room_for<std::uint32_t>(width_ * length);
    scratch_ = room_for<float>(width_ * whole);
    if (!kept_ || !sums_ || !new_sums_ || !places_ || !codes_ || !new_codes_ || !scratch_) return false;
    if (search_.table_) return true;
    left_ = room_for<float>(all * search_.dim_), new_left_ = room_for<float>(width_ * search_.dim_);
    costs_ = room_for<float>(width_ * whole);
    return left_ && new_left_ && costs_;
  }

  void begin(const float* centred, std::size_t n) {
    for (std::size_t row = 0; row < n; ++row) {
      kept_[row] = 1, sums_[row * width_] = 0;
      if (left_) std::copy_n(centred + row * search_.dim_, search_.dim_, left_.get() + row * width_ * search_.dim_);
    }
  }

  // Adds a position to the partial codes of a row, whose own costs at the position are `own`.
  void extend(std::size_t row, std::size_t position, const float* own) {
    const std::size_t length = search_.length_, dim = search_.dim_, size = search_.size_;
    const SumSearchKernels& kernels = KDCODE_CHOSEN(sum_search_kernels);
    std::uint32_t* codes = codes_.get() + row * width_ * length;
    float *sums = sums_.get() + row * width_, *left = left_ ? left_.get() + row * width_ * dim : nullptr;
    TableCosts costs = search_.table_costs(position);
    costs.own = own, costs.own_step = 0;
    costs.flat = codes, costs.depth = left == nullptr ? position : 0;
    if (left != nullptr) {
      kernels.costs(left, kept_[row], search_.strips_of(position), true, costs_.get());
      costs.own = costs_.get(), costs.own_step = search_.strips() * 16;
    }
    const std::size_t found =
        kernels.smallest(costs, sums, kept_[row], width_, scratch_.get(), new_sums_.get(), places_.get());
    for (std::size_t i = 0; i < found; ++i) {
      const std::size_t parent = places_[i] / size;
      std::uint32_t* own_codes = new_codes_.get() + i * length;
      std::copy_n(codes + parent * length, position, own_codes);
      own_codes[position] = static_cast<std::uint32_t>(position * size + places_[i] % size);
      if (left == nullptr) continue;
      const float* chosen = search_.word(own_codes[position]);
      for (std::size_t k = 0; k < dim; ++k) new_left_[i * dim + k] = left[parent * dim + k] - chosen[k];
    }
    for (std::size_t i = 0; i < found; ++i)
      std::copy_n(new_codes_.get() + i * length, position + 1, codes + i * length);
    std::copy_n(new_sums_.get(), found, sums);
    if (left != nullptr) std::copy_n(new_left_.get(), found * dim, left);
    kept_[row] = found;
  }

  // The flat codes of the smallest sum; null where costs were no numbers.
  const std::uint32_t* best(std::size_t row) const {
    return kept_[row] == 0 ? nullptr : codes_.get() + row * width_ * search_.length_;
  }

 private:
  const SumSearch& search_;
  std::size_t rows_, width_;
  std::unique_ptr<std::size_t[]> kept_;                          // (rows,)
  Floats sums_, new_sums_;                                       // (rows, width) and (width,)
  std::unique_ptr<std::uint32_t[]> places_, codes_, new_codes_;  // (width,), (rows, width, length) and (width, length)
  Floats scratch_, left_, new_left_, costs_;  // the last three where there is no table: residuals, and their costs
};

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
  for (std::size_t i = 0; i < length_ && most < width; ++i) most = most > width / size_ ? width : most * size_;
  width = std::min(width, most);
  const std::size_t at_once = std::min(n, std::max<std::size_t>(1, most_costs / (length_ * whole)));
  const Floats centred = room_for<float>(at_once * dim_);
  Beams beams(*this, at_once, width);
  if (!centred || !beams.make()) return false;
  for (std::size_t start = 0; start < n; start += at_once) {
    const std::size_t some = std::min(at_once, n - start);
    for (std::size_t i = 0; i < some * dim_; ++i) centred[i] = rows[start * dim_ + i] - mean_[i % dim_];
    Floats costs;
    if (table_ && !own_costs(centred.get(), some, &costs)) return false;
    beams.begin(centred.get(), some);
    for (std::size_t position = 0; position < length_; ++position) {  // rows share a part of the table
      for (std::size_t row = 0; row < some; ++row) {
        beams.extend(row, position, table_ ? costs.get() + (position * some + row) * whole : nullptr);
      }
    }
    for (std::size_t row = 0; row < some; ++row) {
      const std::uint32_t* flat = beams.best(row);
      for (std::size_t i = 0; i < length_; ++i) {
        codes[(start + row) * length_ + order_[i]] =
            flat == nullptr ? 0 : flat[i] - static_cast<std::uint32_t>(i * size_);
      }
    }
  }
  return true;
}

// Writes what is left of a centred row without the codewords of its code.
void SumSearch::subtract(const float* row, const std::uint32_t* flat, float* left) const {
  std::copy_n(row, dim_, left);
  for (std::size_t position = 0; position < length_; ++position) {
    const float* own = word(flat[position]);
    for (std::size_t i = 0; i < dim_; ++i) left[i] -= own[i];
  }
}

float SumSearch::distance(const float* row, const std::uint32_t* flat, float* left) const {
  subtract(row, flat, left);
  float parts[4] = {};
  for (std::size_t i = 0; i < dim_; ++i) parts[i % 4] += left[i] * left[i];
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

bool SumSearch::sweep(const float* rows, std::size_t n, const Sweeps& sweeps, std::uint32_t* codes) const {
  const SumSearchKernels& kernels = KDCODE_CHOSEN(sum_search_kernels);
  const std::size_t whole = strips() * 16;
  const Floats centred = room_for<float>(n * dim_), left = room_for<float>(n * dim_);
  const Floats others = room_for<float>(table_ ? 0 : n * dim_);
  const auto flat = room_for<std::uint32_t>(n * length_), places = room_for<std::uint32_t>(n),
             active = room_for<std::uint32_t>(n), all = room_for<std::uint32_t>(n),
             before = room_for<std::uint32_t>(length_);
  const auto inverse = room_for<std::size_t>(length_);
  const auto changed = room_for<bool>(n);
  Floats costs;
  if (!centred || !left || !flat || !others || !places || !active || !all || !before || !inverse || !changed)
    return false;
  for (std::size_t i = 0; i < n * dim_; ++i) centred[i] = rows[i] - mean_[i % dim_];
  for (std::size_t i = 0; i < length_; ++i) inverse[order_[i]] = i;
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t i = 0; i < length_; ++i) {
      flat[row * length_ + i] = static_cast<std::uint32_t>(i * size_) + codes[row * length_ + order_[i]];
    }
  }
  if (table_ && !own_costs(centred.get(), n, &costs)) return false;
  if (!table_) costs = room_for<float>(n * whole);
  if (!costs) return false;
  std::iota(all.get(), all.get() + n, 0u);
  std::copy_n(all.get(), n, active.get());
  for (std::size_t row = 0; row < n && !table_; ++row) {
    subtract(centred.get() + row * dim_, flat.get() + row * length_, left.get() + row * dim_);
  }
  std::size_t count = n;
  for (std::size_t s = 0; s < sweeps.count && count > 0; ++s) {
    const float temperature = sweeps.temperatures[s];
    std::fill(changed.get(), changed.get() + n, temperature > 0);
    for (std::size_t visit = s * length_; visit < (s + 1) * length_; ++visit) {
      const std::size_t position = inverse[sweeps.order[visit]];
      TableCosts own = table_costs(position);
      own.own = costs.get() + (table_ ? position * n * whole : 0);
      own.flat = flat.get(), own.skipped = position;
      for (std::size_t i = 0; i < count && !table_; ++i) {  // what the other codewords leave over
        const float* word_now = word(flat[active[i] * length_ + position]);
        for (std::size_t k = 0; k < dim_; ++k) others[i * dim_ + k] = left[active[i] * dim_ + k] + word_now[k];
      }
      if (!table_) kernels.costs(others.get(), count, strips_of(position), true, costs.get());
      const float* noise = temperature > 0 ? sweeps.noise + sweeps.places[visit] : nullptr;
      // Costs are half of what they stand for.
      kernels.choose(own, table_ ? active.get() : all.get(), count, noise, temperature / 2, places.get());
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t& code = flat[active[i] * length_ + position];
        const std::uint32_t chosen = static_cast<std::uint32_t>(position * size_) + places[i];
        if (places[i] >= size_ || chosen == code) continue;
        code = chosen;
        changed[active[i]] = true;
        for (std::size_t k = 0; k < dim_ && !table_; ++k) {
          left[active[i] * dim_ + k] = others[i * dim_ + k] - word(chosen)[k];
        }
      }
    }
    // A row that a sweep without noise leaves as it is would stay so.
    const auto stays = [&](std::uint32_t row) { return !changed[row]; };
    count = static_cast<std::size_t>(std::remove_if(active.get(), active.get() + count, stays) - active.get());
    if (s + 1 < sweeps.count && sweeps.temperatures[s + 1] > 0 && count < n) {
      std::copy_n(all.get(), n, active.get());
      count = n;
    }
  }
  for (std::size_t row = 0; row < n; ++row) {
    std::uint32_t *own = codes + row * length_, *found = flat.get() + row * length_;
    bool differs = false;
    for (std::size_t i = 0; i < length_; ++i) {
      before[i] = static_cast<std::uint32_t>(i * size_) + own[order_[i]];
      differs |= before[i] != found[i];
    }
    const float* vector = centred.get() + row * dim_;
    if (!differs) continue;
    if (sweeps.keeps_nearer && !(distance(vector, found, left.get()) < distance(vector, before.get(), left.get())))
      continue;
    for (std::size_t i = 0; i < length_; ++i) own[order_[i]] = found[i] - static_cast<std::uint32_t>(i * size_);
  }
  return true;
}

}  // namespace kdcode
