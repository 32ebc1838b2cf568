#include "level_scan_kernels.hpp"

#include "lanes.hpp"

namespace kdcode {
namespace {

// Calls `function` with the numbers of each quad of the queries and its 64 levels.
template <class Function>
KDCODE_LANE void each_quad(const SixteenRows* rows, Function function) {
  for (std::size_t quad = 0; quad < rows->level_quads; ++quad) function(quad, rows->levels + 64 * quad);
  for (std::size_t quad = 0; quad < rows->other_quads; ++quad) {
    function(rows->level_quads + quad, rows->others + 64 * quad);
  }
}

KDCODE_LANE std::int32_t four_of(const PlanesOfQueries* queries, std::size_t lane, std::size_t quad) {
  std::int32_t four;
  __builtin_memcpy(&four, queries->numbers + (lane * queries->quads + quad) * 4, 4);
  return four;
}

// Some of the planes · queries.
template <std::size_t some>
KDCODE_LANE void multiply_some(const PlanesOfQueries* queries, const SixteenRows* rows, std::size_t first,
                               std::int32_t* products) {
#if defined(__AVX512VNNI__)
  // The instruction multiplies unsigned with signed bytes, so 128 is added to each level.
  __m512i sums[some];
  for (std::size_t i = 0; i < some; ++i) sums[i] = _mm512_set1_epi32(-queries->excess[first + i]);
  const __m512i flip = _mm512_set1_epi8(-128);
  each_quad(rows, [&](std::size_t quad, const std::int8_t* levels) KDCODE_INLINE {
    const __m512i own = _mm512_xor_si512(_mm512_loadu_si512(levels), flip);
    for (std::size_t i = 0; i < some; ++i) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], own, _mm512_set1_epi32(four_of(queries, first + i, quad)));
    }
  });
  for (std::size_t i = 0; i < some; ++i) _mm512_storeu_si512(products + 16 * (first + i), sums[i]);
#elif defined(__AVX2__)
  __m256i sums[some][4];
  for (auto& own : sums) {
    for (__m256i& one : own) one = _mm256_setzero_si256();
  }
  each_quad(rows, [&](std::size_t quad, const std::int8_t* levels) KDCODE_INLINE {
    __m256i wide[4];
    for (std::size_t part = 0; part < 4; ++part) {
      __m128i bytes;
      __builtin_memcpy(&bytes, levels + 16 * part, sizeof bytes);
      wide[part] = _mm256_cvtepi8_epi16(bytes);
    }
    for (std::size_t i = 0; i < some; ++i) {
      const __m128i four = _mm_cvtepi8_epi16(_mm_cvtsi32_si128(four_of(queries, first + i, quad)));
      const __m256i query = _mm256_broadcastq_epi64(four);
      for (std::size_t part = 0; part < 4; ++part) {
        sums[i][part] = _mm256_add_epi32(sums[i][part], _mm256_madd_epi16(wide[part], query));
      }
    }
  });
  for (std::size_t i = 0; i < some; ++i) {
    std::int32_t halves[32];
    __builtin_memcpy(halves, sums[i], sizeof halves);
    for (std::size_t row = 0; row < 16; ++row) {
      products[16 * (first + i) + row] = halves[2 * row] + halves[2 * row + 1];
    }
  }
#else
  std::int32_t* to = products + 16 * first;
  __builtin_memset(to, 0, some * 16 * sizeof *to);
  each_quad(rows, [&](std::size_t quad, const std::int8_t* levels) KDCODE_INLINE {
    for (std::size_t i = 0; i < some; ++i) {
      const std::int8_t* query = queries->numbers + ((first + i) * queries->quads + quad) * 4;
      for (std::size_t row = 0; row < 16; ++row) {
        to[16 * i + row] += levels[4 * row] * query[0] + levels[4 * row + 1] * query[1] +
                            levels[4 * row + 2] * query[2] + levels[4 * row + 3] * query[3];
      }
    }
  });
#endif
}

