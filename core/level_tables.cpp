#include "level_tables.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <queue>

namespace kdcode {
namespace {

// round(2^(15 + i/16)): a weight of code c is the entry of c mod 16, shifted by c / 16.
constexpr std::array<std::uint64_t, 16> sixteenths{32768, 34219, 35734, 37316, 38968, 40693, 42495, 44376,
                                                   46341, 48393, 50535, 52773, 55109, 57549, 60097, 62757};

constexpr unsigned tables_per_context = 2 + 3 + 5;  // with 0 to 1, 0 to 2 and 0 to 4 ones

std::uint64_t weight_of(std::uint8_t code) { return sixteenths[code % 16] << (code / 16); }

int multiple_of(std::size_t value, unsigned quantizer) {
  if (value == 0) return 0;
  const int magnitude = static_cast<int>(value + 1) / 2;
  const int multiple = 2 * magnitude - static_cast<int>(quantizer);
  return value % 2 == 1 ? multiple : -multiple;
}

// Frequencies of at least 1 that add up to `total`, near count / sum of counts; the counts fall.
void share_out(std::span<const std::uint64_t> counts, std::uint64_t sum, std::uint32_t total,
               std::span<std::uint32_t> frequencies) {
  std::int64_t left = total;
  // Counts have up to 60 bits: without the lowest ones a product with `total` has room in 64.
  const unsigned drop = sum >> 44 != 0 ? 16 : 0;
  const std::uint64_t whole = std::max<std::uint64_t>(1, sum >> drop);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::uint64_t share = ((counts[i] >> drop) * total + whole / 2) / whole;
    frequencies[i] = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, share));
    left -= frequencies[i];
  }
  while (left != 0) {  // one by one from the most frequent, for which it matters least
    for (std::size_t i = 0; i < counts.size() && left != 0; ++i) {
      if (left > 0) {
        ++frequencies[i], --left;
      } else if (frequencies[i] > 1) {
        --frequencies[i], ++left;
      }
    }
  }
}

bool set_marginal(std::span<const std::uint8_t> codes, bool has_signs, Marginal* found) {
  const std::size_t magnitudes = codes.size() - 2, values = 2 * magnitudes + 2;
  const std::uint64_t signs = has_signs ? 2 : 1;
  std::uint64_t sum = weight_of(codes.front()) + weight_of(codes.back());
  for (std::size_t k = 1; k <= magnitudes; ++k) sum += signs * weight_of(codes[k]);
  const std::uint64_t spare = tail_total - values;
  std::vector<std::uint32_t> sizes(values, 0);
  std::uint32_t given = 0;
  for (std::size_t value = 0; value < values; ++value) {
    if (!has_signs && value != 0 && value % 2 == 0 && value != values - 1) continue;
    const std::size_t place = value == values - 1 ? codes.size() - 1 : (value + 1) / 2;
    sizes[value] = 1 + static_cast<std::uint32_t>(weight_of(codes[place]) * spare / sum);
    given += sizes[value];
  }
  *std::max_element(sizes.begin(), sizes.end()) += tail_total - given;
  found->magnitude = static_cast<unsigned>(magnitudes);
  found->starts.assign(values + 1, 0);
  for (std::size_t value = 0; value < values; ++value) found->starts[value + 1] = found->starts[value] + sizes[value];
  found->order.clear();
  for (std::size_t value = 0; value + 1 < values; ++value) {
    if (sizes[value] != 0 && value <= 2 * (largest_small / 2))
      found->order.push_back(static_cast<std::uint16_t>(value));
  }
  std::stable_sort(found->order.begin(), found->order.end(),
                   [&](std::uint16_t one, std::uint16_t other) { return sizes[one] > sizes[other]; });
  if (found->order.size() > 128) found->order.resize(128);
  return given <= tail_total;
}

}  // namespace

