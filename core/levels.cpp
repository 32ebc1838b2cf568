#include "levels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "dispatch.hpp"

namespace kdcode {

// A part of a number line of 2^bits that a symbol has.
struct Op {
  std::uint32_t start, frequency;
  unsigned bits;
};

namespace {

constexpr std::uint32_t whole_range = 1u << 24, least_range = 1u << 16;
constexpr std::uint32_t bytes_ahead = 3;  // that a code holds
constexpr std::int32_t largest_multiple = 1 << 16;
constexpr std::size_t lanes = 16, most_lanes = 32, few_blocks = 4, zeros_after = 8, at_once = 16;

// One reader. `bytes` has zeros after its end, and `last` is as far as it goes.
struct Reader {
  const std::uint8_t* bytes;
  std::uint32_t code, range, place, last;
  Damage damage = Damage::none;

  void begin(const std::uint8_t* from, std::uint32_t most) {
    bytes = from, last = most, place = bytes_ahead, range = whole_range;
    code = std::uint32_t{from[0]} << 16 | std::uint32_t{from[1]} << 8 | from[2];
  }
  // Where the code lies among 2^bits places.
  std::uint32_t place_of(unsigned bits) {
    const std::uint32_t found = code / (range >> bits), most = (1u << bits) - 1;
    if (found <= most) return found;
    damage = Damage::no_symbol;
    return most;
  }
  void take(std::uint32_t start, std::uint32_t frequency, unsigned bits) {
    const std::uint32_t unit = range >> bits;
    code -= unit * start;
    range = unit * frequency;
    // Without a branch, which nobody could predict: a symbol takes up to two bytes.
    const unsigned count = (range < least_range ? 1u : 0u) + (range < least_range >> 8 ? 1u : 0u);
    const std::uint32_t two = std::uint32_t{bytes[place]} << 8 | bytes[place + 1];
    code = (code << (8 * count) | two >> (16 - 8 * count)) & (whole_range - 1);  // no lawful code needs the mask
    range <<= 8 * count;
    place = std::min(place + count, last);
  }
  std::uint32_t bit() {
    const std::uint32_t found = place_of(1);
    take(found, 1, 1);
    return found;
  }
};

// How many bits a block still has room for: a reader may halve its range so often before the end.
int room_of(std::uint32_t range, std::uint32_t place, std::uint32_t length) {
  return std::bit_width(range) - 1 - 8 * (static_cast<int>(place) - static_cast<int>(length));
}

// The value of one coordinate by its marginal table; what is escaped follows in bits (Exp-Golomb).
std::uint32_t read_value(const Marginal& own, Reader* reader) {
  const std::uint32_t place = reader->place_of(tail_bits);
  const auto after = std::upper_bound(own.starts.begin(), own.starts.end() - 1, place);
  const auto value = static_cast<std::size_t>(after - own.starts.begin()) - 1;
  reader->take(own.starts[value], own.size(value), tail_bits);
  if (value != own.escape()) return static_cast<std::uint32_t>(value);
  unsigned bits = 0;
  while (reader->bit() != 0) {
    if (++bits > most_excess_bits) {
      reader->damage = Damage::too_large;
      return 0;
    }
  }
  std::uint32_t excess = 1;
  for (unsigned i = 0; i < bits; ++i) excess = 2 * excess + reader->bit();
  return static_cast<std::uint32_t>(value) + excess - 1;
}

std::int32_t multiple_of(std::uint32_t value, unsigned quantizer) {
  if (value == 0) return 0;
  const auto multiple = static_cast<std::int32_t>(2 * ((value + 1) / 2) - quantizer);
  return value % 2 != 0 ? multiple : -multiple;
}

std::uint32_t value_of(std::int32_t multiple, unsigned quantizer) {
  const auto magnitude = static_cast<std::uint32_t>(magnitude_of(multiple, quantizer));
  return magnitude == 0 ? 0 : multiple > 0 ? 2 * magnitude - 1 : 2 * magnitude;
}

// What a multiple is in a code: 0, 1, 2, 3, 4 for 0, 1, -1, 2, -2.
std::uint32_t code_value_of(std::int32_t multiple) {
  return 2 * static_cast<std::uint32_t>(std::abs(multiple)) - (multiple > 0 ? 1 : 0);
}

// The group as tables have it: coordinates of quantizer 0 first. The order maps a place in the table to a coordinate.
struct Order {
  std::uint8_t ones = 0;
  std::uint8_t at[4] = {};
};

constexpr Order order_of(unsigned pattern, unsigned size) {
  Order order;
  unsigned place = 0;
  for (unsigned quantizer = 0; quantizer < 2; ++quantizer) {
    for (unsigned i = 0; i < size; ++i) {
      if ((pattern >> i & 1) == quantizer) order.at[place++] = static_cast<std::uint8_t>(i);
    }
    if (quantizer == 0) order.ones = static_cast<std::uint8_t>(size - place);
  }
  return order;
}

// By size and pattern.
constexpr auto orders = [] {
  std::array<std::array<Order, 16>, 5> found{};
  for (unsigned size = 1; size <= 4; ++size) {
    for (unsigned pattern = 0; pattern < 1u << size; ++pattern) found[size][pattern] = order_of(pattern, size);
  }
  return found;
}();

// A tuple behind the escape of a main table, in the order of the table.
void read_tail(const LevelTables& tables, std::uint32_t values, unsigned size, unsigned context, unsigned ones,
               Reader* reader, std::int32_t* multiples) {
  const Tail& tail = tables.tail(size, context, ones);
  const std::uint32_t place = reader->place_of(tail_bits);
  std::size_t found = tail.firsts[place / Tail::bucket];
  while (found + 1 < tail.starts.size() && tail.starts[found + 1] <= place) ++found;
  const std::uint32_t end = found + 1 < tail.starts.size() ? tail.starts[found + 1] : tail_total;
  reader->take(tail.starts[found], end - tail.starts[found], tail_bits);
  for (unsigned i = 0; i < size; ++i) {
    if (found < tail.values.size()) {
      multiples[i] = static_cast<std::int8_t>(tail.values[found] >> (8 * i) & 255);
    } else {
      const unsigned quantizer = i >= size - ones;
      multiples[i] = multiple_of(read_value(tables.marginal(context, quantizer), reader), quantizer);
      if (code_value_of(multiples[i]) < values) continue;
      reader->damage = Damage::too_large;
      multiples[i] = 0;
    }
  }
}

// The same as int8. A larger multiple becomes the smallest one of the same quantizer, sign and parity, for the trellis,
// and is noted in `large`; `place` is that of the group in a block.
std::uint32_t read_escaped(const LevelTables& tables, std::uint32_t values, unsigned size, unsigned context,
                           const Order& order, Reader* reader, std::size_t block, std::uint32_t place,
                           std::vector<LargeLevel>* large) {
  std::int32_t multiples[4] = {};
  read_tail(tables, values, size, context, order.ones, reader, multiples);
  std::uint32_t tuple = 0;
  for (unsigned i = 0; i < size; ++i) {
    std::int32_t multiple = multiples[i];
    if (std::abs(multiple) > largest_small) {
      multiple = multiple_of((parity_of(multiple) != 0 ? 1u : 3u) + (multiple < 0 ? 1u : 0u), multiple & 1);
      large->push_back({block, place + order.at[i], multiples[i]});
    }
    tuple |= static_cast<std::uint32_t>(multiple & 255) << (8 * i);
  }
  return tuple;
}

// What the lanes of a kernel call where a group was escaped.
struct EscapeReader {
  const LevelTables* tables;
  std::uint32_t values;
  const std::uint8_t* bytes;
  std::uint32_t stride;
  std::size_t first_block;
  std::size_t blocks;
  std::vector<LargeLevel>* large;
  std::vector<LargeLevel> of_spare = {};  // lanes that read the last block once more
  Damage damage[most_lanes] = {};

