#include "symbols.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "check.hpp"

using namespace kdcode;

namespace {

// Symbols in memory of exactly their size, so that a sanitizer sees what is read beyond it; rank r has row N - 1 - r.
struct Built {
  std::vector<std::uint8_t> code, blocks, starts, order;
  std::uint64_t count = 0;

  std::unique_ptr<Symbols> symbols() const {
    auto symbols = std::make_unique<Symbols>();
    symbols->count = count;
    symbols->place_bits = static_cast<unsigned>(std::bit_width(blocks.size()));
    symbols->row_bits = std::max(1u, static_cast<unsigned>(std::bit_width(count - 1)));
    symbols->blocks.bytes = blocks;
    symbols->starts.bytes = starts;
    symbols->order.bytes = order;
    if (!symbols->code.load(code)) return nullptr;
    return symbols;
  }
};

Bytes bytes_of(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

std::string text_of(const std::vector<std::string>& sorted) {
  std::string text;
  for (const std::string& symbol : sorted) text += symbol + '\xff';
  return text;
}

Built build(const std::vector<std::string>& sorted) {
  Built built;
  built.count = sorted.size();
  SymbolBuilder builder(built.count);
  const std::string text = text_of(sorted);
  CHECK(builder.survey(bytes_of(text)).fault == SymbolBuilder::Fault::none);
  built.code = builder.learn();
  builder.write(bytes_of(text));
  builder.finish();
  built.blocks = builder.heads;
  built.blocks.insert(built.blocks.end(), builder.blocks.begin(), builder.blocks.end());
  const unsigned place_bits = static_cast<unsigned>(std::bit_width(built.blocks.size()));
  built.starts.resize(builder.starts.size() / 2 * ((2 * place_bits + 7) / 8));
  pack_starts(builder.starts, builder.heads.size(), place_bits, built.starts.data());
  const unsigned bits = std::max(1u, static_cast<unsigned>(std::bit_width(built.count - 1)));
  built.order.resize((built.count + 7) / 8 * bits);
  for (std::uint64_t rank = 0; rank < built.count; ++rank) {
    for (unsigned bit = 0; bit < bits; ++bit) {
      const std::uint64_t place = rank * bits + bit;
      if (((built.count - 1 - rank) >> bit & 1) != 0)
        built.order[place / 8] |= static_cast<std::uint8_t>(1 << place % 8);
    }
  }
  return built;
}

std::vector<std::string> sorted_words(std::size_t count) {
  std::vector<std::string> words{"", std::string("\0", 1), "a", "\xc3\xa9", "\xf0\x9f\x98\x80"};
  for (std::uint32_t i = 0; words.size() < count; ++i) {
    std::string word = i % 3 == 0 ? "item_" : i % 3 == 1 ? "https://example.org/" : "";
    for (std::uint32_t rest = i * 2654435761u; rest > 0; rest /= 23) word += static_cast<char>('a' + rest % 23);
    words.push_back(word);
  }
  words.push_back(std::string(65'535, 'z'));
  words.push_back(std::string(65'534, 'z') + "y");
  std::sort(words.begin(), words.end(), [](const std::string& a, const std::string& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
      return static_cast<std::uint8_t>(x) < static_cast<std::uint8_t>(y);
    });
  });
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

Answer::State verified(const Symbols& symbols) {
  std::vector<std::uint8_t> seen(symbols.count / 8 + 1);
  return verify(symbols, 0, symbols.block_count(), seen).state;
}

}  // namespace

TEST(symbols_are_found_and_nothing_else) {
  for (const std::size_t count : {1u, 31u, 32u, 33u, 3000u}) {
    std::vector<std::string> words = sorted_words(3000);
    words.resize(std::min(count, words.size()));
    const Built built = build(words);
    const auto symbols = built.symbols();
    CHECK(verified(*symbols) == Answer::State::found);
    for (std::size_t rank = 0; rank < words.size(); ++rank) {
      const Answer answer = symbols->find(bytes_of(words[rank]));
      CHECK(answer.state == Answer::State::found && answer.row == words.size() - 1 - rank);
      for (const std::string& other : {words[rank] + "a", words[rank] + "\xff", words[rank].substr(0, 3) + "!"}) {
        if (std::find(words.begin(), words.end(), other) != words.end()) continue;
        CHECK(symbols->find(bytes_of(other)).state == Answer::State::absent);
      }
    }
  }
}

TEST(a_reader_gives_all_symbols) {
  const std::vector<std::string> words = sorted_words(1000);
  const auto built = build(words);
  const auto symbols = built.symbols();
  SymbolReader reader(*symbols);
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    if (rank % block_symbols == 0) CHECK(reader.open(rank / block_symbols).state == Answer::State::found);
    CHECK(reader.next().state == Answer::State::found);
    CHECK(std::string(reader.symbol().begin(), reader.symbol().end()) == words[rank]);
  }
  CHECK(reader.at_end() && reader.ends_with_block());
}

TEST(what_cannot_be_stored_is_found_with_its_place) {
  using Fault = SymbolBuilder::Fault;
  const auto fault = [](const std::string& text) {
    const auto finding = SymbolBuilder(3).survey(bytes_of(text));
    return std::pair(finding.fault, finding.place);
  };
  CHECK(fault("a\xff"
              "a\xff") == std::pair(Fault::repeated, std::size_t{1}));
  CHECK(fault("a\xff"
              "c\xff"
              "b\xff") == std::pair(Fault::unsorted, std::size_t{2}));
  CHECK(fault("ab\xff"
              "a\xff") == std::pair(Fault::unsorted, std::size_t{1}));
  CHECK(fault("a\xff"
              "b") == std::pair(Fault::no_end, std::size_t{1}));
  CHECK(fault("\xc3\xff") == std::pair(Fault::not_utf8, std::size_t{0}));
  CHECK(fault("\xed\xa0\x80\xff") == std::pair(Fault::not_utf8, std::size_t{0}));
  CHECK(fault(std::string(65'536, 'a') + "\xff") == std::pair(Fault::too_long, std::size_t{0}));
}

// Whatever the bytes are, nothing is read beyond them (the sanitizers look), and everything comes to an end.
TEST(any_bytes_may_stand_for_symbols) {
  const Built whole = build(sorted_words(300));
  std::uint32_t random = 1;
  const auto next = [&] { return (random = random * 1664525 + 1013904223) >> 8; };
  for (int trial = 0; trial < 3000; ++trial) {
    Built broken = whole;
    for (std::vector<std::uint8_t>* part : {&broken.code, &broken.blocks, &broken.starts, &broken.order}) {
      for (std::uint32_t change = next() % 4; change > 0; --change) {
        (*part)[next() % part->size()] ^= static_cast<std::uint8_t>(1 << next() % 8);
      }
    }
    if (trial % 3 == 0) broken.code = whole.code;
    const auto symbols = broken.symbols();
    if (symbols == nullptr) continue;
    verified(*symbols);
    symbols->find(bytes_of("item_abc"));
    SymbolReader reader(*symbols);
    const bool opened = reader.open(next() % symbols->block_count()).state == Answer::State::found;
    while (opened && !reader.at_end() && reader.next().state == Answer::State::found)
      CHECK(reader.symbol().size() < 65'552);
  }
}

TEST(pieces_that_are_not_checked_are_asked_for) {
  const std::vector<std::string> words = sorted_words(3000);
  const auto built = build(words);
  const auto symbols = built.symbols();
  std::uint8_t good[8] = {};
  std::size_t start = 60'000;
  for (CheckedBytes* part : {&symbols->blocks, &symbols->starts, &symbols->order}) {
    part->pieces = {good, 8};
    part->start = start;
    start += part->bytes.size();
  }
  int asked = 0;
  Answer answer = symbols->find(bytes_of(words[2000]));
  for (; answer.state == Answer::State::unchecked; ++asked) {
    CHECK(answer.from < answer.to && answer.to <= start);
    for (std::size_t piece = answer.from >> 16; piece <= (answer.to - 1) >> 16; ++piece) good[piece] = true;
    answer = symbols->find(bytes_of(words[2000]));
  }
  CHECK(answer.state == Answer::State::found && answer.row == words.size() - 1 - 2000);
  CHECK(asked >= 1 && asked <= 3);
}
