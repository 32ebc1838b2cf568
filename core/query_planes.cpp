#include "query_planes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dispatch.hpp"

namespace kdcode {
namespace {

constexpr double plane_range = 127, next_plane = 254;
constexpr std::size_t rows_at_once = 64;

}  // namespace

QueryPlanes::QueryPlanes(std::span<const double> queries, std::size_t count, unsigned planes)
    : count_(count),
      lanes_((planes * count + 15) / 16 * 16),
      planes_(planes),
      scales_(lanes_, 0.0f),
      away_(count, 0.0) {
  const std::size_t width = queries.size() / count;
  quads_ = (width + 3) / 4;
  numbers_.assign(lanes_ * quads_ * 4, 0);
  for (std::size_t query = 0; query < count; ++query) {
    const double* own = queries.data() + query * width;
    double largest = 0;
    for (std::size_t k = 0; k < width; ++k) largest = std::max(largest, std::abs(own[k]));
    double units[3];
    for (unsigned plane = 0; plane < planes; ++plane) {
      const float unit = static_cast<float>(plane == 0 ? largest / plane_range : units[plane - 1] / next_plane);
      scales_[plane * count + query] = unit;
      units[plane] = static_cast<double>(unit);
    }
    for (std::size_t k = 0; k < width; ++k) {
      double left = own[k];
      for (unsigned plane = 0; plane < planes && units[plane] > 0; ++plane) {
        const std::size_t lane = plane * count + query;
        const double number = std::clamp(std::nearbyint(left / units[plane]), -plane_range, plane_range);
        numbers_[((lane / 16 * quads_ + k / 4) * 16 + lane % 16) * 4 + k % 4] = static_cast<std::int8_t>(number);
        left -= number * units[plane];
      }
      away_[query] = std::max(away_[query], std::abs(left));
    }
  }
}

void score_rows(const QueryPlanes& queries, const Int8Rows& rows, std::size_t first, std::size_t stop, float* scores,
                std::size_t stride) {
  const ExpandMatrix matrix = queries.matrix();
  const std::size_t lanes = queries.lanes(), width = 4 * matrix.quads;
  std::vector<float> products(rows_at_once * lanes), zeros(lanes, 0.0f);
  std::vector<std::int8_t> last(4 * width, 0);  // rows whose last quad ends after all numbers
  ExpandedRow expanded[rows_at_once];
  for (std::size_t start = first; start < stop; start += rows_at_once) {
    const std::size_t some = std::min(rows_at_once, stop - start);
    for (std::size_t i = 0; i < some; ++i) {
      const std::int8_t* own = rows.numbers + (start + i) * rows.dim;
      const std::size_t after = rows.rows - (start + i) - 1;  // rows
      if (after * rows.dim < width - rows.dim) {
        own = static_cast<const std::int8_t*>(std::memcpy(last.data() + after * width, own, rows.dim));
      }
      expanded[i] = {own, zeros.data(), products.data() + i * lanes, rows.scales[start + i], 0, {}};
    }
    KDCODE_CHOSEN(product_kernels).expand(&matrix, expanded, some);
    for (std::size_t query = 0; query < queries.count(); ++query) {
      for (std::size_t i = 0; i < some; ++i) {
        scores[query * stride + start + i] = queries.product(products.data() + i * lanes, query);
      }
    }
  }
}

}  // namespace kdcode