  static void read(void* self, std::size_t batch, std::uint32_t escaped, std::uint32_t at, unsigned size,
                   EscapedGroup* group) {
    auto& own = *static_cast<EscapeReader*>(self);
    for (std::uint32_t rest = escaped; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(rest));
      const std::size_t lane = batch * lanes + i;
      Reader reader{own.bytes + lane * own.stride, group->code[i], group->range[i],
                    std::min(group->place[i] / 8, own.stride - 4), own.stride - 4};
      group->values[i] =
          read_escaped(*own.tables, own.values, size, group->context[i], orders[size][group->pattern[i]], &reader,
                       own.first_block + lane, at, lane < own.blocks ? own.large : &own.of_spare);
      group->code[i] = reader.code, group->range[i] = reader.range, group->place[i] = 8 * reader.place;
      if (reader.damage != Damage::none) own.damage[lane] = reader.damage;
    }
  }
};

// Copies a block to `to`, with zeros after it up to `stride`; 15 bytes more are written, and read where that is before
// `end`.
void copy(const std::uint8_t* block, std::uint32_t length, const std::uint8_t* end, std::uint8_t* to,
          std::uint32_t stride) {
  if (end != nullptr && static_cast<std::size_t>(end - block) >= std::size_t{length} + at_once) {
    for (std::uint32_t i = 0; i < length; i += at_once) std::memcpy(to + i, block + i, at_once);
  } else {
    std::memcpy(to, block, length);
  }
  const std::uint8_t zeros[at_once] = {};
  for (std::uint32_t i = length; i < stride; i += at_once) std::memcpy(to + i, zeros, at_once);
}

}  // namespace

