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

// Sixteen dot products of each of some blocks of the matrix with each of some rows of levels, one of both several.
template <std::size_t rows_at_once, std::size_t blocks_at_once>
KDCODE_LANE void dots(const std::int8_t* numbers, std::size_t quads, const ExpandedRow* rows,
                      i32x16 (*sums)[rows_at_once]) {
#if defined(__AVX512VNNI__)
  // The instruction multiplies unsigned with signed bytes, so 128 is added to each number of the matrix; see
  // level_sums.
  __m512i found[blocks_at_once][rows_at_once];
  for (std::size_t b = 0; b < blocks_at_once; ++b) {
    for (std::size_t r = 0; r < rows_at_once; ++r) found[b][r] = _mm512_setzero_si512();
  }
  const __m512i flip = _mm512_set1_epi8(-128);
  for (std::size_t quad = 0; quad < quads; ++quad) {
    __m512i block[blocks_at_once];
    for (std::size_t b = 0; b < blocks_at_once; ++b) {
      block[b] = _mm512_xor_si512(_mm512_loadu_si512(numbers + 64 * (b * quads + quad)), flip);
    }
    for (std::size_t r = 0; r < rows_at_once; ++r) {
      std::int32_t four;
      __builtin_memcpy(&four, rows[r].levels + 4 * quad, 4);
      const __m512i levels = _mm512_set1_epi32(four);
      for (std::size_t b = 0; b < blocks_at_once; ++b) found[b][r] = _mm512_dpbusd_epi32(found[b][r], block[b], levels);
    }
  }
  for (std::size_t b = 0; b < blocks_at_once; ++b) {
    for (std::size_t r = 0; r < rows_at_once; ++r) sums[b][r] = (i32x16)found[b][r];
  }
#elif defined(__AVX2__)
  for (std::size_t b = 0; b < blocks_at_once; ++b, numbers += 64 * quads) {
    __m256i found[rows_at_once][4];
    for (std::size_t r = 0; r < rows_at_once; ++r) {
      for (__m256i& one : found[r]) one = _mm256_setzero_si256();
    }
    for (std::size_t quad = 0; quad < quads; ++quad) {
      __m256i four_rows[4];
      for (std::size_t part = 0; part < 4; ++part) {
        __m128i bytes;
        __builtin_memcpy(&bytes, numbers + 64 * quad + 16 * part, sizeof bytes);
        four_rows[part] = _mm256_cvtepi8_epi16(bytes);
      }
      for (std::size_t r = 0; r < rows_at_once; ++r) {
        std::int32_t four;
        __builtin_memcpy(&four, rows[r].levels + 4 * quad, 4);
        const __m256i levels = _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(four)));
        for (std::size_t part = 0; part < 4; ++part) {
          found[r][part] = _mm256_add_epi32(found[r][part], _mm256_madd_epi16(four_rows[part], levels));
        }
      }
    }
    for (std::size_t r = 0; r < rows_at_once; ++r) {
      std::int32_t halves[32];
      __builtin_memcpy(halves, found[r], sizeof halves);
      std::int32_t whole[16];
      for (int i = 0; i < 16; ++i) whole[i] = halves[2 * i] + halves[2 * i + 1];
      sums[b][r] = load<i32x16>(whole);
    }
  }
#else
  for (std::size_t b = 0; b < blocks_at_once; ++b, numbers += 64 * quads) {
    for (std::size_t r = 0; r < rows_at_once; ++r) {
      std::int32_t found[16] = {};
      for (std::size_t quad = 0; quad < quads; ++quad) {
        const std::int8_t* block = numbers + 64 * quad;
        const std::int8_t* levels = rows[r].levels + 4 * quad;
        for (int i = 0; i < 16; ++i) {
          found[i] += block[4 * i] * levels[0] + block[4 * i + 1] * levels[1] + block[4 * i + 2] * levels[2] +
                      block[4 * i + 3] * levels[3];
        }
      }
      sums[b][r] = load<i32x16>(found);
    }
  }
#endif
}

