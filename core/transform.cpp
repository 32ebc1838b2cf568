#include "transform.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "dispatch.hpp"

namespace kdcode {
namespace {

constexpr std::size_t rows_at_once = 64, levels_at_once = 1 << 16;
constexpr std::size_t widest_rotation = 1 << 14;  // whose sums of int8 products have room in 32 bits by far
constexpr float largest_coordinate = 1e30f;

std::size_t in_sixteens(std::size_t count) { return (count + 15) / 16 * 16; }

}  // namespace

std::unique_ptr<Transform> Transform::make(const LevelShape& levels, const TransformShape& shape, const char** why) {
  std::unique_ptr<Transform> made(new Transform);
  made->levels_ = LevelCodec::make(levels, why);
  if (!made->levels_) return nullptr;
  const auto refuse = [&](const char* reason) {
    *why = reason;
    return nullptr;
  };
  const std::size_t dim = levels.dim, centroids = made->levels_->centroids();
  if (shape.mean.size() != dim) return refuse("mean: expected d numbers");
  if (shape.steps.size() != levels.lengths.size()) return refuse("steps: expected one for each class");
  if (shape.sides.size() != std::min<std::size_t>(most_sides, dim)) return refuse("sides: expected min(12, d) numbers");
  if (!(shape.unit > 0)) return refuse("unit: expected a number above 0");
  if (shape.centroids.size() != centroids * dim) return refuse("centroids: expected (P, d) numbers");
  const bool rotates = !shape.matrix.empty();
  const std::size_t entries = rotates ? dim * dim : 0;
  if (rotates && dim > widest_rotation) return refuse("reflections: a rotation has at most 16,384 dimensions");
  if (shape.matrix.size() != entries || shape.matrix_scales.size() != (rotates ? dim : 0)) {
    return refuse("rotation: expected (d, d) numbers and d scales");
  }
  made->unit_ = shape.unit;
  made->mean_.assign(shape.mean.begin(), shape.mean.end());
  made->steps_.assign(shape.steps.begin(), shape.steps.end());
  made->sides_.assign(shape.sides.begin(), shape.sides.end());
  made->sides_.resize(most_sides);
  made->centroids_.assign(shape.centroids.begin(), shape.centroids.end());
  made->set_rotation(shape, levels.values);
  made->set_centroids();
  return made;
}

void Transform::set_rotation(const TransformShape& shape, std::uint32_t values) {
  if (shape.matrix.empty()) return;
  const std::size_t d = dim(), whole = in_sixteens(d), padded = whole + 7 * 16, quads = levels_->width() / 4;
  numbers_.assign(shape.matrix.begin(), shape.matrix.end());
  scales_.assign(padded, 0);
  std::copy(shape.matrix_scales.begin(), shape.matrix_scales.end(), scales_.begin());
  matrix_.assign(whole * quads * 4, 0);
  columns_.assign(most_sides * padded, 0);
  excess_.assign(padded, 0);
  const int bias = static_cast<int>(std::min<std::uint32_t>(largest_small, values / 2));
  for (std::size_t row = 0; row < d; ++row) {
    for (std::size_t column = 0; column < std::min(d, 4 * quads); ++column) {
      matrix_[((row / 16 * quads + column / 4) * 16 + row % 16) * 4 + column % 4] = numbers_[row * d + column];
      excess_[row] += bias * numbers_[row * d + column];
    }
    for (std::size_t column = 0; column < std::min<std::size_t>(d, most_sides); ++column) {
      columns_[column * padded + row] = static_cast<float>(numbers_[row * d + column]) * scales_[row];
    }
  }
  expand_ = {matrix_.data(),
             scales_.data(),
             columns_.data(),
             excess_.data(),
             quads,
             d,
             padded,
             static_cast<std::uint8_t>(bias),
             0};
  set_run();
}

// The most quads at once whose products with levels, two coordinates together, always have room in 16 bits.
void Transform::set_run() {
  const std::size_t pairs = matrix_.size() / 2, row_pairs = 32;  // pairs of a quad of 16 rows
  for (expand_.run = expand_.quads; expand_.run > 0; --expand_.run) {
    int most = 0;
    std::vector<int> sums(row_pairs);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const std::size_t quad = pair / row_pairs % expand_.quads;
      int& sum = sums[pair % row_pairs];
      if (quad % expand_.run == 0) sum = 0;
      sum += std::abs(matrix_[2 * pair]) + std::abs(matrix_[2 * pair + 1]);
      most = std::max(most, sum);
    }
    if (most * 2 * expand_.bias <= std::numeric_limits<std::int16_t>::max()) return;
  }
}