std::unique_ptr<LevelCodec> LevelCodec::make(const LevelShape& shape, const char** why) {
  const auto refuse = [&](const char* reason) {
    *why = reason;
    return nullptr;
  };
  std::unique_ptr<LevelCodec> made(new LevelCodec);
  made->trellis_ = trellis_of(shape.states);
  if (made->trellis_ == nullptr) return refuse("states: expected 1, 32, 64, 128 or 256");
  if (shape.dim < 1 || shape.dim > 1u << 20) return refuse("dim: expected 1 to 1,048,576");
  if (shape.rows < 1 || shape.rows > most_rows) return refuse("rows: expected 1 to 64 in a block");
  if (shape.lengths.empty() || shape.lengths.size() > most_classes) return refuse("lengths: expected 1 to 256");
  if (shape.class_contexts.size() != shape.lengths.size())
    return refuse("class_contexts: expected one for each length");
  if (shape.group_sizes.size() != shape.group_contexts.size()) return refuse("groups: expected a context for each");
  if (shape.centroid_frequencies.size() > most_centroids) return refuse("centroids: expected at most 8,192");
  if (!made->tables_.set(shape.magnitudes, shape.weights, shape.has_signs)) {
    return refuse("magnitudes: they do not fit the weights, or there are more than 64 contexts");
  }
  made->dim_ = shape.dim;
  made->values_ = shape.values;
  made->lengths_.assign(shape.lengths.begin(), shape.lengths.end());
  made->class_contexts_.assign(shape.class_contexts.begin(), shape.class_contexts.end());
  made->group_sizes_.assign(shape.group_sizes.begin(), shape.group_sizes.end());
  made->group_contexts_.assign(shape.group_contexts.begin(), shape.group_contexts.end());
  for (const std::uint32_t length : made->lengths_) {
    if (length > std::min(8 * shape.rows * shape.dim + 64, most_length)) {
      return refuse("lengths: a block takes at most 8 bytes a level and 64, and 67,108,864 altogether");
    }
    made->longest_ = std::max(made->longest_, length);
  }
  if (shape.group_sizes.empty()) return refuse("group_sizes: expected one at least");
  std::size_t covered = 0;
  for (std::size_t i = 0; i < made->group_sizes_.size(); ++i) {
    const std::uint8_t size = made->group_sizes_[i];
    if (size != 1 && size != 2 && size != 4) return refuse("group_sizes: expected 1, 2 or 4");
    if (covered % 4 + size > 4) return refuse("group_sizes: a group must lie in one quad");
    if (made->group_contexts_[i] >= made->tables_.contexts()) return refuse("group_contexts: there is no such context");
    made->group_of_.insert(made->group_of_.end(), size, 0);
    covered += size;
    if (covered > shape.dim) return refuse("group_sizes: they add up to more coordinates than there are");
  }
  std::uint64_t numbers = 0;
  for (const std::uint16_t frequency : shape.centroid_frequencies) {
    if (frequency == 0) return refuse("centroid_frequencies: expected numbers of at least 1");
    made->number_starts_.push_back(static_cast<std::uint32_t>(numbers << 16 | frequency));
    numbers += frequency;
    if (numbers > tail_total) break;
  }
  if (!shape.centroid_frequencies.empty() && numbers != tail_total) {
    return refuse("centroid_frequencies: they must add up to 32,768");
  }
  if (numbers != 0) {
    made->number_slots_.resize(tail_total + 1);
    for (std::size_t i = 0; i < made->number_starts_.size(); ++i) {
      const std::uint32_t start = made->number_starts_[i] >> 16, count = made->number_starts_[i] & 0xffff;
      std::fill_n(made->number_slots_.begin() + start, count, static_cast<std::uint16_t>(i));
    }
  }
  made->set_steps();
  LevelPlan& plan = made->plan_;
  plan.slots = made->tables_.slots();
  plan.symbols = &made->tables_.symbols()->values;
  plan.group_sizes = made->group_sizes_.data();
  plan.group_contexts = made->group_contexts_.data();
  plan.steps = made->steps_.data();
  plan.number_slots = numbers != 0 ? made->number_slots_.data() : nullptr;
  plan.number_starts = numbers != 0 ? made->number_starts_.data() : nullptr;
  plan.groups = static_cast<std::uint32_t>(made->group_sizes_.size());
  plan.dim = static_cast<std::uint32_t>(covered);
  plan.width = (plan.dim + 3) / 4 * 4;
  plan.sides = static_cast<std::uint32_t>(std::min<std::size_t>(most_sides, shape.rows * covered));
  plan.rows = static_cast<std::uint32_t>(shape.rows);
  plan.contexts = made->tables_.contexts();
  for (const unsigned size : {1u, 2u, 4u}) plan.first_table[size] = made->tables_.number(size, 0);
  std::size_t coordinate = 0;
  for (std::size_t group = 0; group < made->group_sizes_.size(); ++group) {
    for (unsigned i = 0; i < made->group_sizes_[group]; ++i) {
      made->group_of_[coordinate++] = made->group_contexts_[group];
    }
  }
  std::array<std::array<bool, 256>, 5> needed{};
  for (std::size_t group = 0; group < made->group_sizes_.size(); ++group) {
    needed[made->group_sizes_[group]][made->group_contexts_[group]] = true;
  }
  for (const unsigned size : {1u, 2u, 4u}) {
    for (unsigned context = 0; context < plan.contexts; ++context) {
      if (!needed[size][context]) continue;
      for (const std::int8_t more : made->class_contexts_) {
        made->tables_.make(size, static_cast<unsigned>(std::clamp<int>(static_cast<int>(context) + more, 0,
                                                                       static_cast<int>(plan.contexts) - 1)));
      }
    }
  }
  for (std::size_t own = 0; own < made->lengths_.size(); ++own) {
    for (std::size_t group = 0, first = 0; group < made->group_sizes_.size(); first += made->group_sizes_[group++]) {
      const unsigned context = made->context_of(first, own);
      made->bases_.push_back(static_cast<std::uint16_t>(made->tables_.number(made->group_sizes_[group], context)));
    }
  }
  return made;
}

