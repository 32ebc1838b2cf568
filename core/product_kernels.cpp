#include "product_kernels.hpp"

#include "lanes.hpp"

namespace kdcode {
namespace {

template <std::size_t rows_at_once, std::size_t vectors>
KDCODE_LANE void multiply_part(const float* rows, std::size_t k, const float* matrix, std::size_t m, float* products) {
  f32x16 sums[rows_at_once][vectors] = {};
  for (std::size_t i = 0; i < k; ++i) {
    f32x16 column[vectors];
    for (std::size_t v = 0; v < vectors; ++v) column[v] = load<f32x16>(matrix + i * m + 16 * v);
    for (std::size_t r = 0; r < rows_at_once; ++r) {
      for (std::size_t v = 0; v < vectors; ++v) sums[r][v] += column[v] * rows[r * k + i];
    }
  }
  for (std::size_t r = 0; r < rows_at_once; ++r) {
    for (std::size_t v = 0; v < vectors; ++v) store(products + r * m + 16 * v, sums[r][v]);
  }
}

template <std::size_t rows_at_once>
KDCODE_LANE void multiply_rows(const float* rows, std::size_t k, const float* matrix, std::size_t m, float* products) {
  std::size_t column = 0;
  for (; m - column >= 32; column += 32) multiply_part<rows_at_once, 2>(rows, k, matrix + column, m, products + column);
  for (; m - column >= 16; column += 16) multiply_part<rows_at_once, 1>(rows, k, matrix + column, m, products + column);
  for (; column < m; ++column) {
    for (std::size_t r = 0; r < rows_at_once; ++r) {
      float sum = 0;
      for (std::size_t i = 0; i < k; ++i) sum += rows[r * k + i] * matrix[i * m + column];
      products[r * m + column] = sum;
    }
  }
}

void multiply(const float* rows, std::size_t n, std::size_t k, const float* matrix, std::size_t m, float* products) {
  std::size_t row = 0;
  for (; n - row >= 8; row += 8) multiply_rows<8>(rows + row * k, k, matrix, m, products + row * m);
  for (; row < n; ++row) multiply_rows<1>(rows + row * k, k, matrix, m, products + row * m);
}

// How many rows and blocks of the matrix are multiplied at once, as registers allow; one row takes more blocks, since
// sums should not wait for each other.
#if defined(__AVX512VNNI__)
constexpr std::size_t rows_together = 8, blocks_together = 3, blocks_of_one = 8;
#elif defined(__AVX2__)
constexpr std::size_t rows_together = 4, blocks_together = 1, blocks_of_one = 2;
#else
constexpr std::size_t rows_together = 4, blocks_together = 1, blocks_of_one = 1;
#endif
constexpr std::size_t strip = 8;  // blocks whose sums are held

// (blocks_at_once, 16) dot products of blocks of the matrix with each of some rows of levels, to which `bias` was
// added.
template <std::size_t rows_at_once, std::size_t blocks_at_once>
KDCODE_LANE void dots(const ExpandMatrix* matrix, std::size_t block, const std::uint8_t* rows, i32x16 (*sums)[strip]) {
  const std::size_t quads = matrix->quads;
  const std::int8_t* numbers = matrix->numbers + block * quads * 64;
#if defined(__AVX512VNNI__)
  constexpr std::size_t sums_at_once = rows_at_once * blocks_at_once;
  __m512i found[sums_at_once];
  unroll<sums_at_once>([&](auto i) KDCODE_INLINE { found[i] = _mm512_setzero_si512(); });
  for (std::size_t quad = 0; quad < quads; ++quad) {
    __m512i four_of[blocks_at_once];
    unroll<blocks_at_once>([&](auto b)
                               KDCODE_INLINE { four_of[b] = _mm512_loadu_si512(numbers + 64 * (b * quads + quad)); });
    unroll<rows_at_once>([&](auto r) KDCODE_INLINE {
      std::int32_t four;
      __builtin_memcpy(&four, rows + 4 * (r * quads + quad), 4);
      const __m512i levels = _mm512_set1_epi32(four);
      unroll<blocks_at_once>([&](auto b) KDCODE_INLINE {
        constexpr std::size_t i = r * blocks_at_once + b;
        found[i] = _mm512_dpbusd_epi32(found[i], levels, four_of[b]);
      });
    });
  }
  unroll<sums_at_once>([&](auto i) KDCODE_INLINE { sums[i / blocks_at_once][i % blocks_at_once] = (i32x16)found[i]; });
#else
#if defined(__AVX2__)
  if (matrix->run != 0) {
    for (std::size_t r = 0; r < rows_at_once; ++r) {
      for (std::size_t b = 0; b < blocks_at_once; ++b) sums[r][b] = i32x16{};
    }
    constexpr std::size_t sums_at_once = rows_at_once * blocks_at_once * 2;  // of 8 rows of the matrix each
    for (std::size_t first = 0; first < quads; first += matrix->run) {
      const std::size_t end = quads - first < matrix->run ? quads : first + matrix->run;
      __m256i found[sums_at_once];  // pairs of 16 bits
      unroll<sums_at_once>([&](auto i) KDCODE_INLINE { found[i] = _mm256_setzero_si256(); });
      for (std::size_t quad = first; quad < end; ++quad) {
        __m256i levels[rows_at_once];
        unroll<rows_at_once>([&](auto r) KDCODE_INLINE {
          std::int32_t four;
          __builtin_memcpy(&four, rows + 4 * (r * quads + quad), 4);
          levels[r] = _mm256_set1_epi32(four);
        });
        unroll<2 * blocks_at_once>([&](auto b) KDCODE_INLINE {
          __m256i some;
          __builtin_memcpy(&some, numbers + 64 * (b / 2 * quads + quad) + 32 * (b % 2), sizeof some);
          unroll<rows_at_once>([&](auto r) KDCODE_INLINE {
            constexpr std::size_t i = r * 2 * blocks_at_once + b;
            found[i] = _mm256_add_epi16(found[i], _mm256_maddubs_epi16(levels[r], some));
          });
        });
      }
      const __m256i one = _mm256_set1_epi16(1);
      unroll<sums_at_once / 2>([&](auto i) KDCODE_INLINE {
        i32x16& sum = sums[i / blocks_at_once][i % blocks_at_once];
        sum += joined(Vector<std::int32_t, 8>(_mm256_madd_epi16(found[2 * i], one)),
                      Vector<std::int32_t, 8>(_mm256_madd_epi16(found[2 * i + 1], one)));
      });
    }
    return;
  }
#endif
  for (std::size_t r = 0; r < rows_at_once; ++r) {
    for (std::size_t b = 0; b < blocks_at_once; ++b) {
      std::int32_t found[16] = {};
      for (std::size_t quad = 0; quad < quads; ++quad) {
        const std::int8_t* some = numbers + 64 * (b * quads + quad);
        const std::uint8_t* levels = rows + 4 * (r * quads + quad);
        for (int i = 0; i < 16; ++i) {
          found[i] += some[4 * i] * levels[0] + some[4 * i + 1] * levels[1] + some[4 * i + 2] * levels[2] +
                      some[4 * i + 3] * levels[3];
        }
      }
      sums[r][b] = load<i32x16>(found);
    }
  }
#endif
}

// Writes some blocks of a vector; computes a whole strip, whose size is a constant. How many sides there are, nobody
// could predict: the loop over them is the outer one.
KDCODE_LANE void finish(const ExpandMatrix* matrix, const ExpandedRow& row, std::size_t block, std::size_t blocks,
                        const i32x16* sums) {
  const std::size_t pitch = matrix->padded, begin = 16 * block;
  f32x16 found[strip];
  unroll<strip>([&](auto b) KDCODE_INLINE {
    const i32x16 sum = sums[b] - load<i32x16>(matrix->excess + begin + 16 * b);
    found[b] = convert<f32x16>(sum) * load<f32x16>(matrix->scales + begin + 16 * b);
  });
  for (unsigned i = 0; i < row.sides; ++i) {
    const float* column = matrix->columns + i * pitch + begin;
    const f32x16 weight = splat<f32x16>(row.weights[i]);
    unroll<strip>([&](auto b) KDCODE_INLINE { found[b] += load<f32x16>(column + 16 * b) * weight; });
  }
  const f32x16 step = splat<f32x16>(row.step);
  const std::size_t end = matrix->dim - begin;
  unroll<strip>([&](auto b) KDCODE_INLINE {
    const float* base = row.base + begin + 16 * b;
    float* vector = row.vector + begin + 16 * b;
    if (16 * b + 16 <= end && b < blocks) {
      store(vector, load<f32x16>(base) + found[b] * step);
    } else if (b < blocks) {
      store_first(vector, load_first<f32x16>(base, end - 16 * b) + found[b] * step, end - 16 * b);
    }
  });
}

template <std::size_t rows_at_once, std::size_t blocks_at_once>
KDCODE_LANE void expand_rows(const ExpandMatrix* matrix, const ExpandedRow* rows, const std::uint8_t* levels,
                             std::size_t block, std::size_t blocks) {
  i32x16 sums[rows_at_once][strip] = {};
  std::size_t b = 0;
  for (; blocks - b >= blocks_at_once; b += blocks_at_once) {
    dots<rows_at_once, blocks_at_once>(matrix, block + b, levels, reinterpret_cast<i32x16(*)[strip]>(&sums[0][b]));
  }
  for (; b < blocks; ++b) {
    dots<rows_at_once, 1>(matrix, block + b, levels, reinterpret_cast<i32x16(*)[strip]>(&sums[0][b]));
  }
  for (std::size_t r = 0; r < rows_at_once; ++r) finish(matrix, rows[r], block, blocks, sums[r]);
}

void expand(const ExpandMatrix* matrix, const ExpandedRow* rows, std::size_t n, std::size_t pitch,
            std::uint8_t* memory) {
  const std::size_t quads = matrix->quads, blocks = (matrix->dim + 15) / 16;
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t quad = 0; quad < quads; ++quad) {
      __builtin_memcpy(memory + 4 * (r * quads + quad), rows[r].levels + quad * pitch, 4);
    }
  }
  for (std::size_t i = 0; i < 4 * n * quads; ++i) memory[i] = static_cast<std::uint8_t>(memory[i] + matrix->bias);
  const std::size_t strips = (blocks + strip - 1) / strip, longest = (blocks + strips - 1) / strips;
  for (std::size_t block = 0; block < blocks; block += longest) {
    const std::size_t some = blocks - block < longest ? blocks - block : longest;
    std::size_t row = 0;
    for (; n - row >= rows_together; row += rows_together) {
      expand_rows<rows_together, blocks_together>(matrix, rows + row, memory + 4 * row * quads, block, some);
    }
    for (; row < n; ++row) expand_rows<1, blocks_of_one>(matrix, rows + row, memory + 4 * row * quads, block, some);
  }
}

}  // namespace

const ProductKernels KDCODE_KERNELS(product_kernels) = {multiply, expand};

}  // namespace kdcode
