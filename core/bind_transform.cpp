// Transform codes and rows of blocks for Python; see bindings.cpp.
#include "bind_transform.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

namespace kdcode {

[[noreturn]] void refuse_rows(const DecodeTrouble& trouble, std::int64_t row, std::size_t rows, std::size_t classes) {
  const std::string which = "row " + std::to_string(row);
  switch (trouble.row) {
    case RowTrouble::no_row:
      refuse("RowError", which + " is out of range: the table has " + std::to_string(rows) + " rows, 0 to " +
                             std::to_string(rows - 1));
    case RowTrouble::no_class:
      refuse("StorageError", "row_classes: found a class that is not below " + std::to_string(classes));
    case RowTrouble::beyond:
      refuse("StorageError", "row_starts: " + which + " ends after the last byte of codes");
    default:
      break;
  }
  switch (trouble.damage) {
    case Damage::too_long:
      refuse("StorageError", "codes: the levels of " + which + " take more bytes than it has");
    case Damage::too_large:
      refuse("StorageError", "codes: a level of " + which + " is not below K, or has more than 17 bits");
    default:
      refuse("StorageError", "codes: " + which + " is a number that stands for no level");
  }
}

void check_fit(const Transform& codec, const HeldBlocks& blocks) {
  bool fits = codec.levels().classes() == blocks.lengths.size() &&
              codec.levels().rows() == blocks.finder->rows().rows_per_block;
  for (std::size_t i = 0; fits && i < blocks.lengths.size(); ++i) fits = blocks.lengths[i] == codec.levels().length(i);
  expect(fits, "the rows and the codec must have the same classes of blocks");
}

namespace {

void make_blocks(HeldBlocks* self, const Vector<std::uint32_t>& lengths, std::size_t rows, std::size_t rows_per_block,
                 const Vector<std::uint8_t>& codes, const Vector<std::uint8_t>& classes,
                 const Vector<std::uint8_t>& starts, const Matrix<std::uint64_t>& breaks,
                 const Vector<std::uint8_t>& good, const std::vector<std::size_t>& file_starts) {
  expect(breaks.size() == 0 || breaks.shape(1) == 2, "breaks are pairs of a row and its slot");
  expect(lengths.size() >= 1 && lengths.size() <= most_classes, "there are 1 to 256 classes of blocks");
  expect(file_starts.size() == 3, "codes, classes and starts each begin somewhere in the file");
  new (self) HeldBlocks{codes, classes, starts, good, {}, {}, nullptr};
  // Breaks and lengths are checked once, and so they are copied: nobody can change them afterwards.
  self->breaks.assign(breaks.data(), breaks.data() + breaks.size());
  self->lengths.assign(lengths.data(), lengths.data() + lengths.size());
  BlockRows held;
  held.codes = {codes.data(), codes.size(), file_starts[0]};
  held.classes = {classes.data(), classes.size(), file_starts[1]};
  held.starts = {starts.data(), starts.size(), file_starts[2]};
  held.pieces = {good.size() == 0 ? nullptr : good.data(), good.size()};
  held.rows = rows, held.rows_per_block = rows_per_block, held.breaks = self->breaks;
  self->finder = std::make_unique<RowFinder>(held, self->lengths);
  const char* reason = nullptr;
  if (!self->finder->is_valid(&reason)) {
    const std::string text = reason;
    self->~HeldBlocks();
    refuse("StorageError", text);
  }
}

void make_transform(HeldTransform* self, std::size_t dim, std::size_t rows_per_block, unsigned states, bool signs,
                    std::uint32_t values, const Vector<std::uint8_t>& group_sizes,
                    const Vector<std::uint8_t>& group_contexts, const Vector<std::uint32_t>& lengths,
                    const Vector<std::int8_t>& class_contexts, const Vector<std::uint16_t>& magnitudes,
                    const Vector<std::uint8_t>& weights, const Vector<std::uint16_t>& centroid_frequencies,
                    const Vector<float>& mean, const Vector<float>& steps, const Vector<float>& sides,
                    const Matrix<std::int8_t>& matrix, const Vector<float>& matrix_scales,
                    const Matrix<float>& centroids, float unit) {
  LevelShape levels;
  levels.dim = dim, levels.rows = rows_per_block, levels.states = states, levels.has_signs = signs,
  levels.values = values;
  levels.group_sizes = group_sizes.span(), levels.group_contexts = group_contexts.span();
  levels.lengths = lengths.span(), levels.class_contexts = class_contexts.span();
  levels.magnitudes = magnitudes.span(), levels.weights = weights.span();
  levels.centroid_frequencies = centroid_frequencies.span();
  TransformShape shape;
  shape.mean = mean.span(), shape.steps = steps.span(), shape.sides = sides.span();
  shape.matrix = matrix.span(), shape.matrix_scales = matrix_scales.span(), shape.centroids = centroids.span(),
  shape.unit = unit;
  const char* reason = nullptr;
  auto made = Transform::make(levels, shape, &reason);
  if (!made) refuse("OptionError", reason);
  new (self) HeldTransform(std::move(made));
}

// Calls `work` for rows from the `done`-th on, and tells what stopped it.
template <class Work>
Stopped over_rows(const HeldTransform& held, const HeldBlocks& blocks, std::span<const std::int64_t> numbers,
                  std::size_t done, Work work) {
  const Transform& codec = held.codec();
  check_fit(codec, blocks);
  expect(done <= numbers.size(), "no more rows can be done than are asked for");
  DecodeTrouble trouble;
  {
    const ReleaseGil released((numbers.size() - done) * codec.dim() * 4);
    done = work(codec, &trouble);
  }
  if (trouble.found() && trouble.row != RowTrouble::unchecked) {
    refuse_rows(trouble, numbers[trouble.at], blocks.finder->rows().rows, blocks.lengths.size());
  }
  return {done, trouble.begin, trouble.length};
}

Stopped decode_rows(const HeldTransform& held, const HeldBlocks& blocks, std::span<const std::int64_t> numbers,
                    const Array<float, 2>& vectors, std::size_t done, std::int64_t zero_row) {
  expect_shape(vectors, "the vectors", {numbers.size(), held.codec().dim()});
  return over_rows(held, blocks, numbers, done, [&](const Transform& codec, DecodeTrouble* trouble) {
    return codec.decode(*blocks.finder, numbers, done, zero_row, vectors.data(), trouble);
  });
}

Stopped bind_decode(const HeldTransform& held, const HeldBlocks& blocks, const Vector<std::int64_t>& numbers,
                    const Array<float, 2>& vectors, std::size_t done, std::int64_t zero_row) {
  return decode_rows(held, blocks, numbers.span(), vectors, done, zero_row);
}

std::size_t bind_decode_ids(const HeldTransform& held, const HeldBlocks& blocks, const Ids& ids,
                            const Array<float, 2>& vectors, std::int64_t zero_row) {
  return std::get<0>(decode_rows(held, blocks, ids.span(), vectors, 0, zero_row));
}

// Rows as they are handed around: their place in the block where blocks have several, their class where there are
// several, the bytes of the block, and zeros up to the longest.
Stopped bind_copy(const HeldBlocks& blocks, const Vector<std::int64_t>& numbers, const Array<std::uint8_t, 2>& copies,
                  std::size_t done) {
  const bool has_place = blocks.finder->rows().rows_per_block > 1, has_class = blocks.lengths.size() > 1;
  const std::size_t longest = *std::max_element(blocks.lengths.begin(), blocks.lengths.end());
  const std::size_t width = longest + has_place + has_class;
  expect_shape(copies, "the copies", {numbers.size(), width});
  const ReleaseGil released(copies.size());
  for (; done < numbers.size(); ++done) {
    const RowPlace place = blocks.finder->find(numbers.data()[done]);
    if (place.trouble == RowTrouble::unchecked) return {done, place.begin, place.length};
    if (place.trouble != RowTrouble::none) {
      const nb::gil_scoped_acquire held;
      refuse_rows({place.trouble, Damage::none, done, 0, 0}, numbers.data()[done], blocks.finder->rows().rows,
                  blocks.lengths.size());
    }
    std::uint8_t* to = copies.data() + done * width;
    if (has_place) *to++ = static_cast<std::uint8_t>(place.place);
    if (has_class) *to++ = static_cast<std::uint8_t>(place.own);
    std::copy_n(blocks.finder->rows().codes.bytes + place.begin, place.length, to);
    std::fill_n(to + place.length, longest - place.length, std::uint8_t{0});
  }
  return {done, 0, 0};
}

// Codes of rows: (n, d) multiples, and (n, 4) the centroid, the class, the number of sides and the sides themselves.
Stopped bind_read(const HeldTransform& held, const HeldBlocks& blocks, const Vector<std::int64_t>& numbers,
                  const Array<std::int32_t, 2>& multiples, const Array<std::uint32_t, 2>& others, std::size_t done) {
  expect_shape(multiples, "the multiples", {numbers.size(), held.codec().dim()});
  expect_shape(others, "the other columns", {numbers.size(), 4});
  return over_rows(held, blocks, numbers.span(), done, [&](const Transform& codec, DecodeTrouble* trouble) {
    return codec.read(*blocks.finder, numbers.span(), done, multiples.data(), others.data(), trouble);
  });
}

std::vector<Sides> sides_of(const Matrix<std::uint32_t>& others, std::size_t active) {
  std::vector<Sides> sides(others.shape(0));
  for (std::size_t i = 0; i < sides.size(); ++i) {
    sides[i] = {others.data()[4 * i + 2], others.data()[4 * i + 3]};
    expect(sides[i].count <= std::min<std::size_t>(most_sides, active), "a row has at most 12 sides");
  }
  return sides;
}

void bind_compose(const HeldTransform& held, const Matrix<std::int32_t>& multiples, const Matrix<std::uint32_t>& others,
                  const Array<float, 2>& vectors) {
  const Transform& codec = held.codec();
  const std::size_t n = multiples.shape(0), centroids = codec.levels().centroids();
  expect_shape(multiples, "the multiples", {n, codec.dim()});
  expect_shape(others, "the other columns", {n, 4});
  expect_shape(vectors, "the vectors", {n, codec.dim()});
  std::vector<std::uint16_t> numbers(n);
  std::vector<std::uint8_t> classes(n);
  for (std::size_t i = 0; i < n; ++i) {
    expect(others.data()[4 * i] < std::max<std::size_t>(1, centroids), "a centroid must be below their number");
    expect(others.data()[4 * i + 1] < codec.levels().classes(), "a class must be below their number");
    numbers[i] = static_cast<std::uint16_t>(others.data()[4 * i]);
    classes[i] = static_cast<std::uint8_t>(others.data()[4 * i + 1]);
  }
  const std::vector<Sides> sides = sides_of(others, codec.levels().active());
  const ReleaseGil released(n * codec.dim());
  codec.compose(n, multiples.data(), classes.data(), numbers.data(), sides.data(), vectors.data());
}

void bind_coordinates(const HeldTransform& held, const Matrix<float>& vectors, const Array<float, 2>& coordinates) {
  const Transform& codec = held.codec();
  expect(codec.is_prepared(), "a codec with a rotation is prepared first");
  expect_shape(vectors, "the vectors", {vectors.shape(0), codec.dim()});
  expect_shape(coordinates, "the coordinates", {vectors.shape(0), codec.dim()});
  const ReleaseGil released(vectors.size());
  codec.coordinates(vectors.shape(0), vectors.data(), coordinates.data());
}

void bind_nearest(const HeldTransform& held, const Matrix<float>& coordinates, float trade,
                  const Array<std::uint16_t, 1>& numbers) {
  const Transform& codec = held.codec();
  expect(codec.levels().centroids() != 0, "there are no centroids");
  expect_shape(coordinates, "the coordinates", {numbers.size(), codec.dim()});
  const ReleaseGil released(coordinates.size());
  codec.nearest(numbers.size(), coordinates.data(), trade, numbers.data());
}

// Blocks of coordinates in steps to their codes and bytes.
void bind_encode(HeldTransform& held, const Matrix<float>& coordinates, const Matrix<std::uint16_t>& numbers,
                 const Vector<float>& trades, const Vector<std::uint8_t>& allowed, std::size_t used_of_last,
                 std::uint32_t largest, const Array<std::int32_t, 2>& multiples, const Array<std::uint32_t, 2>& others,
                 const Array<std::uint8_t, 2>& bytes) {
  const LevelCodec& levels = held.codec().levels();
  const std::size_t n = trades.size(), width = levels.rows() * levels.dim();
  expect_shape(coordinates, "the coordinates", {n, width});
  expect_shape(numbers, "the centroids", {n, levels.centroids() != 0 ? levels.rows() : 0});
  expect_shape(multiples, "the multiples", {n, width});
  expect_shape(others, "the other columns", {n, 3});
  expect_shape(bytes, "the bytes", {n, std::size_t{levels.longest()}});
  expect(allowed.size() >= 1 && largest >= 1 && largest <= 1u << 15, "a class has to be allowed, and a level");
  expect(used_of_last >= 1 && used_of_last <= levels.rows(), "the last block has a row at least");
  const std::vector<std::uint8_t> classes(allowed.data(), allowed.data() + allowed.size());
  for (const std::uint8_t own : classes) expect(own < levels.classes(), "a class must be below their number");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    expect(numbers.data()[i] < levels.centroids(), "a centroid must be below their number");
  }
  const auto costs = held.costs(largest);
  const ReleaseGil released(coordinates.size() * 64);
  LevelSearch search(levels, *costs);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t* own = numbers.size() == 0 ? nullptr : numbers.data() + i * levels.rows();
    std::uint8_t* to = bytes.data() + i * levels.longest();
    std::fill_n(to, levels.longest(), std::uint8_t{0});
    const auto found = search.find(coordinates.data() + i * width, i + 1 == n ? used_of_last : levels.rows(), own,
                                   trades.data()[i], classes, multiples.data() + i * width, to);
    std::uint32_t* rest = others.data() + 3 * i;
    rest[0] = static_cast<std::uint32_t>(found.own);
    rest[1] = static_cast<std::uint32_t>(found.sides);  // 2^32 - 1 where nothing fits
    rest[2] =
        found.above >> (most_sides - std::min<unsigned>(most_sides, static_cast<unsigned>(std::max(0, found.sides))));
  }
}

