#include "symbols.hpp"

#include <algorithm>
#include <cstring>

#include "bits.hpp"

namespace kdcode {
namespace {

constexpr std::uint64_t sampled_blocks = 1024;
constexpr std::size_t sampled_bytes = 64;  // of each suffix

constexpr Problem broken_starts{"starts", "lies outside the stored bytes"};
constexpr Problem broken_codes{"blocks", "holds bits that no code begins with, or ends too early"};
constexpr Problem broken_shared{"blocks", "holds a symbol that shares more bytes than the one before has"};
constexpr Problem too_long{"blocks", "holds a symbol of more than 65,535 bytes"};
constexpr Problem unsorted{"blocks", "is not sorted, or repeats a symbol"};
constexpr Problem not_utf8{"blocks", "is not UTF-8"};
constexpr Problem not_ended{"blocks", "is longer than its symbols"};
constexpr Problem not_adjacent{"starts", "leaves bytes that belong to no block"};
constexpr Problem wrong_row{"order", "has a rank with a row that the table does not have"};
constexpr Problem repeated_row{"order", "has a row that another rank has too: the rows are not a permutation"};

Answer damaged(std::uint64_t block, const Problem& problem) {
  Answer answer{Answer::State::damaged};
  answer.block = block;
  answer.problem = &problem;
  return answer;
}

Answer found(std::uint64_t row = 0) {
  Answer answer{Answer::State::found};
  answer.row = row;
  return answer;
}

Answer unchecked(const CheckedBytes& bytes, std::size_t first, std::size_t count) {
  Answer answer{Answer::State::unchecked};
  answer.from = bytes.start + first;
  answer.to = bytes.start + first + count;
  return answer;
}

bool is_found(const Answer& answer) { return answer.state == Answer::State::found; }

// The row of a rank.
Answer row_at(const Symbols& symbols, std::uint64_t rank) {
  const std::uint64_t first_bit = rank * symbols.row_bits;
  const std::size_t first = static_cast<std::size_t>(first_bit / 8);
  const std::size_t count = (first_bit % 8 + symbols.row_bits + 7) / 8;
  if (!symbols.order.are_good(first, count)) return unchecked(symbols.order, first, count);
  const std::uint64_t row = bits_at(symbols.order.bytes, first_bit, symbols.row_bits);
  return row < symbols.count ? found(row) : damaged(rank / block_symbols, wrong_row);
}

// The bytes of `blocks` from a place in a row of `starts`, its first or second one, to the same place in the next row;
// once they may be read.
Answer bytes_between(const Symbols& symbols, std::uint64_t block, unsigned which, Bytes* bytes) {
  const std::size_t width = symbols.start_bytes(), at = static_cast<std::size_t>(block) * width;
  if (!symbols.starts.are_good(at, 2 * width)) return unchecked(symbols.starts, at, 2 * width);
  const std::uint64_t first_bit = std::uint64_t{at} * 8 + which * symbols.place_bits;
  const std::uint64_t start = bits_at(symbols.starts.bytes, first_bit, symbols.place_bits);
  const std::uint64_t end = bits_at(symbols.starts.bytes, first_bit + 8 * width, symbols.place_bits);
  if (end > symbols.blocks.bytes.size() || start > end) return damaged(block, broken_starts);
  const std::size_t first = static_cast<std::size_t>(start), length = static_cast<std::size_t>(end - start);
  if (!symbols.blocks.are_good(first, length)) return unchecked(symbols.blocks, first, length);
  *bytes = symbols.blocks.bytes.subspan(first, length);
  return found();
}

Answer head_at(const Symbols& symbols, std::uint64_t block, Bytes* head) {
  return bytes_between(symbols, block, 0, head);
}

Answer head_and_codes_at(const Symbols& symbols, std::uint64_t block, Bytes* head, Bytes* codes) {
  const Answer answer = head_at(symbols, block, head);
  return is_found(answer) ? bytes_between(symbols, block, 1, codes) : answer;
}

std::size_t common_prefix(Bytes a, Bytes b) {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t length = 0;
  while (length < most && a[length] == b[length]) ++length;
  return length;
}

bool precedes_or_equals(Bytes a, Bytes b) {
  const int order = std::memcmp(a.data(), b.data(), std::min(a.size(), b.size()));
  return order < 0 || (order == 0 && a.size() <= b.size());
}

// Reads how many bytes the next symbol shares; false where no code begins so.
bool read_shared(const SymbolCode& code, BitReader* bits, std::size_t* count) {
  bits->fill();
  const SymbolCode::Shared shared = code.shared(*bits);
  bits->skip(shared.bits);
  *count = shared.value == escaped_shared ? bits->take(16) : shared.value;
  return shared.bits > 0;
}

// Compares the suffixes of a block with a symbol as they are read: nothing is unpacked.
class Search {
 public:
  Search(const SymbolCode& code, std::uint64_t block, Bytes symbol, Bytes head, Bytes codes)
      : code_(code),
        symbol_(symbol),
        block_(block),
        bits_(codes),
        length_(head.size()),
        shared_(length_),
        equal_(common_prefix(head, symbol)) {}

