#include "level_scan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "dispatch.hpp"

namespace kdcode {
namespace {

constexpr std::size_t rows_at_once = 64, levels_at_once = 1 << 16, lanes = 16, side_quads = most_sides / 4;
// Roundings of float32 on the way to a number of a vector or to a product, each of 2^-24 at most; with room to spare.
constexpr double rounding = 64.0 / (1 << 24);

// Four sides as four levels of 1 and -1, by which there are with a one before them; zeros after them.
constexpr auto sides_as_levels = [] {
  std::array<std::uint32_t, 32> found{};
  for (unsigned count = 1; count <= 4; ++count) {
    for (unsigned above = 0; above < 1u << count; ++above) {
      for (unsigned i = 0; i < count; ++i) {
        found[1u << count | above] |= ((above >> (count - 1 - i) & 1) != 0 ? 1u : 255u) << (8 * i);
      }
    }
  }
  return found;
}();

}  // namespace

// Some rows that follow one another, and what was read of them.
struct LevelQueries::Tile {
  struct Row {
    std::size_t block, place;  // among those of the tile, and in the block
  };
  std::size_t first = 0, count = 0, blocks = 0;
  std::size_t begin = 0;  // the first row of the call
  RowPlace last;          // of the row before
  Row rows[rows_at_once];
  const std::uint8_t* begins[rows_at_once];
  std::uint8_t classes[rows_at_once];
  ReadBlocks read;
  // Of sixteen of them:
  std::vector<std::int8_t> side_by_side;
  std::int8_t sides[side_quads * 4 * lanes];
  std::vector<std::int32_t> products;
  std::vector<float> more;
  std::uint32_t number[lanes], magnitudes[lanes];
  float steps[lanes], lengths[lanes];
};

LevelQueries::LevelQueries(const Transform& codec, std::span<const double> queries, std::size_t count, unsigned planes)
    : codec_(codec),
      rotated_(rotated(codec, queries, count)),
      planes_(columns(codec, rotated_, count), count, planes),
      count_(count) {
  set_bases(queries);
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

// What levels are multiplied by, in whole quads, and what sides are.
std::vector<double> LevelQueries::columns(const Transform& codec, std::span<const double> rotated, std::size_t count) {
  const std::size_t width = codec.levels().width(), all = width + most_sides;
  std::vector<double> found(count * all, 0.0);
  for (std::size_t query = 0; query < count; ++query) {
    const double* own = rotated.data() + query * codec.dim();
    std::copy_n(own, codec.levels().active(), found.data() + query * all);
    for (std::size_t side = 0; side < std::min(codec.sides_.size(), codec.dim()); ++side) {
      found[query * all + width + side] = own[side] * static_cast<double>(codec.sides_[side]);
    }
  }
  return found;
}

// (queries, centroids) products with the mean, or with the mean and each centroid.
void LevelQueries::set_bases(std::span<const double> queries) {
  const std::size_t d = codec_.dim(), centroids = codec_.levels().centroids();
  bases_.assign(std::max<std::size_t>(1, centroids) * count_, 0);
  std::vector<float> by_coordinate(centroids != 0 ? d * count_ : 0), products(rows_at_once * count_);
  for (std::size_t i = 0; i < by_coordinate.size(); ++i) {
    by_coordinate[i] = static_cast<float>(rotated_[i % count_ * d + i / count_] * static_cast<double>(codec_.unit_));
  }
  std::vector<double> means(count_, 0);
  for (std::size_t query = 0; query < count_; ++query) {
    for (std::size_t i = 0; i < d; ++i) means[query] += queries[query * d + i] * static_cast<double>(codec_.mean_[i]);
    if (centroids == 0) bases_[query] = static_cast<float>(means[query]);
  }
  for (std::size_t start = 0; start < centroids; start += rows_at_once) {
    const std::size_t some = std::min(rows_at_once, centroids - start);
    KDCODE_CHOSEN(product_kernels)
        .multiply(codec_.centroids_.data() + start * d, some, d, by_coordinate.data(), count_, products.data());
    for (std::size_t i = 0; i < some * count_; ++i) {
      bases_[i % count_ * centroids + start + i / count_] =
          static_cast<float>(static_cast<double>(products[i]) + means[i % count_]);
    }
  }
}

// How far products may be from those of decoded vectors in exact arithmetic. A number of such a vector is off by some
// roundings of the largest sums on the way to it: of the mean, the centroid, the sides, and the levels.
void LevelQueries::set_slack(std::span<const double> queries) {
  const std::size_t d = codec_.dim();
  double farthest = 0;
  for (const float number : codec_.centroids_) farthest = std::max(farthest, static_cast<double>(std::abs(number)));
  farthest *= static_cast<double>(d) * static_cast<double>(codec_.unit_);
  slack_.assign(count_, 0);
  more_.assign(count_, 0);
  for (std::size_t query = 0; query < count_; ++query) {
    double mean = 0, matrix = 0, largest = 0;
    for (std::size_t i = 0; i < d; ++i) {
      const double size = std::abs(queries[query * d + i]);
      mean += size * static_cast<double>(std::abs(codec_.mean_[i]));
      matrix += size * (codec_.numbers_.empty() ? 1 : 128 * static_cast<double>(codec_.scales_[i]));
      largest = std::max(largest, std::abs(rotated_[query * d + i]));
    }
    // A sum over the d numbers of a centroid is off by d roundings.
    const double fixed = mean + (matrix + largest * static_cast<double>(d)) * farthest;
    slack_[query] = static_cast<float>(1.001 * rounding * fixed);
    more_[query] = static_cast<float>(1.001 * (planes_.away(query) + rounding * (matrix + largest)));
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
  for (std::size_t row = first; row < end; ++row) {
    const auto number = static_cast<std::int64_t>(row);
    RowPlace& place = tile->last;
    row == tile->begin ? (void)(place = rows.find(number)) : rows.find_next(number, &place);
    if (place.trouble != RowTrouble::none) {
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
  const FileBytes& codes = rows.rows().codes;
  const Damage damage =
      levels.read({tile->begins, tile->blocks}, {tile->classes, tile->blocks}, codes.bytes + codes.size, &tile->read);
  if (damage == Damage::none) return end;
  for (std::size_t i = tile->count; i-- > 0;) end = tile->rows[i].block == tile->read.damaged ? first + i : end;
  *trouble = {RowTrouble::none, damage, end, 0, 0};
  tile->count = 0;
  return first;
}

// The products of sixteen rows of a tile from the `start`-th on, or of as many as there are.
SixteenScores LevelQueries::multiply(std::size_t start, Tile* tile) const {
  const LevelCodec& levels = codec_.levels();
  const PlanesOfQueries& view = planes_.view();
  const auto& kernels = KDCODE_CHOSEN(level_scan_kernels);
  const std::size_t quads = levels.width() / 4, count = std::min(lanes, tile->count - start);
  const std::size_t pitch = 4 * tile->read.lanes();
  const bool lie_so = tile->read.lanes() == lanes && levels.rows() == 1;
  if (!lie_so) tile->side_by_side.resize(quads * 4 * lanes);
  tile->products.resize(view.planes * count_ * lanes);
  std::memset(tile->sides, 0, sizeof tile->sides);
  for (std::size_t i = 0; i < count; ++i) {
    const auto [block, place] = tile->rows[start + i];
    const Sides all = tile->read.sides[block], own = levels.rows() == 1 ? all : codec_.sides_at(all, place);
    for (unsigned before = 0; before < own.count; before += 4) {
      const unsigned some = std::min(4u, own.count - before), after = own.count - before - some;
      const std::uint32_t four = sides_as_levels[1u << some | (own.above >> after & ((1u << some) - 1))];
      std::memcpy(tile->sides + before * lanes + 4 * i, &four, sizeof four);
    }
    tile->steps[i] = codec_.steps_[tile->classes[block]];
    tile->number[i] = levels.centroids() != 0 ? tile->read.numbers[block * levels.rows() + place] : 0;
    if (lie_so) continue;
    const std::int8_t* from = tile->read.levels.data() + levels.first(tile->read, block, place);
    for (std::size_t quad = 0; quad < quads; ++quad) {
      std::memcpy(tile->side_by_side.data() + quad * 4 * lanes + 4 * i, from + quad * pitch, 4);
    }
  }
  for (std::size_t i = count; i < lanes; ++i) tile->steps[i] = 0, tile->number[i] = 0;
  const std::int8_t* own =
      lie_so ? tile->read.levels.data() + levels.first(tile->read, start, 0) : tile->side_by_side.data();
  const SixteenRows rows{own, tile->sides, quads, side_quads};
  kernels.multiply(&view, &rows, tile->products.data());
  kernels.magnitudes(&rows, tile->magnitudes);
  for (std::size_t i = 0; i < lanes; ++i) tile->lengths[i] = static_cast<float>(tile->magnitudes[i]) * tile->steps[i];
  SixteenScores scores{};
  scores.first = tile->first + start, scores.count = count;
  scores.products = tile->products.data();
  scores.bases = bases_.data(), scores.numbers = std::max<std::size_t>(1, levels.centroids());
  scores.number = tile->number, scores.steps = tile->steps, scores.lengths = tile->lengths;
  if (!tile->read.large.empty()) add_large(start, tile, &scores);
  return scores;
}

// Adds what levels lack that are no int8.
void LevelQueries::add_large(std::size_t start, Tile* tile, SixteenScores* scores) const {
  const std::size_t width = codec_.levels().width();
  tile->more.assign(count_ * lanes, 0);
  scores->more = tile->more.data();
  for (const LargeLevel& level : tile->read.large) {
    for (std::size_t i = 0; i < scores->count; ++i) {
      const auto [block, place] = tile->rows[start + i];
      if (block != level.block || level.place / width != place) continue;
      const float more = static_cast<float>(level.multiple) * tile->steps[i];
      for (std::size_t query = 0; query < count_; ++query) {
        const double number = rotated_[query * codec_.dim() + level.place % width];
        tile->more[query * lanes + i] += static_cast<float>(number) * more;
      }
      tile->lengths[i] += std::abs(more);
    }
  }
}

std::size_t LevelQueries::scan(const RowFinder& rows, std::size_t first, std::size_t stop, const LevelScan& scan,
                               DecodeTrouble* trouble) const {
  thread_local Tile own_tile;
  Tile& tile = own_tile;
  tile.begin = first;
  std::vector<float> slack = slack_;
  for (float& own : slack) own += scan.extra;
  const std::vector<float> floors(scan.floors, scan.floors + count_);
  std::vector<std::int64_t> counts(scan.found.counts, scan.found.counts + count_);  // copied: others may write to them
  FoundRows found = scan.found;
  found.counts = counts.data();
  const auto has_room = [&] {
    return std::all_of(counts.begin(), counts.end(), [&](std::int64_t count) {
      const auto room = static_cast<std::int64_t>(found.room);
      return count >= 0 && count <= room && room - count >= static_cast<std::int64_t>(rows_at_once);
    });
  };
  while (first < stop && !trouble->found() && has_room()) {
    const std::size_t end = read(rows, first, stop, &tile, trouble);
    for (std::size_t start = 0; start < tile.count; start += lanes) {
      SixteenScores scores = multiply(start, &tile);
      scores.factors = scan.factors == nullptr ? nullptr : scan.factors + scores.first;
      scores.offsets = scan.offsets == nullptr ? nullptr : scan.offsets + scores.first;
      scores.slack_fixed = slack.data(), scores.slack_length = more_.data(), scores.floors = floors.data();
      KDCODE_CHOSEN(level_scan_kernels).keep(&planes_.view(), &scores, &found);
    }
    first = end;
  }
  std::copy(counts.begin(), counts.end(), scan.found.counts);
  return first;
}

std::size_t LevelQueries::score(const RowFinder& rows, std::size_t first, std::size_t stop, float* scores,
                                std::size_t stride, DecodeTrouble* trouble) const {
  thread_local Tile own_tile;
  Tile& tile = own_tile;
  tile.begin = first;
  while (first < stop && !trouble->found()) {
    const std::size_t end = read(rows, first, stop, &tile, trouble);
    for (std::size_t start = 0; start < tile.count; start += lanes) {
      const SixteenScores made = multiply(start, &tile);
      KDCODE_CHOSEN(level_scan_kernels).write(&planes_.view(), &made, scores, stride);
    }
    first = end;
  }
  return first;
}

}  // namespace kdcode