// For each number of coordinates, three tables whose entries add up (exclusive or) to the state after them, and from
// bit 8 on the quantizers of the next four: by the low and the high four bits of the state, and by the parities.
void LevelCodec::set_steps() {
  steps_.assign(5 * 48, 0);
  const auto after = [&](unsigned state, unsigned parities, unsigned count) {
    for (unsigned i = 0; i < count; ++i) state = trellis_->next(state, parities >> i & 1);
    unsigned quantizers = 0;
    for (unsigned i = 0, later = state; i < 4; ++i) {
      quantizers |= (trellis_->bits == 0 ? 0 : later & 1) << i;
      later = trellis_->next(later, 0);
    }
    return state | quantizers << 8;
  };
  for (unsigned count = 1; count <= 4; ++count) {
    for (unsigned i = 0; i < 16; ++i) {
      const unsigned mask = trellis_->states() - 1;
      steps_[count * 48 + i] = after(i & mask, 0, count);
      steps_[count * 48 + 16 + i] = after(i << 4 & mask, 0, count);
      steps_[count * 48 + 32 + i] = after(0, i, count);
    }
  }
}

unsigned LevelCodec::context_of(std::size_t coordinate, std::size_t own) const {
  const int context = static_cast<int>(group_of_[coordinate]) + class_contexts_[own];
  return static_cast<unsigned>(std::clamp<int>(context, 0, static_cast<int>(tables_.contexts()) - 1));
}

