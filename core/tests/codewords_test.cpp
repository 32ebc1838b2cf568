#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "check.hpp"
#include "dispatch.hpp"
#include "lstm.hpp"
#include "scan.hpp"
#include "sums.hpp"

using namespace kdcode;

namespace {

// Numbers that look random, and are the same everywhere.
struct Draw {
  std::uint32_t state = 1;
  std::uint32_t next() { return state = state * 1664525u + 1013904223u, state >> 8; }
  float number() { return static_cast<float>(next() % 2001) / 1000.0f - 1.0f; }
};

// A tensor in one of the stored types. Buffers are exactly as long as they must be, so that sanitizers see any other
// access.
struct Tensor {
  Tensor(Draw& draw, Number type, std::size_t leading, std::size_t count) : number(type), each(count / leading) {
    for (std::size_t i = 0; i < leading; ++i) scales.push_back(0.5f + 0.25f * static_cast<float>(draw.next() % 3));
    for (std::size_t i = 0; i < count; ++i) {
      floats.push_back(draw.number());
      halves.push_back(static_cast<std::uint16_t>(draw.next() & 0xBFFF));  // up to 2, subnormal ones too
      bytes.push_back(static_cast<std::int8_t>(draw.next()));
    }
  }
  Weight weight() const {
    if (number == Number::float32) return {floats.data(), number, nullptr};
    if (number == Number::float16) return {halves.data(), number, scales.data()};
    return {bytes.data(), number, scales.data()};
  }
  double at(std::size_t place) const { return number_at(weight(), place / each, place); }

  Number number;
  std::size_t each;
  std::vector<float> scales, floats;
  std::vector<std::uint16_t> halves;
  std::vector<std::int8_t> bytes;
};

// A codec of some shape with random tensors, and rows of codes in bytes.
struct Made {
  Made(Number type, std::size_t own_length, std::size_t own_inner, std::size_t own_groups, std::size_t own_dim,
       bool scaled)
      : length(own_length),
        inner(own_inner),
        groups(own_groups),
        dim(own_dim),
        width((inner + groups - 1) / groups),
        codebook(draw, type, length, length * size * width),
        basis(draw, type, inner, inner * dim) {
    for (std::size_t i = 0; i < (scaled ? 4u : 0u); ++i) levels.push_back(0.5f + static_cast<float>(i));
    for (std::size_t i = 0; i < count * (length + scaled); ++i) {
      packed.push_back(static_cast<std::uint8_t>(draw.next() % (i % (length + scaled) < length ? size : 4)));
    }
  }
  Codewords codewords() const {
    const Weight none{nullptr, Number::float32, nullptr};
    return {size,          length,       width, inner, dim, codebook.weight(), dim == inner ? none : basis.weight(),
            levels.data(), levels.size()};
  }
  CodeRows rows() const {
    const unsigned level_bits = levels.empty() ? 0 : 8;
    return {packed.data(), count, length + (level_bits != 0), 8, level_bits, {}, 0};
  }
  // By the definition, in double.
  std::vector<double> expected(std::size_t row) const {
    const std::uint8_t* codes = packed.data() + row * rows().row_bytes;
    std::vector<double> sums(inner), vector(dim);
    for (std::size_t position = 0; position < length; ++position) {
      std::size_t group = 0;
      while (start_of(length, group + 1) <= position) ++group;
      const std::size_t first = start_of(inner, group), last = start_of(inner, group + 1);
      for (std::size_t i = first; i < last; ++i) {
        sums[i] += codebook.at((position * size + codes[position]) * width + i - first);
      }
    }
    for (std::size_t column = 0; column < dim; ++column) {
      vector[column] = dim == inner ? sums[column] : 0;
      for (std::size_t i = 0; dim != inner && i < inner; ++i) vector[column] += sums[i] * basis.at(i * dim + column);
      if (!levels.empty()) vector[column] *= levels[codes[length]];
    }
    return vector;
  }
  std::size_t start_of(std::size_t whole, std::size_t group) const {
    return whole / groups * group + std::min(group, whole % groups);
  }

