// Stored symbols for Python; see bindings.cpp.
#include <nanobind/stl/optional.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "bindings.hpp"
#include "checked.hpp"
#include "symbols.hpp"

namespace kdcode {
namespace {

template <class Container>
nb::bytes as_bytes(const Container& container) {
  return nb::bytes(container.data(), container.size() * sizeof(container[0]));
}

// The size and the time of the last change of an open file, as they were when somebody last took note of them.
class FileStamp {
 public:
  explicit FileStamp(int descriptor) : descriptor_(descriptor) {
    const Stamp now = look();
    seen(now.size, now.changed);
  }
  bool is_current() const {
    const Stamp now = look();
    return now.size == size_.load() && now.changed == changed_.load();
  }
  nb::object changed() const {
    const Stamp now = look();
    if (now.size == size_.load() && now.changed == changed_.load()) return nb::none();
    return nb::make_tuple(now.size, now.changed);
  }
  void seen(std::int64_t size, std::int64_t changed) {
    size_ = size;
    changed_ = changed;
  }
  std::int64_t size() const { return size_; }

 private:
  struct Stamp {
    std::int64_t size, changed;
  };
  Stamp look() const {
#ifdef _WIN32
    struct _stat64 found = {};
    if (_fstat64(descriptor_, &found) != 0) return {-1, -1};
    return {found.st_size, found.st_mtime};
#else
    struct stat found = {};
    if (fstat(descriptor_, &found) != 0) return {-1, -1};
#ifdef __APPLE__
    const timespec time = found.st_mtimespec;
#else
    const timespec time = found.st_mtim;
#endif
    return {found.st_size, std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
#endif
  }

  int descriptor_;
  std::atomic<std::int64_t> size_, changed_;
};

// Stored symbols over arrays of Python, in memory or in a mapped file.
class SymbolsInArrays {
 public:
  using Column = Array<const std::uint8_t, 1>;
  using Good = Array<const std::uint8_t, 1>;

  SymbolsInArrays(std::uint64_t count, const nb::bytes& strings, const Column& blocks, const Column& starts,
                  const Column& order)
      : blocks_(blocks), starts_(starts), order_(order) {
    expect(count >= 1 && count <= std::uint64_t{1} << 40, "there are 1 to 2^40 symbols");
    expect(blocks.size() < std::uint64_t{1} << 40, "the symbols must have less than 2^40 bytes");
    symbols_.count = count;
    symbols_.place_bits = std::max(1u, static_cast<unsigned>(std::bit_width(blocks.size())));
    symbols_.row_bits = std::max(1u, static_cast<unsigned>(std::bit_width(count - 1)));
    symbols_.blocks.bytes = blocks.span();
    symbols_.starts.bytes = starts.span();
    symbols_.order.bytes = order.span();
    const std::uint64_t rows = symbols_.block_count() + 1, eights = (count + 7) / 8;
    expect(starts.size() == rows * symbols_.start_bytes(), "the starts must be those of the blocks");
    expect(order.size() == eights * symbols_.row_bits, "the order must be that of the symbols");
    if (!symbols_.code.load(bytes_of(strings))) refuse("StorageError", "symbols.strings: these are no prefix codes");
  }

  // From now on, pieces of the file are checked before they are read, and changes of the file are noticed.
  void watch(const Good& good, std::size_t blocks, std::size_t starts, std::size_t order, nb::object check,
             nb::object notice_changes, nb::object stamp) {
    expect(good.size() != 0, "each piece of the file must be good or not");
    good_ = good;
    for (const auto& [part, start] : {std::pair{&symbols_.blocks, blocks}, std::pair{&symbols_.starts, starts},
                                      std::pair{&symbols_.order, order}}) {
      part->pieces = {good.data(), good.size()};
      part->start = start;
      expect(part->pieces.cover(start, part->bytes.size()), "each piece of the file must be good or not");
    }
    check_ = std::move(check);
    notice_changes_ = std::move(notice_changes);
    stamp_object_ = std::move(stamp);
    stamp_ = stamp_object_.is_none() ? nullptr : nb::cast<FileStamp*>(stamp_object_);
  }

