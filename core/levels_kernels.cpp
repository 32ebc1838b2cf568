#include "levels_kernels.hpp"

#include "lanes.hpp"

namespace kdcode {
namespace {

// What 16 readers know. Bits of `word` are those that come next, two bytes at least while a symbol is read.
struct Lanes {
  u32x16 code, range, place, word, is_damaged;  // places in bits
};

// Whole quotients. All numbers have room in a float, and so has every quotient that a division might round up to the
// next whole number.
KDCODE_LANE u32x16 quotient(u32x16 code, u32x16 unit) {
  return (u32x16)convert<i32x16>(convert<f32x16>((i32x16)code) / convert<f32x16>((i32x16)unit));
}

// Where a code lies among 2^bits places, each `unit` long. It is beyond them where the code of a damaged block is.
KDCODE_LANE u32x16 place_of(Lanes* lanes, u32x16 unit, unsigned bits) {
  const u32x16 place = quotient(lanes->code, unit);
  lanes->is_damaged |= place >> bits;
  return smaller(place, splat<u32x16>((1u << bits) - 1));
}

// Takes the next four bytes, which last for two symbols.
KDCODE_LANE void refill(const std::uint8_t* bytes, u32x16 base, u32x16 last, Lanes* lanes) {
  const u32x16 four = gather_bytes(bytes, base + smaller(lanes->place >> 3, last));
  lanes->word = shuffle4(four, splat<u32x16>(0x00010203));
}

// Takes a symbol, which begins at `begin` and has `range`, and as many bits as the range needs to have 17 or more.
KDCODE_LANE void take(u32x16 begin, u32x16 range, Lanes* lanes) {
  const u32x16 bits = ((range - (1u << 16)) >> 28 & 8u) + ((range - (1u << 8)) >> 28 & 8u);  // where it is less, 8
  lanes->code = (lanes->code - begin) << bits | (lanes->word >> 16) >> (16 - bits);
  lanes->range = range << bits;
  lanes->word = lanes->word << bits;
  lanes->place += bits;
}

// The symbols at places of main tables. Single loads take less time than gathers, of which one would wait for another.
KDCODE_LANE void find_symbols(const LevelPlan* plan, u32x16 place, u32x16* tuple, u32x16* part) {
  alignas(64) std::uint32_t places[16];
  spill(places, place);
  const std::uint32_t* symbols[2][8];
  unroll<16>([&](auto i) KDCODE_INLINE {
    const std::size_t at = places[i];
    symbols[i / 8][i % 8] = plan->symbols + 2 * ((at >> 12 << 8) + plan->slots[at]);
  });
  const u32x16 low = load_pairs(symbols[0]), high = load_pairs(symbols[1]);
  *tuple = evens(low, high);
  *part = odds(low, high);
}

// Bits of nibbles in four bytes, one each.
KDCODE_LANE u32x16 parities(u32x16 quad) {
  const u32x16 odd = ((quad >> 1) ^ (quad & ~(quad >> 7))) & 0x01010101u;
  return (odd * 0x01020408u) >> 24 & 15u;
}

// What follows the levels: see levels.cpp.
KDCODE_LANE void finish(const LevelPlan* plan, const Lanes& lanes, LaneBlocks* blocks) {
  const i32x16 width = (i32x16)((u32x16)convert<f32x16>((i32x16)lanes.range) >> 23) - 127;  // of the range, less 1
  const i32x16 room = width - ((i32x16)lanes.place - (i32x16)(load<u32x16>(blocks->length) * 8u));
  const u32x16 count = (u32x16)smaller(larger(room, i32x16{}), splat<i32x16>(static_cast<std::int32_t>(plan->sides)));
  const u32x16 above = quotient(lanes.code, lanes.range >> count), one = splat<u32x16>(1);
  store(blocks->room, room);
  store(blocks->above, smaller(above, (one << count) - 1));
  store(blocks->is_damaged, lanes.is_damaged);
}

// Reads `batches` of 16 blocks in step, so that one works while the other waits for memory.
template <std::size_t batches>
KDCODE_LANE void read_batches(const LevelPlan* plan, const std::uint8_t* bytes, std::uint32_t stride,
                              LaneBlocks* blocks, std::int8_t* levels, std::uint16_t* numbers, ReadEscaped escaped,
                              void* self) {
  const u32x16 base = u32x16{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} * stride;
  const u32x16 last = splat<u32x16>(stride - 4);
  const i32x16 last_context = splat<i32x16>(static_cast<std::int32_t>(plan->contexts) - 1);
  // By the pattern of quantizers of four coordinates: how many ones, and where each coordinate is with zeros first.
  const u32x16 ones_of = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  const u32x16 order_of = {0x03020100, 0x02010003, 0x02010300, 0x01000302, 0x02030100, 0x01030002,
                           0x01030200, 0x00030201, 0x03020100, 0x03010002, 0x03010200, 0x03000201,
                           0x03020100, 0x03020001, 0x03020100, 0x03020100};
  Lanes lanes[batches];
  u32x16 state[batches] = {};  // of the trellis, and from bit 8 on the quantizers of the next four coordinates
  unroll<batches>([&](auto b) KDCODE_INLINE {
    lanes[b] = {{}, splat<u32x16>(1u << 24), {}, {}, {}};
    refill(bytes + 16 * b * stride, base, last, &lanes[b]);
    lanes[b].code = lanes[b].word >> 8;
    lanes[b].place = splat<u32x16>(24);
  });
  unsigned left = 0;  // symbols that the words suffice for
  const auto refill_all = [&]() KDCODE_INLINE {
    if (left == 0) {
      unroll<batches>([&](auto b) KDCODE_INLINE { refill(bytes + 16 * b * stride, base, last, &lanes[b]); });
      left = 2;
    }
    --left;
  };
  for (std::uint32_t row = 0; row < plan->rows; ++row) {
    if (plan->number_slots != nullptr) {
      refill_all();
      unroll<batches>([&](auto b) KDCODE_INLINE {
        const u32x16 unit = lanes[b].range >> 15;
        const u32x16 place = place_of(&lanes[b], unit, 15);
        const u32x16 number =
            gather_bytes(reinterpret_cast<const std::uint8_t*>(plan->number_slots), place * 2) & 0xffffu;
        const u32x16 entry = gather(plan->number_starts, number);
        take(unit * (entry >> 16), unit * (entry & 0xffffu), &lanes[b]);
        std::uint32_t found[16];
        store(found, number);
        for (std::size_t i = 0; i < 16; ++i) {
          numbers[(16 * b + i) * plan->rows + row] = static_cast<std::uint16_t>(found[i]);
        }
      });
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
        refill_all();
        unroll<batches>([&](auto b) KDCODE_INLINE {
          pattern[b] = state[b] >> (8 + at) & ((1u << size) - 1);
          context[b] = load<i32x16>(blocks[b].class_context) + static_cast<std::int32_t>(plan->group_contexts[group]);
          context[b] = smaller(larger(context[b], i32x16{}), last_context);
          const u32x16 ones = lookup16(ones_of, pattern[b]);
          const u32x16 table = (u32x16)context[b] * (size + 1) + (plan->first_table[size] + ones);
          const u32x16 unit = lanes[b].range >> 12;
          u32x16 part;
          find_symbols(plan, (table << 12) + place_of(&lanes[b], unit, 12), &tuple[b], &part);
          escapes[b] = lane_mask(tuple[b] == escape_values);
          take(dot_halves(part, unit << 16), dot_halves(part, unit), &lanes[b]);
        });
        unroll<batches>([&](auto b) KDCODE_INLINE {
          if (escapes[b] == 0) [[likely]]
            return;
          EscapedGroup found;
          store(found.code, lanes[b].code);
          store(found.range, lanes[b].range);
          store(found.place, lanes[b].place);
          store(found.values, tuple[b]);
          store(found.pattern, pattern[b]);
          store(found.context, (u32x16)context[b]);
          escaped(self, b, escapes[b], row * plan->width + coordinate + at, size, &found);
          lanes[b].code = load<u32x16>(found.code);
          lanes[b].range = load<u32x16>(found.range);
          lanes[b].place = load<u32x16>(found.place);
          tuple[b] = load<u32x16>(found.values);
          left = 0;
        });
        unroll<batches>([&](auto b) KDCODE_INLINE {
          if (size == 4) {
            quad[b] = shuffle4(tuple[b], lookup16(order_of, pattern[b]));
          } else if (size == 2) {
            const u32x16 swapped = (tuple[b] >> 8) | (tuple[b] & 0xffu) << 8;
            quad[b] |= select(pattern[b] == 1, swapped, tuple[b]) << (8 * at);
          } else {
            quad[b] |= tuple[b] << (8 * at);
          }
        });
        at += size;
      }
      const std::uint32_t* steps = plan->steps + count * 48;
      const std::size_t quads = plan->width / 4;
      unroll<batches>([&](auto b) KDCODE_INLINE {
        state[b] = lookup16(load<u32x16>(steps), state[b] & 15u) ^
                   lookup16(load<u32x16>(steps + 16), state[b] >> 4 & 15u) ^
                   lookup16(load<u32x16>(steps + 32), parities(quad[b]));
        __builtin_memcpy(levels + 64 * ((b * plan->rows + row) * quads + coordinate / 4), &quad[b], 64);
      });
    }
  }
  unroll<batches>([&](auto b) KDCODE_INLINE { finish(plan, lanes[b], &blocks[b]); });
}

void read(const LevelPlan* plan, const std::uint8_t* bytes, std::uint32_t stride, LaneBlocks* blocks,
          std::size_t batches, std::int8_t* levels, std::uint16_t* numbers, ReadEscaped escaped, void* self) {
  if (batches == 1) {
    read_batches<1>(plan, bytes, stride, blocks, levels, numbers, escaped, self);
  } else {
    read_batches<2>(plan, bytes, stride, blocks, levels, numbers, escaped, self);
  }
}

std::uint32_t add_classes(const std::uint8_t* classes, std::uint32_t count, const std::uint8_t* more) {
#if defined(__AVX2__)
  const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(more)));
  const __m256i nibble = _mm256_set1_epi8(15), zero = _mm256_setzero_si256(), one = _mm256_set1_epi8(1);
  const __m256i even = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40,
                                        42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62);
  __m256i sums = zero;
  for (std::uint32_t first = 0; first < 256; first += 64) {
    const std::uint32_t some = count < first ? 0 : count - first < 64 ? count - first : 64;
    const __m256i end = _mm256_set1_epi8(static_cast<char>(some));
    const __m256i two = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(classes + first / 2));
    const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(two, nibble));
    const __m256i high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(two, 4), nibble));
    const __m256i is_low = _mm256_cmpgt_epi8(end, even), is_high = _mm256_cmpgt_epi8(end, _mm256_add_epi8(even, one));
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_and_si256(low, is_low), zero));
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_and_si256(high, is_high), zero));
  }
  std::uint64_t parts[4];
  __builtin_memcpy(parts, &sums, sizeof parts);
  return static_cast<std::uint32_t>(parts[0] + parts[1] + parts[2] + parts[3]);
#else
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) sum += more[classes[i / 2] >> (4 * (i % 2)) & 15];
  return sum;
#endif
}

}  // namespace

const LevelKernels KDCODE_KERNELS(levels_kernels) = {read, add_classes};

}  // namespace kdcode