  // The place of the symbol among the first `count` symbols of the block.
  Answer run(std::size_t count) {
    for (std::size_t place = 0; place < count; ++place) {
      if (place > 0 && !read_shared(code_, &bits_, &shared_)) return damaged(block_, broken_codes);
      if (shared_ > length_) return damaged(block_, broken_shared);
      length_ = shared_;
      // All symbols up to the one before are smaller than the one sought and differ from it at `equal_`.
      if (shared_ < equal_) return Answer{Answer::State::absent};
      const Step step = shared_ > equal_ ? skip_suffix() : compare_suffix();
      if (step == Step::broken) return damaged(block_, broken_codes);
      if (step == Step::same) return found(place);
      if (step == Step::passed) return Answer{Answer::State::absent};
    }
    return Answer{Answer::State::absent};
  }

 private:
  enum class Step { smaller, same, passed, broken };

  Step skip_suffix() {
    while (length_ <= longest_symbol) {
      bits_.fill();
      const SymbolCode::String string = code_.string(bits_);
      if (string.bits == 0) return Step::broken;
      bits_.skip(string.bits);
      bool ends = string.ends;
      length_ += string.length;
      if (string.length == 0) {
        ends = bits_.take(8) == symbol_end;
        ++length_;
      }
      if (ends) {
        --length_;
        return bits_.overran() ? Step::broken : Step::smaller;
      }
    }
    return Step::broken;
  }

  // Of the bytes up to and with 0xFF, looks for the first that is not the symbol's.
  Step compare_suffix() {
    while (length_ <= longest_symbol) {
      bits_.fill();
      const SymbolCode::String string = code_.string(bits_);
      if (string.bits == 0) return Step::broken;
      bits_.skip(string.bits);
      std::uint8_t escaped;
      const std::uint8_t* text = code_.text(string);
      std::size_t count = string.length;
      if (count == 0) {
        escaped = static_cast<std::uint8_t>(bits_.take(8));
        text = &escaped;
        count = 1;
      }
      for (std::size_t i = 0; i < count; ++i) {
        const bool ends = text[i] == symbol_end;
        if (equal_ == symbol_.size()) return !ends ? Step::passed : bits_.overran() ? Step::broken : Step::same;
        if (ends || text[i] != symbol_[equal_]) {
          if (!ends && text[i] > symbol_[equal_]) return Step::passed;
          length_ += count;
          const bool over = text[count - 1] == symbol_end;
          if (!over) return skip_suffix();
          --length_;
          return bits_.overran() ? Step::broken : Step::smaller;
        }
        ++equal_;
      }
      length_ += count;
    }
    return Step::broken;
  }

