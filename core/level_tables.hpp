// How often each level is expected, and the tables of the entropy coder that follow.
//
// A context is a class of coordinates of similar spread. It has two marginal tables, one for each quantizer: weights of
// magnitude 0, of each larger one up to M, and of all beyond ("escape"). A group of 1, 2 or 4 coordinates of one
// context is one symbol, whose frequency is the product of marginal ones. The most probable tuples share 2^12 slots,
// the next ones 2^15 behind an escape, and all others are coded coordinate by coordinate behind another. All numbers
// are whole, so that every machine makes the same tables.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "levels_kernels.hpp"

namespace kdcode {

inline constexpr unsigned main_bits = 12, tail_bits = 15;
inline constexpr std::uint32_t main_total = 1u << main_bits, tail_total = 1u << tail_bits;
inline constexpr unsigned max_contexts = 64, max_magnitude = 2047, most_main = 255, most_tail = 1023;
inline constexpr std::uint32_t escape_symbol = 255;  // of the main table
inline constexpr int largest_small = 127;            // multiples in tables fit into int8
inline constexpr unsigned most_excess_bits = 17;     // of an escaped magnitude

// The values of a marginal table: 0 for level 0, then 1, -1, 2, -2, …, and the escape last.
struct Marginal {
  unsigned magnitude = 0;             // the largest with a frequency of its own
  std::vector<std::uint32_t> starts;  // of each value, and tail_total at the end
  std::vector<std::uint16_t> order;   // values by frequency, the largest first; the escape and impossible ones left out

  std::uint32_t size(std::size_t value) const { return starts[value + 1] - starts[value]; }
  std::size_t escape() const { return starts.size() - 2; }
};

// The part of a joint table that only escapes and writers need.
struct Tail {
  static constexpr std::uint32_t bucket = 64;  // places

  std::vector<std::uint16_t> starts;  // of each tuple of the tail, then of the escape; the last one ends at tail_total
  std::vector<std::uint16_t> firsts;  // the tuple, or the escape, that has the first place of each bucket
  std::vector<std::uint32_t> values;  // of each tuple
  std::vector<std::uint16_t> places;  // a hash table: 1 + the number of a tuple, those of the main table first
  std::size_t mains = 0;              // tuples of the main table
};

// A symbol of a main table.
struct Symbol {
  std::uint32_t values;  // int8 multiples, the first coordinate lowest; escape_values for the escape
  std::uint32_t part;    // start << 16 | frequency

  std::uint32_t start() const { return part >> 16; }
  std::uint32_t frequency() const { return part & 0xffff; }
};

// Joint tables of groups of one size and context; `ones` of their coordinates have quantizer 1 and come last.
class LevelTables {
 public:
  // Weights in sixteenths of an octave, for each marginal table those of magnitudes 0 to M and of the escape.
  // False if the numbers of weights do not fit the magnitudes.
  bool set(std::span<const std::uint16_t> magnitudes, std::span<const std::uint8_t> weights, bool with_signs);

  unsigned contexts() const { return contexts_; }
  bool has_signs() const { return has_signs_; }
  const Marginal& marginal(unsigned context, unsigned quantizer) const { return marginals_[2 * context + quantizer]; }

  // Bits of a magnitude, sign included, by the marginal table.
  float bits(unsigned context, unsigned quantizer, unsigned magnitude) const;

  // The number of the first table, without ones, for a context and size; those with more ones follow.
  unsigned number(unsigned size, unsigned context) const;
  unsigned context_of(unsigned size, unsigned table) const { return (table - number(size, 0)) / (size + 1); }
  // Makes the main tables of a context and size, unless they are there.
  bool make(unsigned size, unsigned context);
  bool is_made(unsigned size, unsigned context) const { return is_made_[number(size, context)]; }

  // Main tables: (tables, 2^12) the symbol at each place, which is small enough for the caches, with 3 bytes after
  // them; and (tables, 256) symbols.
  const std::uint8_t* slots() const { return slots_.get(); }
  const Symbol* symbols() const { return symbols_.get(); }

  const Tail& tail(unsigned size, unsigned context, unsigned ones) const;

 private:
  struct Tuple {
    std::uint64_t product;
    std::uint32_t ranks;   // places in the order of each marginal, a byte each, the first coordinate highest
    std::uint32_t values;  // int8 multiples
  };
  std::vector<Tuple> most_probable(unsigned size, unsigned context, unsigned ones, std::size_t most,
                                   std::uint64_t least) const;
  std::size_t fill_main(std::span<const Tuple> tuples, unsigned size, std::size_t table);

  unsigned contexts_ = 0;
  bool has_signs_ = true;
  std::vector<Marginal> marginals_;
  std::unique_ptr<std::uint8_t[]> slots_;
  std::unique_ptr<Symbol[]> symbols_;
  std::vector<std::uint8_t> is_made_, mains_;
  mutable std::unique_ptr<std::atomic<Tail*>[]> tails_;
  mutable std::vector<std::unique_ptr<Tail>> own_tails_;
  mutable std::mutex mutex_;
};

// The place in a hash table from which a tuple is looked for.
inline std::size_t hash_of(std::uint32_t values) { return (values * 0x9e3779b1u) >> 20; }
inline constexpr std::size_t hash_places = 4096;

}  // namespace kdcode
