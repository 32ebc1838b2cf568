#include "levels.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "check.hpp"

using namespace kdcode;

namespace {

using Random = std::minstd_rand;

unsigned below(Random* random, unsigned end) { return static_cast<unsigned>((*random)() % end); }

// A codec of random tables, with the arrays that it is made of.
struct Made {
  std::vector<std::uint8_t> group_sizes, group_contexts, weights;
  std::vector<std::uint32_t> lengths;
  std::vector<std::int8_t> class_contexts;
  std::vector<std::uint16_t> magnitudes, frequencies;
  std::size_t active = 0;
  unsigned states = 1;
  bool has_signs = true;
  std::unique_ptr<LevelCodec> codec;
};

Made make(Random* random, std::size_t dim, std::size_t rows, unsigned states) {
  Made made;
  made.states = states, made.has_signs = below(random, 4) != 0;
  const unsigned contexts = 1 + below(random, 5);
  while (made.active < dim) {
    const unsigned sizes[3] = {1, 2, 4}, size = sizes[below(random, 3)];
    if (made.active % 4 + size > 4 || made.active + size > dim) continue;
    made.group_sizes.push_back(static_cast<std::uint8_t>(size));
    made.group_contexts.push_back(static_cast<std::uint8_t>(below(random, contexts)));
    made.active += size;
    if (below(random, 20) == 0) break;  // coordinates from here on have no levels
  }
  for (unsigned table = 0; table < 2 * contexts; ++table) {
    const unsigned most = below(random, 3) == 0 ? below(random, 120) : below(random, 6);
    const unsigned fall = 1 + below(random, 60);
    made.magnitudes.push_back(static_cast<std::uint16_t>(most));
    for (unsigned k = 0; k <= most; ++k) {
      made.weights.push_back(static_cast<std::uint8_t>(255 - std::min(255u, k * fall / 4)));
    }
    made.weights.push_back(static_cast<std::uint8_t>(below(random, 256)));
  }
  const auto most = static_cast<std::uint32_t>(8 * rows * dim + 64);
  for (unsigned own = 0; own < 4; ++own) {
    made.lengths.push_back(own == 0 ? most : below(random, most));
    made.class_contexts.push_back(static_cast<std::int8_t>(static_cast<int>(below(random, 7)) - 3));
  }
  if (below(random, 2) != 0) {
    made.frequencies.assign(1 + below(random, 50), 3);
    made.frequencies.back() = static_cast<std::uint16_t>(32768 - 3 * (made.frequencies.size() - 1));
  }
  LevelShape shape;
  shape.dim = dim, shape.rows = rows, shape.states = states, shape.has_signs = made.has_signs;
  shape.group_sizes = made.group_sizes, shape.group_contexts = made.group_contexts;
  shape.lengths = made.lengths, shape.class_contexts = made.class_contexts;
  shape.magnitudes = made.magnitudes, shape.weights = made.weights;
  shape.centroid_frequencies = made.frequencies;
  const char* why = "";
  made.codec = LevelCodec::make(shape, &why);
  if (!made.codec) std::printf("%s\n", why);
  return made;
}

// Multiples of a block along the trellis; some are large.
std::vector<std::int32_t> any_multiples(const Made& made, Random* random) {
  const LevelCodec& codec = *made.codec;
  std::vector<std::int32_t> found(codec.rows() * codec.dim(), 0);
  unsigned state = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i % codec.dim() >= made.active) continue;
    const int quantizer = made.states == 1 ? 0 : static_cast<int>(state & 1);
    const int large[4] = {50, 127, 400, 16000};
    int magnitude = static_cast<int>(below(random, 4));
    if (below(random, 40) == 0)
      magnitude = static_cast<int>(below(random, static_cast<unsigned>(large[below(random, 4)])));
    int multiple = magnitude == 0 ? 0 : 2 * magnitude - quantizer;
    CHECK(parity_of(multiple) == static_cast<unsigned>(magnitude & 1));
    CHECK(magnitude_of(multiple, static_cast<unsigned>(quantizer)) == magnitude);
    if (made.has_signs && below(random, 2) != 0) multiple = -multiple;
    CHECK(parity_of(multiple) == static_cast<unsigned>(magnitude & 1));
    found[i] = multiple;
    state = codec.trellis().next(state, parity_of(multiple));
  }
  return found;
}

// What blocks were read to: multiples, centroids and sides, or which of them is damaged.
struct Read {
  Damage damage = Damage::none;
  std::size_t at = 0;
  std::vector<std::int32_t> multiples;
  std::vector<std::uint16_t> numbers;
  std::vector<Sides> sides;
};