void Transform::prepare(std::span<const float> rotation) {
  const std::size_t d = dim();
  if (is_prepared() || rotation.size() != d * d) return;
  rotation_.assign(rotation.begin(), rotation.end());
  back_.resize(d * d);
  for (std::size_t row = 0; row < d; ++row) {
    for (std::size_t column = 0; column < d; ++column) {
      back_[column * d + row] = static_cast<float>(numbers_[row * d + column]) * scales_[row];
    }
  }
}

void Transform::set_centroids() {
  const std::size_t count = levels_->centroids(), d = dim();
  if (count == 0) return;
  by_coordinate_.resize(d * count);
  own_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    double square = 0;
    for (std::size_t k = 0; k < d; ++k) {
      by_coordinate_[k * count + i] = -2 * centroids_[i * d + k];
      square += static_cast<double>(centroids_[i * d + k]) * centroids_[i * d + k];
    }
    own_[i] = static_cast<float>(square);
  }
  bases_ = std::make_unique<std::atomic<const float*>[]>(count);
}

// The mean and a centroid as a vector, made when it is first needed.
const float* Transform::base_of(std::size_t number) const {
  if (levels_->centroids() == 0) return mean_.data();
  if (const float* known = bases_[number].load(std::memory_order_acquire)) return known;
  const std::size_t d = dim();
  auto made = std::make_unique<float[]>(d);
  const float* own = centroids_.data() + number * d;
  for (std::size_t k = 0; k < d; ++k) {
    double sum = numbers_.empty() ? own[k] : 0;
    for (std::size_t i = 0; i < d && !numbers_.empty(); ++i) {
      sum += static_cast<double>(own[i]) * numbers_[k * d + i] * scales_[k];
    }
    made[k] = static_cast<float>(sum * unit_ + mean_[k]);
  }
  const std::lock_guard lock(mutex_);
  if (const float* known = bases_[number].load(std::memory_order_acquire)) return known;
  own_bases_.push_back(std::move(made));
  bases_[number].store(own_bases_.back().get(), std::memory_order_release);
  return own_bases_.back().get();
}

ExpandedRow Transform::row_of(const std::int8_t* levels, Sides sides, unsigned own, std::size_t number,
                              float* vector) const {
  ExpandedRow row{levels, base_of(number), vector, steps_[own], sides.count, {}};
  // Without branches, which nobody could predict: a bit that is not set makes a number negative.
  const std::uint32_t below = ~(sides.above << (most_sides - sides.count));
  for (unsigned i = 0; i < most_sides; ++i) {
    const std::uint32_t sign = (below >> (most_sides - 1 - i) & 1) << 31;
    row.weights[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(sides_[i]) ^ sign);
  }
  return row;
}

void Transform::finish(std::span<const ExpandedRow> rows, std::size_t pitch, std::vector<std::uint8_t>* memory) const {
  if (!numbers_.empty()) {
    const std::size_t size = rows.size() * levels_->width() + 64;
    if (memory->size() < size) memory->resize(size);
    KDCODE_CHOSEN(product_kernels).expand(&expand_, rows.data(), rows.size(), pitch, memory->data());
    return;
  }
  for (const ExpandedRow& row : rows) {
    for (std::size_t i = 0; i < dim(); ++i) {
      const float level = i < levels_->active() ? static_cast<float>(row.levels[i / 4 * pitch + i % 4]) : 0.0f;
      row.vector[i] = (i < row.sides ? level + row.weights[i] : level) * row.step + row.base[i];
    }
  }
}

// Adds what a level lacks that is no int8.
void Transform::add_level(std::size_t coordinate, float more, float* vector) const {
  if (numbers_.empty()) {
    vector[coordinate] += more;
    return;
  }
  for (std::size_t i = 0; i < dim(); ++i) {
    vector[i] += static_cast<float>(numbers_[i * dim() + coordinate]) * scales_[i] * more;
  }
}

// The sides that are of the row at a place of a block.
Sides Transform::sides_at(Sides all, std::size_t place) const {
  const std::size_t before = place * levels_->active();
  if (all.count <= before) return {};
  const auto left = static_cast<std::uint32_t>(all.count - before);
  const auto own = static_cast<std::uint32_t>(std::min<std::size_t>(left, levels_->active()));
  return {own, all.above >> (left - own) & ((1u << own) - 1)};
}

// Some rows, their blocks, and what is in these.
struct Transform::Chunk {
  struct Wanted {
    std::size_t at, block, place;
  };
  std::size_t found = 0, count = 0;  // rows, and blocks
  Wanted wanted[rows_at_once];
  const std::uint8_t* blocks[rows_at_once];
  std::uint8_t classes[rows_at_once];
  ReadBlocks read;
  std::vector<std::uint8_t> memory;
};

