// Symbols of a table: distinct strings of UTF-8, sorted by their bytes, in blocks of 32 that are coded each by itself.
//
// The head of a block is the shortest beginning of its first symbol that sorts after all symbols before it. The block
// itself is codes: of how many bytes a symbol shares with the one before (the first one with the head), and of the rest
// of its bytes. docs/format.md has every bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "file_pieces.hpp"
#include "symbol_code.hpp"

namespace kdcode {

inline constexpr std::size_t block_symbols = 32;
inline constexpr std::size_t longest_symbol = 65'535;

// Bytes of a file that must not be read before they were compared with its digests.
struct CheckedBytes {
  Bytes bytes;
  FilePieces pieces;
  std::size_t start = 0;  // where `bytes` begin in the file

  bool are_good(std::size_t first, std::size_t count) const { return pieces.are_good(start + first, count); }
};

// What breaks the specification: in which of the tensors, and what a block is or does.
struct Problem {
  const char *tensor, *text;
};

// What came of a question. `unchecked`: the bytes [from, to) of the file must be compared with their digests first.
// `damaged`: `block` has a `problem`.
struct Answer {
  enum class State { found, absent, unchecked, damaged } state;
  std::uint64_t row = 0;
  std::size_t from = 0, to = 0;
  std::uint64_t block = 0;
  const Problem* problem = nullptr;
};

// Stored symbols. What they read may change meanwhile: that gives wrong answers, and never a bad access.
struct Symbols {
  std::uint64_t count = 0;  // N, at least 1
  CheckedBytes blocks;      // the heads of all blocks, and then the blocks
  CheckedBytes starts;      // for each block, and at the end, where its head and the block itself begin in
                            // `blocks`: rows of two numbers of `place_bits` bits
  CheckedBytes order;       // the rows of the ranks: N numbers of `row_bits` bits
  unsigned place_bits = 1, row_bits = 1;  // at most 41
  SymbolCode code;

  std::uint64_t block_count() const { return (count + block_symbols - 1) / block_symbols; }
  std::size_t start_bytes() const { return (2 * place_bits + 7) / 8; }

  // The row of a symbol.
  Answer find(Bytes symbol) const;
};

// Reads one symbol of a block after another.
class SymbolReader {
 public:
  explicit SymbolReader(const Symbols& symbols) : symbols_(symbols) {}
  // Goes to the beginning of a block: found, unchecked or damaged. The bytes of a symbol are its head then.
  Answer open(std::uint64_t block);
  // Goes to the next symbol, of which there must be one.
  Answer next();
  Bytes symbol() const { return symbol_; }
  std::size_t shared() const { return shared_; }
  bool at_end() const { return left_ == 0; }
  // Whether the symbol is greater than the one before, of the same block, and shares no more bytes than are told.
  bool is_sorted() const { return symbol_.size() > shared_ && symbol_[shared_] > before_; }
  // Whether no bit but zeros is left of the block, and no byte.
  bool ends_with_block() const { return bits_.byte_is_done() && bits_.place() == end_; }

 private:
  const Symbols& symbols_;
  std::vector<std::uint8_t> symbol_;
  BitReader bits_;
  const std::uint8_t* end_ = nullptr;
  std::uint64_t block_ = 0;
  std::size_t left_ = 0, shared_ = 0;
  int before_ = -1;  // the byte that followed the shared ones in the symbol before; -1 for none
  bool first_ = true;
};

// Checks the blocks [first, end) against the specification. `seen` has a bit for each row, zero at first, which is set
// where a rank has this row. Where something is unchecked, all blocks before `block` are done.
Answer verify(const Symbols& symbols, std::uint64_t first, std::uint64_t end, std::span<std::uint8_t> seen);

// Codes symbols that come sorted, as text: each followed by 0xFF. They come twice: first to be checked and to learn
// codes from some of them, then to be written. Takes memory for a sample, and for what was written and not yet taken.
class SymbolBuilder {
 public:
  enum class Fault { none, unsorted, repeated, too_long, not_utf8, no_end };
  // What is wrong with a symbol, and its number in the text.
  struct Finding {
    Fault fault = Fault::none;
    std::size_t place = 0;
  };

  explicit SymbolBuilder(std::uint64_t count);
  Finding survey(Bytes text);
  // Ends the first round; gives the stored codes.
  std::vector<std::uint8_t> learn();
  // Only text that was surveyed may be written.
  void write(Bytes text);
  // Completes the last block, and gives the pair of starts behind it.
  void finish();

  // What was written, for the caller to take. `starts` are pairs: where a head begins among the heads, and where a
  // block begins among the blocks; see pack_starts.
  std::vector<std::uint8_t> heads, blocks;
  std::vector<std::uint64_t> starts;
  // Forgets what the caller has taken.
  void clear();

 private:
  template <class Visit>
  bool visit(Bytes text, Visit visit);

  std::uint64_t step_;  // one block of `step_` is in the sample
  std::uint64_t reached_ = 0;
  std::vector<std::uint8_t> last_;
  std::vector<std::uint8_t> sample_;
  std::array<std::uint64_t, 256> shared_{};
  SymbolEncoder encoder_;
  std::vector<std::uint8_t> suffix_;
  BitWriter bits_{&blocks};
  std::uint64_t taken_heads_ = 0, taken_blocks_ = 0;  // bytes
};

// Packs pairs of a builder into rows of two numbers of `place_bits` bits, as they are stored: the blocks stand behind
// `head_bytes` of heads. `packed` has room for the rows.
void pack_starts(std::span<const std::uint64_t> pairs, std::uint64_t head_bytes, unsigned place_bits,
                 std::uint8_t* packed);

}  // namespace kdcode