float LevelCodec::number_bits(std::size_t number) const {
  return static_cast<float>(tail_bits) - std::log2(static_cast<float>(number_starts_[number] & 0xffff));
}

// Bytes from one copied block to the next.
std::uint32_t LevelCodec::stride() const { return longest_ + zeros_after; }

Damage LevelCodec::read(std::span<const std::uint8_t* const> blocks, std::span<const std::uint8_t> classes,
                        const std::uint8_t* end, ReadBlocks* found) const {
  const std::size_t count = blocks.size();
  found->lane_bits = count <= few_blocks ? 0 : 4;
  found->large.clear();
  const std::size_t side = found->lanes(), whole = (count + side - 1) / side * side;
  const auto grow = [](auto* memory, std::size_t size) {
    if (memory->size() < size) memory->resize(size);
  };
  grow(&found->levels, whole * plan_.rows * plan_.width);
  grow(&found->numbers, centroids() != 0 ? whole * plan_.rows : 0);
  grow(&found->sides, whole);
  grow(&found->bytes, std::min(whole, most_lanes) * stride() + at_once);
  const std::size_t together = side == 1 ? 1 : most_lanes;
  for (std::size_t start = 0; start < count; start += together) {
    const std::size_t some = std::min(together, count - start);
    for (std::size_t i = 0; i < some; ++i) {
      const std::uint32_t length = lengths_[classes[start + i]];
      copy(blocks[start + i], length, end, found->bytes.data() + i * stride(), stride());
    }
    const Damage damage =
        together == 1 ? read_one(classes[start], start, found) : read_lanes(classes.subspan(start, some), start, found);
    if (damage != Damage::none) return damage;
  }
  std::sort(found->large.begin(), found->large.end(), [](const LargeLevel& one, const LargeLevel& other) {
    return one.block != other.block ? one.block < other.block : one.place < other.place;
  });
  for (const LargeLevel& level : found->large) {
    const std::size_t coordinate = level.place % plan_.width;
    found->levels[first(*found, level.block, level.place / plan_.width) + coordinate / 4 * 4 * side + coordinate % 4] =
        0;
  }
  return Damage::none;
}