// Reads the blocks of the next rows but for those that are skipped. Gives the row after them.
std::size_t Transform::read_chunk(const RowFinder& rows, std::span<const std::int64_t> numbers, std::size_t done,
                                  std::int64_t skipped, Chunk* chunk, DecodeTrouble* trouble) const {
  const std::size_t block_levels = levels_->rows() * levels_->width();
  const std::size_t at_once =
      std::clamp<std::size_t>(levels_at_once / std::max<std::size_t>(1, block_levels), 1, rows_at_once);
  std::size_t end = std::min(numbers.size(), done + at_once), last = std::numeric_limits<std::size_t>::max();
  chunk->found = chunk->count = 0;
  if (done == 0) {
    for (std::size_t i = 0; i < end; ++i) rows.prefetch(numbers[i]);
  }
  for (std::size_t i = done; i < end; ++i) {
    if (i + at_once < numbers.size()) rows.prefetch(numbers[i + at_once]);               // for the next chunk
    const std::int64_t number = *const_cast<const volatile std::int64_t*>(&numbers[i]);  // read once, then checked
    const RowPlace place = rows.find(number);
    if (place.trouble != RowTrouble::none) {
      *trouble = {place.trouble, Damage::none, i, place.begin, place.length};
      end = i;
      break;
    }
    if (number == skipped) continue;
    if (place.block != last) {
      chunk->blocks[chunk->count] = rows.rows().codes.bytes + place.begin;
      chunk->classes[chunk->count] = static_cast<std::uint8_t>(place.own);
      const std::size_t in_line = reinterpret_cast<std::uintptr_t>(chunk->blocks[chunk->count]) % 64;
      for (std::size_t at = 0; at < in_line + place.length; at += 64) {
        __builtin_prefetch(chunk->blocks[chunk->count] - in_line + at);
      }
      ++chunk->count, last = place.block;
    }
    chunk->wanted[chunk->found++] = {i, chunk->count - 1, place.place};
  }
  const FileBytes& codes = rows.rows().codes;
  const Damage damage = levels_->read({chunk->blocks, chunk->count}, {chunk->classes, chunk->count},
                                      codes.bytes + codes.size, &chunk->read);
  if (damage == Damage::none) return end;
  for (std::size_t i = chunk->found; i-- > 0;)
    end = chunk->wanted[i].block == chunk->read.damaged ? chunk->wanted[i].at : end;
  *trouble = {RowTrouble::none, damage, end, 0, 0};
  chunk->found = 0;
  return done;
}

std::size_t Transform::decode(const RowFinder& rows, std::span<const std::int64_t> numbers, std::size_t done,
                              std::int64_t zero_row, float* vectors, DecodeTrouble* trouble) const {
  thread_local Chunk kept;
  Chunk& chunk = kept;
  const std::size_t in_block = levels_->rows(), width = levels_->width();
  ExpandedRow expanded[rows_at_once];
  while (done < numbers.size() && !trouble->found()) {
    const std::size_t end = read_chunk(rows, numbers, done, zero_row, &chunk, trouble);
    if (chunk.found != end - done) {
      for (std::size_t i = done; i < end; ++i) std::fill_n(vectors + i * dim(), dim(), 0.0f);
    }
    for (std::size_t i = 0; i < chunk.found; ++i) {
      const auto [at, block, place] = chunk.wanted[i];
      const std::size_t number = levels_->centroids() != 0 ? chunk.read.numbers[block * in_block + place] : 0;
      expanded[i] =
          row_of(chunk.read.levels.data() + levels_->first(chunk.read, block, place),
                 sides_at(chunk.read.sides[block], place), chunk.classes[block], number, vectors + at * dim());
    }
    finish({expanded, chunk.found}, 4 * chunk.read.lanes(), &chunk.memory);
    for (const LargeLevel& level : chunk.read.large) {
      for (std::size_t i = 0; i < chunk.found; ++i) {
        if (chunk.wanted[i].block != level.block || level.place / width != chunk.wanted[i].place) continue;
        add_level(level.place % width, static_cast<float>(level.multiple) * expanded[i].step, expanded[i].vector);
      }
    }
    done = end;
  }
  return done;
}