  const SymbolCode& code_;
  Bytes symbol_;
  std::uint64_t block_;
  BitReader bits_;
  std::size_t length_;  // of the symbol that was read last
  std::size_t shared_;  // how much of it the next one has
  std::size_t equal_;   // how many bytes it has in common with the one sought
};

// Whether the bytes are UTF-8 from `start` on, before which they are known to be, up to a character that may be cut.
bool is_utf8(Bytes text, std::size_t start) {
  while (start > 0 && (text[start - 1] & 0xc0) == 0x80) --start;
  start -= start > 0;
  while (start < text.size()) {
    const std::uint8_t lead = text[start];
    if (lead < 0x80) {
      ++start;
      continue;
    }
    const std::size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || more >= text.size() - start) return false;
    for (std::size_t i = 1; i <= more; ++i) {
      if ((text[start + i] & 0xc0) != 0x80) return false;
    }
    const std::uint8_t second = text[start + 1];
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool surrogate = lead == 0xed && second > 0x9f, beyond = lead == 0xf4 && second > 0x8f;
    if (overlong || surrogate || beyond) return false;
    start += more + 1;
  }
  return true;
}

}  // namespace

Answer Symbols::find(Bytes symbol) const {
  std::uint64_t low = 0, high = block_count();
  Bytes head, codes;
  while (high - low > 1) {  // the symbol is not in the blocks from `high` on, nor in those before `low`
    const std::uint64_t middle = low + (high - low) / 2;
    const Answer answer = head_at(*this, middle, &head);
    if (!is_found(answer)) return answer;
    (precedes_or_equals(head, symbol) ? low : high) = middle;
  }
  Answer answer = head_and_codes_at(*this, low, &head, &codes);
  if (!is_found(answer)) return answer;
  const std::uint64_t first = low * block_symbols;
  Search search(code, low, symbol, head, codes);
  answer = search.run(static_cast<std::size_t>(std::min<std::uint64_t>(block_symbols, count - first)));
  return is_found(answer) ? row_at(*this, first + answer.row) : answer;
}

Answer SymbolReader::open(std::uint64_t block) {
  Bytes head, codes;
  const Answer answer = head_and_codes_at(symbols_, block, &head, &codes);
  if (!is_found(answer)) return answer;
  bits_ = BitReader(codes);
  end_ = codes.data() + codes.size();
  symbol_.assign(head.begin(), head.end());
  shared_ = symbol_.size();
  block_ = block;
  left_ = static_cast<std::size_t>(std::min<std::uint64_t>(block_symbols, symbols_.count - block * block_symbols));
  first_ = true;
  return answer;
}

Answer SymbolReader::next() {
  const SymbolCode& code = symbols_.code;
  --left_;
  if (!first_) {
    if (!read_shared(code, &bits_, &shared_)) return damaged(block_, broken_codes);
    if (shared_ > symbol_.size()) return damaged(block_, broken_shared);
    before_ = shared_ < symbol_.size() ? symbol_[shared_] : -1;
    symbol_.resize(shared_);
  }
  first_ = false;
  while (symbol_.size() <= longest_symbol) {
    bits_.fill();
    const SymbolCode::String string = code.string(bits_);
    if (string.bits == 0) return damaged(block_, broken_codes);
    bits_.skip(string.bits);
    if (string.length == 0) {
      symbol_.push_back(static_cast<std::uint8_t>(bits_.take(8)));
    } else {
      symbol_.insert(symbol_.end(), code.text(string), code.text(string) + string.length);
    }
    if (symbol_.back() == symbol_end) {
      symbol_.pop_back();
      return bits_.overran() ? damaged(block_, broken_codes) : found();
    }
  }
  return damaged(block_, bits_.overran() ? broken_codes : too_long);
}

