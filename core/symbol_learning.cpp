// Learns which strings are frequent in symbols, and codes for them (see learned_code in symbol_code.hpp).
//
// Rounds as in FSST (Boncz, Neumann, Leis 2020): split the sample into the strings at hand so that the bits are fewest,
// count the strings and their neighbouring pairs, and keep those that save most; a pair becomes one string. Costs here
// are those of an entropy coder, and splits are the best ones.
#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "symbol_code.hpp"

namespace kdcode {
namespace {

constexpr unsigned rounds = 9;
constexpr std::size_t most_strings = 1023;  // with the escape, 1,024
constexpr std::uint32_t bit = 256;          // costs are counted in 1/256 bits until the codes are made

// log2 of a number of at least 1, in 1/256; rounded down.
std::uint32_t log2_of(std::uint64_t number) {
  const unsigned whole = static_cast<unsigned>(std::bit_width(number)) - 1;
  std::uint64_t mantissa = whole > 31 ? number >> (whole - 31) : number << (31 - whole);  // in [2^31, 2^32)
  std::uint32_t result = whole;
  for (int i = 0; i < 8; ++i) {
    mantissa = mantissa * mantissa >> 31;
    const bool one = mantissa >> 32 != 0;
    if (one) mantissa >>= 1;
    result = result << 1 | one;
  }
  return result;
}

// Lengths of Huffman codes of at most `longest_code` bits, for counts that are not 0. Counts that are equal fall into
// place by their numbers. Where a code gets too long, all counts are halved, which makes it shorter.
std::vector<unsigned> code_lengths(std::vector<std::uint64_t> counts) {
  const std::size_t size = counts.size();
  if (size == 1) return {1};
  std::vector<unsigned> lengths(2 * size - 1);
  std::vector<std::size_t> leaves(size), parents(2 * size - 1);
  std::vector<std::uint64_t> weights(2 * size - 1);
  while (true) {
    for (std::size_t i = 0; i < size; ++i) leaves[i] = i;
    std::stable_sort(leaves.begin(), leaves.end(), [&](std::size_t a, std::size_t b) { return counts[a] < counts[b]; });
    std::copy(counts.begin(), counts.end(), weights.begin());
    std::size_t leaf = 0, inner = size;  // the lightest that have no parent; inner nodes come by their weights
    for (std::size_t made = size; made < 2 * size - 1; ++made) {
      weights[made] = 0;
      for (int child = 0; child < 2; ++child) {
        const bool take_leaf = leaf < size && (inner == made || weights[leaves[leaf]] <= weights[inner]);
        const std::size_t taken = take_leaf ? leaves[leaf++] : inner++;
        parents[taken] = made;
        weights[made] += weights[taken];
      }
    }
    lengths[2 * size - 2] = 0;
    for (std::size_t node = 2 * size - 2; node-- > 0;) lengths[node] = lengths[parents[node]] + 1;
    if (*std::max_element(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(size)) <= longest_code) break;
    for (std::uint64_t& count : counts) count = (count + 1) / 2;
  }
  lengths.resize(size);
  return lengths;
}

struct Candidate {
  std::string text;
  std::uint64_t count;
  std::int64_t gain;
};

class Learner {
 public:
  Learner(Bytes suffixes, std::uint64_t weight) : sample_(suffixes), weight_(static_cast<std::int64_t>(weight)) {
    std::array<std::uint64_t, 256> counts{};
    for (const std::uint8_t byte : sample_) ++counts[byte];
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (counts[byte] > 0) take({std::string(1, static_cast<char>(byte)), counts[byte], 0});
    }
    parser_.escape_cost = 18 * bit;
  }

  std::vector<CodedString> learn() {
    prepare(sample_.size());
    for (unsigned round = 0; round < rounds; ++round) choose(round + 1 < rounds);
    for (int i = 0; i < 2; ++i) make_codes();
    return strings_;
  }

 private:
  void take(const Candidate& candidate) {
    strings_.push_back({candidate.text, 0});
    counts_.push_back(candidate.count);
  }

  // Sets what strings cost by their counts, of `total`.
  void prepare(std::uint64_t total) {
    parser_.build(strings_);
    parser_.costs.clear();
    for (const std::uint64_t count : counts_) parser_.costs.push_back(log2_of(total) - log2_of(count));
  }

  // Splits the sample, and counts strings, escapes and, where there is room for them, pairs.
  std::uint64_t count(std::vector<std::uint32_t>* pairs) {
    counts_.assign(strings_.size(), 0);
    escapes_ = 0;
    std::uint64_t total = 0;
    for (std::size_t start = 0, end; start < sample_.size(); start = end) {
      for (end = start; sample_[end] != symbol_end;) ++end;
      ++end;
      std::int16_t before = -1;
      for (const std::int16_t string : parser_.parse(sample_.subspan(start, end - start))) {
        ++total;
        if (string < 0) {
          ++escapes_;
        } else {
          ++counts_[static_cast<std::size_t>(string)];
          if (pairs != nullptr && before >= 0 && length(before) + length(string) <= longest_string) {
            pairs->push_back(static_cast<std::uint32_t>(before) << 16 | static_cast<std::uint32_t>(string));
          }
        }
        before = string;
      }
    }
    return total;
  }

  std::size_t length(std::int16_t string) const { return strings_[static_cast<std::size_t>(string)].text.size(); }