std::size_t Transform::read(const RowFinder& rows, std::span<const std::int64_t> numbers, std::size_t done,
                            std::int32_t* multiples, std::uint32_t* others, DecodeTrouble* trouble) const {
  thread_local Chunk kept;
  Chunk& chunk = kept;
  const std::size_t in_block = levels_->rows(), width = levels_->width(), active = levels_->active();
  while (done < numbers.size() && !trouble->found()) {
    const std::size_t end = read_chunk(rows, numbers, done, -1, &chunk, trouble);
    for (std::size_t i = 0; i < chunk.found; ++i) {
      const auto [at, block, place] = chunk.wanted[i];
      std::int32_t* to = multiples + at * dim();
      const std::int8_t* levels = chunk.read.levels.data() + levels_->first(chunk.read, block, place);
      for (std::size_t k = 0; k < dim(); ++k) to[k] = k < active ? levels[k / 4 * 4 * chunk.read.lanes() + k % 4] : 0;
      const Sides own = sides_at(chunk.read.sides[block], place);
      const std::uint32_t number = levels_->centroids() != 0 ? chunk.read.numbers[block * in_block + place] : 0u;
      const std::uint32_t rest[4] = {number, chunk.classes[block], own.count, own.above};
      std::copy_n(rest, 4, others + 4 * at);
      for (const LargeLevel& level : chunk.read.large) {
        if (level.block == block && level.place / width == place) to[level.place % width] = level.multiple;
      }
    }
    done = end;
  }
  return done;
}

void Transform::compose(std::size_t n, const std::int32_t* multiples, const std::uint8_t* classes,
                        const std::uint16_t* numbers, const Sides* sides, float* vectors) const {
  const std::size_t width = levels_->width(), active = levels_->active();
  std::vector<std::int8_t> levels(rows_at_once * width, 0);
  std::vector<std::uint8_t> memory;
  ExpandedRow rows[rows_at_once];
  for (std::size_t start = 0; start < n; start += rows_at_once) {
    const std::size_t some = std::min(rows_at_once, n - start);
    for (std::size_t i = 0; i < some; ++i) {
      const std::int32_t* own = multiples + (start + i) * dim();
      for (std::size_t k = 0; k < active; ++k) {
        const bool is_small = own[k] >= -largest_small && own[k] <= largest_small;
        levels[i * width + k] = is_small ? static_cast<std::int8_t>(own[k]) : std::int8_t{0};
      }
      rows[i] = row_of(levels.data() + i * width, sides[start + i], classes[start + i],
                       numbers == nullptr ? 0 : numbers[start + i], vectors + (start + i) * dim());
    }
    finish({rows, some}, 4, &memory);
    for (std::size_t i = 0; i < some; ++i) {
      const std::int32_t* own = multiples + (start + i) * dim();
      for (std::size_t k = 0; k < active; ++k) {
        if (own[k] < -largest_small || own[k] > largest_small) {
          add_level(k, static_cast<float>(own[k]) * rows[i].step, rows[i].vector);
        }
      }
    }
  }
}

void Transform::coordinates(std::size_t n, const float* vectors, float* found) const {
  const std::size_t d = dim();
  const auto& kernels = KDCODE_CHOSEN(product_kernels);
  std::vector<float> centred(rows_at_once * d), away(rows_at_once * d), again(rows_at_once * d);
  for (std::size_t start = 0; start < n; start += rows_at_once) {
    const std::size_t some = std::min(rows_at_once, n - start);
    float* to = found + start * d;
    for (std::size_t i = 0; i < some * d; ++i) {
      const double value = (static_cast<double>(vectors[start * d + i]) - mean_[i % d]) / unit_;
      centred[i] = static_cast<float>(std::clamp<double>(value, -largest_coordinate, largest_coordinate));
    }
    if (rotation_.empty()) {
      std::copy_n(centred.data(), some * d, to);
      continue;
    }
    // The matrix is a rounded rotation, whose inverse is nearly the transpose: one step of refinement mends the rest.
    kernels.multiply(centred.data(), some, d, rotation_.data(), d, to);
    kernels.multiply(to, some, d, back_.data(), d, away.data());
    for (std::size_t i = 0; i < some * d; ++i) away[i] = centred[i] - away[i];
    kernels.multiply(away.data(), some, d, rotation_.data(), d, again.data());
    for (std::size_t i = 0; i < some * d; ++i) to[i] += again[i];
  }
}

void Transform::nearest(std::size_t n, const float* coordinates, float trade, std::uint16_t* numbers) const {
  const std::size_t d = dim(), count = levels_->centroids();
  std::vector<float> scores(rows_at_once * count), taken(count);
  for (std::size_t i = 0; i < count; ++i) taken[i] = own_[i] + trade * levels_->number_bits(i);
  for (std::size_t start = 0; start < n; start += rows_at_once) {
    const std::size_t some = std::min(rows_at_once, n - start);
    KDCODE_CHOSEN(product_kernels)
        .multiply(coordinates + start * d, some, d, by_coordinate_.data(), count, scores.data());
    for (std::size_t i = 0; i < some; ++i) {
      const float* own = scores.data() + i * count;
      std::size_t best = 0;
      float least = own[0] + taken[0];
      for (std::size_t k = 1; k < count; ++k) {
        const float score = own[k] + taken[k];
        if (score < least) least = score, best = k;
      }
      numbers[start + i] = static_cast<std::uint16_t>(best);
    }
  }
}

}  // namespace kdcode