namespace {

// Checks the symbols of an open block; `last` is the symbol before it and becomes its own last one.
Answer verify_symbols(SymbolReader* reader, std::uint64_t block, std::vector<std::uint8_t>* last) {
  if (block > 0 && precedes_or_equals(reader->symbol(), *last)) return damaged(block, unsorted);
  for (bool first = true; !reader->at_end(); first = false) {
    const Answer answer = reader->next();
    if (!is_found(answer)) return answer;
    if (!first && !reader->is_sorted()) return damaged(block, unsorted);
    if (!is_utf8(reader->symbol(), first ? 0 : reader->shared())) return damaged(block, not_utf8);
  }
  last->assign(reader->symbol().begin(), reader->symbol().end());
  return found();
}

// Marks the rows of a block, or none of them where one cannot be read.
Answer verify_rows(const Symbols& symbols, std::uint64_t block, std::span<std::uint8_t> seen) {
  const std::uint64_t first = block * block_symbols;
  const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(block_symbols, symbols.count - first));
  std::array<std::uint64_t, block_symbols> rows;
  for (std::size_t place = 0; place < count; ++place) {
    const Answer answer = row_at(symbols, first + place);
    if (!is_found(answer)) return answer;
    rows[place] = answer.row;
  }
  for (const std::uint64_t row : std::span(rows).first(count)) {
    std::uint8_t& byte = seen[static_cast<std::size_t>(row / 8)];
    const auto bit = static_cast<std::uint8_t>(1 << row % 8);
    if ((byte & bit) != 0) return damaged(block, repeated_row);
    byte |= bit;
  }
  return found();
}

// Checks that heads begin where `blocks` does, blocks where heads end, and that nothing follows them.
Answer verify_ends(const Symbols& symbols) {
  const std::size_t width = symbols.start_bytes(), last = static_cast<std::size_t>(symbols.block_count());
  for (const std::size_t row : {std::size_t{0}, last}) {
    if (!symbols.starts.are_good(row * width, width)) return unchecked(symbols.starts, row * width, width);
  }
  const auto place = [&](std::size_t row, unsigned which) {
    return bits_at(symbols.starts.bytes, std::uint64_t{row} * width * 8 + which * symbols.place_bits,
                   symbols.place_bits);
  };
  const bool adjacent =
      place(0, 0) == 0 && place(last, 0) == place(0, 1) && place(last, 1) == symbols.blocks.bytes.size();
  return adjacent ? found() : damaged(last - 1, not_adjacent);
}

}  // namespace

Answer verify(const Symbols& symbols, std::uint64_t first, std::uint64_t end, std::span<std::uint8_t> seen) {
  SymbolReader reader(symbols);
  std::vector<std::uint8_t> last;
  Answer answer = verify_ends(symbols);
  if (first > 0 && is_found(answer)) {
    answer = reader.open(first - 1);
    while (is_found(answer) && !reader.at_end()) answer = reader.next();
    last.assign(reader.symbol().begin(), reader.symbol().end());
  }
  if (answer.state == Answer::State::unchecked) answer.block = first;
  for (std::uint64_t block = first; block < end && is_found(answer); ++block) {
    answer = reader.open(block);
    if (is_found(answer)) answer = verify_symbols(&reader, block, &last);
    if (is_found(answer) && !reader.ends_with_block()) answer = damaged(block, not_ended);
    if (is_found(answer)) answer = verify_rows(symbols, block, seen);
    if (answer.state == Answer::State::unchecked) answer.block = block;
  }
  return answer;
}

SymbolBuilder::SymbolBuilder(std::uint64_t count)
    : step_((count + block_symbols * sampled_blocks - 1) / (block_symbols * sampled_blocks)) {}

