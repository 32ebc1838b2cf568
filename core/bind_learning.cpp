// What learners compute, for Python: nearest codewords, searches for codes, sums by label; see bindings.cpp.
#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "bindings.hpp"
#include "dispatch.hpp"
#include "product_kernels.hpp"
#include "sum_search.hpp"

namespace kdcode {
namespace {

using Rows = Array<const float, 2>;
using Codes = Integers<2, true>;

void bind_nearest(const Rows& rows, const Rows& words, const Array<std::int64_t, 1>& labels) {
  expect(words.shape(0) >= 1 && words.shape(1) == rows.shape(1), "there must be codewords of as many numbers as rows");
  expect_shape(labels, "the labels", {rows.shape(0)});
  const ReleaseGil released(rows.size() * words.shape(0));
  if (!nearest_words(rows.data(), rows.shape(0), words.data(), words.shape(0), words.shape(1), labels.data())) {
    throw std::bad_alloc();
  }
}

void bind_multiply(const Rows& rows, const Rows& matrix, const Array<float, 2>& products) {
  expect_shape(matrix, "the matrix", {rows.shape(1), matrix.shape(1)});
  expect_shape(products, "the products", {rows.shape(0), matrix.shape(1)});
  const ReleaseGil released(rows.size() * matrix.shape(1));
  KDCODE_CHOSEN(product_kernels)
      .multiply(rows.data(), rows.shape(0), rows.shape(1), matrix.data(), matrix.shape(1), products.data());
}

void bind_add_rows(const Rows& rows, const Integers<2>& codes, std::size_t position,
                   const Array<const float, 1>& weights, std::size_t first, const Array<float, 2>& sums) {
  const std::size_t n = rows.shape(0), dim = rows.shape(1);
  expect(codes.shape(0) == n && position < codes.shape(1), "there must be a code at this position for each row");
  if (weights.size() != 0) expect_shape(weights, "the weights", {n});
  expect_shape(sums, "the sums", {sums.shape(0), dim});
  codes.visit([&](const auto* labels) {
    const ReleaseGil released(rows.size());
    add_rows(rows.data(), labels + position, codes.shape(1), weights.size() == 0 ? nullptr : weights.data(), n, dim,
             first, sums.shape(0), sums.data());
  });
}

template <class Count>
void bind_count_pairs(const Integers<2>& codes, std::size_t first, std::size_t second,
                      const Array<const float, 1>& weights, const Array<Count, 2>& counts) {
  const std::size_t n = codes.shape(0), length = codes.shape(1);
  expect(first < length && second < length, "codes have no such positions");
  if (weights.size() != 0) expect_shape(weights, "the weights", {n});
  codes.visit([&](const auto* values) {
    const ReleaseGil released(n);
    for (std::size_t row = 0; row < n; ++row, values += length) {
      const auto a = static_cast<std::uint64_t>(values[first]), b = static_cast<std::uint64_t>(values[second]);
      if (a >= counts.shape(0) || b >= counts.shape(1)) continue;
      counts.data()[static_cast<std::size_t>(a) * counts.shape(1) + static_cast<std::size_t>(b)] +=
          weights.size() == 0 ? Count{1} : static_cast<Count>(weights.data()[row]);
    }
  });
}

void bind_subtract(const Rows& rows, const Array<const float, 3>& words, const Integers<2>& codes,
                   const Array<float, 2>& left) {
  const std::size_t n = rows.shape(0), dim = rows.shape(1), length = words.shape(0), size = words.shape(1);
  expect(words.shape(2) == dim && codes.shape(0) == n && codes.shape(1) == length,
         "the codewords, the rows and their codes must fit together");
  expect_shape(left, "what is left", {n, dim});
  codes.visit([&](const auto* code) {
    const ReleaseGil released(n * length * dim);
    float* out = left.data();
    for (std::size_t row = 0; row < n; ++row, out += dim, code += length) {
      std::copy_n(rows.data() + row * dim, dim, out);
      for (std::size_t position = 0; position < length; ++position) {
        const auto place = static_cast<std::uint64_t>(code[position]);
        if (place >= size) continue;
        const float* word = words.data() + (position * size + static_cast<std::size_t>(place)) * dim;
        for (std::size_t i = 0; i < dim; ++i) out[i] -= word[i];
      }
    }
  });
}

struct HeldSearch {
  std::unique_ptr<SumSearch> search;
};

void make_search(HeldSearch* self, const Array<const float, 3>& words) {
  expect(words.size() != 0, "a search needs codewords");
  std::unique_ptr<SumSearch> search;
  {
    const ReleaseGil released(words.size());
    search = SumSearch::make(words.data(), words.shape(0), words.shape(1), words.shape(2));
  }
  if (!search) throw std::bad_alloc();
  new (self) HeldSearch{std::move(search)};
}

void check_rows(const SumSearch& search, const Rows& rows, const Codes& codes) {
  expect_shape(rows, "the rows", {rows.shape(0), search.dim()});
  expect_shape(codes, "the codes", {rows.shape(0), search.length()});
}

template <class Value>
constexpr bool holds(std::size_t size) {
  return size - 1 <= static_cast<std::uint64_t>(std::numeric_limits<Value>::max());
}

void bind_encode(const HeldSearch& held, const Rows& rows, std::size_t beam, const Codes& codes) {
  const SumSearch& search = *held.search;
  check_rows(search, rows, codes);
  expect(beam >= 1 && beam <= 1 << 20, "a beam keeps 1 to 1,048,576 partial codes");
  codes.visit([&](auto* values) {
    using Value = std::remove_pointer_t<decltype(values)>;
    expect(holds<Value>(search.size()), "the type of the codes must hold all codewords");
    const ReleaseGil released(rows.size() * search.size());
    std::vector<std::uint32_t> found(codes.size());
    if (!search.encode(rows.data(), rows.shape(0), beam, found.data())) throw std::bad_alloc();
    std::copy(found.begin(), found.end(), values);
  });
}

void bind_sweep(const HeldSearch& held, const Rows& rows, const Codes& codes,
                const Array<const std::uint32_t, 2>& order, const Array<const float, 1>& temperatures,
                const Array<const std::uint64_t, 2>& places, const Array<const float, 1>& noise, bool keeps_nearer) {
  const SumSearch& search = *held.search;
  check_rows(search, rows, codes);
  const std::size_t sweeps = temperatures.size(), length = search.length(), needed = search.noise_for(rows.shape(0));
  expect_shape(order, "the order", {sweeps, length});
  expect_shape(places, "the places of noise", {sweeps, length});
  // Copied before they are checked: nobody can change them afterwards.
  const std::vector<std::uint32_t> own_order(order.data(), order.data() + order.size());
  const std::vector<std::size_t> own_places(places.data(), places.data() + places.size());
  const std::vector<float> own_temperatures(temperatures.data(), temperatures.data() + sweeps);
  for (const std::uint32_t position : own_order) expect(position < length, "positions must be below the code length");
  for (std::size_t i = 0; i < own_places.size(); ++i) {
    const bool fits = noise.size() >= needed && own_places[i] <= noise.size() - needed;
    expect(fits || !(own_temperatures[i / length] > 0), "there must be noise for each visit");
  }
  codes.visit([&](auto* values) {
    using Value = std::remove_pointer_t<decltype(values)>;
    expect(holds<Value>(search.size()), "the type of the codes must hold all codewords");
    std::vector<std::uint32_t> found(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto code = static_cast<std::uint64_t>(values[i]);
      expect(code < search.size(), "codes must be below the number of codewords");
      found[i] = static_cast<std::uint32_t>(code);
    }
    const ReleaseGil released(codes.size() * search.size());
    const SumSearch::Sweeps asked{own_order.data(), own_temperatures.data(), sweeps,
                                  noise.data(),     own_places.data(),       keeps_nearer};
    if (!search.sweep(rows.data(), rows.shape(0), asked, found.data())) throw std::bad_alloc();
    std::copy(found.begin(), found.end(), values);
  });
}

}  // namespace

void bind_learning(nb::module_& module) {
  module.def("nearest", bind_nearest, nb::arg("rows"), nb::arg("words"), nb::arg("labels"),
             "Write the place of the nearest of (K, d) codewords for each of (n, d) rows.");
  module.def("multiply", bind_multiply, nb::arg("rows"), nb::arg("matrix"), nb::arg("products"),
             "Write the products of (n, k) rows and a (k, m) matrix.");
  module.def("add_rows", bind_add_rows, nb::arg("rows"), nb::arg("codes"), nb::arg("position"), nb::arg("weights"),
             nb::arg("first"), nb::arg("sums"),
             "Add (n, d) rows, by weight, to the sums of the codewords `first`, `first + 1`, ... of a position.");
  module.def("count_pairs", bind_count_pairs<float>, nb::arg("codes"), nb::arg("first"), nb::arg("second"),
             nb::arg("weights"), nb::arg("counts"),
             "Add to (K, K) counts how many rows, by weight, use two codewords of two positions.");
  module.def("count_pairs_by_weight", bind_count_pairs<double>, nb::arg("codes"), nb::arg("first"), nb::arg("second"),
             nb::arg("weights"), nb::arg("counts"), "The same in double.");
  module.def("subtract_words", bind_subtract, nb::arg("rows"), nb::arg("words"), nb::arg("codes"), nb::arg("left"),
             "Write (n, d) rows less the codewords of their codes.");
  nb::class_<HeldSearch>(module, "SumSearch", "The search for codes whose codewords add up to given vectors.")
      .def("__init__", make_search, nb::arg("words"))
      .def("encode", bind_encode, nb::arg("rows"), nb::arg("beam"), nb::arg("codes"),
           "Write the codes of rows that beam search finds.")
      .def("sweep", bind_sweep, nb::arg("rows"), nb::arg("codes"), nb::arg("order"), nb::arg("temperatures"),
           nb::arg("places"), nb::arg("noise"), nb::arg("keeps_nearer"),
           "Change codes by sweeps over all positions: ICM at temperature 0, else Gibbs sampling.");
}

}  // namespace kdcode
