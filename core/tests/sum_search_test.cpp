#include "sum_search.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"

namespace kdcode {
namespace {

struct Task {
  std::size_t length, size, dim, rows;
  std::vector<float> words, vectors;

  Task(std::size_t own_length, std::size_t own_size, std::size_t own_dim, std::size_t own_rows)
      : length(own_length), size(own_size), dim(own_dim), rows(own_rows) {
    std::mt19937 random(7);
    std::normal_distribution<float> drawn;
    for (std::size_t i = 0; i < length * size * dim; ++i) {
      const auto position = static_cast<float>(i / (size * dim));
      words.push_back(drawn(random) * std::pow(0.8f, position) + 0.5f);
    }
    for (std::size_t i = 0; i < rows * dim; ++i) vectors.push_back(2 * drawn(random));
  }

  double distance(std::size_t row, const std::uint32_t* code) const {
    double sum = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      double left = vectors[row * dim + i];
      for (std::size_t j = 0; j < length; ++j) left -= words[(j * size + code[j]) * dim + i];
      sum += left * left;
    }
    return sum;
  }

  // The distance of the best of all codes.
  double least(std::size_t row) const {
    double found = std::numeric_limits<double>::infinity();
    std::vector<std::uint32_t> code(length, 0);
    for (std::size_t place = 0; place < length;) {
      found = std::min(found, distance(row, code.data()));
      for (place = 0; place < length && ++code[place] == size; ++place) code[place] = 0;
    }
    return found;
  }

  std::unique_ptr<SumSearch> search() const { return SumSearch::make(words.data(), length, size, dim); }
};

// What every instruction set must give again.
bool is_same(const char* name, const std::vector<std::uint32_t>& codes) {
  static std::map<std::string, std::vector<std::uint32_t>> first;
  return first.emplace(name, codes).first->second == codes;
}

std::vector<std::uint32_t> encoded(const Task& task, const SumSearch& search, std::size_t beam) {
  std::vector<std::uint32_t> codes(task.rows * task.length);
  CHECK(search.encode(task.vectors.data(), task.rows, beam, codes.data()));
  return codes;
}

TEST(nearest_words_are_those_of_the_least_distance) {
  for (const std::size_t size : {1, 5, 16, 33, 100}) {
    const Task task(1, size, 7, 150);
    std::vector<std::int64_t> places(task.rows);
    CHECK(nearest_words(task.vectors.data(), task.rows, task.words.data(), size, task.dim, places.data()));
    for (std::size_t row = 0; row < task.rows; ++row) {
      const auto code = static_cast<std::uint32_t>(places[row]);
      CHECK(code < size && task.distance(row, &code) <= task.least(row) * (1 + 1e-5));
    }
    CHECK(is_same(("nearest " + std::to_string(size)).c_str(), {places.begin(), places.end()}));
  }
}

TEST(a_beam_of_all_codes_finds_the_best) {
  const Task task(3, 5, 4, 40);
  const auto search = task.search();
  const std::vector<std::uint32_t> codes = encoded(task, *search, 125);
  for (std::size_t row = 0; row < task.rows; ++row) {
    CHECK(task.distance(row, codes.data() + row * task.length) <= task.least(row) * (1 + 1e-5));
  }
}

// With a table of products, and without one.
TEST(searches_give_the_same_codes_on_all_sets) {
  for (const std::size_t length : {5, 40}) {
    const Task task(length, 96, 6, 100);
    const auto search = task.search();
    std::vector<std::uint32_t> codes = encoded(task, *search, 6);
    CHECK(is_same(("beam " + std::to_string(length)).c_str(), codes));
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < 2 * length; ++i) order.push_back(i % static_cast<std::uint32_t>(length));
    std::vector<float> noise(search->noise_for(task.rows) + 64);
    std::mt19937 random(3);
    for (float& number : noise) number = -std::log(-std::log(static_cast<float>(random() % 9999 + 1) / 10001));
    const std::vector<std::size_t> places(2 * length, 60);
    const float temperatures[] = {0.5f, 0.0f};
    const SumSearch::Sweeps warm{order.data(), temperatures, 2, noise.data(), places.data(), false};
    CHECK(search->sweep(task.vectors.data(), task.rows, warm, codes.data()));
    CHECK(is_same(("sweeps " + std::to_string(length)).c_str(), codes));
    const std::vector<std::uint32_t> before = codes;
    const float cold[] = {0.0f, 0.0f};
    const SumSearch::Sweeps descent{order.data(), cold, 2, nullptr, places.data(), true};
    CHECK(search->sweep(task.vectors.data(), task.rows, descent, codes.data()));
    for (std::size_t row = 0; row < task.rows; ++row) {
      const std::size_t at = row * length;
      CHECK(task.distance(row, codes.data() + at) <= task.distance(row, before.data() + at) * (1 + 1e-4));
    }
  }
}

TEST(numbers_that_are_none_have_lawful_codes) {
  Task task(3, 20, 2, 4);
  task.vectors[0] = std::numeric_limits<float>::quiet_NaN();
  task.vectors[2] = std::numeric_limits<float>::infinity();
  task.vectors[4] = 3e38f;
  for (float& number : task.words) number *= 1e30f;
  for (const std::uint32_t code : encoded(task, *task.search(), 5)) CHECK(code < task.size);
}

TEST(rows_are_added_up_by_label) {
  const float rows[] = {1, 2, 3, 4, 5, 6, 7, 8}, weights[] = {1, 2, 3, 4};
  const std::uint8_t labels[] = {4, 9, 5, 9, 4, 9, 7, 9};  // every other one
  float sums[4] = {};
  add_rows(rows, labels, 2, weights, 4, 2, 4, 2, sums);
  CHECK(sums[0] == 1 + 15 && sums[1] == 2 + 18 && sums[2] == 6 && sums[3] == 8);
}

}  // namespace
}  // namespace kdcode