// Calls visit(symbol, shared bytes) for each symbol of a text, up to one for which it gives false.
template <class Visit>
bool SymbolBuilder::visit(Bytes text, Visit visit) {
  for (std::size_t start = 0; start < text.size();) {
    const void* end = std::memchr(text.data() + start, symbol_end, text.size() - start);
    if (end == nullptr) return false;
    const std::size_t length = static_cast<std::size_t>(static_cast<const std::uint8_t*>(end) - text.data()) - start;
    const Bytes symbol = text.subspan(start, length);
    const std::size_t shared = common_prefix(last_, symbol);
    if (!visit(symbol, shared)) return false;
    last_.resize(shared);
    last_.insert(last_.end(), symbol.begin() + static_cast<std::ptrdiff_t>(shared), symbol.end());
    ++reached_;
    start += length + 1;
  }
  return true;
}

SymbolBuilder::Finding SymbolBuilder::survey(Bytes text) {
  Finding finding{Fault::no_end, 0};
  const bool whole = visit(text, [&](Bytes symbol, std::size_t shared) {
    Fault fault = Fault::none;
    if (symbol.size() > longest_symbol) {
      fault = Fault::too_long;
    } else if (!is_utf8(symbol, 0)) {
      fault = Fault::not_utf8;
    } else if (reached_ > 0 && shared == symbol.size()) {
      fault = shared == last_.size() ? Fault::repeated : Fault::unsorted;
    } else if (shared < last_.size() && symbol[shared] < last_[shared]) {
      fault = Fault::unsorted;
    }
    if (fault != Fault::none) {
      finding.fault = fault;
      return false;
    }
    if (reached_ / block_symbols % step_ == 0) {
      if (reached_ % block_symbols > 0) {
        ++shared_[std::min(shared, escaped_shared)];
      } else {
        shared = std::min(shared + 1, symbol.size());  // this much stands in the separator
      }
      const Bytes suffix = symbol.subspan(shared);
      sample_.insert(sample_.end(), suffix.begin(),
                     suffix.begin() + static_cast<std::ptrdiff_t>(std::min(suffix.size(), sampled_bytes)));
      sample_.push_back(symbol_end);
    }
    ++finding.place;
    return true;
  });
  return whole ? Finding{} : finding;
}

std::vector<std::uint8_t> SymbolBuilder::learn() {
  std::vector<std::uint8_t> stored = learned_code(sample_, shared_, step_);
  encoder_.load(stored);
  sample_ = {};
  last_.clear();
  reached_ = 0;
  return stored;
}

void SymbolBuilder::write(Bytes text) {
  visit(text, [&](Bytes symbol, std::size_t shared) {
    if (reached_ % block_symbols == 0) {
      if (reached_ > 0) shared = std::min(shared + 1, symbol.size());
      finish();
      heads.insert(heads.end(), symbol.begin(), symbol.begin() + static_cast<std::ptrdiff_t>(shared));
    } else {
      encoder_.put_shared(shared, &bits_);
    }
    suffix_.assign(symbol.begin() + static_cast<std::ptrdiff_t>(shared), symbol.end());
    suffix_.push_back(symbol_end);
    encoder_.put_suffix(suffix_, &bits_);
    return true;
  });
}

void SymbolBuilder::clear() {
  taken_heads_ += heads.size();
  taken_blocks_ += blocks.size();
  heads.clear();
  blocks.clear();
  starts.clear();
}

void SymbolBuilder::finish() {
  bits_.finish_byte();
  starts.push_back(taken_heads_ + heads.size());
  starts.push_back(taken_blocks_ + blocks.size());
}

void pack_starts(std::span<const std::uint64_t> pairs, std::uint64_t head_bytes, unsigned place_bits,
                 std::uint8_t* packed) {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    std::uint64_t low = pairs[i], high = head_bytes + pairs[i + 1];
    low |= high << place_bits;  // at most 64 of 82 bits; the rest of `high` follows
    high >>= 64 - place_bits;
    for (unsigned byte = 0; byte < (2 * place_bits + 7) / 8; ++byte) {
      *packed++ = static_cast<std::uint8_t>(byte < 8 ? low >> 8 * byte : high >> 8 * (byte - 8));
    }
  }
}

}  // namespace kdcode