void multiply(const PlanesOfQueries* queries, const SixteenRows* rows, std::int32_t* products) {
#if defined(__AVX512VNNI__)
  constexpr std::size_t most = 8;
#else
  constexpr std::size_t most = 2;
#endif
  const std::size_t count = queries->queries * queries->planes;
  std::size_t first = 0;
  for (; count - first >= most; first += most) multiply_some<most>(queries, rows, first, products);
  for (; first < count; ++first) multiply_some<1>(queries, rows, first, products);
}

void magnitudes(const SixteenRows* rows, std::uint32_t* sums) {
#if defined(__AVX512VNNI__)
  __m512i found = _mm512_setzero_si512();
  each_quad(rows, [&](std::size_t, const std::int8_t* levels) KDCODE_INLINE {
    found = _mm512_dpbusd_epi32(found, _mm512_abs_epi8(_mm512_loadu_si512(levels)), _mm512_set1_epi8(1));
  });
  _mm512_storeu_si512(sums, found);
#else
  __builtin_memset(sums, 0, 16 * sizeof *sums);
  each_quad(rows, [&](std::size_t, const std::int8_t* levels) KDCODE_INLINE {
    for (std::size_t row = 0; row < 16; ++row) {
      for (std::size_t i = 0; i < 4; ++i) {
        const int level = levels[4 * row + i];
        sums[row] += static_cast<std::uint32_t>(level < 0 ? -level : level);
      }
    }
  });
#endif
}

// The dot products of a query.
KDCODE_LANE f32x16 scores_of(const PlanesOfQueries* queries, const SixteenScores* scores, std::size_t query) {
  const float* bases = scores->bases + query * scores->numbers;
  f32x16 sum = scores->numbers == 1 ? splat<f32x16>(*bases) : gather(bases, load<u32x16>(scores->number));
  if (scores->more != nullptr) sum += load<f32x16>(scores->more + 16 * query);
  const f32x16 steps = load<f32x16>(scores->steps);
  for (std::size_t plane = 0; plane < queries->planes; ++plane) {
    const std::size_t lane = plane * queries->queries + query;
    sum += convert<f32x16>(load<i32x16>(scores->products + 16 * lane)) * (steps * queries->scales[lane]);
  }
  return sum;
}

void keep(const PlanesOfQueries* queries, const SixteenScores* scores, const FoundRows* found) {
  const std::size_t count = scores->count;
  const f32x16 lengths = load<f32x16>(scores->lengths);
  const f32x16 one = splat<f32x16>(1), zero = splat<f32x16>(0);
  const f32x16 factors = scores->factors == nullptr ? one : load_first<f32x16>(scores->factors, count);
  const f32x16 offsets = scores->offsets == nullptr ? zero : load_first<f32x16>(scores->offsets, count);
  for (std::size_t query = 0; query < queries->queries; ++query) {
    const f32x16 score = scores_of(queries, scores, query) * factors + offsets;
    const f32x16 slack = (lengths * scores->slack_length[query] + scores->slack_fixed[query]) * factors;
    std::uint32_t kept = lane_mask(score + slack > scores->floors[query]) & ((1u << count) - 1);
    if (kept == 0) [[likely]]
      continue;
    float lows[16], highs[16];
    store(lows, score - slack);
    store(highs, score + slack);
    for (; kept != 0; kept &= kept - 1) {
      const auto i = static_cast<std::size_t>(__builtin_ctz(kept));
      const std::size_t at = query * found->room + static_cast<std::size_t>(found->counts[query]++);
      found->found[at] = static_cast<std::int64_t>(scores->first + i);
      found->lows[at] = lows[i];
      found->highs[at] = highs[i];
    }
  }
}

void write(const PlanesOfQueries* queries, const SixteenScores* scores, float* to, std::size_t stride) {
  for (std::size_t query = 0; query < queries->queries; ++query) {
    const f32x16 score = scores_of(queries, scores, query);
    float* own = to + query * stride + scores->first;
    if (scores->count == 16) {
      store(own, score);
    } else {
      store_first(own, score, scores->count);
    }
  }
}

}  // namespace

const LevelScanKernels KDCODE_KERNELS(level_scan_kernels) = {multiply, magnitudes, keep, write};

}  // namespace kdcode