// Up to 32 blocks side by side, in one or two batches of sixteen.
Damage LevelCodec::read_lanes(std::span<const std::uint8_t> classes, std::size_t first_block, ReadBlocks* found) const {
  const std::size_t count = classes.size(), batches = count > lanes ? 2 : 1;
  LaneBlocks blocks[2];
  for (std::size_t lane = 0; lane < batches * lanes; ++lane) {
    const std::size_t block = std::min(lane, count - 1);  // lanes without a block read the last one again
    if (lane != block)
      std::memcpy(found->bytes.data() + lane * stride(), found->bytes.data() + block * stride(), stride());
    blocks[lane / lanes].class_context[lane % lanes] = class_contexts_[classes[block]];
    blocks[lane / lanes].length[lane % lanes] = lengths_[classes[block]];
  }
  EscapeReader escapes{&tables_, values_, found->bytes.data(), stride(), first_block, count, &found->large};
  KDCODE_CHOSEN(levels_kernels)
      .read(&plan_, found->bytes.data(), stride(), blocks, batches,
            found->levels.data() + first_block * plan_.rows * plan_.width,
            found->numbers.data() + (centroids() != 0 ? first_block * plan_.rows : 0), EscapeReader::read, &escapes);
  for (std::size_t lane = 0; lane < count; ++lane) {
    const LaneBlocks& own = blocks[lane / lanes];
    const std::size_t i = lane % lanes;
    found->damaged = first_block + lane;
    if (escapes.damage[lane] != Damage::none) return escapes.damage[lane];
    if (own.is_damaged[i] != 0) return Damage::no_symbol;
    if (own.room[i] < 0) return Damage::too_long;
    found->sides[first_block + lane] = {std::min(static_cast<std::uint32_t>(own.room[i]), plan_.sides), own.above[i]};
  }
  return Damage::none;
}

Damage LevelCodec::read_one(std::size_t own, std::size_t block, ReadBlocks* found) const {
  found->damaged = block;
  Reader reader;
  reader.begin(found->bytes.data(), stride() - 4);
  const std::uint16_t* bases = bases_.data() + own * group_sizes_.size();
  std::uint32_t word = 0;
  std::int8_t* levels = found->levels.data() + block * plan_.rows * plan_.width;
  for (std::uint32_t row = 0; row < plan_.rows; ++row) {
    if (plan_.number_slots != nullptr) {
      const std::uint16_t number = number_slots_[reader.place_of(tail_bits)];
      found->numbers[block * plan_.rows + row] = number;
      reader.take(number_starts_[number] >> 16, number_starts_[number] & 0xffff, tail_bits);
    }
    std::size_t group = 0;
    for (std::uint32_t coordinate = 0; coordinate < plan_.dim; coordinate += 4) {
      const std::uint32_t count = std::min<std::uint32_t>(4, plan_.dim - coordinate);
      std::uint32_t quad = 0;
      for (std::uint32_t at = 0; at < count; ++group) {
        const unsigned size = group_sizes_[group], pattern = word >> (8 + at) & ((1u << size) - 1);
        const Order& order = orders[size][pattern];
        const std::size_t table = std::size_t{bases[group]} + order.ones;
        const std::uint32_t number = tables_.slots()[(table << main_bits) + reader.place_of(main_bits)];
        const Symbol& symbol = tables_.symbols()[(table << 8) + number];
        std::uint32_t tuple = symbol.values;
        reader.take(symbol.start(), symbol.frequency(), main_bits);
        if (number == escape_symbol) [[unlikely]] {
          const std::uint32_t place = row * plan_.width + coordinate + at;
          tuple = read_escaped(tables_, values_, size, tables_.context_of(size, bases[group]), order, &reader, block,
                               place, &found->large);
        }
        for (unsigned i = 0; i < size; ++i) quad |= (tuple >> (8 * i) & 255) << (8 * (at + order.at[i]));
        at += size;
      }
      const std::uint32_t odd = ((quad >> 1) ^ (quad & ~(quad >> 7))) & 0x01010101;  // parity_of each byte
      const std::uint32_t* steps = plan_.steps + count * 48;
      word = steps[word & 15] ^ steps[16 + (word >> 4 & 15)] ^ steps[32 + (odd * 0x01020408 >> 24 & 15)];
      std::memcpy(levels + std::size_t{row} * plan_.width + coordinate, &quad, 4);
    }
  }
  if (reader.damage != Damage::none) return reader.damage;
  const int room = room_of(reader.range, reader.place, lengths_[own]);
  if (room < 0) return Damage::too_long;
  const std::uint32_t sides = std::min(static_cast<std::uint32_t>(room), plan_.sides);
  found->sides[block] = {sides, std::min(reader.code / (reader.range >> sides), (1u << sides) - 1)};
  return Damage::none;
}

