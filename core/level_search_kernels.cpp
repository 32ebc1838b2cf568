#include "level_search_kernels.hpp"

#include "lanes.hpp"

namespace kdcode {
namespace {

// One quantizer and parity, while candidates are tried.
struct Best {
  f32x16 cost, bits;
  i32x16 magnitude;
};

KDCODE_LANE void consider(Best* best, i32x16 magnitude, i32x16 allowed, f32x16 size, i32x16 table, const float* bits,
                          float quantizer, float trade) {
  const i32x16 tried = select(allowed, magnitude, i32x16{});
  const f32x16 lies = select(tried > 0, convert<f32x16>(tried) * 2.0f - quantizer, f32x16{});
  const f32x16 away = size - lies;
  const f32x16 taken = gather(bits, table + tried);
  const f32x16 cost = away * away + taken * trade;
  const i32x16 better = (cost < best->cost) & allowed;
  best->cost = select(better, cost, best->cost);
  best->bits = select(better, taken, best->bits);
  best->magnitude = select(better, tried, best->magnitude);
}

void choose(const float* sizes, const std::int32_t* tables, std::size_t count, const float* bits,
            std::int32_t magnitudes, float trade, LevelChoices choices) {
  for (std::size_t start = 0; start < count; start += 16) {
    const std::size_t some = count - start < 16 ? count - start : 16;
    const f32x16 size = some == 16 ? load<f32x16>(sizes + start) : load_first<f32x16>(sizes + start, some);
    const i32x16 first = some == 16 ? load<i32x16>(tables + start) : load_first<i32x16>(tables + start, some);
    for (int quantizer = 0; quantizer < 2; ++quantizer) {
      const float q = static_cast<float>(quantizer);
      const i32x16 table = first + quantizer * magnitudes;
      const i32x16 nearest = convert<i32x16>((size + q) * 0.5f + 0.5f);
      for (int parity = 0; parity < 2; ++parity) {
        // The nearest magnitude of this parity lies at most one away; smaller
        // ones cost fewer bits.
        i32x16 high = nearest + ((nearest ^ parity) & 1);
        i32x16 most = splat<i32x16>(magnitudes - 1);
        most = most - ((most ^ parity) & 1);
        high = smaller(high, most);
        Best best{splat<f32x16>(far), f32x16{}, i32x16{}};
        consider(&best, high, high >= 0, size, table, bits, q, trade);
        consider(&best, high - 2, high >= 2, size, table, bits, q, trade);
        consider(&best, high - 4, high >= 4, size, table, bits, q, trade);
        if (parity == 0) consider(&best, i32x16{}, i32x16{} == 0, size, table, bits, q, trade);
        const std::size_t at = static_cast<std::size_t>(2 * quantizer + parity) * choices.stride + start;
        store(choices.cost + at, best.cost);
        store(choices.bits + at, best.bits);
        store(choices.magnitude + at, best.magnitude);
      }
    }
  }
}

KDCODE_LANE f32x16 permuted(f32x16 lanes, i32x16 order) { return (f32x16)lookup16((u32x16)lanes, (u32x16)order); }

// The state t is reached from 2 (t ^ s G ^ p H) + s, where s is the highest bit
// of t, p the parity, and G and H lack their highest bit: the lower half of all
// states from even ones, the upper half from odd ones.
template <unsigned vectors>
KDCODE_LANE void walk_states(const LevelChoices& choices, std::size_t count, std::uint32_t feedback,
                             std::uint32_t forward, float* total, float* bits, std::uint16_t* decisions) {
  constexpr unsigned half = vectors / 2;
  const i32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  f32x16 totals[vectors], spent[vectors];
  for (unsigned i = 0; i < vectors; ++i)
    totals[i] = load<f32x16>(total + 16 * i), spent[i] = load<f32x16>(bits + 16 * i);
  const std::uint32_t upper = feedback & (8 * vectors - 1);
  const std::uint32_t moves[4] = {0, forward, upper, upper ^ forward};
  i32x16 orders[4];
  for (int i = 0; i < 4; ++i) orders[i] = lane ^ static_cast<std::int32_t>(moves[i] & 15);
  for (std::size_t at = 0; at < count; ++at) {
    f32x16 from[2][half], bits_from[2][half];
    for (unsigned i = 0; i < half; ++i) {
      from[0][i] = evens(totals[2 * i], totals[2 * i + 1]), from[1][i] = odds(totals[2 * i], totals[2 * i + 1]);
      bits_from[0][i] = evens(spent[2 * i], spent[2 * i + 1]), bits_from[1][i] = odds(spent[2 * i], spent[2 * i + 1]);
    }
    for (unsigned quantizer = 0; quantizer < 2; ++quantizer) {
      const std::size_t choice = 2 * quantizer * choices.stride + at;
      const float cost0 = choices.cost[choice], cost1 = choices.cost[choice + choices.stride];
      const float bits0 = choices.bits[choice], bits1 = choices.bits[choice + choices.stride];
      const unsigned first = 2 * quantizer;
      for (unsigned i = 0; i < half; ++i) {
        const unsigned one = i ^ (moves[first] >> 4), other = i ^ (moves[first + 1] >> 4);
        const f32x16 total0 = permuted(from[quantizer][one], orders[first]) + cost0;
        const f32x16 total1 = permuted(from[quantizer][other], orders[first + 1]) + cost1;
        const f32x16 spent0 = permuted(bits_from[quantizer][one], orders[first]) + bits0;
        const f32x16 spent1 = permuted(bits_from[quantizer][other], orders[first + 1]) + bits1;
        const i32x16 second = total1 < total0;
        const unsigned to = quantizer * half + i;
        totals[to] = select(second, total1, total0);
        spent[to] = select(second, spent1, spent0);
        decisions[at * vectors + to] = static_cast<std::uint16_t>(lane_mask(second));
      }
    }
  }
  for (unsigned i = 0; i < vectors; ++i) store(total + 16 * i, totals[i]), store(bits + 16 * i, spent[i]);
}

void walk(LevelChoices choices, std::size_t count, std::uint32_t states, std::uint32_t feedback, std::uint32_t forward,
          float* total, float* bits, std::uint16_t* decisions) {
  switch (states) {
    case 32:
      return walk_states<2>(choices, count, feedback, forward, total, bits, decisions);
    case 64:
      return walk_states<4>(choices, count, feedback, forward, total, bits, decisions);
    case 128:
      return walk_states<8>(choices, count, feedback, forward, total, bits, decisions);
    default:
      return walk_states<16>(choices, count, feedback, forward, total, bits, decisions);
  }
}

}  // namespace

const LevelSearchKernels KDCODE_KERNELS(level_search_kernels) = {choose, walk};

}  // namespace kdcode
