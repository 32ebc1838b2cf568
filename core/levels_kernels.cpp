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

// Reads `batches` of 16 blocks in step, so that one works while the other waits for memory.
template <std::size_t batches>
KDCODE_LANE void read_batches(const LevelPlan* plan, const std::uint8_t* bytes, std::uint32_t stride,
                              LaneReaders* readers, std::int8_t* levels, std::uint16_t* numbers, ReadEscaped escaped,
                              void* self) {
  const u32x16 base = u32x16{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} * stride;
  const u32x16 last = splat<u32x16>(stride - 4);
  const i32x16 last_context = splat<i32x16>(static_cast<std::int32_t>(plan->contexts) - 1);
  // By the pattern of quantizers of four coordinates: how many ones, and where each coordinate is with zeros first.
  const u32x16 ones_of = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  const u32x16 order_of = {0x03020100, 0x02010003, 0x02010300, 0x01000302, 0x02030100, 0x01030002,
                           0x01030200, 0x00030201, 0x03020100, 0x03010002, 0x03010200, 0x03000201,
                           0x03020100, 0x03020001, 0x03020100, 0x03020100};
  const std::size_t block_levels = static_cast<std::size_t>(plan->rows) * plan->width;
  Lanes lanes[batches];
  u32x16 word[batches] = {};  // the state of the trellis, and from bit 8 on the quantizers of the next four coordinates
  i32x16 class_context[batches];
  for (std::size_t b = 0; b < batches; ++b) {
    lanes[b] = {load<u32x16>(readers[b].code), load<u32x16>(readers[b].range), load<u32x16>(readers[b].place),
                u32x16{}};
    class_context[b] = load<i32x16>(readers[b].class_context);
  }
  for (std::uint32_t row = 0; row < plan->rows; ++row) {
    for (std::size_t b = 0; b < batches && plan->number_slots != nullptr; ++b) {
      const u32x16 unit = lanes[b].range >> 15;
      const u32x16 place = place_of(&lanes[b], unit, 15);
      const u32x16 number =
          gather_bytes(reinterpret_cast<const std::uint8_t*>(plan->number_slots), place * 2) & 0xffffu;
      const u32x16 entry = gather(plan->number_starts, number);
      take(bytes + 16 * b * stride, base, last, unit, entry >> 16, entry & 0xffffu, &lanes[b]);
      for (std::size_t i = 0; i < 16; ++i)
        numbers[(16 * b + i) * plan->rows + row] = static_cast<std::uint16_t>(number[i]);
    }
    std::uint32_t group = 0;
    for (std::uint32_t coordinate = 0; coordinate < plan->dim; coordinate += 4) {
      const std::uint32_t count = plan->dim - coordinate < 4 ? plan->dim - coordinate : 4;
      u32x16 quad[batches] = {};
      for (std::uint32_t at = 0; at < count; ++group) {
        const std::uint32_t size = plan->group_sizes[group];
        u32x16 pattern[batches], tuple[batches];
        i32x16 context[batches];
        std::uint32_t escapes[batches];
        for (std::size_t b = 0; b < batches; ++b) {
          pattern[b] = word[b] >> (8 + at) & ((1u << size) - 1);
          context[b] = class_context[b] + static_cast<std::int32_t>(plan->group_contexts[group]);
          context[b] = smaller(larger(context[b], i32x16{}), last_context);
          const u32x16 ones = lookup16(ones_of, pattern[b]);
          const u32x16 table = (u32x16)context[b] * (size + 1) + (plan->first_table[size] + ones);
          const u32x16 unit = lanes[b].range >> 12;
          const u32x16 entry = gather(plan->slots, (table << 12) + place_of(&lanes[b], unit, 12));
          const u32x16 symbol = entry >> 24;
          tuple[b] = gather(plan->values, (table << 8) + symbol);
          take(bytes + 16 * b * stride, base, last, unit, entry & 0xfffu, (entry >> 12 & 0xfffu) + 1, &lanes[b]);
          escapes[b] = lane_mask(symbol == escape);
        }
        for (std::size_t b = 0; b < batches; ++b) {
          if (escapes[b] == 0) [[likely]]
            continue;
          store(readers[b].code, lanes[b].code);
          store(readers[b].range, lanes[b].range);
          store(readers[b].place, lanes[b].place);
          for (std::uint32_t left = escapes[b]; left != 0; left &= left - 1) {
            const auto i = static_cast<unsigned>(__builtin_ctz(left));
            tuple[b].set(i, escaped(self, static_cast<unsigned>(16 * b) + i,
                                    (row * plan->width + coordinate + at) | pattern[b][i] << 28, size,
                                    static_cast<unsigned>(context[b][i]), readers));
          }
          lanes[b].code = load<u32x16>(readers[b].code);
          lanes[b].range = load<u32x16>(readers[b].range);
          lanes[b].place = load<u32x16>(readers[b].place);
        }
        for (std::size_t b = 0; b < batches; ++b) {
          if (size == 4) {
            quad[b] = shuffle4(tuple[b], lookup16(order_of, pattern[b]));
          } else if (size == 2) {
            const u32x16 swapped = (tuple[b] >> 8) | (tuple[b] & 0xffu) << 8;
            quad[b] |= select(pattern[b] == 1, swapped, tuple[b]) << (8 * at);
          } else {
            quad[b] |= tuple[b] << (8 * at);
          }
        }
        at += size;
      }
      const std::uint32_t* steps = plan->steps + count * 48;
      for (std::size_t b = 0; b < batches; ++b) {
        word[b] = lookup16(load<u32x16>(steps), word[b] & 15u) ^
                  lookup16(load<u32x16>(steps + 16), word[b] >> 4 & 15u) ^
                  lookup16(load<u32x16>(steps + 32), parities(quad[b]));
        std::int8_t* to = levels + 16 * b * block_levels + row * plan->width + coordinate;
        std::uint32_t fours[16];
        store(fours, quad[b]);
        for (std::size_t i = 0; i < 16; ++i) __builtin_memcpy(to + i * block_levels, fours + i, 4);
      }
    }
  }
  for (std::size_t b = 0; b < batches; ++b) {
    store(readers[b].code, lanes[b].code);
    store(readers[b].range, lanes[b].range);
    store(readers[b].place, lanes[b].place);
    store(readers[b].is_damaged, lanes[b].is_damaged);
  }
}

void read(const LevelPlan* plan, const std::uint8_t* bytes, std::uint32_t stride, LaneReaders* readers,
          std::size_t count, std::int8_t* levels, std::uint16_t* numbers, ReadEscaped escaped, void* self) {
  if (count == 1) {
    read_batches<1>(plan, bytes, stride, readers, levels, numbers, escaped, self);
  } else {
    read_batches<2>(plan, bytes, stride, readers, levels, numbers, escaped, self);
  }
}

}  // namespace

const LevelKernels KDCODE_KERNELS(levels_kernels) = {read};

}  // namespace kdcode
