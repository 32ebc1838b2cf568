#include "levels_kernels.hpp"

#include "lanes.hpp"

namespace kdcode {
namespace {

constexpr std::uint32_t escape = 255;

struct Lanes {
  u32x16 code, range, place, is_damaged;
};

// Where a code lies among 2^bits places, each `unit` long. Both numbers have
// room in a float, and so has every quotient that a division might round up to
// the next whole number.
KDCODE_LANE u32x16 place_of(Lanes* lanes, u32x16 unit, unsigned bits) {
  const f32x16 ratio = convert<f32x16>((i32x16)lanes->code) / convert<f32x16>((i32x16)unit);
  const u32x16 place = (u32x16)convert<i32x16>(ratio);
  const u32x16 last = splat<u32x16>((1u << bits) - 1);
  const i32x16 beyond = place > last;  // also where the code of a damaged block has grown beyond 31 bits
  lanes->is_damaged |= (u32x16)beyond;
  return select(beyond, last, place);
}

// Takes a symbol, and bytes until the range has 17 bits or more.
KDCODE_LANE void take(const std::uint8_t* bytes, u32x16 base, u32x16 last, u32x16 unit, u32x16 start, u32x16 frequency,
                      Lanes* lanes) {
  const u32x16 range = unit * frequency;
  const u32x16 two = gather_bytes(bytes, base + lanes->place);
  const u32x16 word = (two & 0xffu) << 8 | (two >> 8 & 0xffu);
  const u32x16 count = (u32x16)((range < 1u << 16) + (range < 1u << 8)) * 0xffffffffu;  // comparisons give -1
  lanes->code = (lanes->code - unit * start) << (count * 8) | word >> (16 - count * 8);
  lanes->range = range << (count * 8);
  const u32x16 place = lanes->place + count;
  lanes->place = smaller(place, last);
}

// Bits of nibbles in four bytes, one each.
KDCODE_LANE u32x16 parities(u32x16 quad) {
  const u32x16 odd = ((quad >> 1) ^ (quad & ~(quad >> 7))) & 0x01010101u;
  return (odd * 0x01020408u) >> 24 & 15u;
}

void read(const LevelPlan* plan, const std::uint8_t* bytes, std::uint32_t stride, LaneReaders* readers,
          std::int8_t* levels, std::uint16_t* numbers, ReadEscaped escaped, void* self) {
  const u32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const u32x16 base = lane * stride;
  const u32x16 last = splat<u32x16>(stride - 4);
  const i32x16 class_context = load<i32x16>(readers->class_context);
  const i32x16 last_context = splat<i32x16>(static_cast<std::int32_t>(plan->contexts) - 1);
  // By the pattern of quantizers of four coordinates: how many ones, and where
  // each coordinate is with zeros first.
  const u32x16 ones_of = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  const u32x16 order_of = {0x03020100, 0x02010003, 0x02010300, 0x01000302, 0x02030100, 0x01030002,
                           0x01030200, 0x00030201, 0x03020100, 0x03010002, 0x03010200, 0x03000201,
                           0x03020100, 0x03020001, 0x03020100, 0x03020100};
  Lanes lanes{load<u32x16>(readers->code), load<u32x16>(readers->range), load<u32x16>(readers->place), u32x16{}};
  u32x16 word = {};  // the state of the trellis, and from bit 8 on the
                     // quantizers of the next four coordinates
  for (std::uint32_t row = 0; row < plan->rows; ++row) {
    if (plan->number_slots != nullptr) {
      const u32x16 unit = lanes.range >> 15;
      const u32x16 place = place_of(&lanes, unit, 15);
      const u32x16 number =
          gather_bytes(reinterpret_cast<const std::uint8_t*>(plan->number_slots), place * 2) & 0xffffu;
      const u32x16 entry = gather(plan->number_starts, number);
      take(bytes, base, last, unit, entry >> 16, entry & 0xffffu, &lanes);
      for (int i = 0; i < 16; ++i)
        numbers[static_cast<std::uint32_t>(i) * plan->rows + row] = static_cast<std::uint16_t>(number[i]);
    }
    std::uint32_t group = 0;
    for (std::uint32_t coordinate = 0; coordinate < plan->dim; coordinate += 4) {
      const std::uint32_t count = plan->dim - coordinate < 4 ? plan->dim - coordinate : 4;
      u32x16 quad = {};
      for (std::uint32_t at = 0; at < count; ++group) {
        const std::uint32_t size = plan->group_sizes[group];
        const u32x16 pattern = word >> (8 + at) & ((1u << size) - 1);
        const u32x16 ones = lookup16(ones_of, pattern);
        i32x16 context = class_context + static_cast<std::int32_t>(plan->group_contexts[group]);
        context = smaller(larger(context, i32x16{}), last_context);
        const u32x16 table = (u32x16)context * (size + 1) + (plan->first_table[size] + ones);
        const u32x16 unit = lanes.range >> 12;
        const u32x16 entry = gather(plan->slots, (table << 12) + place_of(&lanes, unit, 12));
        const u32x16 symbol = entry >> 24;
        u32x16 tuple = gather(plan->values, (table << 8) + symbol);
        take(bytes, base, last, unit, entry & 0xfffu, (entry >> 12 & 0xfffu) + 1, &lanes);
        if (const std::uint32_t some = lane_mask(symbol == escape); some != 0) [[unlikely]] {
          store(readers->code, lanes.code);
          store(readers->range, lanes.range);
          store(readers->place, lanes.place);
          for (std::uint32_t left = some; left != 0; left &= left - 1) {
            const auto i = static_cast<unsigned>(__builtin_ctz(left));
            tuple.set(i, escaped(self, i, (row * plan->width + coordinate + at) | pattern[i] << 28, size,
                                 static_cast<unsigned>(context[i]), ones[i], readers));
          }
          lanes.code = load<u32x16>(readers->code);
          lanes.range = load<u32x16>(readers->range);
          lanes.place = load<u32x16>(readers->place);
        }
        if (size == 4) {
          quad = shuffle4(tuple, lookup16(order_of, pattern));
        } else if (size == 2) {
          const u32x16 swapped = (tuple >> 8) | (tuple & 0xffu) << 8;
          quad |= select(pattern == 1, swapped, tuple) << (8 * at);
        } else {
          quad |= tuple << (8 * at);
        }
        at += size;
      }
      const std::uint32_t* steps = plan->steps + count * 48;
      word = lookup16(load<u32x16>(steps), word & 15u) ^ lookup16(load<u32x16>(steps + 16), word >> 4 & 15u) ^
             lookup16(load<u32x16>(steps + 32), parities(quad));
      std::int8_t* to = levels + row * plan->width + coordinate;
      for (int i = 0; i < 16; ++i) {
        const std::uint32_t four = quad[i];
        __builtin_memcpy(to + static_cast<std::size_t>(i) * plan->rows * plan->width, &four, 4);
      }
    }
  }
  store(readers->code, lanes.code);
  store(readers->range, lanes.range);
  store(readers->place, lanes.place);
  store(readers->is_damaged, lanes.is_damaged);
}

}  // namespace

const LevelKernels KDCODE_KERNELS(levels_kernels) = {read};

}  // namespace kdcode
