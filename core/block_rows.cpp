#include "block_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checked.hpp"
#include "dispatch.hpp"
#include "levels_kernels.hpp"

namespace kdcode {
namespace {

constexpr std::uint64_t no_class = std::uint64_t{1} << 48;
constexpr std::size_t classes_together = 8;  // classes are packed by eights

std::size_t parts(std::size_t count, std::size_t size) { return count / size + (count % size != 0); }

}  // namespace

RowFinder::RowFinder(const BlockRows& rows, std::span<const std::uint32_t> lengths)
    : rows_(rows), classes_(lengths.size()), bits_(static_cast<unsigned>(std::bit_width(lengths.size() - 1))) {
  bits_ = std::max(bits_, 1u);
  lengths_.assign(std::size_t{1} << bits_, no_class);
  std::copy(lengths.begin(), lengths.end(), lengths_.begin());
  least_ = *std::min_element(lengths_.begin(), lengths_.end());
  is_summed_ = lengths.size() == more_.size() && *std::max_element(lengths_.begin(), lengths_.end()) - least_ < 256;
  for (std::size_t i = 0; is_summed_ && i < more_.size(); ++i)
    more_[i] = static_cast<std::uint8_t>(lengths_[i] - least_);
  if (rows_.rows != 0) blocks_ = slot_of(rows_.rows - 1) / std::max<std::size_t>(1, rows_.rows_per_block) + 1;
}

bool RowFinder::is_valid(const char** reason) const {
  *reason = "rows";
  if (rows_.rows == 0 || rows_.rows_per_block < 1 || rows_.rows_per_block > 64 || classes_ < 1) return false;
  *reason = "digests: they are not those of so many bytes";
  for (const FileBytes* part : {&rows_.codes, &rows_.classes, &rows_.starts}) {
    if (!rows_.pieces.cover(part->file_start, part->size)) return false;
  }
  const auto& breaks = rows_.breaks;
  *reason = "row_breaks: expected rows and slots that rise, the first of row 0, and a row in every block";
  if (breaks.size() % 2 != 0 || (!breaks.empty() && (breaks[0] != 0 || breaks[1] >= rows_.rows_per_block)))
    return false;
  for (std::size_t i = 2; i < breaks.size(); i += 2) {
    const std::uint64_t risen = breaks[i] - breaks[i - 2], last = breaks[i - 1] + risen - 1;
    if (breaks[i] <= breaks[i - 2] || breaks[i] >= rows_.rows || breaks[i + 1] <= last || breaks[i + 1] >> 56 != 0 ||
        breaks[i + 1] / rows_.rows_per_block > last / rows_.rows_per_block + 1) {
      return false;
    }
  }
  const std::size_t last = blocks_ - 1;
  std::size_t bytes = 0;
  if (classes_ == 1) {
    *reason = "codes: the bytes are not those of so many blocks";
    return multiply(blocks_, static_cast<std::size_t>(lengths_[0]), &bytes) && rows_.codes.size == bytes;
  }
  *reason = "row_classes, row_starts: their sizes are not those of so many blocks";
  return rows_.classes.size == parts(blocks_, classes_together) * bits_ &&
         rows_.starts.size == (last / blocks_per_start + 1) * sizeof(std::uint64_t);
}

std::size_t RowFinder::slot_of(std::size_t row) const {
  const auto& breaks = rows_.breaks;
  if (breaks.size() < 2) return row;
  std::size_t low = 0, high = breaks.size() / 2;
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (breaks[2 * middle] <= row ? low : high) = middle;
  }
  return static_cast<std::size_t>(breaks[2 * low + 1]) + (row - static_cast<std::size_t>(breaks[2 * low]));
}

bool RowFinder::is_checked(const FileBytes& part, std::size_t begin, std::size_t length, RowPlace* place) const {
  const std::size_t first = part.file_start + begin;
  if (rows_.pieces.are_good(first, length)) return true;
  *place = {RowTrouble::unchecked, 0, 0, first, length, 0};
  return false;
}

void RowFinder::prefetch(std::int64_t row) const {
  if (row < 0 || static_cast<std::size_t>(row) >= rows_.rows) return;
  const std::size_t block = block_of(slot_of(static_cast<std::size_t>(row)));
  if (classes_ == 1) {
    __builtin_prefetch(rows_.codes.bytes + block * lengths_[0]);
    return;
  }
  __builtin_prefetch(rows_.starts.bytes + block / blocks_per_start * sizeof(std::uint64_t));
  __builtin_prefetch(rows_.classes.bytes + block / classes_together * bits_);
}

// The lengths of the first blocks of 256, whose classes begin at `first`.
std::uint64_t RowFinder::lengths_before(std::size_t first, std::size_t inside) const {
  const std::uint8_t* classes = rows_.classes.bytes + first;
  if (is_summed_) {
    constexpr std::size_t size = blocks_per_start / 2;
    std::uint8_t last[size];  // those of the last blocks may be fewer
    if (rows_.classes.size - first < size) {
      std::memcpy(last, classes, rows_.classes.size - first);
      classes = last;
    }
    const auto count = static_cast<std::uint32_t>(inside);
    return least_ * inside + KDCODE_CHOSEN(levels_kernels).add_classes(classes, count, more_.data());
  }
  std::uint64_t sum = 0, eight = 0;
  for (std::size_t i = 0; i < inside; ++i, eight >>= bits_) {
    if (i % classes_together == 0) std::memcpy(&eight, classes + i / classes_together * bits_, bits_);
    sum += lengths_[eight & ((std::uint64_t{1} << bits_) - 1)];
  }
  return sum;
}