  static constexpr std::size_t size = 5, count = 50;
  Draw draw;
  std::size_t length, inner, groups, dim, width;
  Tensor codebook, basis;
  std::vector<float> levels;
  std::vector<std::uint8_t> packed;
};

bool near(double found, double expected, double size) {
  return std::abs(found - expected) <= 1e-5 * (size + std::abs(expected));
}

// The vectors of all rows, asked for backwards.
std::vector<float> decoded(const CodewordCodec& codec, const CodeRows& rows) {
  const std::size_t dim = codec.codewords().embedding_dim;
  std::vector<std::int64_t> numbers;
  for (std::size_t i = rows.count; i-- > 0;) numbers.push_back(static_cast<std::int64_t>(i));
  std::vector<float> vectors(rows.count * dim);
  const Reached reached = codec.decode(rows, {numbers.data(), rows.count, 0, -1, true}, vectors.data());
  CHECK(reached.why == Stop::none && reached.place == rows.count);
  return vectors;
}

constexpr Number types[] = {Number::float32, Number::float16, Number::int8};

}  // namespace

TEST(sums_are_those_of_the_definition) {
  for (const Number type : types) {
    for (const std::size_t inner : {1u, 3u, 5u, 8u, 15u, 16u, 17u, 31u, 33u, 64u, 100u, 130u}) {
      for (const std::size_t groups : {std::size_t{1}, std::size_t{3}, std::size_t{7}}) {
        for (const std::size_t dim : {inner, std::size_t{2}, std::size_t{37}}) {
          if (groups > inner) continue;
          const Made made(type, 7, inner, groups, dim, inner % 2 == 1);
          const auto sums = Sums::make(made.codewords(), groups);
          CHECK(sums != nullptr && rows_are_valid(made.rows(), sums->code_shape()));
          const std::vector<float> vectors = decoded(*sums, made.rows());
          for (std::size_t row = 0; row < Made::count; ++row) {
            const std::vector<double> expected = made.expected(Made::count - 1 - row);
            const double scale = (type == Number::int8 ? 128.0 * 128 : 2) * static_cast<double>(made.length * inner);
            for (std::size_t i = 0; i < dim; ++i) CHECK(near(vectors[row * dim + i], expected[i], 0.1 * scale));
          }
        }
      }
    }
  }
}