void LevelCodec::list(const std::int32_t* multiples, const std::uint16_t* numbers, std::size_t own,
                      std::vector<Op>* ops) const {
  ops->clear();
  unsigned state = 0;
  for (std::size_t row = 0; row < plan_.rows; ++row) {
    if (plan_.number_slots != nullptr) {
      const std::uint32_t entry = number_starts_[numbers[row]];
      ops->push_back({entry >> 16, entry & 0xffff, tail_bits});
    }
    const std::int32_t* from = multiples + row * dim_;
    std::size_t coordinate = 0;
    for (std::size_t group = 0; group < group_sizes_.size(); ++group) {
      const unsigned size = group_sizes_[group], context = context_of(coordinate, own);
      unsigned pattern = 0;
      for (unsigned i = 0; i < size; ++i) {
        pattern |= (trellis_->bits == 0 ? 0 : state & 1) << i;
        state = trellis_->next(state, parity_of(from[coordinate + i]));
      }
      const Order& order = orders[size][pattern];
      std::uint32_t tuple = 0;
      bool is_small = true;
      for (unsigned i = 0; i < size; ++i) {
        const std::int32_t multiple = from[coordinate + order.at[i]];
        is_small &= std::abs(multiple) <= largest_small;
        tuple |= static_cast<std::uint32_t>(multiple & 255) << (8 * i);
      }
      const std::size_t table = tables_.number(size, context) + order.ones;
      const Tail& tail = tables_.tail(size, context, order.ones);
      std::size_t found = 0;
      for (std::size_t at = hash_of(tuple); is_small && tail.places[at] != 0; at = (at + 1) % hash_places) {
        const std::size_t number = tail.places[at] - 1u;
        const std::uint32_t known =
            number < tail.mains ? tables_.symbols()[(table << 8) + number].values : tail.values[number - tail.mains];
        if (known == tuple) {
          found = number + 1;
          break;
        }
      }
      const std::size_t symbol = found != 0 && found <= tail.mains ? found - 1 : escape_symbol;
      const Symbol& entry = tables_.symbols()[(table << 8) + symbol];
      ops->push_back({entry.start(), entry.frequency(), main_bits});
      if (symbol == escape_symbol) {
        const std::size_t place = found != 0 ? found - 1 - tail.mains : tail.values.size();
        const std::uint32_t end = place + 1 < tail.starts.size() ? tail.starts[place + 1] : tail_total;
        ops->push_back({tail.starts[place], end - tail.starts[place], tail_bits});
        for (unsigned i = 0; found == 0 && i < size; ++i) {
          const unsigned quantizer = i >= size - order.ones;
          const Marginal& marginal = tables_.marginal(context, quantizer);
          const std::uint32_t value = value_of(from[coordinate + order.at[i]], quantizer);
          const std::size_t known = std::min<std::size_t>(value, marginal.escape());
          ops->push_back({marginal.starts[known], marginal.size(known), tail_bits});
          if (known < marginal.escape()) continue;
          const auto excess = static_cast<std::uint32_t>(value - known) + 1;
          const int bits = std::bit_width(excess) - 1;
          for (int bit = 0; bit <= bits; ++bit) ops->push_back({bit < bits, 1, 1});
          for (int bit = bits - 1; bit >= 0; --bit) ops->push_back({excess >> bit & 1, 1, 1});
        }
      }
      coordinate += size;
    }
  }
}

