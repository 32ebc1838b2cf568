#include "level_scan_kernels.hpp"

#include "lanes.hpp"

namespace kdcode {
namespace {

KDCODE_LANE std::uint32_t magnitude(const std::int8_t* levels, std::size_t width) {
#if defined(__AVX512BW__)
  __m512i sums = _mm512_setzero_si512();
  for (std::size_t i = 0; i < width; i += 64) {
    const std::uint64_t some = width - i < 64 ? (std::uint64_t{1} << (width - i)) - 1 : ~std::uint64_t{0};
    const __m512i own = _mm512_maskz_loadu_epi8(some, levels + i);
    sums = _mm512_add_epi64(sums, _mm512_sad_epu8(_mm512_abs_epi8(own), _mm512_setzero_si512()));
  }
  return static_cast<std::uint32_t>(_mm512_reduce_add_epi64(sums));
#else
  std::uint32_t sum = 0;
  std::size_t i = 0;
#if defined(__AVX2__)
  __m256i sums = _mm256_setzero_si256();
  for (; width - i >= 32; i += 32) {
    __m256i own;
    __builtin_memcpy(&own, levels + i, sizeof own);
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_abs_epi8(own), _mm256_setzero_si256()));
  }
  std::uint64_t parts[4];
  __builtin_memcpy(parts, &sums, sizeof parts);
  sum = static_cast<std::uint32_t>(parts[0] + parts[1] + parts[2] + parts[3]);
#endif
  for (; i < width; ++i) sum += static_cast<std::uint32_t>(levels[i] < 0 ? -levels[i] : levels[i]);
  return sum;
#endif
}

void magnitudes(const std::int8_t* levels, std::size_t n, std::size_t width, std::uint32_t* sums) {
  for (std::size_t i = 0; i < n; ++i) sums[i] = magnitude(levels + i * width, width);
}

void begin(const BeginRow* rows, std::size_t n, std::size_t lanes, float* sums) {
  for (std::size_t i = 0; i < n; ++i) {
    const BeginRow& row = rows[i];
    for (std::size_t lane = 0; lane < lanes; lane += 16) {
      const f32x16 sides = load<f32x16>(row.first + lane) + load<f32x16>(row.later + lane);
      store(sums + i * lanes + lane, load<f32x16>(row.base + lane) + sides * row.step);
    }
  }
}

void keep(const KeepRows* rows) {
  for (std::size_t i = 0; i < rows->count; ++i) {
    const float length = rows->lengths[i];
    const float factor = rows->factors == nullptr ? 1.0f : rows->factors[i];
    const float offset = rows->offsets == nullptr ? 0.0f : rows->offsets[i];
    for (std::size_t lane = 0; lane < rows->queries; lane += 16) {
      const f32x16 score = load<f32x16>(rows->products + i * rows->lanes + lane) * factor + offset;
      const f32x16 slack = (load<f32x16>(rows->slack + lane) + load<f32x16>(rows->more + lane) * length) * factor;
      const f32x16 high = score + slack;
      std::uint32_t kept = lane_mask(high > load<f32x16>(rows->floors + lane));
      if (kept == 0) [[likely]]
        continue;
      float lows[16], highs[16];
      store(lows, score - slack);
      store(highs, high);
      for (; kept != 0; kept &= kept - 1) {
        const auto own = static_cast<std::size_t>(__builtin_ctz(kept));
        const std::size_t query = lane + own, at = query * rows->room + static_cast<std::size_t>(rows->counts[query]);
        rows->found[at] = static_cast<std::int64_t>(rows->first + i);
        rows->lows[at] = lows[own];
        rows->highs[at] = highs[own];
        ++rows->counts[query];
      }
    }
  }
}

}  // namespace

const LevelScanKernels KDCODE_KERNELS(level_scan_kernels) = {magnitudes, begin, keep};

}  // namespace kdcode