  std::optional<std::uint64_t> find(const nb::str& symbol) const {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(symbol.ptr(), &size);
    if (text == nullptr) {  // it cannot be written as UTF-8
      if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) throw nb::python_error();
      PyErr_Clear();
      return std::nullopt;
    }
    const Bytes key{reinterpret_cast<const std::uint8_t*>(text), static_cast<std::size_t>(size)};
    notice_changes();
    const Answer answer = settled([&] { return symbols_.find(key); });
    return answer.state == Answer::State::found ? std::optional(answer.row) : std::nullopt;
  }

  nb::list at(const Array<const std::int64_t, 1>& ranks) const {
    notice_changes();
    nb::list texts;
    SymbolReader reader(symbols_);
    std::uint64_t next = 0;  // the rank that the reader comes to
    for (const std::int64_t rank : ranks.span()) {
      expect(rank >= 0 && static_cast<std::uint64_t>(rank) < symbols_.count, "ranks lie between 0 and N");
      const std::uint64_t wanted = static_cast<std::uint64_t>(rank), first = wanted - wanted % block_symbols;
      if (next <= first || next > wanted) {
        settled([&] { return reader.open(wanted / block_symbols); });
        next = first;
      }
      for (; next <= wanted; ++next) settled([&] { return reader.next(); });
      const Bytes text = reader.symbol();
      nb::object decoded = nb::steal(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(text.data()),
                                                          static_cast<Py_ssize_t>(text.size()), nullptr));
      if (!decoded.is_valid()) {
        PyErr_Clear();
        refuse_symbols("blocks", wanted / block_symbols, "is not UTF-8");
      }
      texts.append(decoded);
    }
    return texts;
  }

  nb::bytes text(std::uint64_t first, std::uint64_t end) const {
    check_blocks(first, end);
    notice_changes();
    std::vector<std::uint8_t> text;
    SymbolReader reader(symbols_);
    for (std::uint64_t block = first; block < end; ++block) {
      settled([&] { return reader.open(block); });
      while (!reader.at_end()) {
        settled([&] { return reader.next(); });
        text.insert(text.end(), reader.symbol().begin(), reader.symbol().end());
        text.push_back(symbol_end);
      }
    }
    return as_bytes(text);
  }

  void verify_blocks(std::uint64_t first, std::uint64_t end, const Array<std::uint8_t, 1>& seen) const {
    check_blocks(first, end);
    expect(seen.size() >= (symbols_.count + 7) / 8, "there must be a bit for each row");
    settled([&] {
      const nb::gil_scoped_release released;
      const Answer answer = verify(symbols_, first, end, seen.span());
      if (answer.state == Answer::State::unchecked) first = answer.block;
      return answer;
    });
  }

 private:
  [[noreturn]] static void refuse_symbols(const char* tensor, std::uint64_t block, const char* text) {
    refuse("StorageError", "symbols." + std::string(tensor) + ": block " + std::to_string(block) + " " + text);
  }

  void check_blocks(std::uint64_t first, std::uint64_t end) const {
    expect(first <= end && end <= symbols_.block_count(), "blocks lie between 0 and their number");
  }

  void notice_changes() const {
    if (stamp_ != nullptr && !stamp_->is_current()) notice_changes_();
  }

  // Asks until the pieces of the file that the answer needs are checked; refuses what is damaged.
  template <class Ask>
  Answer settled(Ask ask) const {
    Answer answer = ask();
    while (answer.state == Answer::State::unchecked) {
      check_(answer.from, answer.to);
      answer = ask();
    }
    if (answer.state == Answer::State::damaged) {
      refuse_symbols(answer.problem->tensor, answer.block, answer.problem->text);
    }
    return answer;
  }

  Symbols symbols_;
  Column blocks_, starts_, order_;
  Good good_;
  nb::object check_, notice_changes_, stamp_object_;
  const FileStamp* stamp_ = nullptr;
};

// What is wrong with a text of sorted symbols: "repeated", and the number of the symbol; None if nothing is.
nb::object bind_survey(SymbolBuilder& builder, const nb::bytes& text) {
  constexpr const char* names[] = {"", "unsorted", "repeated", "too long", "not UTF-8", "cut short"};
  const SymbolBuilder::Finding finding = builder.survey(bytes_of(text));
  if (finding.fault == SymbolBuilder::Fault::none) return nb::none();
  return nb::make_tuple(names[static_cast<std::size_t>(finding.fault)], finding.place);
}

nb::bytes bind_pack_starts(const nb::bytes& pairs, std::uint64_t head_bytes, unsigned place_bits) {
  expect(place_bits >= 1 && place_bits <= 41 && pairs.size() % 16 == 0, "pairs of numbers of 1 to 41 bits are packed");
  std::vector<std::uint64_t> numbers(pairs.size() / 8);
  std::memcpy(numbers.data(), pairs.data(), pairs.size());
  std::vector<std::uint8_t> packed(numbers.size() / 2 * ((2 * place_bits + 7) / 8));
  pack_starts(numbers, head_bytes, place_bits, packed.data());
  return as_bytes(packed);
}

}  // namespace