bool LevelTables::set(std::span<const std::uint16_t> magnitudes, std::span<const std::uint8_t> weights,
                      bool with_signs) {
  if (magnitudes.empty() || magnitudes.size() % 2 != 0 || magnitudes.size() / 2 > max_contexts) return false;
  contexts_ = static_cast<unsigned>(magnitudes.size() / 2);
  has_signs_ = with_signs;
  marginals_.assign(magnitudes.size(), {});
  std::size_t place = 0;
  for (std::size_t table = 0; table < magnitudes.size(); ++table) {
    const std::size_t count = std::size_t{magnitudes[table]} + 2;
    if (magnitudes[table] > max_magnitude || count > weights.size() - place) return false;
    if (!set_marginal(weights.subspan(place, count), with_signs, &marginals_[table])) return false;
    place += count;
  }
  if (place != weights.size()) return false;
  const std::size_t tables = std::size_t{contexts_} * tables_per_context;
  // Not written to before a table is made, so that tables nobody needs take no memory.
  slots_.reset(new (std::nothrow) std::uint8_t[tables * main_total]);
  symbols_.reset(new (std::nothrow) Symbol[tables * 256]);
  tails_.reset(new (std::nothrow) std::atomic<Tail*>[tables]());
  if (!slots_ || !symbols_ || !tails_) return false;
  is_made_.assign(tables, 0);
  mains_.assign(tables, 0);
  own_tails_.clear();
  return true;
}

float LevelTables::bits(unsigned context, unsigned quantizer, unsigned magnitude) const {
  const Marginal& own = marginal(context, quantizer);
  const bool escaped = magnitude > own.magnitude;
  const std::size_t value = escaped ? own.escape() : magnitude == 0 ? 0 : 2 * magnitude - 1;
  float bits = static_cast<float>(tail_bits) - std::log2(static_cast<float>(own.size(value)));
  if (escaped) {
    unsigned excess = 0;  // value + 1 - escape, sign and all, has so many bits after its leading one
    for (unsigned left = 2 * (magnitude - own.magnitude); left > 1; left >>= 1) ++excess;
    bits += static_cast<float>(2 * excess + 1);
  }
  return bits;
}

unsigned LevelTables::number(unsigned size, unsigned context) const {
  const unsigned before = size == 1 ? 0 : size == 2 ? 2 : 5;
  return before * contexts_ + context * (size + 1);
}

bool LevelTables::make(unsigned size, unsigned context) {
  const unsigned first = number(size, context);
  if (is_made_[first]) return true;
  for (unsigned ones = 0; ones <= size; ++ones) {
    // A tuple that is worth 0.7 slots or more has a slot.
    const std::uint64_t least = (std::uint64_t{7} << (tail_bits * size - main_bits)) / 10;
    const auto tuples = most_probable(size, context, ones, most_main, least);
    mains_[first + ones] = static_cast<std::uint8_t>(fill_main(tuples, size, first + ones));
  }
  is_made_[first] = 1;
  return true;
}

std::vector<LevelTables::Tuple> LevelTables::most_probable(unsigned size, unsigned context, unsigned ones,
                                                           std::size_t most, std::uint64_t least) const {
  // Best first: a tuple is reached from the one whose last rank above 0 is one less, which is no less probable.
  const auto is_later = [](const Tuple& one, const Tuple& other) {
    return one.product != other.product ? one.product < other.product : one.ranks > other.ranks;
  };
  std::vector<Tuple> heap, found;
  const auto push = [&](std::uint32_t ranks) {
    Tuple tuple{1, ranks, 0};
    for (unsigned i = 0; i < size; ++i) {
      const unsigned quantizer = i >= size - ones;
      const Marginal& own = marginal(context, quantizer);
      const std::size_t rank = ranks >> (8 * (3 - i)) & 255;
      if (rank >= own.order.size()) return;
      tuple.product *= own.size(own.order[rank]);
      tuple.values |= static_cast<std::uint32_t>(multiple_of(own.order[rank], quantizer) & 255) << (8 * i);
    }
    if (tuple.product < least) return;
    heap.push_back(tuple);
    std::push_heap(heap.begin(), heap.end(), is_later);
  };
  push(0);
  while (!heap.empty() && found.size() < most) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    const Tuple next = heap.back();
    heap.pop_back();
    found.push_back(next);
    unsigned last = 0;
    for (unsigned i = 0; i < size; ++i) last = (next.ranks >> (8 * (3 - i)) & 255) != 0 ? i : last;
    for (unsigned i = last; i < size; ++i) push(next.ranks + (1u << (8 * (3 - i))));
  }
  return found;
}

