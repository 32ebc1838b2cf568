#include "query_planes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dispatch.hpp"

namespace kdcode {
namespace {

constexpr double plane_range = 127, next_plane = 254;

}  // namespace

QueryPlanes::QueryPlanes(std::span<const double> queries, std::size_t count, unsigned planes)
    : excess_(planes * count, 0), scales_(planes * count, 0.0f), away_(count, 0.0) {
  const std::size_t width = queries.size() / count, quads = (width + 3) / 4;
  numbers_.assign(planes * count * quads * 4, 0);
  view_ = {count, planes, quads, numbers_.data(), excess_.data(), scales_.data()};
  for (std::size_t query = 0; query < count; ++query) {
    const double* own = queries.data() + query * width;
    double largest = 0;
    bool is_finite = true;
    for (std::size_t k = 0; k < width; ++k) {
      largest = std::max(largest, std::abs(own[k]));
      is_finite &= std::isfinite(own[k]);
    }
    if (!is_finite) {
      scales_[query] = std::numeric_limits<float>::quiet_NaN(), away_[query] = std::numeric_limits<double>::infinity();
      continue;
    }
    double units[most_planes];
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
        numbers_[lane * quads * 4 + k] = static_cast<std::int8_t>(number);
        excess_[lane] += 128 * static_cast<std::int32_t>(number);
        left -= number * units[plane];
      }
      away_[query] = std::max(away_[query], std::abs(left));
    }
  }
}

void score_rows(const QueryPlanes& queries, const Int8Rows& rows, std::size_t first, std::size_t stop, float* scores,
                std::size_t stride) {
  const PlanesOfQueries& view = queries.view();
  const auto& kernels = KDCODE_CHOSEN(level_scan_kernels);
  const std::size_t whole = rows.dim / 4, left = rows.dim % 4;
  std::vector<std::int8_t> side_by_side(view.quads * 64, 0);
  std::vector<std::int32_t> products(view.queries * view.planes * 16);
  const std::vector<float> bases(view.queries, 0.0f);
  float steps[16] = {};
  SixteenScores made{};
  made.products = products.data(), made.bases = bases.data(), made.numbers = 1, made.steps = steps;
  const SixteenRows sixteen{side_by_side.data(), nullptr, view.quads, 0};
  for (std::size_t start = first; start < stop; start += 16) {
    made.first = start, made.count = std::min<std::size_t>(16, stop - start);
    for (std::size_t i = 0; i < made.count; ++i) {
      const std::int8_t* own = rows.numbers + (start + i) * rows.dim;
      std::int8_t* to = side_by_side.data() + 4 * i;
      for (std::size_t quad = 0; quad < whole; ++quad) std::memcpy(to + 64 * quad, own + 4 * quad, 4);
      if (left != 0) std::memcpy(to + 64 * whole, own + 4 * whole, left);
      steps[i] = rows.scales[start + i];
    }
    kernels.multiply(&view, &sixteen, products.data());
    kernels.write(&view, &made, scores, stride);
  }
}

}  // namespace kdcode
