// Codes that choose among codewords, for Python; see bindings.cpp.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "bits.hpp"
#include "lstm.hpp"
#include "scan.hpp"
#include "sums.hpp"

namespace kdcode {
namespace {

// A codec whose codes choose among codewords, with the arrays that it reads. They are not copied: what is written to
// them later counts. Arrays that are not there are empty.
class HeldCodec {
 public:
  using Factors = Array<const float, 1>;
  struct Tensors {
    Stored<3> codebook;  // (D, K, e)
    Factors codebook_scale;
    Stored<2> basis;  // (inner_dim, d)
    Factors basis_scale, scale_levels;
  };

  explicit HeldCodec(Tensors tensors) : tensors_(std::move(tensors)) {}

  void make_sums(std::size_t embedding_dim, std::size_t groups) {
    codec_ = Sums::make(codewords(embedding_dim), groups);
    expect(codec_ != nullptr, "the codebook, the basis and the number of groups must fit together");
  }

  void make_lstm(const Stored<3>& recurrent, const Stored<2>& bias) {
    const std::size_t dim = tensors_.codebook.shape(2);
    expect_shape(recurrent, "recurrent", {4, dim, dim});
    expect_shape(bias, "bias", {4, dim});
    recurrent_ = recurrent, bias_ = bias;
    codec_ = Lstm::make(codewords(tensors_.basis.shape(1)), weight(recurrent.data(), recurrent.itemsize()),
                        weight(bias.data(), bias.itemsize()));
    expect(codec_ != nullptr, "the codebook and the basis must fit together");
  }

  const CodewordCodec& codec() const { return *codec_; }

 private:
  static Weight weight(const void* numbers, std::size_t itemsize, const float* scales = nullptr) {
    return {numbers, itemsize == 4 ? Number::float32 : itemsize == 2 ? Number::float16 : Number::int8, scales};
  }

  Codewords codewords(std::size_t embedding_dim) const {
    const auto& [codebook, codebook_scale, basis, basis_scale, levels] = tensors_;
    const std::size_t length = codebook.shape(0), inner = basis.size() == 0 ? embedding_dim : basis.shape(0);
    expect(codebook.size() != 0 && embedding_dim != 0, "a codec needs codewords and dimensions");
    if (basis.size() != 0) expect_shape(basis, "the basis", {inner, embedding_dim});
    if (codebook_scale.size() != 0) expect_shape(codebook_scale, "codebook_scale", {length});
    if (basis_scale.size() != 0) expect_shape(basis_scale, "basis_scale", {inner});
    const auto scales = [](const Factors& factors) { return factors.size() == 0 ? nullptr : factors.data(); };
    return {codebook.shape(1),
            length,
            codebook.shape(2),
            inner,
            embedding_dim,
            weight(codebook.data(), codebook.itemsize(), scales(codebook_scale)),
            weight(basis.size() == 0 ? nullptr : basis.data(), basis.itemsize(), scales(basis_scale)),
            levels.data(),
            levels.size()};
  }

