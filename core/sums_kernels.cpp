#include "sums_kernels.hpp"

#include "columns.hpp"

namespace kdcode {
namespace {

// How much of a product of matrices is kept in registers, of which there are 32 or 16.
#if defined(__AVX512F__) || defined(KDCODE_ARM64)
constexpr std::size_t tile_rows = 6, tile_vectors = 4;
#else
constexpr std::size_t tile_rows = 4, tile_vectors = 2;
#endif

// As many as a vector has where fewer may be read; zeros after them.
template <class Word>
KDCODE_COLUMN Floats first_numbers_at(const Word* from, std::size_t count) {
  Word numbers[lanes] = {};
  __builtin_memcpy(numbers, from, count * sizeof(Word));
  return numbers_at(numbers);
}

// Calls step<n>(column) until n vectors from each column on have covered `width` columns, at least one vector. The last
// one may overlap those before, which gives the same numbers again.
template <std::size_t most, std::size_t wide, class Step>
KDCODE_COLUMN void in_columns(std::size_t width, Step step) {
  std::size_t column = 0;
  const auto full = [&]<std::size_t count>() {
    for (; width - column >= count * wide; column += count * wide) step.template operator()<count>(column);
  };
  full.template operator()<most>();
  if constexpr (most > 2) full.template operator()<2>();
  if constexpr (most > 1) full.template operator()<1>();
  if (column < width) step.template operator()<1>(width - wide);
}

// Writes the sum of scale · word over the positions of a block, for a row of codes.
template <class Word>
KDCODE_COLUMN void add_block(const SumsJob& job, const Block& block, const std::uint32_t* codes, float* out) {
  in_columns<4, lanes>(block.width, [&]<std::size_t count>(std::size_t column) __attribute__((always_inline)) {
    const Word* words = static_cast<const Word*>(job.words) + block.first * job.size * job.dim + column;
    Floats total[count] = {};
    for (std::size_t position = block.first; position < block.last; ++position, words += job.size * job.dim) {
      const Word* word = words + codes[position] * job.dim;
      const Floats scale = all_of(job.scales[position]);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < count; ++i) total[i] += scale * numbers_at(word + lanes * i);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < count; ++i) put(out + column + lanes * i, total[i]);
  });
}

// The same for a block of fewer columns than a vector has. A whole vector is read and written where there is room: what
// is too much is written over by the next block. `room` is how many numbers there are in `out`.
template <class Word>
KDCODE_COLUMN void add_narrow(const SumsJob& job, const Block& block, const std::uint32_t* codes, float* out,
                              std::size_t room) {
  const std::size_t step = job.size * job.dim;
  const Word* words = static_cast<const Word*>(job.words) + block.first * step;
  std::size_t left = (job.length - block.first) * step;  // numbers from `words` on
  Floats total = {};
  for (std::size_t position = block.first; position < block.last; ++position, words += step, left -= step) {
    const std::size_t start = codes[position] * job.dim;
    const bool is_last = left - start < lanes;
    total += all_of(job.scales[position]) *
             (is_last ? first_numbers_at(words + start, left - start) : numbers_at(words + start));
  }
  if (room >= lanes) return put(out, total);
  for (std::size_t i = 0; i < block.width; ++i) out[i] = total[i];
}

// Sums of int8 codewords as 16-bit integers, which have room for them: see Sums.
KDCODE_COLUMN void add_integers(const SumsJob& job, const Block& block, const std::uint32_t* codes, float* out) {
  const float unit = job.scales[block.first] / static_cast<float>(job.multipliers[block.first]);
  in_columns<4, 2 * lanes>(block.width, [&]<std::size_t count>(std::size_t column) __attribute__((always_inline)) {
    const std::int8_t* words = static_cast<const std::int8_t*>(job.words) + block.first * job.size * job.dim + column;
    Shorts total[count] = {};
    for (std::size_t position = block.first; position < block.last; ++position, words += job.size * job.dim) {
      const std::int8_t* word = words + codes[position] * job.dim;
      const Shorts multiplier = static_cast<std::uint16_t>(job.multipliers[position]) - Shorts{};
#pragma GCC unroll 4
      for (std::size_t i = 0; i < count; ++i) total[i] += multiplier * shorts_at(word + 2 * lanes * i);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < count; ++i) put(out + column + 2 * lanes * i, total[i], unit);
  });
}

// Narrow blocks of one position each, as those of most product codes: `add_narrow` without what is rarely needed.
template <class Word>
KDCODE_COLUMN void put_side_by_side(const SumsJob& job, const std::uint32_t* codes, float* out, std::size_t room) {
  // What is read more than once is copied, since `out` might overlap it for all that a compiler knows.
  const std::size_t dim = job.dim, step = job.size * dim, length = job.length;
  const Block* blocks = job.blocks;
  const float* scales = job.scales;
  const Word* words = static_cast<const Word*>(job.words);
  std::size_t left = length * step, column = 0;
  for (std::size_t position = 0; position < length; ++position, words += step, left -= step) {
    if (left >= step + lanes && room >= column + lanes) {  // there is room, whatever the code
      put(out + column, all_of(scales[position]) * numbers_at(words + codes[position] * dim));
    } else {
      add_narrow<Word>(job, blocks[position], codes, out + column, room - column);
    }
    column += blocks[position].width;
  }
}

template <class Word>
void add_rows(const SumsJob& job) {
  const std::size_t numbers = job.rows * job.width;
  for (std::size_t row = 0; row < job.rows; ++row) {
    const std::uint32_t* codes = job.codes + row * (job.length + 1);
    if (job.groups == job.length && job.dim < lanes) {
      put_side_by_side<Word>(job, codes, job.out + row * job.width, numbers - row * job.width);
      continue;
    }
    for (std::size_t group = 0; group < job.groups; ++group) {
      const Block& block = job.blocks[group];
      const std::size_t place = row * job.width + block.start;
      if (block.width < lanes) {
        add_narrow<Word>(job, block, codes, job.out + place, numbers - place);
      } else if (sizeof(Word) == 1 && job.multipliers != nullptr && block.width >= 2 * lanes) {
        add_integers(job, block, codes, job.out + place);
      } else {
        add_block<Word>(job, block, codes, job.out + place);
      }
    }
  }
}

void add(const SumsJob& job) {
  if (job.number == Number::float32) return add_rows<float>(job);
  if (job.number == Number::float16) return add_rows<Half>(job);
  add_rows<std::int8_t>(job);
}

// Writes some rows and vectors of columns of a product: each number is a sum over `inner`, in order.
template <std::size_t rows, std::size_t vectors, class Word>
KDCODE_COLUMN void multiply_tile(const ProductJob& job, std::size_t row, std::size_t column) {
  Floats total[rows][vectors] = {};
  const float* left = job.left + row * job.inner;
  const Word* right = static_cast<const Word*>(job.right) + column;
  for (std::size_t i = 0; i < job.inner; ++i, right += job.width) {
    Floats numbers[vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) numbers[v] = numbers_at(right + lanes * v);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) {
      const Floats factor = all_of(left[r * job.inner + i]);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) total[r][v] += factor * numbers[v];
    }
  }
  float* out = job.out + row * job.width + column;
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) put(out + r * job.width + lanes * v, total[r][v]);
  }
}