// Codes of whole blocks to bytes; gives how many sides each has room for, below 0 where it does not fit.
void bind_write(const HeldTransform& held, const Matrix<std::int32_t>& multiples, const Matrix<std::uint16_t>& numbers,
                const Matrix<std::uint32_t>& others, const Array<std::int32_t, 1>& room,
                const Array<std::uint8_t, 2>& bytes) {
  const LevelCodec& levels = held.codec().levels();
  const std::size_t n = room.size(), width = levels.rows() * levels.dim();
  expect_shape(multiples, "the multiples", {n, width});
  expect_shape(numbers, "the centroids", {n, levels.centroids() != 0 ? levels.rows() : 0});
  expect_shape(others, "the other columns", {n, 3});
  expect_shape(bytes, "the bytes", {n, std::size_t{levels.longest()}});
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t* rest = others.data() + 3 * i;
    expect(rest[0] < levels.classes() && rest[1] <= most_sides, "a class or a number of sides is out of range");
    const std::uint16_t* own = numbers.size() == 0 ? nullptr : numbers.data() + i * levels.rows();
    for (std::size_t k = 0; own != nullptr && k < levels.rows(); ++k) {
      expect(own[k] < levels.centroids(), "a centroid must be below their number");
    }
    std::uint8_t* to = bytes.data() + i * levels.longest();
    std::fill_n(to, levels.longest(), std::uint8_t{0});
    room.data()[i] =
        levels.is_lawful(multiples.data() + i * width)
            ? levels.write(multiples.data() + i * width, own, rest[0], rest[2] << (most_sides - rest[1]), to)
            : std::numeric_limits<std::int32_t>::min();
  }
}