  Tensors tensors_;
  Stored<3> recurrent_;
  Stored<2> bias_;
  std::unique_ptr<CodewordCodec> codec_;
};

// Packed rows, with the array that they are in and, of a mapped file, which of its blocks are known to be good.
struct HeldRows {
  Array<const std::uint8_t, 2> packed;
  Array<const std::uint8_t, 1> good;
  CodeRows rows;
};

CodeRows checked_rows(const HeldRows& held, const CodewordCodec& codec) {
  expect(rows_are_valid(held.rows, codec.code_shape()), "the packed rows and the codec must fit together");
  return held.rows;
}

// What is wrong with a row that the core did not decode. Its number and its bytes may have been written to meanwhile.
[[noreturn]] void refuse_row(Stop why, const CodewordCodec& codec, const CodeRows& rows, std::int64_t row) {
  if (why == Stop::no_memory) throw std::bad_alloc();
  if (why == Stop::no_row || row < 0 || static_cast<std::uint64_t>(row) >= rows.count) {
    refuse("RowError", "row " + std::to_string(row) + " is out of range: the table has " + std::to_string(rows.count) +
                           " rows, 0 to " + std::to_string(static_cast<std::int64_t>(rows.count) - 1));
  }
  const CodeShape shape = codec.code_shape();
  std::vector<std::uint32_t> codes;
  for (std::size_t i = 0; i < shape.length + (rows.level_bits != 0); ++i) {
    const std::span<const std::uint8_t> bytes{rows.bytes + static_cast<std::size_t>(row) * rows.row_bytes,
                                              rows.row_bytes};
    const unsigned bits = i < shape.length ? rows.position_bits : rows.level_bits;
    codes.push_back(static_cast<std::uint32_t>(bits_at(bytes, std::uint64_t{i} * rows.position_bits, bits)));
  }
  if (why == Stop::too_large) {
    constexpr std::size_t shown = 16;
    std::string code;
    for (std::size_t i = 0; i < std::min(codes.size(), shown); ++i) code += (i ? "-" : "") + std::to_string(codes[i]);
    refuse("StorageError", "codes: the vector of code " + code + (codes.size() > shown ? "-…" : "") +
                               " has a number beyond float32, 3.403e+38");
  }
  const std::uint32_t most =
      *std::max_element(codes.begin(), codes.begin() + static_cast<std::ptrdiff_t>(shape.length));
  if (most >= shape.size || rows.level_bits == 0) {
    refuse("StorageError", "codes: found code value " + std::to_string(most) +
                               ", values must be below K=" + std::to_string(shape.size));
  }
  refuse("StorageError", "codes: found level " + std::to_string(codes.back()) +
                             " of a row scale, levels must be below " + std::to_string(shape.levels));
}

std::size_t decode_numbers(const HeldCodec& held, const HeldRows& held_rows, std::span<const std::int64_t> numbers,
                           const Array<float, 2>& vectors, std::size_t done, std::int64_t zero_row, bool finite) {
  const CodewordCodec& codec = held.codec();
  const CodeRows rows = checked_rows(held_rows, codec);
  const std::size_t count = numbers.size(), dim = codec.codewords().embedding_dim;
  expect_shape(vectors, "the vectors", {count, dim});
  expect(done <= count, "no more rows can be done than are asked for");
  Reached reached;
  {
    const ReleaseGil released((count - done) * (dim + codec.codewords().length));
    reached = codec.decode(rows, {numbers.data(), count, done, zero_row, finite}, vectors.data());
  }
  if (reached.why != Stop::none && reached.why != Stop::unchecked) {
    refuse_row(reached.why, codec, rows, numbers[reached.place]);
  }
  return reached.place;
}

std::size_t bind_decode(const HeldCodec& held, const HeldRows& rows, const Array<const std::int64_t, 1>& numbers,
                        const Array<float, 2>& vectors, std::size_t done, std::int64_t zero_row, bool finite) {
  return decode_numbers(held, rows, numbers.span(), vectors, done, zero_row, finite);
}

std::size_t bind_decode_ids(const HeldCodec& held, const HeldRows& rows, const Ids& ids, const Array<float, 2>& vectors,
                            std::int64_t zero_row) {
  return decode_numbers(held, rows, ids.span(), vectors, 0, zero_row, false);
}

// The arrays of a scan; see Scan.
struct HeldScan {
  Array<const float, 2> tables;
  Array<const float, 1> slack, factors, offsets;
};

std::pair<std::size_t, bool> bind_scan(const HeldCodec& held, const HeldRows& held_rows, const HeldScan& scores,
                                       const Array<const float, 1>& floors, std::size_t first, std::size_t stop,
                                       const Array<std::int64_t, 2>& found, const Array<float, 2>& lows,
                                       const Array<float, 2>& highs, const Array<std::int64_t, 1>& counts) {
  const CodewordCodec& codec = held.codec();
  const CodeRows rows = checked_rows(held_rows, codec);
  const CodeShape shape = codec.code_shape();
  const std::size_t queries = scores.tables.shape(0), room = found.shape(1);
  expect_shape(scores.tables, "the tables", {queries, shape.length * shape.size});
  expect_shape(scores.slack, "the slack", {queries});
  if (scores.factors.size() != 0) expect_shape(scores.factors, "the factors", {rows.count});
  if (scores.offsets.size() != 0) expect_shape(scores.offsets, "the offsets", {rows.count});
  expect_shape(floors, "the floors", {queries});
  expect_shape(found, "what is found", {queries, room});
  expect_shape(lows, "the lowest scores", {queries, room});
  expect_shape(highs, "the highest scores", {queries, room});
  expect_shape(counts, "the counts", {queries});
  expect(first <= stop && stop <= rows.count, "a scan goes from one row of the table to another");
  const auto given = [](const Array<const float, 1>& numbers) {
    return numbers.size() == 0 ? nullptr : numbers.data();
  };
  const Scan scan{queries,
                  scores.tables.data(),
                  scores.slack.data(),
                  given(scores.factors),
                  given(scores.offsets),
                  floors.data(),
                  codec.codewords().levels,
                  room,
                  found.data(),
                  lows.data(),
                  highs.data(),
                  counts.data()};
  Reached reached;
  {
    const ReleaseGil released((stop - first) * shape.length * queries);
    reached = scan_rows(rows, shape, scan, first, stop);
  }
  if (reached.why != Stop::none && reached.why != Stop::unchecked) {
    refuse_row(reached.why, codec, rows, static_cast<std::int64_t>(reached.place));
  }
  return {reached.place, reached.why == Stop::unchecked};
}

}  // namespace

void bind_codewords(nb::module_& module) {
  nb::class_<HeldRows>(module, "CodeRows", "Packed rows of codes, in memory or in a mapped file.")
      .def(
          "__init__",
          [](HeldRows* self, const Array<const std::uint8_t, 2>& packed, unsigned position_bits, unsigned level_bits,
             const Array<const std::uint8_t, 1>& good, std::size_t file_start) {
            new (self) HeldRows{packed,
                                good,
                                {packed.data(),
                                 packed.shape(0),
                                 packed.shape(1),
                                 position_bits,
                                 level_bits,
                                 {good.size() == 0 ? nullptr : good.data(), good.size()},
                                 file_start}};
          },
          nb::arg("packed"), nb::arg("position_bits"), nb::arg("level_bits"), nb::arg("good"), nb::arg("file_start"));
  using Factors = Array<const float, 1>;
  nb::class_<HeldCodec>(module, "Codewords", "A codec whose codes choose among codewords.")
      .def("decode", bind_decode, nb::arg("code_rows"), nb::arg("rows"), nb::arg("vectors"), nb::arg("done"),
           nb::arg("zero_row"), nb::arg("finite"),
           "Write the (n, d) vectors of rows; how many are done, fewer where a block of the file is not checked yet.")
      .def("decode_ids", bind_decode_ids, nb::arg("code_rows"), nb::arg("ids"), nb::arg("vectors"), nb::arg("zero_row"),
           "The same for ids in a tensor of torch; vectors may be infinite.")
      .def("scan", bind_scan, nb::arg("code_rows"), nb::arg("scores"), nb::arg("floors"), nb::arg("first"),
           nb::arg("stop"), nb::arg("found"), nb::arg("lows"), nb::arg("highs"), nb::arg("counts"),
           "Keep the rows whose score may exceed a floor; the row that is next, and whether its block is not checked "
           "yet.");
  module.def(
      "sums",
      [](const Stored<3>& codebook, const Factors& codebook_scale, const Stored<2>& basis, const Factors& basis_scale,
         const Factors& scale_levels, std::size_t embedding_dim, std::size_t groups) {
        HeldCodec held({codebook, codebook_scale, basis, basis_scale, scale_levels});
        held.make_sums(embedding_dim, groups);
        return held;
      },
      nb::arg("codebook"), nb::arg("codebook_scale"), nb::arg("basis"), nb::arg("basis_scale"), nb::arg("scale_levels"),
      nb::arg("embedding_dim"), nb::arg("groups"), "The codec of linear, product and grouped codes.");
  module.def(
      "lstm",
      [](const Stored<3>& codebook, const Factors& codebook_scale, const Stored<2>& basis, const Factors& basis_scale,
         const Factors& scale_levels, const Stored<3>& recurrent, const Stored<2>& bias) {
        HeldCodec held({codebook, codebook_scale, basis, basis_scale, scale_levels});
        held.make_lstm(recurrent, bias);
        return held;
      },
      nb::arg("codebook"), nb::arg("codebook_scale"), nb::arg("basis"), nb::arg("basis_scale"), nb::arg("scale_levels"),
      nb::arg("recurrent"), nb::arg("bias"), "The codec of an LSTM over codewords.");
  nb::class_<HeldScan>(module, "Scores", "What rows are compared with queries by.")
      .def(
          "__init__",
          [](HeldScan* self, const Array<const float, 2>& tables, const Factors& slack, const Factors& factors,
             const Factors& offsets) { new (self) HeldScan{tables, slack, factors, offsets}; },
          nb::arg("tables"), nb::arg("slack"), nb::arg("factors"), nb::arg("offsets"));
}

}  // namespace kdcode