// What `dots` add to every sum of a row.
KDCODE_LANE std::int32_t level_sums([[maybe_unused]] const ExpandedRow& row, [[maybe_unused]] std::size_t quads) {
#if defined(__AVX512VNNI__)
  __m512i found = _mm512_setzero_si512();
  for (std::size_t quad = 0; quad < quads; quad += 16) {
    const auto some = static_cast<__mmask16>(quads - quad < 16 ? (1u << (quads - quad)) - 1 : 0xffffu);
    const __m512i levels = _mm512_maskz_loadu_epi32(some, row.levels + 4 * quad);
    found = _mm512_dpbusd_epi32(found, _mm512_set1_epi8(1), levels);
  }
  return 128 * _mm512_reduce_add_epi32(found);
#else
  return 0;
#endif
}

// The vector as it is without its levels. Sides come first: how many there are, nobody could predict in an inner loop.
KDCODE_LANE void begin(const ExpandMatrix* matrix, const ExpandedRow& row) {
  const std::size_t whole = (matrix->dim + 15) / 16 * 16;
  __builtin_memcpy(row.vector, row.base, matrix->dim * sizeof(float));
  for (unsigned i = 0; i < row.sides; ++i) {
    const float* column = matrix->columns + i * whole;
    for (std::size_t first = 0; first < matrix->dim; first += 16) {
      const std::size_t some = matrix->dim - first;
      const f32x16 side = load<f32x16>(column + first) * row.weights[i];
      if (some >= 16) {
        store(row.vector + first, load<f32x16>(row.vector + first) + side);
      } else {
        store_first(row.vector + first, load_first<f32x16>(row.vector + first, some) + side, some);
      }
    }
  }
}

KDCODE_LANE void add(const ExpandMatrix* matrix, const ExpandedRow& row, std::size_t block, i32x16 sums) {
  const std::size_t first = 16 * block, some = matrix->dim - first;
  const f32x16 levels = convert<f32x16>(sums) * (load<f32x16>(matrix->scales + first) * row.step);
  if (some >= 16) {
    store(row.vector + first, load<f32x16>(row.vector + first) + levels);
  } else {
    store_first(row.vector + first, load_first<f32x16>(row.vector + first, some) + levels, some);
  }
}

template <std::size_t rows_at_once, std::size_t blocks_at_once>
KDCODE_LANE void expand_part(const ExpandMatrix* matrix, const ExpandedRow* rows, const std::int32_t* added,
                             std::size_t block) {
  i32x16 sums[blocks_at_once][rows_at_once];
  dots<rows_at_once, blocks_at_once>(matrix->numbers + block * matrix->quads * 64, matrix->quads, rows, sums);
  for (std::size_t r = 0; r < rows_at_once; ++r) {
    for (std::size_t b = 0; b < blocks_at_once; ++b) add(matrix, rows[r], block + b, sums[b][r] - added[r]);
  }
}

template <std::size_t rows_at_once>
KDCODE_LANE void expand_rows(const ExpandMatrix* matrix, const ExpandedRow* rows) {
  const std::size_t blocks = (matrix->dim + 15) / 16;
  std::int32_t added[rows_at_once];
  for (std::size_t r = 0; r < rows_at_once; ++r) {
    begin(matrix, rows[r]);
    added[r] = level_sums(rows[r], matrix->quads);
  }
  std::size_t block = 0;
  if (rows_at_once == 1) {  // sums of several blocks do not wait for each other
    for (; blocks - block >= 4; block += 4) expand_part<rows_at_once, 4>(matrix, rows, added, block);
  }
  for (; block < blocks; ++block) expand_part<rows_at_once, 1>(matrix, rows, added, block);
}

void expand(const ExpandMatrix* matrix, const ExpandedRow* rows, std::size_t n) {
  std::size_t row = 0;
  for (; n - row >= 4; row += 4) expand_rows<4>(matrix, rows + row);
  for (; row < n; ++row) expand_rows<1>(matrix, rows + row);
}

}  // namespace

const ProductKernels KDCODE_KERNELS(product_kernels) = {multiply, expand};

}  // namespace kdcode