  // What it saves in all symbols to have a string that comes `count` times in the sample, instead of `others` for each.
  std::int64_t gain(std::uint64_t count, std::uint64_t total, std::uint32_t others, std::size_t length) const {
    const std::int64_t saved = std::int64_t{others} - std::int64_t{log2_of(total) - log2_of(count)};
    return static_cast<std::int64_t>(count) * weight_ * saved - static_cast<std::int64_t>(8 * bit * (length + 1));
  }

  // What a string costs without it: the least of two parts, or of its bytes.
  std::uint32_t cost_without(const std::string& text) {
    std::uint32_t least = parser_.escape_cost * static_cast<std::uint32_t>(text.size());
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const auto first = cost_of_.find(text.substr(0, cut)), second = cost_of_.find(text.substr(cut));
      if (first != cost_of_.end() && second != cost_of_.end()) least = std::min(least, first->second + second->second);
    }
    return least;
  }

  void choose(bool with_pairs) {
    std::vector<std::uint32_t> pairs;
    const std::uint64_t total = count(with_pairs ? &pairs : nullptr);
    cost_of_.clear();
    for (std::size_t i = 0; i < strings_.size(); ++i) cost_of_[strings_[i].text] = parser_.costs[i];
    std::vector<Candidate> found;
    for (std::size_t i = 0; i < strings_.size(); ++i) {
      const std::string& text = strings_[i].text;
      if (counts_[i] > 0) found.push_back({text, counts_[i], gain(counts_[i], total, cost_without(text), text.size())});
    }
    std::sort(pairs.begin(), pairs.end());
    for (std::size_t start = 0, end; start < pairs.size(); start = end) {
      end = static_cast<std::size_t>(std::upper_bound(pairs.begin(), pairs.end(), pairs[start]) - pairs.begin());
      if (end - start < 2) continue;
      const std::size_t first = pairs[start] >> 16, second = pairs[start] & 0xffff;
      std::string text = strings_[first].text + strings_[second].text;
      const std::size_t size = text.size();
      found.push_back(
          {std::move(text), end - start, gain(end - start, total, parser_.costs[first] + parser_.costs[second], size)});
    }
    keep_best(merged(std::move(found)));
  }

  // Candidates by their text, those of the same text added up.
  static std::vector<Candidate> merged(std::vector<Candidate> found) {
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.text < b.text; });
    std::vector<Candidate> distinct;
    for (Candidate& one : found) {
      if (!distinct.empty() && distinct.back().text == one.text) {
        distinct.back().count += one.count;
        distinct.back().gain += one.gain;
      } else {
        distinct.push_back(std::move(one));
      }
    }
    return distinct;
  }

  // Single bytes stay where they pay for themselves at all, so that escapes are rare; of others, those that save most.
  void keep_best(std::vector<Candidate> found) {
    std::erase_if(found, [](const Candidate& one) { return one.gain <= 0; });
    std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
      const bool single = a.text.size() == 1;
      return single != (b.text.size() == 1) ? single : a.gain > b.gain;
    });
    if (found.size() > most_strings) found.resize(most_strings);
    strings_.clear();
    counts_.clear();
    std::uint64_t total = 0;
    for (const Candidate& one : found) {
      take(one);
      total += one.count;
    }
    prepare(total);
  }

  // Turns counts into codes, sorted by their lengths and then by their text; the escape is an empty text.
  void make_codes() {
    count(nullptr);
    std::vector<CodedString> used;
    std::vector<std::uint64_t> counts{std::max<std::uint64_t>(escapes_, 1)};
    used.push_back({"", 0});
    for (std::size_t i = 0; i < strings_.size(); ++i) {
      if (counts_[i] == 0 || strings_[i].text.empty()) continue;
      used.push_back(strings_[i]);
      counts.push_back(counts_[i]);
    }
    const std::vector<unsigned> lengths = code_lengths(std::move(counts));
    for (std::size_t i = 0; i < used.size(); ++i) used[i].bits = lengths[i];
    parser_.escape_cost = used[0].bits + 8;
    std::sort(used.begin(), used.end(), [](const CodedString& a, const CodedString& b) {
      return a.bits != b.bits ? a.bits < b.bits : a.text < b.text;
    });
    strings_ = std::move(used);
    parser_.build(strings_);
    parser_.costs.clear();
    for (const CodedString& one : strings_) parser_.costs.push_back(one.bits);
  }

  Bytes sample_;
  std::int64_t weight_;
  StringParser parser_;
  std::vector<CodedString> strings_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t escapes_ = 0;
  std::unordered_map<std::string, std::uint32_t> cost_of_;
};

}  // namespace

std::vector<std::uint8_t> learned_code(Bytes suffixes, const std::array<std::uint64_t, 256>& shared,
                                       std::uint64_t weight) {
  std::vector<CodedShared> values;
  std::vector<std::uint64_t> counts;
  for (std::size_t value = 0; value < 256; ++value) {
    if (shared[value] == 0 && value != escaped_shared) continue;
    values.push_back({static_cast<std::uint8_t>(value), 0});
    counts.push_back(std::max<std::uint64_t>(shared[value], 1));
  }
  const std::vector<unsigned> lengths = code_lengths(std::move(counts));
  for (std::size_t i = 0; i < values.size(); ++i) values[i].bits = lengths[i];
  std::stable_sort(values.begin(), values.end(),
                   [](const CodedShared& a, const CodedShared& b) { return a.bits < b.bits; });
  return stored_code(Learner(suffixes, weight).learn(), values);
}

}  // namespace kdcode