Read read(const LevelCodec& codec, const std::vector<std::vector<std::uint8_t>>& blocks,
          const std::vector<std::uint8_t>& classes) {
  std::vector<const std::uint8_t*> begins;
  for (const auto& block : blocks) begins.push_back(block.data());
  const std::size_t rows = codec.rows(), width = codec.width();
  ReadBlocks own;
  Read found;
  found.damage = codec.read(begins, classes, nullptr, &own);
  found.at = own.damaged;
  if (found.damage != Damage::none) return found;
  own.numbers.resize(codec.centroids() != 0 ? blocks.size() * rows : 0);
  own.sides.resize(blocks.size());
  found.numbers = own.numbers, found.sides = own.sides;
  for (std::size_t i = 0; i < blocks.size() * rows * width; ++i) {
    const std::size_t four = codec.first(own, i / width / rows, i / width % rows) + i % width / 4 * 4 * own.lanes();
    found.multiples.push_back(own.levels[four + i % 4]);
  }
  for (const LargeLevel& level : own.large) {
    const std::size_t place = level.block * rows * width + level.place;
    CHECK(place < found.multiples.size());
    CHECK(found.multiples[place] == 0);
    found.multiples[place] = level.multiple;
  }
  return found;
}

constexpr unsigned all_states[5] = {1, 32, 64, 128, 256};

}  // namespace

TEST(levels_are_read_as_they_were_written) {
  Random random(1);
  unsigned fitting = 0, tried = 0;
  for (int turn = 0; turn < 60; ++turn) {
    const Made made =
        make(&random, 1 + below(&random, 40), turn % 3 == 0 ? 1 + below(&random, 9) : 1, all_states[below(&random, 5)]);
    CHECK(made.codec != nullptr);
    if (!made.codec) return;
    const LevelCodec& codec = *made.codec;
    std::vector<std::vector<std::uint8_t>> blocks;
    std::vector<std::uint8_t> classes;
    std::vector<std::int32_t> multiples;
    std::vector<std::uint16_t> numbers;
    std::vector<Sides> sides;
    const unsigned count = 1 + below(&random, 40);
    for (unsigned i = 0; i < count; ++i, ++tried) {
      const auto own = static_cast<std::uint8_t>(below(&random, 4));
      const auto levels = any_multiples(made, &random);
      CHECK(codec.is_lawful(levels.data()));
      std::vector<std::uint16_t> named(codec.rows());
      for (auto& number : named) {
        number =
            static_cast<std::uint16_t>(below(&random, std::max<unsigned>(1, static_cast<unsigned>(codec.centroids()))));
      }
      std::vector<std::uint8_t> bytes(codec.length(own));
      const std::uint32_t above = below(&random, 1u << most_sides);
      const int room = codec.write(levels.data(), named.data(), own, above, bytes.data());
      if (room < 0) continue;
      ++fitting;
      blocks.push_back(bytes), classes.push_back(own);
      sides.push_back({static_cast<std::uint32_t>(room), above >> (most_sides - static_cast<unsigned>(room))});
      for (std::size_t row = 0; row < codec.rows(); ++row) {
        for (std::size_t k = 0; k < codec.width(); ++k) {
          multiples.push_back(k < codec.dim() ? levels[row * codec.dim() + k] : 0);
        }
      }
      if (codec.centroids() != 0) numbers.insert(numbers.end(), named.begin(), named.end());
    }
    const Read found = read(codec, blocks, classes);
    CHECK(found.damage == Damage::none);
    CHECK(found.multiples == multiples);
    CHECK(found.numbers == numbers);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      CHECK(found.sides[i].count == sides[i].count && found.sides[i].above == sides[i].above);
    }
  }
  CHECK(fitting > tried / 3);
}

TEST(any_bytes_are_read_alike_alone_and_together) {
  Random random(2);
  unsigned good = 0, damaged = 0;
  for (int turn = 0; turn < 150; ++turn) {
    const Made made = make(&random, 1 + below(&random, 30), 1 + below(&random, 8), all_states[below(&random, 5)]);
    if (!made.codec) return;
    const LevelCodec& codec = *made.codec;
    std::vector<std::vector<std::uint8_t>> blocks;
    std::vector<std::uint8_t> classes;
    for (unsigned i = 0; i < 20; ++i) {
      const auto own = static_cast<std::uint8_t>(below(&random, 4));
      std::vector<std::uint8_t> bytes(codec.length(own));
      const unsigned kind = below(&random, 3);
      for (auto& byte : bytes) {
        byte = static_cast<std::uint8_t>(kind == 0                ? below(&random, 256)
                                         : below(&random, 6) != 0 ? 255
                                                                  : below(&random, 256));
      }
      blocks.push_back(bytes), classes.push_back(own);
    }
    std::vector<std::vector<std::uint8_t>> lawful;
    std::vector<std::uint8_t> lawful_classes;
    std::vector<std::int32_t> multiples;
    std::size_t first = blocks.size();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const Read alone = read(codec, {blocks[i]}, {classes[i]});
      (alone.damage == Damage::none ? good : damaged) += 1;
      if (alone.damage != Damage::none) {
        first = std::min(first, i);
        continue;
      }
      lawful.push_back(blocks[i]), lawful_classes.push_back(classes[i]);
      multiples.insert(multiples.end(), alone.multiples.begin(), alone.multiples.end());
    }
    const Read together = read(codec, blocks, classes);
    CHECK((together.damage != Damage::none) == (first < blocks.size()));
    if (first < blocks.size()) CHECK(together.at == first);
    if (!lawful.empty()) CHECK(read(codec, lawful, lawful_classes).multiples == multiples);
  }
  CHECK(good > 300 && damaged > 300);
}

