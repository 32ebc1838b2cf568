#include "level_scan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "dispatch.hpp"
#include "level_scan_kernels.hpp"

namespace kdcode {
namespace {

constexpr std::size_t rows_at_once = 64, levels_at_once = 1 << 16;
// Roundings of float32 on the way to a number of a vector or to a product, each of 2^-24 at most; with room to spare.
constexpr double rounding = 64.0 / (1 << 24);

// Sides of a row are looked up by six: which there are, with a one before them.
constexpr unsigned sides_together = 6;
constexpr std::size_t sides_places = 2u << sides_together;

std::size_t in_sixteens(std::size_t count) { return (count + 15) / 16 * 16; }

}  // namespace

// Some rows that follow one another, and what was read of them.
struct LevelQueries::Tile {
  struct Row {
    std::size_t block, place;  // among those of the tile, and in the block
  };
  std::size_t first = 0, count = 0, blocks = 0;
  RowPlace last;  // of the row before
  bool has_last = false;
  Row rows[rows_at_once];
  const std::uint8_t* begins[rows_at_once];
  std::uint8_t classes[rows_at_once];
  Sides sides[rows_at_once];
  float lengths[rows_at_once];  // of rows: their magnitudes times their step
  std::uint32_t magnitudes[rows_at_once];
  std::vector<std::int8_t> levels;
  std::vector<std::uint16_t> centroids;
  std::vector<LargeLevel> large;
  std::vector<float> begun, products;  // (rows, lanes) what products begin with, and these
};

LevelQueries::LevelQueries(const Transform& codec, std::span<const double> queries, std::size_t count, unsigned planes)
    : codec_(codec),
      rotated_(rotated(codec, queries, count)),
      planes_(of_levels(codec, rotated_, count), count, planes),
      count_(count),
      lanes_(planes_.lanes()) {
  set_bases(queries);
  set_sides();
  set_slack(queries);
}

// (count, d) queries in the coordinates of levels.
std::vector<double> LevelQueries::rotated(const Transform& codec, std::span<const double> queries, std::size_t count) {
  const std::size_t d = codec.dim();
  if (codec.numbers_.empty()) return {queries.begin(), queries.end()};
  std::vector<double> found(count * d, 0.0);
  for (std::size_t query = 0; query < count; ++query) {
    double* own = found.data() + query * d;
    for (std::size_t i = 0; i < d; ++i) {
      const double weight = queries[query * d + i] * static_cast<double>(codec.scales_[i]);
      const std::int8_t* row = codec.numbers_.data() + i * d;
      for (std::size_t k = 0; k < d; ++k) own[k] += weight * row[k];
    }
  }
  return found;
}

// The coordinates that have levels, in whole quads.
std::vector<double> LevelQueries::of_levels(const Transform& codec, std::span<const double> rotated,
                                            std::size_t count) {
  const std::size_t width = codec.levels().width();
  std::vector<double> found(count * width, 0.0);
  for (std::size_t query = 0; query < count; ++query) {
    std::copy_n(rotated.data() + query * codec.dim(), codec.levels().active(), found.data() + query * width);
  }
  return found;
}

// The products with the mean, or with the mean and each centroid.
void LevelQueries::set_bases(std::span<const double> queries) {
  const std::size_t d = codec_.dim(), centroids = codec_.levels().centroids();
  bases_.assign(std::max<std::size_t>(1, centroids) * lanes_, 0);
  std::vector<float> by_coordinate(centroids != 0 ? d * count_ : 0), products(rows_at_once * count_);
  for (std::size_t i = 0; i < by_coordinate.size(); ++i) {
    by_coordinate[i] = static_cast<float>(rotated_[i % count_ * d + i / count_] * static_cast<double>(codec_.unit_));
  }
  std::vector<double> means(count_, 0);
  for (std::size_t query = 0; query < count_; ++query) {
    for (std::size_t i = 0; i < d; ++i) means[query] += queries[query * d + i] * static_cast<double>(codec_.mean_[i]);
    bases_[query] = static_cast<float>(means[query]);
  }
  for (std::size_t start = 0; start < centroids; start += rows_at_once) {
    const std::size_t some = std::min(rows_at_once, centroids - start);
    KDCODE_CHOSEN(product_kernels)
        .multiply(codec_.centroids_.data() + start * d, some, d, by_coordinate.data(), count_, products.data());
    for (std::size_t i = 0; i < some * count_; ++i) {
      bases_[(start + i / count_) * lanes_ + i % count_] =
          static_cast<float>(static_cast<double>(products[i]) + means[i % count_]);
    }
  }
}

void LevelQueries::set_sides() {
  const std::size_t d = codec_.dim(), known = codec_.sides_.size();
  sides_.assign(2 * sides_places * lanes_, 0);
  for (std::size_t half = 0; half < 2; ++half) {
    float* table = sides_.data() + half * sides_places * lanes_;
    for (std::size_t place = 2; place < sides_places; ++place) {
      const auto side = half * sides_together + static_cast<std::size_t>(std::bit_width(place)) - 2;
      for (std::size_t query = 0; query < count_ && side < known; ++query) {
        const double away = rotated_[query * d + side] * static_cast<double>(codec_.sides_[side]);
        const double before = static_cast<double>(table[place / 2 * lanes_ + query]);
        table[place * lanes_ + query] = static_cast<float>(before + (place % 2 != 0 ? away : -away));
      }
    }
  }
}

// What the sides of a row add, in steps: the first ones, or the others.
const float* LevelQueries::sides_of(std::size_t half, Sides own) const {
  const unsigned first = std::min<unsigned>(own.count, sides_together), later = own.count - first;
  const std::size_t place =
      half == 0 ? 1u << first | own.above >> later : 1u << later | (own.above & ((1u << later) - 1));
  return sides_.data() + (half * sides_places + place) * lanes_;
}

// How far products may be from those of decoded vectors in exact arithmetic. A number of such a vector is off by some
// roundings of the largest sums on the way to it: of the mean, the centroid, the sides, and the levels.
void LevelQueries::set_slack(std::span<const double> queries) {
  const std::size_t d = codec_.dim();
  double farthest = 0, step = 0, sides = 0;
  for (const float number : codec_.centroids_) farthest = std::max(farthest, static_cast<double>(std::abs(number)));
  for (const float one : codec_.steps_) step = std::max(step, static_cast<double>(one));
  for (const float side : codec_.sides_) sides += static_cast<double>(std::abs(side));
  farthest *= static_cast<double>(d) * static_cast<double>(codec_.unit_);
  slack_.assign(lanes_, 0);
  more_.assign(lanes_, 0);
  for (std::size_t query = 0; query < count_; ++query) {
    double mean = 0, matrix = 0, rotated = 0;
    for (std::size_t i = 0; i < d; ++i) {
      const double size = std::abs(queries[query * d + i]);
      mean += size * static_cast<double>(std::abs(codec_.mean_[i]));
      matrix += size * (codec_.numbers_.empty() ? 1 : 128 * static_cast<double>(codec_.scales_[i]));
      rotated = std::max(rotated, std::abs(rotated_[query * d + i]));
    }
    // A sum over the d numbers of a centroid is off by d roundings.
    const double fixed = mean + (matrix + rotated * static_cast<double>(d)) * (farthest + step * sides);
    slack_[query] = static_cast<float>(1.001 * rounding * fixed);
    more_[query] = static_cast<float>(1.001 * (planes_.away(query) + rounding * (matrix + rotated)));
  }
}

std::size_t LevelQueries::read(const RowFinder& rows, std::size_t first, std::size_t stop, Tile* tile,
                               DecodeTrouble* trouble) const {
  const LevelCodec& levels = codec_.levels();
  const std::size_t block_levels = levels.rows() * levels.width();
  const std::size_t most =
      std::clamp<std::size_t>(levels_at_once / std::max<std::size_t>(1, block_levels), 1, rows_at_once);
  std::size_t end = std::min(stop, first + most), before = std::numeric_limits<std::size_t>::max();
  tile->first = first, tile->count = tile->blocks = 0;
  tile->large.clear();
  for (std::size_t row = first; row < end; ++row) {
    const auto number = static_cast<std::int64_t>(row);
    tile->last = tile->has_last ? rows.next(number, tile->last) : rows.find(number);
    const RowPlace& place = tile->last;
    tile->has_last = place.trouble == RowTrouble::none;
    if (!tile->has_last) {
      *trouble = {place.trouble, Damage::none, row, place.begin, place.length};
      end = row;
      break;
    }
    if (place.block != before) {
      tile->begins[tile->blocks] = rows.rows().codes.bytes + place.begin;
      tile->classes[tile->blocks] = static_cast<std::uint8_t>(place.own);
      ++tile->blocks, before = place.block;
    }
    tile->rows[tile->count++] = {tile->blocks - 1, place.place};
  }
  tile->levels.resize(std::max(tile->levels.size(), tile->blocks * block_levels));
  tile->centroids.resize(std::max(tile->centroids.size(), tile->blocks * levels.rows()));
  std::size_t bad = 0;
  const Damage damage = levels.read({tile->begins, tile->blocks}, {tile->classes, tile->blocks}, tile->levels.data(),
                                    tile->centroids.data(), tile->sides, &tile->large, &bad);
  if (damage == Damage::none) return end;
  for (std::size_t i = tile->count; i-- > 0;) end = tile->rows[i].block == bad ? first + i : end;
  *trouble = {RowTrouble::none, damage, end, 0, 0};
  tile->count = 0;
  return first;
}

// The products of the rows of a tile, and their lengths.
void LevelQueries::multiply(Tile* tile) const {
  const LevelCodec& levels = codec_.levels();
  const std::size_t in_block = levels.rows(), width = levels.width();
  tile->products.resize(rows_at_once * lanes_);
  tile->begun.resize(rows_at_once * lanes_);
  BeginRow begun[rows_at_once];
  ExpandedRow expanded[rows_at_once];
  for (std::size_t i = 0; i < tile->count; ++i) {
    const auto [block, place] = tile->rows[i];
    const std::size_t slot = block * in_block + place;
    const std::size_t number = levels.centroids() != 0 ? tile->centroids[slot] : 0;
    const Sides sides = codec_.sides_at(tile->sides[block], place);
    const float step = codec_.steps_[tile->classes[block]];
    begun[i] = {bases_.data() + number * lanes_, sides_of(0, sides), sides_of(1, sides), step};
    expanded[i] = {tile->levels.data() + slot * width,
                   tile->begun.data() + i * lanes_,
                   tile->products.data() + i * lanes_,
                   step,
                   0,
                   {}};
  }
  const auto& kernels = KDCODE_CHOSEN(level_scan_kernels);
  kernels.begin(begun, tile->count, lanes_, tile->begun.data());
  const ExpandMatrix matrix = planes_.matrix();
  KDCODE_CHOSEN(product_kernels).expand(&matrix, expanded, tile->count);
  for (std::size_t i = 0; i < tile->count; ++i) {
    kernels.magnitudes(expanded[i].levels, 1, width, tile->magnitudes + i);
    tile->lengths[i] = static_cast<float>(tile->magnitudes[i]) * expanded[i].step;
  }
  for (const LargeLevel& level : tile->large) {
    for (std::size_t i = 0; i < tile->count; ++i) {
      if (tile->rows[i].block != level.block || level.place / width != tile->rows[i].place) continue;
      const float more = static_cast<float>(level.multiple) * expanded[i].step;
      for (std::size_t query = 0; query < count_; ++query) {
        expanded[i].vector[query] += static_cast<float>(rotated_[query * codec_.dim() + level.place % width]) * more;
      }
      tile->lengths[i] += std::abs(more);
    }
  }
}

std::size_t LevelQueries::scan(const RowFinder& rows, std::size_t first, std::size_t stop, const LevelScan& scan,
                               DecodeTrouble* trouble) const {
  thread_local Tile tile;
  tile.has_last = false;
  std::vector<float> floors(lanes_, std::numeric_limits<float>::infinity()), slack = slack_;
  std::vector<std::int64_t> counts(scan.counts, scan.counts + count_);  // copied, since others may write to them
  std::copy_n(scan.floors, count_, floors.begin());
  for (float& own : slack) own += scan.extra;
  KeepRows keep{
      0,       0,       count_,    lanes_,     nullptr,   tile.lengths, slack.data(), more_.data(), floors.data(),
      nullptr, nullptr, scan.room, scan.found, scan.lows, scan.highs,   counts.data()};
  const auto has_room = [&] {
    return std::all_of(counts.begin(), counts.end(), [&](std::int64_t count) {
      const auto room = static_cast<std::int64_t>(scan.room);
      return count >= 0 && count <= room && room - count >= static_cast<std::int64_t>(rows_at_once);
    });
  };
  while (first < stop && !trouble->found() && has_room()) {
    const std::size_t end = read(rows, first, stop, &tile, trouble);
    multiply(&tile);
    keep.first = tile.first, keep.count = tile.count;
    keep.products = tile.products.data();
    keep.factors = scan.factors == nullptr ? nullptr : scan.factors + first;
    keep.offsets = scan.offsets == nullptr ? nullptr : scan.offsets + first;
    KDCODE_CHOSEN(level_scan_kernels).keep(&keep);
    first = end;
  }
  std::copy(counts.begin(), counts.end(), scan.counts);
  return first;
}

std::size_t LevelQueries::score(const RowFinder& rows, std::size_t first, std::size_t stop, float* scores,
                                std::size_t stride, DecodeTrouble* trouble) const {
  thread_local Tile tile;
  tile.has_last = false;
  while (first < stop && !trouble->found()) {
    const std::size_t end = read(rows, first, stop, &tile, trouble);
    multiply(&tile);
    for (std::size_t query = 0; query < count_; ++query) {
      for (std::size_t i = 0; i < tile.count; ++i) {
        scores[query * stride + first + i] = planes_.product(tile.products.data() + i * lanes_, query);
      }
    }
    first = end;
  }
  return first;
}

}  // namespace kdcode
