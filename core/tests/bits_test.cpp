#include "bits.hpp"

#include <vector>

#include "check.hpp"
#include "checked.hpp"
#include "dispatch.hpp"

using namespace kdcode;

TEST(bits_by_hand) {
  const std::uint8_t widths[] = {12, 12};
  const std::uint16_t values[] = {0xABC, 0x123, 1, 0};
  std::uint8_t packed[6] = {};
  CHECK(!pack(values, 2, widths, packed).found);
  const std::uint8_t expected[] = {0xBC, 0x3A, 0x12, 1, 0, 0};
  for (int i = 0; i < 6; ++i) CHECK(packed[i] == expected[i]);
  std::uint16_t found[4] = {};
  unpack(packed, 2, widths, found);
  for (int i = 0; i < 4; ++i) CHECK(found[i] == values[i]);
}

TEST(unpacking_undoes_packing_for_every_width) {
  for (std::uint8_t bits = 1; bits <= 32; ++bits) {
    const std::vector<std::uint8_t> widths{bits, 3, bits, 32, bits};
    const std::size_t bytes = row_bytes(widths);
    std::vector<std::uint32_t> values;
    for (std::uint32_t i = 0; i < 7 * widths.size(); ++i) {
      values.push_back(i * 2654435761u >> (32 - widths[i % widths.size()]));
    }
    std::vector<std::uint8_t> packed(7 * bytes);  // exactly: a sanitizer sees a read or write beyond it
    CHECK(!pack(values.data(), 7, widths, packed.data()).found);
    std::vector<std::uint32_t> found(values.size());
    unpack(packed.data(), 7, widths, found.data());
    CHECK(found == values);
    CHECK(bits_at(std::span(packed).last(bytes), 0, bits) == values[6 * widths.size()]);
    CHECK(bits_at(packed, packed.size() * 8, bits) == 0);
  }
}

TEST(a_value_that_does_not_fit_is_found) {
  const std::uint8_t widths[] = {3, 2};
  const std::int64_t values[] = {7, 3, 7, -1};
  std::uint8_t packed[2] = {};
  const Misfit misfit = pack(values, 2, widths, packed);
  CHECK(misfit.found && misfit.row == 1 && misfit.column == 1);
}

TEST(widths_are_checked) {
  const std::uint8_t good[] = {1, 32}, none[] = {4, 0}, many[] = {33};
  CHECK(widths_are_valid(good) && !widths_are_valid(none) && !widths_are_valid(many) && !widths_are_valid({}));
}

TEST(sizes_do_not_wrap_around) {
  std::uint32_t size = 0;
  CHECK(multiply(65535u, 65537u, &size) && size == 0xFFFFFFFFu);
  CHECK(!multiply(65536u, 65536u, &size) && !add(0xFFFFFFFFu, 1u, &size));
  CHECK(add(0xFFFFFFFEu, 1u, &size) && size == 0xFFFFFFFFu);
  std::size_t made = 0;
  CHECK(to_size(5, &made) && made == 5 && !to_size(-1, &made));
}

TEST(instruction_sets_are_chosen_by_name) {
  const Isa before = isa();
  CHECK(choose_isa("plain") && isa() == Isa::plain);
  CHECK(!choose_isa("mmx") && isa() == Isa::plain);
  CHECK(choose_isa("") && use_isa(before));
}