// A product of fewer columns than a vector has.
template <class Word>
void multiply_narrow(const ProductJob& job) {
  for (std::size_t row = 0; row < job.rows; ++row) {
    Floats total = {};
    const Word* right = static_cast<const Word*>(job.right);
    for (std::size_t i = 0; i < job.inner; ++i, right += job.width) {
      total += all_of(job.left[row * job.inner + i]) * first_numbers_at(right, job.width);
    }
    for (std::size_t i = 0; i < job.width; ++i) job.out[row * job.width + i] = total[i];
  }
}

template <class Word>
void multiply_rows(const ProductJob& job) {
  if (job.width < lanes) return multiply_narrow<Word>(job);
  in_columns<tile_vectors, lanes>(job.width,
                                  [&]<std::size_t vectors>(std::size_t column) __attribute__((always_inline)) {
                                    std::size_t row = 0;
                                    for (; job.rows - row >= tile_rows; row += tile_rows)
                                      multiply_tile<tile_rows, vectors, Word>(job, row, column);
                                    for (; row < job.rows; ++row) multiply_tile<1, vectors, Word>(job, row, column);
                                  });
}

void multiply(const ProductJob& job) {
  if (job.number == Number::float32) return multiply_rows<float>(job);
  if (job.number == Number::float16) return multiply_rows<Half>(job);
  multiply_rows<std::int8_t>(job);
}

void scale(float* numbers, std::size_t rows, std::size_t width, const float* levels, const std::uint32_t* codes,
           std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row, codes += stride) {
    const float level = levels[codes[stride - 1]];
    for (std::size_t i = 0; i < width; ++i) *numbers++ *= level;
  }
}

// A number minus itself is zero, unless it is infinite or no number.
bool are_finite(const float* numbers, std::size_t count) {
  Floats zeros = {};
  std::size_t i = 0;
  for (; count - i >= lanes; i += lanes) zeros += numbers_at(numbers + i) - numbers_at(numbers + i);
  float rest = 0;
  for (; i < count; ++i) rest += numbers[i] - numbers[i];
  for (std::size_t lane = 0; lane < lanes; ++lane) rest += zeros[lane];
  return rest == 0;
}

}  // namespace

const SumsKernels KDCODE_KERNELS(sums_kernels) = {add, multiply, scale, are_finite};

}  // namespace kdcode