void bind_symbols(nb::module_& module) {
  nb::class_<FileStamp>(module, "FileStamp", "The size and time of change of an open file, when it was last looked at.")
      .def(nb::init<int>(), nb::arg("descriptor"))
      .def("changed", &FileStamp::changed, nb::sig("def changed(self) -> tuple[int, int] | None"),
           "What the file is like now, its size and time of change in nanoseconds; None where both are as they were.")
      .def("seen", &FileStamp::seen, nb::arg("size"), nb::arg("changed"), "Take a change for known.")
      .def_prop_ro("size", &FileStamp::size, "Bytes of the file.");
  using Column = SymbolsInArrays::Column;
  nb::class_<SymbolsInArrays>(module, "Symbols", "Sorted symbols as docs/format.md has them; they read the arrays.")
      .def(
          "__init__",
          [](SymbolsInArrays* self, std::uint64_t count, const nb::bytes& strings, const Column& blocks,
             const Column& starts,
             const Column& order) { new (self) SymbolsInArrays(count, strings, blocks, starts, order); },
          nb::arg("count"), nb::arg("strings"), nb::arg("blocks"), nb::arg("starts"), nb::arg("order"))
      .def("watch", &SymbolsInArrays::watch, nb::arg("good"), nb::arg("blocks"), nb::arg("starts"), nb::arg("order"),
           nb::arg("check"), nb::arg("notice_changes"), nb::arg("stamp").none(),
           "Check what is read of a file: which pieces are good, where the arrays begin, and who checks the others.")
      .def("find", &SymbolsInArrays::find, nb::arg("symbol"), "The row of a symbol.")
      .def("at", &SymbolsInArrays::at, nb::arg("ranks"),
           nb::sig("def at(self, ranks: numpy.typing.NDArray[numpy.int64]) -> list[str]"), "The symbols of (n,) ranks.")
      .def("text", &SymbolsInArrays::text, nb::arg("first"), nb::arg("end"),
           "The symbols of the blocks from `first` to `end`, each followed by 0xFF.")
      .def("verify", &SymbolsInArrays::verify_blocks, nb::arg("first"), nb::arg("end"), nb::arg("seen"),
           "Check blocks against the specification, and set the bits of their rows in `seen`.");
  nb::class_<SymbolBuilder>(module, "SymbolBuilder", "Codes sorted symbols; each is followed by 0xFF, and comes twice.")
      .def(nb::init<std::uint64_t>(), nb::arg("count"))
      .def("survey", bind_survey, nb::arg("text"), nb::sig("def survey(self, text: bytes) -> tuple[str, int] | None"),
           "Check the next symbols and learn from them; what is wrong with which of them, if anything is.")
      .def(
          "learn",
          [](SymbolBuilder& builder) {
            std::vector<std::uint8_t> stored;
            {
              const nb::gil_scoped_release released;
              stored = builder.learn();
            }
            return as_bytes(stored);
          },
          "The codes, after all symbols were surveyed.")
      .def(
          "write", [](SymbolBuilder& builder, const nb::bytes& text) { builder.write(bytes_of(text)); },
          nb::arg("text"), "Code the next symbols.")
      .def("finish", &SymbolBuilder::finish, "Complete the last block.")
      .def(
          "take",
          [](SymbolBuilder& builder) {
            nb::tuple taken =
                nb::make_tuple(as_bytes(builder.heads), as_bytes(builder.blocks), as_bytes(builder.starts));
            builder.clear();
            return taken;
          },
          nb::sig("def take(self) -> tuple[bytes, bytes, bytes]"),
          "The heads, the blocks and the starts (pairs of uint64) since these were last taken.");
  module.def("pack_starts", bind_pack_starts, nb::arg("pairs"), nb::arg("head_bytes"), nb::arg("place_bits"),
             "Pack the starts of a SymbolBuilder, once it is known how many bytes of heads there are.");
}

}  // namespace kdcode