std::size_t LevelTables::fill_main(std::span<const Tuple> tuples, unsigned size, std::size_t table) {
  std::array<std::uint64_t, 256> counts;
  std::array<std::uint32_t, 256> frequencies;
  const std::uint64_t sum = std::uint64_t{1} << (tail_bits * size);
  std::uint64_t left = sum;
  for (std::size_t i = 0; i < tuples.size(); ++i) counts[i] = tuples[i].product, left -= tuples[i].product;
  counts[tuples.size()] = left;
  share_out(std::span(counts).first(tuples.size() + 1), sum, main_total, frequencies);
  std::uint8_t* slots = slots_.get() + table * main_total;
  Symbol* symbols = symbols_.get() + table * 256;
  std::fill_n(symbols, 256, Symbol{});
  std::uint32_t start = 0;
  for (std::size_t i = 0; i <= tuples.size(); ++i) {
    const bool is_escape = i == tuples.size();
    const std::uint32_t symbol = is_escape ? escape_symbol : static_cast<std::uint32_t>(i);
    symbols[symbol] = {is_escape ? escape_values : tuples[i].values, start << 16 | frequencies[i]};
    std::fill_n(slots + start, frequencies[i], static_cast<std::uint8_t>(symbol));
    start += frequencies[i];
  }
  return tuples.size();
}

const Tail& LevelTables::tail(unsigned size, unsigned context, unsigned ones) const {
  const unsigned table = number(size, context) + ones;
  if (const Tail* known = tails_[table].load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(mutex_);
  if (const Tail* known = tails_[table].load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<Tail>();
  made->mains = mains_[table];
  const std::uint64_t least = std::uint64_t{1} << (tail_bits * size > 20 ? tail_bits * size - 20 : 0);
  const auto tuples = most_probable(size, context, ones, made->mains + most_tail, least);
  std::uint64_t sum = std::uint64_t{1} << (tail_bits * size);
  for (std::size_t i = 0; i < std::min(made->mains, tuples.size()); ++i) sum -= tuples[i].product;
  const std::size_t count = tuples.size() > made->mains ? tuples.size() - made->mains : 0;
  std::vector<std::uint64_t> counts(count + 1);
  std::vector<std::uint32_t> frequencies(count + 1);
  std::uint64_t left = sum;
  for (std::size_t i = 0; i < count; ++i) {
    counts[i] = tuples[made->mains + i].product;
    left -= counts[i];
    made->values.push_back(tuples[made->mains + i].values);
  }
  counts[count] = left;
  share_out(counts, sum, tail_total, frequencies);
  std::uint32_t start = 0;
  for (const std::uint32_t frequency : frequencies) {
    const std::size_t before = (start + Tail::bucket - 1) / Tail::bucket;
    start += frequency;
    const std::size_t buckets = (start + Tail::bucket - 1) / Tail::bucket - before;
    made->firsts.insert(made->firsts.end(), buckets, static_cast<std::uint16_t>(made->starts.size()));
    made->starts.push_back(static_cast<std::uint16_t>(start - frequency));
  }
  made->places.assign(hash_places, 0);
  const std::size_t known = made->mains + count;
  for (std::size_t i = 0; i < known && i < tuples.size(); ++i) {
    std::size_t at = hash_of(tuples[i].values);
    while (made->places[at] != 0) at = (at + 1) % hash_places;
    made->places[at] = static_cast<std::uint16_t>(i + 1);
  }
  own_tails_.push_back(std::move(made));
  tails_[table].store(own_tails_.back().get(), std::memory_order_release);
  return *own_tails_.back();
}

}  // namespace kdcode
