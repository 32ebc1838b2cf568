#include "query_planes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.hpp"
#include "dispatch.hpp"

using namespace kdcode;

namespace {

std::vector<double> random_numbers(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> found(count);
  for (double& one : found) one = normal(random);
  return found;
}

std::vector<std::int8_t> random_levels(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<std::int8_t> found(count);
  for (std::int8_t& one : found) one = static_cast<std::int8_t>(static_cast<int>(random() % 256) - 128);
  return found;
}

}  // namespace

TEST(scores_of_int8_rows_are_as_precise_as_float32) {
  for (std::size_t dim = 1; dim <= 21; ++dim) {
    for (const std::size_t rows : {1u, 2u, 15u, 16u, 33u}) {
      const std::size_t count = 1 + dim % 11;
      const auto queries = random_numbers(count * dim, static_cast<unsigned>(dim));
      const auto numbers = random_levels(rows * dim, static_cast<unsigned>(rows));
      std::vector<float> scales(rows), scores(count * rows, -1);
      for (std::size_t i = 0; i < rows; ++i) scales[i] = static_cast<float>(i) / 8;
      const QueryPlanes planes(queries, count, 3);
      score_rows(planes, {numbers.data(), scales.data(), rows, dim}, 0, rows, scores.data(), rows);
      for (std::size_t query = 0; query < count; ++query) {
        for (std::size_t row = 0; row < rows; ++row) {
          double exact = 0, size = 0, largest = 0;
          for (std::size_t k = 0; k < dim; ++k) {
            const double one = queries[query * dim + k] * numbers[row * dim + k] * static_cast<double>(scales[row]);
            exact += one, largest = std::max(largest, std::abs(queries[query * dim + k]));
            size += std::abs(numbers[row * dim + k] * static_cast<double>(scales[row]));
          }
          CHECK(std::abs(static_cast<double>(scores[query * rows + row]) - exact) <= 1e-6 * largest * size);
        }
      }
    }
  }
}

TEST(only_the_rows_asked_for_are_written) {
  const auto queries = random_numbers(2 * 5, 1);
  const auto numbers = random_levels(40 * 5, 2);
  const std::vector<float> scales(40, 1.0f);
  std::vector<float> all(2 * 40, 0), some(2 * 40, 7);
  const QueryPlanes planes(queries, 2, 3);
  score_rows(planes, {numbers.data(), scales.data(), 40, 5}, 0, 40, all.data(), 40);
  score_rows(planes, {numbers.data(), scales.data(), 40, 5}, 3, 22, some.data(), 40);
  for (std::size_t i = 0; i < 80; ++i) CHECK(some[i] == (i % 40 >= 3 && i % 40 < 22 ? all[i] : 7.0f));
}

TEST(products_and_magnitudes_of_sixteen_rows_are_exact) {
  for (const std::size_t count : {1u, 2u, 7u, 8u, 19u}) {
    for (const unsigned planes : {1u, 3u}) {
      constexpr std::size_t quads = 5, others = 3, width = 4 * (quads + others);
      const auto queries = random_numbers(count * width, static_cast<unsigned>(count));
      const QueryPlanes made(queries, count, planes);
      const PlanesOfQueries& view = made.view();
      const auto levels = random_levels(quads * 64, 3), more = random_levels(others * 64, 4);
      const SixteenRows rows{levels.data(), more.data(), quads, others};
      std::vector<std::int32_t> products(planes * count * 16);
      std::uint32_t sums[16];
      KDCODE_CHOSEN(level_scan_kernels).multiply(&view, &rows, products.data());
      KDCODE_CHOSEN(level_scan_kernels).magnitudes(&rows, sums);
      for (std::size_t row = 0; row < 16; ++row) {
        std::uint32_t size = 0;
        const auto level = [&](std::size_t k) {
          return static_cast<int>(k < 4 * quads ? levels[k / 4 * 64 + 4 * row + k % 4]
                                                : more[(k / 4 - quads) * 64 + 4 * row + k % 4]);
        };
        for (std::size_t k = 0; k < width; ++k) size += static_cast<std::uint32_t>(std::abs(level(k)));
        CHECK(sums[row] == size);
        for (std::size_t lane = 0; lane < planes * count; ++lane) {
          std::int32_t sum = 0;
          for (std::size_t k = 0; k < width; ++k) sum += view.numbers[lane * width + k] * level(k);
          CHECK(products[16 * lane + row] == sum);
        }
      }
    }
  }
}

TEST(a_query_of_zeros_has_no_product) {
  const std::vector<double> zeros(8, 0.0);
  const QueryPlanes planes(zeros, 1, 3);
  const auto numbers = random_levels(2 * 8, 5);
  const float scales[2] = {1, 2};
  float scores[2] = {5, 5};
  score_rows(planes, {numbers.data(), scales, 2, 8}, 0, 2, scores, 2);
  CHECK(scores[0] == 0 && scores[1] == 0);
  CHECK(planes.away(0) == 0);
}