// How often each magnitude occurs in blocks, of which the last has `used_of_last` rows.
void bind_count(const HeldTransform& held, const Matrix<std::int32_t>& multiples, const Matrix<std::uint32_t>& others,
                std::size_t used_of_last, const Array<std::int64_t, 3>& counts) {
  const LevelCodec& levels = held.codec().levels();
  const std::size_t n = multiples.shape(0);
  expect_shape(multiples, "the multiples", {n, levels.rows() * levels.dim()});
  expect_shape(others, "the other columns", {n, 3});
  expect(counts.shape(0) == levels.tables().contexts() && counts.shape(1) == 2 && counts.shape(2) >= 1,
         "counts have shape (contexts, 2, magnitudes)");
  const ReleaseGil released(multiples.size());
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t own = others.data()[3 * i];
    if (own >= levels.classes()) continue;
    const std::size_t used = i + 1 == n ? used_of_last : levels.rows();
    levels.count(multiples.data() + i * levels.rows() * levels.dim(), own, used, counts.shape(2), counts.data());
  }
}

void bind_level_bits(const HeldTransform& held, const Array<float, 3>& bits) {
  const LevelTables& tables = held.codec().levels().tables();
  expect(bits.shape(0) == tables.contexts() && bits.shape(1) == 2, "bits have shape (contexts, 2, magnitudes)");
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::size_t table = i / bits.shape(2);
    bits.data()[i] = tables.bits(static_cast<unsigned>(table / 2), table % 2, static_cast<unsigned>(i % bits.shape(2)));
  }
}

}  // namespace

