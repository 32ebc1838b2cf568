// The two prefix codes that sorted symbols are written in: one of strings of 1 to 15 bytes that are frequent in them,
// one of how many bytes a symbol shares with the one before. docs/format.md, "Symbols", has the form they are stored
// in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace kdcode {

using Bytes = std::span<const std::uint8_t>;

inline constexpr std::uint8_t symbol_end = 0xff;  // follows every symbol; UTF-8 never uses this byte
inline constexpr unsigned longest_code = 12;
inline constexpr std::size_t longest_string = 15;
inline constexpr std::size_t escaped_shared = 255;  // this many shared bytes and more are written as 16 bits

// A string, or a number of shared bytes, with the length of its code in bits. An empty string stands for the escape.
struct CodedString {
  std::string text;
  unsigned bits;
};
struct CodedShared {
  std::uint8_t value;  // 255 stands for the escape
  unsigned bits;
};

// Reads bits, the highest of a byte first. Zeros follow the last byte; `overran` tells that some of them were taken.
class BitReader {
 public:
  BitReader() = default;
  explicit BitReader(Bytes bytes) : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // The next `count` bits (1 to 16) as a number. At most 28 bits may be taken after each `fill`: an escape and 16 bits.
  std::uint32_t peek(unsigned count) const { return static_cast<std::uint32_t>(window_ >> (64 - count)); }
  void skip(unsigned count) {
    window_ <<= count;
    held_ -= count;
  }
  std::uint32_t take(unsigned count) {
    const std::uint32_t bits = peek(count);
    skip(count);
    return bits;
  }
  void fill() {
    if (held_ >= 28) return;
    if (end_ - next_ >= 8) [[likely]] {
      std::uint64_t bytes;
      std::memcpy(&bytes, next_, 8);
      window_ |= swapped(bytes) >> held_;
      next_ += (63 - held_) >> 3;
      held_ |= 56;
    } else {
      fill_slowly();
    }
  }
  bool overran() const { return zeros_ > held_; }
  // Whether only bits of zero are left of the byte that was read last. Its address follows from `place`.
  bool byte_is_done() const { return held_ % 8 == 0 || peek(held_ % 8) == 0; }
  // The first byte of which nothing was taken.
  const std::uint8_t* place() const { return next_ - static_cast<std::ptrdiff_t>((held_ - zeros_) / 8); }

 private:
  static std::uint64_t swapped(std::uint64_t bytes) {
    bytes = (bytes & 0x00ff00ff00ff00ff) << 8 | (bytes >> 8 & 0x00ff00ff00ff00ff);
    bytes = (bytes & 0x0000ffff0000ffff) << 16 | (bytes >> 16 & 0x0000ffff0000ffff);
    return bytes << 32 | bytes >> 32;
  }
  void fill_slowly() {
    while (held_ < 56) {
      if (next_ < end_) {
        window_ |= std::uint64_t{*next_++} << (56 - held_);
      } else {
        zeros_ += 8;
      }
      held_ += 8;
    }
  }

  const std::uint8_t* next_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  std::uint64_t window_ = 0;  // the next bits, highest first
  unsigned held_ = 0;         // how many of them are read
  unsigned zeros_ = 0;        // how many of those follow the last byte
};

class BitWriter {
 public:
  explicit BitWriter(std::vector<std::uint8_t>* bytes) : bytes_(bytes) {}
  void put(std::uint32_t value, unsigned count) {
    window_ = window_ << count | value;
    for (held_ += count; held_ >= 8; held_ -= 8) bytes_->push_back(static_cast<std::uint8_t>(window_ >> (held_ - 8)));
  }
  void finish_byte() {
    if (held_ > 0) put(0, 8 - held_);
  }

 private:
  std::vector<std::uint8_t>* bytes_;
  std::uint64_t window_ = 0;
  unsigned held_ = 0;
};

// Both codes, ready for reading. 32 KB, most of which one set of symbols never touches.
class SymbolCode {
 public:
  // What the next code stands for: `length` bytes at `text`; none for the escape; `bits` is 0 where no code begins so.
  struct String {
    std::uint16_t text;
    std::uint8_t length;
    std::uint8_t bits : 7;
    std::uint8_t ends : 1;  // whether the last byte is 0xFF
  };
  struct Shared {
    std::uint8_t value, bits;
  };

  // Takes the codes as they are stored; false if they are not two prefix codes. Any bytes may be given.
  bool load(Bytes stored);

  String string(const BitReader& bits) const { return strings_[bits.peek(longest_code)]; }
  Shared shared(const BitReader& bits) const { return shared_[bits.peek(longest_code)]; }
  // The bytes of a string; 16 of them may be read.
  const std::uint8_t* text(String string) const { return text_.data() + string.text; }

 private:
  std::array<String, 1 << longest_code> strings_;
  std::array<Shared, 1 << longest_code> shared_;
  std::vector<std::uint8_t> text_;
};

// The stored form of codes, whose entries are sorted by their bits.
std::vector<std::uint8_t> stored_code(std::span<const CodedString> strings, std::span<const CodedShared> shared);

// The codes that suit a sample: `suffixes` are what symbols do not share with the one before, each with its 0xFF, one
// after another; `shared` counts the numbers of shared bytes. `weight` symbols stand behind one of the sample.
// The same on every machine: there is no floating point in it.
std::vector<std::uint8_t> learned_code(Bytes suffixes, const std::array<std::uint64_t, 256>& shared,
                                       std::uint64_t weight);

// Splits suffixes into strings, so that the sum of their costs is least.
class StringParser {
 public:
  // Keeps no reference to the strings.
  void build(std::span<const CodedString> strings);
  // What each string and the escape cost, in any unit.
  std::vector<std::uint32_t> costs;
  std::uint32_t escape_cost = 0;

  // The numbers of the strings that make up a suffix; -1 for the escape of one byte. Good until the next call.
  std::span<const std::int16_t> parse(Bytes suffix);

 private:
  struct Step {
    std::uint64_t cost;
    std::int16_t string;
    std::uint8_t length;
  };
  std::array<std::uint8_t, 256> letter_{};  // the bytes that strings have are numbered from 1
  std::size_t letters_ = 1;
  std::vector<std::uint16_t> next_;   // (nodes, letters) of a trie; 0 for none
  std::vector<std::int16_t> string_;  // which string a node is; -1 for none
  std::vector<Step> steps_;
  std::vector<std::int16_t> parsed_;
};

// Writes suffixes in the fewest bits.
class SymbolEncoder {
 public:
  // `stored` as SymbolCode takes it, with both escapes.
  bool load(Bytes stored);
  void put_shared(std::size_t shared, BitWriter* bits) const;
  void put_suffix(Bytes suffix, BitWriter* bits);

 private:
  struct Code {
    std::uint32_t code;
    unsigned bits;
    std::size_t length;
  };
  StringParser parser_;
  std::vector<Code> strings_;
  Code escape_{};
  std::array<Code, 256> shared_{};
};

}  // namespace kdcode