bool LevelCodec::is_lawful(const std::int32_t* multiples) const {
  unsigned state = 0;
  for (std::size_t i = 0; i < plan_.rows * dim_; ++i) {
    const std::int32_t multiple = multiples[i];
    if (i % dim_ >= active()) {
      if (multiple != 0) return false;
      continue;
    }
    const unsigned quantizer = trellis_->bits == 0 ? 0 : state & 1;
    const bool is_odd = (static_cast<std::uint32_t>(multiple) & 1) != 0;
    if (multiple < -largest_multiple || multiple > largest_multiple || code_value_of(multiple) >= values_) return false;
    if (multiple != 0 && (is_odd != (quantizer != 0) || (multiple < 0 && !tables_.has_signs()))) return false;
    state = trellis_->next(state, parity_of(multiple));
  }
  return true;
}

void LevelCodec::count(const std::int32_t* multiples, std::size_t own, std::size_t used, std::size_t magnitudes,
                       std::int64_t* counts) const {
  unsigned state = 0;
  for (std::size_t row = 0; row < std::min<std::size_t>(used, plan_.rows); ++row) {
    for (std::size_t i = 0; i < active(); ++i) {
      const std::int32_t multiple = multiples[row * dim_ + i];
      const unsigned quantizer = trellis_->bits == 0 ? 0 : state & 1;
      const auto magnitude = static_cast<std::size_t>(std::abs(magnitude_of(multiple, quantizer)));
      ++counts[(2 * context_of(i, own) + quantizer) * magnitudes + std::min(magnitude, magnitudes - 1)];
      state = trellis_->next(state, parity_of(multiple));
    }
  }
}

int LevelCodec::write(const std::int32_t* multiples, const std::uint16_t* numbers, std::size_t own, std::uint32_t above,
                      std::uint8_t* bytes) const {
  thread_local std::vector<Op> ops;
  thread_local std::vector<std::uint8_t> written;
  list(multiples, numbers, own, &ops);
  written.clear();
  std::uint32_t low = 0, range = whole_range;
  const auto carry = [&] {
    if (low < whole_range) return;
    low -= whole_range;
    for (std::size_t i = written.size(); i-- > 0 && ++written[i] == 0;) continue;
  };
  for (const Op& op : ops) {
    if (op.frequency == 0) return std::numeric_limits<int>::min();  // a level that the tables have not
    const std::uint32_t unit = range >> op.bits;
    low += unit * op.start;
    range = unit * op.frequency;
    carry();
    while (range < least_range) {
      written.push_back(static_cast<std::uint8_t>(low >> 16));
      low = low << 8 & (whole_range - 1);
      range <<= 8;
    }
  }
  const std::uint32_t length = lengths_[own], place = static_cast<std::uint32_t>(written.size()) + bytes_ahead;
  const int room = room_of(range, place, length);
  if (room < 0) return room;
  const unsigned count = std::min(static_cast<unsigned>(room), plan_.sides);
  const std::uint32_t unit = range >> count;
  low += unit * (above >> (most_sides - count));
  carry();
  // Of the numbers in the interval, the one whose bytes after the end of the block are zeros.
  const unsigned beyond = place > length ? 8 * (place - length) : 0;
  low = (low + ((1u << beyond) - 1)) >> beyond << beyond;
  carry();
  for (unsigned shift = 24; shift > 0; shift -= 8) written.push_back(static_cast<std::uint8_t>(low >> (shift - 8)));
  written.resize(length, 0);
  std::copy(written.begin(), written.end(), bytes);
  return static_cast<int>(count);
}

}  // namespace kdcode
