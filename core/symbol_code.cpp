#include "symbol_code.hpp"

#include <limits>
#include <utility>

namespace kdcode {
namespace {

// Gives out the codes of a prefix code whose lengths do not fall: each is the one before plus one, with zeros behind
// it where it is longer.
class Canonical {
 public:
  // The code of the next entry; false if its length is not allowed, or no code of this length is left.
  bool next(unsigned bits, std::uint32_t* code) {
    if (bits < 1 || bits > longest_code || bits < bits_) return false;
    next_ <<= bits - bits_;
    bits_ = bits;
    *code = next_++;
    return *code < std::uint32_t{1} << bits;
  }

 private:
  std::uint32_t next_ = 0;
  unsigned bits_ = 0;
};

// Visits the entries of a stored code: string(bits, text) and shared(bits, value) say whether to go on.
template <class VisitString, class VisitShared>
bool visit_stored(Bytes stored, VisitString string, VisitShared shared) {
  if (stored.size() < 2) return false;
  std::size_t place = 2;
  for (unsigned left = stored[0] | unsigned{stored[1]} << 8; left > 0; --left) {
    if (place >= stored.size()) return false;
    const unsigned head = stored[place++];
    const std::size_t length = head >> 4;
    if (length > stored.size() - place) return false;
    if (!string(head & 15, stored.subspan(place, length))) return false;
    place += length;
  }
  if ((stored.size() - place) % 2 != 0) return false;
  for (; place < stored.size(); place += 2) {
    if (!shared(unsigned{stored[place]}, stored[place + 1])) return false;
  }
  return true;
}

template <class Entry, std::size_t size>
void fill_table(std::array<Entry, size>* table, std::uint32_t code, unsigned bits, Entry entry) {
  const std::size_t count = std::size_t{1} << (longest_code - bits);
  for (std::size_t i = 0; i < count; ++i) (*table)[code * count + i] = entry;
}

}  // namespace

bool SymbolCode::load(Bytes stored) {
  strings_.fill({0, 0, 0, 0});
  shared_.fill({0, 0});
  text_.clear();
  text_.reserve(stored.size() + 16);
  Canonical string_codes, shared_codes;
  std::uint32_t code;
  const auto add_string = [&](unsigned bits, Bytes text) {
    if (!string_codes.next(bits, &code)) return false;
    bool ends = false;
    for (const std::uint8_t byte : text) {
      if (ends) return false;  // 0xFF stands at the end of a string, or not at all
      ends = byte == symbol_end;
    }
    // Of 4,096 strings of 15 bytes, the last one starts at 61,425.
    const String entry{static_cast<std::uint16_t>(text_.size()), static_cast<std::uint8_t>(text.size()),
                       static_cast<std::uint8_t>(bits & 127), ends};
    text_.insert(text_.end(), text.begin(), text.end());
    fill_table(&strings_, code, bits, entry);
    return true;
  };
  const auto add_shared = [&](unsigned bits, std::uint8_t value) {
    if (!shared_codes.next(bits, &code)) return false;
    fill_table(&shared_, code, bits, Shared{value, static_cast<std::uint8_t>(bits)});
    return true;
  };
  if (!visit_stored(stored, add_string, add_shared)) return false;
  text_.resize(text_.size() + 16);
  return true;
}

std::vector<std::uint8_t> stored_code(std::span<const CodedString> strings, std::span<const CodedShared> shared) {
  std::vector<std::uint8_t> stored{static_cast<std::uint8_t>(strings.size()),
                                   static_cast<std::uint8_t>(strings.size() >> 8)};
  for (const CodedString& entry : strings) {
    stored.push_back(static_cast<std::uint8_t>(entry.text.size() << 4 | entry.bits));
    stored.insert(stored.end(), entry.text.begin(), entry.text.end());
  }
  for (const CodedShared& entry : shared) {
    stored.push_back(static_cast<std::uint8_t>(entry.bits));
    stored.push_back(entry.value);
  }
  return stored;
}

void StringParser::build(std::span<const CodedString> strings) {
  letter_.fill(0);
  letters_ = 1;
  for (const CodedString& entry : strings) {
    for (const char byte : entry.text) {
      std::uint8_t& letter = letter_[static_cast<std::uint8_t>(byte)];
      if (letter == 0 && letters_ < 256) letter = static_cast<std::uint8_t>(letters_++);
    }
  }
  next_.assign(letters_, 0);
  string_.assign(1, -1);
  for (std::size_t number = 0; number < strings.size(); ++number) {
    std::size_t node = 0;
    for (const char byte : strings[number].text) {
      std::size_t child = node * letters_ + letter_[static_cast<std::uint8_t>(byte)];
      if (next_[child] == 0) {
        next_[child] = static_cast<std::uint16_t>(string_.size());
        string_.push_back(-1);
        next_.resize(next_.size() + letters_, 0);
      }
      node = next_[child];
    }
    if (node > 0) string_[node] = static_cast<std::int16_t>(number);
  }
}

std::span<const std::int16_t> StringParser::parse(Bytes suffix) {
  constexpr std::uint64_t far = std::numeric_limits<std::uint64_t>::max();
  steps_.assign(suffix.size() + 1, {far, -1, 0});
  steps_[0].cost = 0;
  const auto reach = [&](std::size_t start, std::size_t length, std::uint32_t cost, std::int16_t string) {
    Step& step = steps_[start + length];
    const std::uint64_t reached = steps_[start].cost + cost;
    if (reached < step.cost) step = {reached, string, static_cast<std::uint8_t>(length)};
  };
  for (std::size_t start = 0; start < suffix.size(); ++start) {
    reach(start, 1, escape_cost, -1);
    std::size_t node = 0;
    for (std::size_t end = start; end < suffix.size(); ++end) {
      const std::uint8_t letter = letter_[suffix[end]];
      if (letter == 0) break;
      node = next_[node * letters_ + letter];
      if (node == 0) break;
      const std::int16_t string = string_[node];
      if (string >= 0) reach(start, end + 1 - start, costs[static_cast<std::size_t>(string)], string);
    }
  }
  parsed_.clear();
  for (std::size_t place = suffix.size(); place > 0; place -= steps_[place].length) {
    parsed_.push_back(steps_[place].string);
  }
  for (std::size_t i = 0, j = parsed_.size(); i + 1 < j; ++i) std::swap(parsed_[i], parsed_[--j]);
  return parsed_;
}

bool SymbolEncoder::load(Bytes stored) {
  std::vector<CodedString> listed;
  Canonical string_codes, shared_codes;
  strings_.clear();
  escape_ = {};
  shared_.fill({});
  const auto add_string = [&](unsigned bits, Bytes text) {
    Code code{0, bits, text.size()};
    if (!string_codes.next(bits, &code.code)) return false;
    if (text.empty()) escape_ = code;
    listed.push_back({std::string(text.begin(), text.end()), bits});
    strings_.push_back(code);
    return true;
  };
  const auto add_shared = [&](unsigned bits, std::uint8_t value) {
    shared_[value].bits = bits;
    return shared_codes.next(bits, &shared_[value].code);
  };
  if (!visit_stored(stored, add_string, add_shared)) return false;
  if (escape_.bits == 0 || shared_[escaped_shared].bits == 0) return false;
  parser_.build(listed);
  parser_.costs.clear();
  for (const CodedString& entry : listed) parser_.costs.push_back(entry.bits);
  parser_.escape_cost = escape_.bits + 8;
  return true;
}

void SymbolEncoder::put_shared(std::size_t shared, BitWriter* bits) const {
  const bool escaped = shared >= escaped_shared || shared_[shared].bits == 0;
  const Code code = shared_[escaped ? escaped_shared : shared];
  bits->put(code.code, code.bits);
  if (escaped) bits->put(static_cast<std::uint32_t>(shared), 16);
}

void SymbolEncoder::put_suffix(Bytes suffix, BitWriter* bits) {
  std::size_t place = 0;
  for (const std::int16_t string : parser_.parse(suffix)) {
    const Code code = string < 0 ? escape_ : strings_[static_cast<std::size_t>(string)];
    bits->put(code.code, code.bits);
    if (string < 0) {
      bits->put(suffix[place++], 8);
    } else {
      place += code.length;
    }
  }
}

}  // namespace kdcode