TEST(vectors_are_equal_to_the_bit_on_all_instruction_sets) {
  const Isa before = isa();
  for (const Number type : types) {
    for (const std::size_t inner : {7u, 40u, 100u}) {
      for (const std::size_t groups : {1u, 7u}) {
        const Made made(type, 7, inner, groups, inner == 40 ? 33 : inner, true);
        const auto sums = Sums::make(made.codewords(), groups);
        use_isa(Isa::plain);
        const std::vector<float> plain = decoded(*sums, made.rows());
        use_isa(before);
        const std::vector<float> other = decoded(*sums, made.rows());
        CHECK(std::memcmp(plain.data(), other.data(), plain.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST(scales_that_change_later_count) {
  Made made(Number::int8, 6, 40, 1, 40, false);
  const auto sums = Sums::make(made.codewords(), 1);
  for (const std::size_t position : {1u, 4u}) made.codebook.scales[position] *= 1.37f;
  const std::vector<float> vectors = decoded(*sums, made.rows());
  const std::vector<double> expected = made.expected(Made::count - 1);
  for (std::size_t i = 0; i < 40; ++i) CHECK(near(vectors[i], expected[i], 100));
}

TEST(sums_of_256_positions_have_room_in_16_bits) {
  constexpr std::size_t length = 256, dim = 40;
  const std::vector<std::int8_t> words(length * dim, -128);
  const std::vector<float> scales(length, 2.0f);
  const auto sums =
      Sums::make({1, length, dim, dim, dim, {words.data(), Number::int8, scales.data()}, {}, nullptr, 0}, 1);
  const std::vector<std::uint8_t> packed(length);
  for (const float number : decoded(*sums, {packed.data(), 1, length, 8, 0, {}, 0})) CHECK(number == -65536.0f);
}

TEST(numbers_that_leave_float32_on_the_way_are_computed_in_double) {
  const std::vector<float> words{3e38f, 1, 3e38f, 2, -3e38f, 4, 0, 0};  // of positions with one codeword, and a fourth
  const auto sums = Sums::make({1, 4, 2, 2, 2, {words.data(), Number::float32, nullptr}, {}, nullptr, 0}, 1);
  const std::vector<std::uint8_t> packed(4);
  const std::vector<float> vector = decoded(*sums, {packed.data(), 1, 4, 8, 0, {}, 0});
  CHECK(vector[0] == 3e38f && vector[1] == 7);

  const auto large = Sums::make({1, 2, 2, 2, 2, {words.data(), Number::float32, nullptr}, {}, nullptr, 0}, 1);
  const std::int64_t numbers[] = {0, 0};
  float found[4] = {};
  const CodeRows rows{packed.data(), 1, 2, 8, 0, {}, 0};
  CHECK(large->decode(rows, {numbers, 2, 1, -1, true}, found).why == Stop::too_large);
  CHECK(large->decode(rows, {numbers, 2, 0, -1, false}, found).place == 2 && std::isinf(found[2]) && found[3] == 3);
  CHECK(large->decode(rows, {numbers, 2, 0, 0, true}, found).place == 2 && found[2] == 0);  // the row of zeros
}

TEST(rows_codes_and_blocks_are_checked) {
  const Made made(Number::float32, 3, 4, 1, 4, true);
  const auto sums = Sums::make(made.codewords(), 1);
  std::vector<float> vectors(12);
  for (const std::int64_t wrong :
       {std::int64_t{-1}, std::int64_t{50}, std::int64_t{1} << 62, -(std::int64_t{1} << 62)}) {
    const std::int64_t numbers[] = {3, wrong, 4};
    const Reached reached = sums->decode(made.rows(), {numbers, 3, 0, -1, true}, vectors.data());
    CHECK(reached.place == 1 && reached.why == Stop::no_row);
  }
  const std::int64_t numbers[] = {0, 1, 2};
  for (const std::size_t place : {4u, 7u}) {  // a code, and a level
    std::vector<std::uint8_t> packed = made.packed;
    packed[place] = 5;
    CodeRows rows = made.rows();
    rows.bytes = packed.data();
    const Reached reached = sums->decode(rows, {numbers, 3, 0, -1, true}, vectors.data());
    CHECK(reached.place == 1 && reached.why == Stop::no_code);
  }
  const std::uint8_t good[] = {1, 0};
  CodeRows rows = made.rows();
  rows.pieces = {good, 2},
  rows.file_start = FilePieces::piece_bytes - 7;  // the second row lies in both blocks
  CHECK(rows_are_valid(rows, sums->code_shape()));
  const Reached reached = sums->decode(rows, {numbers, 3, 0, -1, true}, vectors.data());
  CHECK(reached.place == 1 && reached.why == Stop::unchecked);
  rows.pieces.count = 1;
  CHECK(!rows_are_valid(rows, sums->code_shape()));
  rows = made.rows();
  rows.row_bytes = 5;
  CHECK(!rows_are_valid(rows, sums->code_shape()));
  rows = made.rows();
  rows.position_bits = 33;
  CHECK(!rows_are_valid(rows, sums->code_shape()));
}

TEST(codes_of_every_number_of_bits) {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    const std::size_t size = bits < 16 ? std::size_t{1} << bits : 65536, length = 5;
    Draw draw;
    std::vector<std::uint32_t> values;
    for (std::size_t i = 0; i < 3 * length; ++i) values.push_back(static_cast<std::uint32_t>(draw.next() % size));
    const std::size_t row_bytes = (length * bits + 7) / 8;
    std::vector<std::uint8_t> packed(3 * row_bytes);
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t bit = 0; bit < length * bits; ++bit) {
        const std::uint32_t value = values[row * length + bit / bits];
        packed[row * row_bytes + bit / 8] |= static_cast<std::uint8_t>((value >> bit % bits & 1) << bit % 8);
      }
    }
    const CodeRows rows{packed.data(), 3, row_bytes, bits, 0, {}, 0};
    std::uint32_t codes[6];
    for (std::size_t row = 0; row < 3; ++row) {
      CHECK(read_codes(rows, {length, size, 0}, nullptr, row, 1, 1, codes).why == Stop::none);
      for (std::size_t i = 0; i < length; ++i) CHECK(codes[i] == values[row * length + i]);
    }
  }
}

TEST(the_lstm_is_that_of_the_definition) {
  for (const Number type : types) {
    for (const std::size_t inner : {1u, 7u, 16u, 35u}) {
      const Made made(type == Number::int8 ? Number::float16 : type, 4, inner, 1, inner + 3, false);
      Draw draw;
      const Tensor recurrent(draw, Number::float32, 4, 4 * inner * inner), bias(draw, Number::float32, 4, 4 * inner);
      const auto lstm = Lstm::make(made.codewords(), recurrent.weight(), bias.weight());
      const std::vector<float> vectors = decoded(*lstm, made.rows());
      for (std::size_t row = 0; row < Made::count; ++row) {
        const std::uint8_t* codes = made.packed.data() + (Made::count - 1 - row) * 4;
        std::vector<double> hidden(inner), memory(inner), total(inner);
        for (std::size_t position = 0; position < 4; ++position) {
          const std::vector<double> last = hidden;
          for (std::size_t i = 0; i < inner; ++i) {
            double gate[4];
            for (std::size_t g = 0; g < 4; ++g) {
              gate[g] =
                  made.codebook.at((position * Made::size + codes[position]) * inner + i) + bias.at(g * inner + i);
              for (std::size_t j = 0; j < inner; ++j) gate[g] += recurrent.at((g * inner + i) * inner + j) * last[j];
              if (g < 3) gate[g] = 1 / (1 + std::exp(-gate[g]));
            }
            memory[i] = gate[0] * memory[i] + gate[1] * std::tanh(gate[3]);
            hidden[i] = gate[2] * std::tanh(memory[i]);
            total[i] += hidden[i];
          }
        }
        for (std::size_t column = 0; column < made.dim; ++column) {
          double expected = 0;
          for (std::size_t i = 0; i < inner; ++i) expected += total[i] * made.basis.at(i * made.dim + column);
          CHECK(near(vectors[row * made.dim + column], expected, static_cast<double>(inner)));
        }
      }
    }
  }
}

TEST(gates_that_leave_float32_on_the_way_are_computed_in_double) {
  // After the first position all four hidden numbers are equal, and their products with a row of the matrix add up to
  // zero, by way of infinity.
  std::vector<float> words(16), recurrent(256), basis(8);
  for (std::size_t i = 0; i < 256; ++i) recurrent[i] = i % 8 < 4 ? 3e38f : -3e38f;
  std::fill_n(words.begin(), 8, 1.0f);
  basis[0] = 1;
  const std::vector<float> bias(32);
  const Weight word{words.data(), Number::float32, nullptr}, matrix{basis.data(), Number::float32, nullptr};
  const auto lstm = Lstm::make({1, 2, 8, 8, 1, word, matrix, nullptr, 0}, {recurrent.data(), Number::float32, nullptr},
                               {bias.data(), Number::float32, nullptr});
  const std::uint8_t packed[] = {0, 0};
  const double gate = 1 / (1 + std::exp(-1.0)), memory = gate * std::tanh(1.0), hidden = gate * std::tanh(memory);
  const float found = decoded(*lstm, {packed, 1, 2, 8, 0, {}, 0})[0];
  CHECK(near(found, hidden + 0.5 * std::tanh(0.5 * memory), 0));
}

TEST(a_scan_keeps_the_rows_above_the_floor_and_stops_where_there_is_no_room) {
  constexpr std::size_t count = 2000, length = 6, size = 256;
  Draw draw;
  std::vector<std::uint8_t> packed(count * length);
  for (auto& byte : packed) byte = static_cast<std::uint8_t>(draw.next());
  std::vector<float> tables(2 * length * size), factors(count), offsets(count);
  for (auto* numbers : {&tables, &factors, &offsets}) {
    for (float& number : *numbers) number = 1 + draw.number();
  }
  const float slack[] = {0.5f, 0}, floors[] = {9, 12};
  constexpr std::size_t room = 600;
  std::vector<std::int64_t> found(2 * room), counts(2);
  std::vector<float> lows(2 * room), highs(2 * room);
  const Scan scan{2,       tables.data(), slack,        factors.data(), offsets.data(), floors,
                  nullptr, room,          found.data(), lows.data(),    highs.data(),   counts.data()};
  std::size_t reached = 0, expected[2] = {};
  while (reached < count) {
    const std::size_t before = reached;
    reached = scan_rows({packed.data(), count, length, 8, 0, {}, 0}, {length, size, 0}, scan, reached, count).place;
    CHECK(reached > before);
    for (std::size_t query = 0; query < 2; ++query) {
      std::size_t kept = 0;
      for (std::size_t row = before; row < reached; ++row) {
        double sum = 0;
        for (std::size_t i = 0; i < length; ++i) {
          sum += tables[(query * length + i) * size + packed[row * length + i]];
        }
        const double score = sum * factors[row] + offsets[row], most = score + slack[query] * factors[row];
        if (std::abs(most - floors[query]) < 1e-5) continue;
        if (most > floors[query]) {
          CHECK(kept < room && found[query * room + kept] == static_cast<std::int64_t>(row));
          CHECK(near(lows[query * room + kept], score - slack[query] * factors[row], 1));
          CHECK(near(highs[query * room + kept++], most, 1));
        }
      }
      CHECK(static_cast<std::int64_t>(kept) == counts[query]);
      expected[query] += kept;
      counts[query] = 0;
    }
  }
  CHECK(expected[0] > room && expected[1] > 0 && expected[1] < count);
}
