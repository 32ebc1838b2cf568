// Searches and scores of transform codes for Python; see bindings.cpp.
#include <algorithm>
#include <memory>
#include <vector>

#include "bind_transform.hpp"
#include "level_scan.hpp"

namespace kdcode {
namespace {

constexpr std::size_t most_queries = 1024, queries_at_once = 64;

// Queries with their codec, which stays as long as they do.
struct HeldQueries {
  nb::object codec;
  std::unique_ptr<LevelQueries> queries;
};

Stopped stopped(const DecodeTrouble& trouble, std::size_t done, const HeldBlocks& blocks) {
  if (trouble.found() && trouble.row != RowTrouble::unchecked) {
    refuse_rows(trouble, static_cast<std::int64_t>(trouble.at), blocks.finder->rows().rows, blocks.lengths.size());
  }
  return {done, trouble.begin, trouble.length};
}

const LevelQueries& checked(const HeldQueries& held, const HeldBlocks& blocks, std::size_t first, std::size_t stop) {
  check_fit(nb::cast<const HeldTransform&>(held.codec).codec(), blocks);
  expect(first <= stop && stop <= blocks.finder->rows().rows, "a scan goes from one row of the table to another");
  return *held.queries;
}

Stopped bind_scan(const HeldQueries& held, const HeldBlocks& blocks, const Vector<float>& factors,
                  const Vector<float>& offsets, float extra, const Vector<float>& floors, std::size_t first,
                  std::size_t stop, const Array<std::int64_t, 2>& found, const Array<float, 2>& lows,
                  const Array<float, 2>& highs, const Array<std::int64_t, 1>& counts) {
  const LevelQueries& queries = checked(held, blocks, first, stop);
  const std::size_t count = queries.count(), room = found.shape(1), rows = blocks.finder->rows().rows;
  if (factors.size() != 0) expect_shape(factors, "the factors", {rows});
  if (offsets.size() != 0) expect_shape(offsets, "the offsets", {rows});
  expect_shape(floors, "the floors", {count});
  expect_shape(found, "what is found", {count, room});
  expect_shape(lows, "the lowest scores", {count, room});
  expect_shape(highs, "the highest scores", {count, room});
  expect_shape(counts, "the counts", {count});
  const LevelScan scan{factors.size() == 0 ? nullptr : factors.data(),
                       offsets.size() == 0 ? nullptr : offsets.data(),
                       extra,
                       floors.data(),
                       {room, found.data(), lows.data(), highs.data(), counts.data()}};
  DecodeTrouble trouble;
  {
    const ReleaseGil released((stop - first) * 256);
    first = queries.scan(*blocks.finder, first, stop, scan, &trouble);
  }
  return stopped(trouble, first, blocks);
}

Stopped bind_score(const HeldQueries& held, const HeldBlocks& blocks, std::size_t first, std::size_t stop,
                   const Array<float, 2>& scores) {
  const LevelQueries& queries = checked(held, blocks, first, stop);
  const std::size_t rows = blocks.finder->rows().rows;
  expect_shape(scores, "the scores", {queries.count(), rows});
  DecodeTrouble trouble;
  {
    const ReleaseGil released((stop - first) * 256);
    first = queries.score(*blocks.finder, first, stop, scores.data(), rows, &trouble);
  }
  return stopped(trouble, first, blocks);
}

void bind_score_int8(const Matrix<std::int8_t>& numbers, const Vector<float>& scales, const Matrix<double>& queries,
                     std::size_t first, std::size_t stop, const Array<float, 2>& scores) {
  const std::size_t rows = numbers.shape(0), dim = numbers.shape(1), count = queries.shape(0);
  expect(dim >= 1 && dim <= widest_planes, "rows of int8 have 1 to 65,536 columns");
  expect(first <= stop && stop <= rows, "scores are those from one row to another");
  expect_shape(scales, "the scales", {rows});
  expect_shape(queries, "the queries", {count, dim});
  expect_shape(scores, "the scores", {count, rows});
  const ReleaseGil released((stop - first) * dim * count);
  for (std::size_t start = 0; start < count; start += queries_at_once) {
    const std::size_t some = std::min(queries_at_once, count - start);
    const QueryPlanes planes(queries.span().subspan(start * dim, some * dim), some, most_planes);
    score_rows(planes, {numbers.data(), scales.data(), rows, dim}, first, stop, scores.data() + start * rows, rows);
  }
}

}  // namespace

void bind_search(nb::module_& module) {
  nb::class_<HeldQueries>(module, "LevelQueries", "Queries that are compared with rows of transform codes.")
      .def(
          "__init__",
          [](HeldQueries* self, nb::object codec, const Matrix<double>& queries, unsigned planes) {
            const Transform& own = nb::cast<const HeldTransform&>(codec).codec();
            expect_shape(queries, "the queries", {queries.shape(0), own.dim()});
            expect(queries.shape(0) >= 1 && queries.shape(0) <= most_queries, "there are 1 to 1,024 queries at a time");
            expect(own.levels().width() + most_sides <= widest_planes,
                   "rows with levels of 65,536 coordinates or more");
            expect(planes >= 1 && planes <= most_planes, "there are 1 to 3 planes");
            new (self)
                HeldQueries{codec, std::make_unique<LevelQueries>(own, queries.span(), queries.shape(0), planes)};
          },
          nb::arg("codec"), nb::arg("queries"), nb::arg("planes"))
      .def(
          "slack",
          [](const HeldQueries& self) {
            std::vector<std::pair<float, float>> found;
            for (std::size_t i = 0; i < self.queries->count(); ++i) {
              found.emplace_back(self.queries->slack()[i], self.queries->more()[i]);
            }
            return found;
          },
          "How far products with each query may be off, and for each unit of a row's magnitudes.")
      .def("scan", bind_scan, nb::arg("rows"), nb::arg("factors"), nb::arg("offsets"), nb::arg("extra"),
           nb::arg("floors"), nb::arg("first"), nb::arg("stop"), nb::arg("found"), nb::arg("lows"), nb::arg("highs"),
           nb::arg("counts"),
           "Keep the rows whose score may exceed a floor; the row that is next, and which bytes of the file have to be "
           "checked first.")
      .def("score", bind_score, nb::arg("rows"), nb::arg("first"), nb::arg("stop"), nb::arg("scores"),
           "Write the dot products of rows with (q, d) queries into (q, N) scores; as `scan`.");
  module.def("score_int8", bind_score_int8, nb::arg("numbers"), nb::arg("scales"), nb::arg("queries"), nb::arg("first"),
             nb::arg("stop"), nb::arg("scores"),
             "Write the dot products of (q, d) queries with some of (N, d) int8 rows times (N,) scales into (q, N).");
}

}  // namespace kdcode