void bind_transform(nb::module_& module) {
  nb::class_<HeldBlocks>(module, "BlockRows", "Rows of entropy-coded blocks, in memory or in a mapped file.")
      .def("__init__", make_blocks, nb::arg("lengths"), nb::arg("rows"), nb::arg("rows_per_block"), nb::arg("codes"),
           nb::arg("classes"), nb::arg("starts"), nb::arg("breaks"), nb::arg("good"), nb::arg("file_starts"))
      .def("copy", bind_copy, nb::arg("numbers"), nb::arg("copies"), nb::arg("done"),
           "Write rows with their place and class. How many are done, and which bytes have to be checked first.")
      .def(
          "check",
          [](const HeldBlocks& self) {
            const char* reason = nullptr;
            if (!self.finder->check(&reason)) refuse("StorageError", reason);
          },
          "Refuse rows whose blocks do not begin where those before them end; all bytes must have been checked.");
  nb::class_<HeldTransform>(module, "Transform", "A transform codec.")
      .def("__init__", make_transform, nb::arg("dim"), nb::arg("rows_per_block"), nb::arg("states"), nb::arg("signs"),
           nb::arg("values"), nb::arg("group_sizes"), nb::arg("group_contexts"), nb::arg("lengths"),
           nb::arg("class_contexts"), nb::arg("magnitudes"), nb::arg("weights"), nb::arg("centroid_frequencies"),
           nb::arg("mean"), nb::arg("steps"), nb::arg("sides"), nb::arg("matrix"), nb::arg("matrix_scales"),
           nb::arg("centroids"), nb::arg("unit"))
      .def("decode", bind_decode, nb::arg("rows"), nb::arg("numbers"), nb::arg("vectors"), nb::arg("done"),
           nb::arg("zero_row"),
           "Write the vectors of rows. How many are done, and which bytes of the file have to be checked first.")
      .def("decode_ids", bind_decode_ids, nb::arg("rows"), nb::arg("ids"), nb::arg("vectors"), nb::arg("zero_row"),
           "The same for ids in a tensor of torch; how many are done.")
      .def("read", bind_read, nb::arg("rows"), nb::arg("numbers"), nb::arg("multiples"), nb::arg("others"),
           nb::arg("done"), "Write the codes of rows: multiples, and centroid, class, number of sides, sides.")
      .def(
          "prepare",
          [](HeldTransform& self, const Matrix<float>& rotation) {
            const std::size_t dim = self.codec().dim();
            expect_shape(rotation, "the rotation", {dim, dim});
            self.prepare(rotation.span());
          },
          nb::arg("rotation"), "Take the rotation as it was before it was rounded, which `coordinates` needs.")
      .def("compose", bind_compose, nb::arg("multiples"), nb::arg("others"), nb::arg("vectors"),
           "Write the vectors of codes.")
      .def("coordinates", bind_coordinates, nb::arg("vectors"), nb::arg("coordinates"),
           "Write the coordinates of vectors, in units.")
      .def("nearest", bind_nearest, nb::arg("coordinates"), nb::arg("trade"), nb::arg("numbers"),
           "Write the centroid of each of (n, d) coordinates in units.")
      .def("encode", bind_encode, nb::arg("coordinates"), nb::arg("numbers"), nb::arg("trades"), nb::arg("allowed"),
           nb::arg("used_of_last"), nb::arg("largest"), nb::arg("multiples"), nb::arg("others"), nb::arg("bytes"),
           "Write the codes and bytes of blocks of coordinates in steps: multiples, and class, number of sides, sides.")
      .def("write", bind_write, nb::arg("multiples"), nb::arg("numbers"), nb::arg("others"), nb::arg("room"),
           nb::arg("bytes"), "Write the bytes of the codes of blocks, and for how many sides they have room.")
      .def("count", bind_count, nb::arg("multiples"), nb::arg("others"), nb::arg("used_of_last"), nb::arg("counts"),
           "Add how often each magnitude occurs in blocks, by context and quantizer.")
      .def("level_bits", bind_level_bits, nb::arg("bits"), "Write the bits of magnitudes by context and quantizer.");
}

}  // namespace kdcode