RowPlace RowFinder::find(std::int64_t row) const {
  RowPlace found;
  if (row < 0 || static_cast<std::size_t>(row) >= rows_.rows) {
    found.trouble = RowTrouble::no_row;
    return found;
  }
  const std::size_t slot = slot_of(static_cast<std::size_t>(row));
  found.block = block_of(slot), found.place = slot - found.block * rows_.rows_per_block;
  if (classes_ == 1) {
    found.length = lengths_[0], found.begin = found.block * found.length;
    is_checked(rows_.codes, found.begin, found.length, &found);
    return found;
  }
  const std::size_t start = found.block / blocks_per_start, inside = found.block % blocks_per_start;
  const std::size_t first = start * (blocks_per_start / classes_together) * bits_;
  const std::size_t whole = inside / classes_together;  // groups of eight before that of the block
  if (!is_checked(rows_.starts, start * sizeof(std::uint64_t), sizeof(std::uint64_t), &found)) return found;
  if (!is_checked(rows_.classes, first, (whole + 1) * bits_, &found)) return found;
  std::uint64_t begin;
  std::memcpy(&begin, rows_.starts.bytes + start * sizeof begin, sizeof begin);
  begin = std::min(begin, no_class);  // whatever is added, it stays beyond all bytes
  std::uint64_t eight = 0;
  std::memcpy(&eight, rows_.classes.bytes + first + whole * bits_, bits_);
  const std::uint64_t mask = (std::uint64_t{1} << bits_) - 1;
  found.own = static_cast<unsigned>(eight >> (inside % classes_together * bits_) & mask);
  begin += lengths_before(first, inside);
  const std::uint64_t length = lengths_[found.own];
  if (length == no_class || begin >= no_class) {
    found.trouble = begin > 2 * no_class || length == no_class ? RowTrouble::no_class : RowTrouble::beyond;
    return found;
  }
  if (begin + length > rows_.codes.size) {
    found.trouble = RowTrouble::beyond;
    return found;
  }
  found.begin = static_cast<std::size_t>(begin), found.length = static_cast<std::size_t>(length);
  is_checked(rows_.codes, found.begin, found.length, &found);
  return found;
}

void RowFinder::find_next(std::int64_t row, RowPlace* place) const {
  const auto anew = [&] { *place = find(row); };
  if (place->trouble != RowTrouble::none || row < 1 || static_cast<std::size_t>(row) >= rows_.rows) return anew();
  const std::size_t slot = slot_of(static_cast<std::size_t>(row)), block = block_of(slot);
  if (block == place->block) {
    place->place = slot - block * rows_.rows_per_block;
    return;
  }
  if (block != place->block + 1 || block % blocks_per_start == 0) return anew();
  const std::size_t begin = place->begin + place->length;
  unsigned own = 0;
  if (classes_ > 1) {
    const std::size_t bit = block * bits_, byte = bit / 8;
    RowPlace unchecked;
    const bool has_two = byte + 1 < rows_.classes.size;
    if (!is_checked(rows_.classes, byte, has_two ? 2 : 1, &unchecked)) return anew();
    own = rows_.classes.bytes[byte] | (has_two ? static_cast<unsigned>(rows_.classes.bytes[byte + 1]) << 8 : 0u);
    own = own >> bit % 8 & ((1u << bits_) - 1);
  }
  const std::uint64_t length = lengths_[own];
  if (length == no_class || begin + length > rows_.codes.size) return anew();
  place->block = block, place->place = slot - block * rows_.rows_per_block, place->own = own;
  place->begin = begin, place->length = static_cast<std::size_t>(length);
  is_checked(rows_.codes, begin, place->length, place);
}

bool RowFinder::check(const char** reason) const {
  if (!is_valid(reason)) return false;
  *reason = "row_starts: a block begins where the blocks before it do not end";
  if (classes_ == 1) return true;
  const std::uint64_t mask = (std::uint64_t{1} << bits_) - 1;
  std::uint64_t reached = 0, eight = 0;
  for (std::size_t block = 0; block < blocks_; ++block) {
    if (block % blocks_per_start == 0) {
      std::uint64_t start;
      std::memcpy(&start, rows_.starts.bytes + block / blocks_per_start * sizeof start, sizeof start);
      if (start != reached) return false;
    }
    if (block % classes_together == 0) {
      std::memcpy(&eight, rows_.classes.bytes + block / classes_together * bits_, bits_);
    }
    if (lengths_[eight & mask] == no_class) {
      *reason = "row_classes: found a class that there is not";
      return false;
    }
    reached += lengths_[eight & mask];
    eight >>= bits_;
  }
  *reason = "codes: the bytes end before the last block, or go on after it";
  return reached == rows_.codes.size;
}

}  // namespace kdcode