TEST(tables_of_levels_add_up) {
  Random random(3);
  for (int turn = 0; turn < 30; ++turn) {
    LevelTables tables;
    const bool has_signs = below(&random, 3) != 0;
    std::vector<std::uint16_t> magnitudes;
    std::vector<std::uint8_t> weights;
    for (int table = 0; table < 2; ++table) {
      const unsigned most = turn == 0 ? 2047 : below(&random, 8);
      magnitudes.push_back(static_cast<std::uint16_t>(most));
      for (unsigned k = 0; k < most + 2; ++k) weights.push_back(static_cast<std::uint8_t>(below(&random, 256)));
    }
    CHECK(tables.set(magnitudes, weights, has_signs));
    CHECK(!tables.set(magnitudes, std::span(weights).first(weights.size() - 1), has_signs));
    CHECK(tables.set(magnitudes, weights, has_signs));
    for (unsigned quantizer = 0; quantizer < 2; ++quantizer) {
      CHECK(tables.marginal(0, quantizer).starts.back() == tail_total);
      for (const auto value : tables.marginal(0, quantizer).order)
        CHECK(tables.marginal(0, quantizer).size(value) != 0);
    }
    for (const unsigned size : {1u, 2u, 4u}) {
      CHECK(tables.make(size, 0));
      for (unsigned ones = 0; ones <= size; ++ones) {
        const std::size_t table = tables.number(size, 0) + ones;
        const std::uint8_t* slots = tables.slots() + table * main_total;
        std::uint32_t start = 0;
        while (start < main_total) {
          const std::uint8_t symbol = slots[start];
          const std::uint32_t frequency = tables.symbols()[table * 256 + symbol].frequency();
          CHECK(tables.symbols()[table * 256 + symbol].start() == start);
          CHECK(frequency != 0 && slots[start] == slots[start + frequency - 1]);
          start += frequency;
          CHECK((start == main_total) == (symbol == escape_symbol));
        }
        CHECK(start == main_total);
        const Tail& tail = tables.tail(size, 0, ones);
        CHECK(tail.starts.size() == tail.values.size() + 1 && tail.starts.front() == 0);
        CHECK(std::is_sorted(tail.starts.begin(), tail.starts.end()));
        CHECK(std::adjacent_find(tail.starts.begin(), tail.starts.end()) == tail.starts.end());
      }
    }
  }
}

TEST(shapes_that_cannot_be_are_refused) {
  const std::vector<std::uint8_t> weights{255, 100, 255, 100};
  const std::vector<std::uint16_t> magnitudes{0, 0};
  const auto refused = [&](const std::vector<std::uint8_t>& sizes, unsigned states, std::uint32_t length,
                           const std::vector<std::uint16_t>& frequencies, std::uint8_t context) {
    const std::vector<std::uint8_t> contexts(sizes.size(), context);
    const std::vector<std::uint32_t> lengths{length};
    const std::vector<std::int8_t> class_contexts{0};
    LevelShape shape;
    shape.dim = 8, shape.states = states, shape.group_sizes = sizes, shape.group_contexts = contexts;
    shape.lengths = lengths, shape.class_contexts = class_contexts, shape.magnitudes = magnitudes;
    shape.weights = weights, shape.centroid_frequencies = frequencies;
    const char* why = nullptr;
    return LevelCodec::make(shape, &why) == nullptr && why != nullptr;
  };
  CHECK(!refused({4, 2, 2}, 64, 10, {}, 0));
  CHECK(refused({4, 2, 4}, 64, 10, {}, 0));
  CHECK(refused({1, 4}, 64, 10, {}, 0));
  CHECK(refused({3, 1}, 64, 10, {}, 0));
  CHECK(refused({4, 4, 1}, 64, 10, {}, 0));
  CHECK(refused({4}, 8, 10, {}, 0));
  CHECK(refused({4}, 64, 129, {}, 0));
  CHECK(refused({4}, 64, 10, {}, 1));
  CHECK(!refused({4}, 64, 10, {32768}, 0));
  CHECK(refused({4}, 64, 10, {32767}, 0));
  CHECK(refused({4}, 64, 10, {32768, 0}, 0));
}
