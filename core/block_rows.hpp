// Rows of entropy-coded blocks: where each lies, in memory or in a mapped file.
//
// Blocks lie one after another, and have one of a few lengths. With several, each block has a class, packed in a few
// bits, and the place of every 256th block is stored. A row is a place in a block; where rows were chosen or appended,
// breaks say which slots they have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "file_pieces.hpp"

namespace kdcode {

inline constexpr std::size_t blocks_per_start = 256;

// Bytes of a file.
struct FileBytes {
  const std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  std::size_t file_start = 0;  // where they begin in the file
};

struct BlockRows {
  FileBytes codes, classes, starts;  // classes and starts are empty where all blocks have one length
  FilePieces pieces;                 // of the file
  std::size_t rows = 0, rows_per_block = 1;
  std::span<const std::uint64_t> breaks;  // pairs of a row and its slot; empty: row i has slot i
};

enum class RowTrouble : std::uint8_t { none, no_row, unchecked, no_class, beyond };

// Where a row is, or why that is not known. Of `unchecked`, [begin, begin + length) of the file has to be checked.
struct RowPlace {
  RowTrouble trouble = RowTrouble::none;
  std::size_t block = 0;
  std::size_t place = 0;  // in the block
  std::size_t begin = 0;  // of the block in `codes`
  std::size_t length = 0;
  unsigned own = 0;  // the class
};

class RowFinder {
 public:
  // lengths: of a block, by class.
  RowFinder(const BlockRows& rows, std::span<const std::uint32_t> lengths);

  // Whether sizes are those of so many rows; `reason` says what is not.
  bool is_valid(const char** reason) const;
  // The same of all starts and classes, whose bytes the caller has checked.
  bool check(const char** reason) const;
  std::size_t blocks() const { return blocks_; }
  const BlockRows& rows() const { return rows_; }

  RowPlace find(std::int64_t row) const;
  // The same, quicker where `place` is that of the row before.
  void find_next(std::int64_t row, RowPlace* place) const;
  void prefetch(std::int64_t row) const;

 private:
  std::size_t slot_of(std::size_t row) const;
  std::size_t block_of(std::size_t slot) const {
    return rows_.rows_per_block == 1 ? slot : slot / rows_.rows_per_block;
  }
  std::uint64_t lengths_before(std::size_t start, std::size_t inside) const;
  bool is_checked(const FileBytes& part, std::size_t begin, std::size_t length, RowPlace* place) const;

  BlockRows rows_;
  std::size_t blocks_ = 0, classes_;
  unsigned bits_;
  std::vector<std::uint64_t> lengths_;  // by class; far too long for one that there is not
  // Of 16 classes, where lengths differ by less than 256: by how much each is above the least.
  std::uint64_t least_ = 0;
  std::array<std::uint8_t, 16> more_{};
  bool is_summed_ = false;
};

}  // namespace kdcode
