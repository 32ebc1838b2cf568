// What Python sees of the core: only the files bind*.cpp know Python. Every argument is checked here: arrays by their
// types (see bindings.hpp), shapes in each function. What the core finds wrong comes back as a status, and is refused
// here with an error of kdcode.errors.
//
// Functions write into arrays that Python made, so that nothing is copied and Python decides where memory comes from.

#include "bindings.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "bits.hpp"
#include "checked.hpp"
#include "dispatch.hpp"

namespace kdcode {

extern const char* const sources_digest;  // CMakeLists.txt makes it

namespace {

// Widths of columns come as `bytes`: no array is made for them, and none is copied.
Widths checked_widths(const nb::bytes& widths) {
  const Widths found = bytes_of(widths);
  if (!widths_are_valid(found)) {
    std::string listed;
    for (const std::uint8_t bits : found) listed += (listed.empty() ? "" : ", ") + std::to_string(bits);
    refuse("OptionError", "values have 1 to 32 bits each, got widths [" + listed + "]");
  }
  return found;
}

template <class Values, class Packed>
void check_shapes(const Values& values, const Packed& packed, Widths widths) {
  expect_shape(values, "the values", {values.shape(0), widths.size()});
  expect_shape(packed, "the packed rows", {values.shape(0), row_bytes(widths)});
}

void bind_pack(const Integers<2>& values, const nb::bytes& widths, const Array<std::uint8_t, 2>& packed) {
  const Widths columns = checked_widths(widths);
  check_shapes(values, packed, columns);
  const Misfit misfit = values.visit([&](const auto* first) {
    const ReleaseGil released(values.size());
    return pack(first, values.shape(0), columns, packed.data());
  });
  if (misfit.found) {
    const std::size_t place = misfit.row * columns.size() + misfit.column;
    const std::string value = values.visit([&](const auto* first) { return std::to_string(first[place]); });
    refuse("OptionError", "the value " + value + " in row " + std::to_string(misfit.row) + ", column " +
                              std::to_string(misfit.column) + " does not fit in " +
                              std::to_string(columns[misfit.column]) + " bits");
  }
}

void bind_unpack(const Array<const std::uint8_t, 2>& packed, const nb::bytes& widths, const Integers<2, true>& values) {
  const Widths columns = checked_widths(widths);
  check_shapes(values, packed, columns);
  values.visit([&](auto* first) {
    using Value = std::remove_pointer_t<decltype(first)>;
    if constexpr (std::is_unsigned_v<Value> && sizeof(Value) <= 4) {
      const auto widest = std::max_element(columns.begin(), columns.end());
      expect(*widest <= 8 * sizeof(Value), "the type of the values must hold the widest column");
      const ReleaseGil released(values.size());
      unpack(packed.data(), values.shape(0), columns, first);
    } else {
      refuse("OptionError", "values are unpacked into uint8, uint16 or uint32");
    }
  });
}

std::uint32_t bind_value_at(const nb::bytes& packed, std::size_t position, unsigned bits) {
  expect(bits >= 1 && bits <= max_bits, "values have 1 to 32 bits each");
  const std::uint64_t held = std::uint64_t{packed.size()} * 8 / bits;
  if (position >= held) refuse("OptionError", "there are " + std::to_string(held) + " values, none at this position");
  return static_cast<std::uint32_t>(bits_at(bytes_of(packed), std::uint64_t{position} * bits, bits));
}

void bind_bits(nb::module_& module) {
  module.def("pack", bind_pack, nb::arg("values"), nb::arg("widths"), nb::arg("packed"),
             "Pack (n, columns) integers into (n, row bytes) bytes; a value that does not fit is refused.");
  module.def("unpack", bind_unpack, nb::arg("packed"), nb::arg("widths"), nb::arg("values"),
             "Unpack (n, row bytes) bytes into (n, columns) values of uint8, uint16 or uint32.");
  module.def("value_at", bind_value_at, nb::arg("packed"), nb::arg("position"), nb::arg("bits"),
             "One of many values of `bits` bits each that stand one after another.");
}

std::string runnable_isas() {
  std::string listed;
  for (std::size_t i = 0; i < isa_names.size(); ++i) {
    if (has_isa(static_cast<Isa>(i))) listed += (listed.empty() ? "" : ", ") + std::string(isa_names[i]);
  }
  return listed;
}

void choose_isa_or_fail() {
  const char* wanted = std::getenv("KDCODE_ISA");
  if (choose_isa(wanted == nullptr ? "" : wanted)) return;
  throw std::runtime_error("KDCODE_ISA is " + std::string(wanted) + ", but this build and processor have " +
                           runnable_isas() + ": unset it, or set it to one of these");
}

}  // namespace

void bind_codewords(nb::module_& module);  // bind_codewords.cpp
void bind_learning(nb::module_& module);   // bind_learning.cpp
void bind_search(nb::module_& module);     // bind_search.cpp
void bind_symbols(nb::module_& module);    // bind_symbols.cpp
void bind_transform(nb::module_& module);  // bind_transform.cpp

}  // namespace kdcode

NB_MODULE(_core, module) {
  using namespace kdcode;
  nb::set_leak_warnings(false);  // tables may live until the interpreter ends
  choose_isa_or_fail();
  translate_refusals();
  module.def(
      "isa", [] { return std::string(isa_names[static_cast<std::size_t>(isa())]); },
      "The instruction set in use: plain, avx2, avx512 or neon.");
  module.def(
      "sources", [] { return sources_digest; }, "A digest of the files of the core that this module was built from.");
  bind_bits(module);
  bind_codewords(module);
  bind_transform(module);
  bind_search(module);
  bind_symbols(module);
  bind_learning(module);
}
