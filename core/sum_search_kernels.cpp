#include "sum_search_kernels.hpp"

#include "lanes.hpp"

namespace kdcode {
namespace {

// Rows whose costs are kept in registers at a time, with two strips each; and those that go through all strips before
// the next ones do, while a strip stays in the cache.
constexpr std::size_t tile_rows = register_bytes == 64 ? 8 : 2, block_rows = 64;

KDCODE_LANE i32x16 numbers_from(std::size_t first) {
  const i32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane + static_cast<std::int32_t>(first);
}

// Calls finish(row, strip, costs) for some rows and strips.
template <std::size_t rows_at_once, std::size_t strips_at_once, class Finish>
KDCODE_LANE void tile(const float* rows, const WordStrips& words, std::size_t strip, bool norms, Finish finish) {
  const std::size_t step = (1 + words.dim) * 16;
  const float* first = words.strips + strip * step;
  f32x16 sums[rows_at_once][strips_at_once];
  for (std::size_t r = 0; r < rows_at_once; ++r) {
    for (std::size_t s = 0; s < strips_at_once; ++s) sums[r][s] = norms ? load<f32x16>(first + s * step) : f32x16{};
  }
  for (std::size_t i = 0; i < words.dim; ++i) {
    f32x16 column[strips_at_once];
    for (std::size_t s = 0; s < strips_at_once; ++s) column[s] = load<f32x16>(first + s * step + (1 + i) * 16);
    for (std::size_t r = 0; r < rows_at_once; ++r) {
      for (std::size_t s = 0; s < strips_at_once; ++s) sums[r][s] -= column[s] * rows[r * words.dim + i];
    }
  }
  for (std::size_t r = 0; r < rows_at_once; ++r) {
    for (std::size_t s = 0; s < strips_at_once; ++s) finish(r, strip + s, sums[r][s]);
  }
}

template <std::size_t strips_at_once, class Finish>
KDCODE_LANE void in_tiles(const float* rows, std::size_t n, const WordStrips& words, std::size_t strip, bool norms,
                          Finish finish) {
  std::size_t row = 0;
  const auto from_row = [&](std::size_t r, std::size_t s, f32x16 sums)
                            __attribute__((always_inline)) { finish(row + r, s, sums); };
  for (; n - row >= tile_rows; row += tile_rows) {
    tile<tile_rows, strips_at_once>(rows + row * words.dim, words, strip, norms, from_row);
  }
  for (; row < n; ++row) tile<1, strips_at_once>(rows + row * words.dim, words, strip, norms, from_row);
}

template <class Finish>
KDCODE_LANE void all_costs(const float* rows, std::size_t n, const WordStrips& words, bool norms, Finish finish) {
  std::size_t strip = 0;
  for (; words.count - strip >= 2; strip += 2) in_tiles<2>(rows, n, words, strip, norms, finish);
  if (strip < words.count) in_tiles<1>(rows, n, words, strip, norms, finish);
}

// The smallest costs of sixteen lanes so far; of equal ones the first counts.
struct Smallest {
  f32x16 cost = splat<f32x16>(no_cost);
  i32x16 place = {};
};

KDCODE_LANE void consider(Smallest* found, f32x16 cost, std::size_t strip) {
  const i32x16 better = cost < found->cost;
  found->cost = select(better, cost, found->cost);
  found->place = select(better, numbers_from(16 * strip), found->place);
}

template <class T, int N>
KDCODE_LANE T least_of(Vector<T, N> lanes) {
  if constexpr (N > 4) {
    return least_of(smaller(low_half(lanes), high_half(lanes)));
  } else {
    const T a = lanes.raw[0] < lanes.raw[1] ? lanes.raw[0] : lanes.raw[1];
    const T b = lanes.raw[2] < lanes.raw[3] ? lanes.raw[2] : lanes.raw[3];
    return a < b ? a : b;
  }
}

KDCODE_LANE std::uint32_t place_of(const Smallest& found) {
  const i32x16 beyond = splat<i32x16>(0x7fffffff);
  const i32x16 is_least = found.cost == splat<f32x16>(least_of(found.cost));
  return static_cast<std::uint32_t>(least_of(select(is_least, found.place, beyond)));
}

void nearest(const float* rows, std::size_t n, WordStrips words, std::int64_t* places) {
  for (std::size_t start = 0; start < n; start += block_rows) {
    const std::size_t some = n - start < block_rows ? n - start : block_rows;
    Smallest found[block_rows];
    const auto finish = [&](std::size_t r, std::size_t strip, f32x16 cost)
                            __attribute__((always_inline)) { consider(&found[r], cost, strip); };
    all_costs(rows + start * words.dim, some, words, true, finish);
    for (std::size_t r = 0; r < some; ++r) places[start + r] = place_of(found[r]);
  }
}

void costs(const float* rows, std::size_t n, WordStrips words, bool norms, float* costs) {
  for (std::size_t start = 0; start < n; start += block_rows) {
    const std::size_t some = n - start < block_rows ? n - start : block_rows;
    const auto finish = [&](std::size_t r, std::size_t strip, f32x16 cost) __attribute__((always_inline)) {
      store(costs + ((start + r) * words.count + strip) * 16, cost);
    };
    all_costs(rows + start * words.dim, some, words, norms, finish);
  }
}

// Calls finish(strip, costs) for every strip of a row.
template <std::size_t strips_at_once, class Finish>
KDCODE_LANE void add_table(const TableCosts& costs, std::size_t row, std::size_t strip, Finish finish) {
  const float* own = costs.own + row * costs.own_step + 16 * strip;
  const std::uint32_t* flat = costs.flat + row * costs.flat_step;
  f32x16 sums[strips_at_once];
  for (std::size_t s = 0; s < strips_at_once; ++s) sums[s] = load<f32x16>(own + 16 * s);
  for (std::size_t t = 0; t < costs.depth; ++t) {
    if (t == costs.skipped) continue;
    const float* added = costs.table + (flat[t] * costs.strips + strip) * 16;
    for (std::size_t s = 0; s < strips_at_once; ++s) sums[s] += load<f32x16>(added + 16 * s);
  }
  for (std::size_t s = 0; s < strips_at_once; ++s) finish(strip + s, sums[s]);
}

template <class Finish>
KDCODE_LANE void row_costs(const TableCosts& costs, std::size_t row, Finish finish) {
  std::size_t strip = 0;
  for (; costs.strips - strip >= 4; strip += 4) add_table<4>(costs, row, strip, finish);
  for (; strip < costs.strips; ++strip) add_table<1>(costs, row, strip, finish);
}

void choose(TableCosts costs, const std::uint32_t* rows, std::size_t count, const float* noise, float temperature,
            std::uint32_t* places) {
  for (std::size_t i = 0; i < count; ++i) {
    Smallest found;
    if (noise == nullptr) {
      row_costs(costs, rows[i],
                [&](std::size_t strip, f32x16 cost) __attribute__((always_inline)) { consider(&found, cost, strip); });
    } else {
      const float* own = noise + rows[i] * costs.size;
      row_costs(costs, rows[i], [&](std::size_t strip, f32x16 cost) __attribute__((always_inline)) {
        consider(&found, cost - load<f32x16>(own + 16 * strip) * temperature, strip);
      });
    }
    places[i] = place_of(found);
  }
}

// The number in place `width`, from 1, of sixteen in rising order.
KDCODE_LANE float in_order(f32x16 lanes, std::size_t width) {
  float all[16];
  store(all, lanes);
  i32x16 below = {};
  for (const float other : all) below -= splat<f32x16>(other) < lanes;  // true is -1
  const f32x16 low = select(below < static_cast<std::int32_t>(width), lanes, splat<f32x16>(-no_cost));
  store(all, low);
  float most = all[0];
  for (const float other : all) most = other > most ? other : most;
  return most;
}

std::size_t smallest(TableCosts costs, const float* parents, std::size_t n, std::size_t width, float* scratch,
                     float* sums, std::uint32_t* places) {
  const std::size_t whole = 16 * costs.strips, rest = costs.size - (whole - 16);  // codewords of the last strip
  const i32x16 beyond = numbers_from(0) >= static_cast<std::int32_t>(rest);
  f32x16 least = splat<f32x16>(no_cost);
  for (std::size_t parent = 0; parent < n; ++parent) {
    const float before = parents[parent];
    float* own = scratch + parent * whole;
    row_costs(costs, parent, [&](std::size_t strip, f32x16 cost) __attribute__((always_inline)) {
      cost += before;
      if (strip + 1 == costs.strips) cost = select(beyond, splat<f32x16>(no_cost), cost);
      store(own + 16 * strip, cost);
      least = smaller(cost, least);
    });
  }
  // So many lanes have a cost that is no higher, so no higher one can be among the smallest.
  float limit = width <= 16 ? in_order(least, width) : no_cost;
  std::size_t count = 0;
  for (std::size_t strip = 0; strip < n * costs.strips; ++strip) {
    const float* found = scratch + 16 * strip;
    std::uint32_t low = lane_mask(load<f32x16>(found) <= splat<f32x16>(limit));
    for (; low != 0; low &= low - 1) {
      const auto lane = static_cast<std::size_t>(__builtin_ctz(low));
      const float sum = found[lane];
      if (!(sum < no_cost) || (count == width && !(sum < sums[count - 1]))) continue;
      if (count < width) ++count;
      std::size_t place = count - 1;
      for (; place > 0 && sum < sums[place - 1]; --place) {
        sums[place] = sums[place - 1];
        places[place] = places[place - 1];
      }
      sums[place] = sum;
      const std::size_t parent = strip / costs.strips;
      places[place] = static_cast<std::uint32_t>(parent * costs.size + 16 * (strip - parent * costs.strips) + lane);
    }
    if (count == width && sums[count - 1] < limit) limit = sums[count - 1];
  }
  return count;
}

}  // namespace

const SumSearchKernels KDCODE_KERNELS(sum_search_kernels) = {nearest, costs, choose, smallest};

}  // namespace kdcode
