// Codes of vectors under codewords that are added: nearest codewords, beam search, and sweeps that reconsider one
// position at a time: iterated conditional modes (ICM), or Gibbs sampling at a temperature.
//
// The squared distance between x and a sum of codewords, as a function of one position's choice k, is
//     ‖w_k‖² − 2 x·w_k + 2 Σ_other w_other·w_k
// up to a constant. The first two terms are made once for some rows; the products of codewords are in a table, unless
// it were too large. So a visit to a position takes D·K additions for a row, and no multiplication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sum_search_kernels.hpp"

namespace kdcode {

using Floats = std::unique_ptr<float[]>;

// Writes the place of the nearest of (size, dim) codewords for each of (n, dim) rows. False where there is no memory.
[[nodiscard]] bool nearest_words(const float* rows, std::size_t n, const float* words, std::size_t size,
                                 std::size_t dim, std::int64_t* places);

class SumSearch {
 public:
  // Takes a copy of (length, size, dim) codewords. Null where there is no memory, or their numbers cannot be counted.
  static std::unique_ptr<SumSearch> make(const float* words, std::size_t length, std::size_t size, std::size_t dim);

  std::size_t length() const { return length_; }
  std::size_t size() const { return size_; }
  std::size_t dim() const { return dim_; }

  // Writes (n, length) codes of (n, dim) rows: those of the smallest cost when positions are chosen one after another,
  // and `beam` partial codes are kept. False where there is no memory.
  [[nodiscard]] bool encode(const float* rows, std::size_t n, std::size_t beam, std::uint32_t* codes) const;

  // Visits to all positions of some rows, one position after another.
  struct Sweeps {
    const std::uint32_t* order;  // (count, length) positions
    const float* temperatures;   // (count,); at 0 a row takes the nearest codeword, and stops where nothing changes
    std::size_t count;
    const float* noise;         // drawn as −log(−log u)
    const std::size_t* places;  // (count, length) where the noise for each visit begins; see noise_for
    bool keeps_nearer;          // whether a row keeps the code that it had where the new one is no nearer
  };
  std::size_t noise_for(std::size_t rows) const { return rows * size_ + 16; }

  // Changes (n, length) codes, which are below `size`. False where there is no memory.
  [[nodiscard]] bool sweep(const float* rows, std::size_t n, const Sweeps& sweeps, std::uint32_t* codes) const;

 private:
  SumSearch(std::size_t length, std::size_t size, std::size_t dim) : length_(length), size_(size), dim_(dim) {}
  bool take(const float* words);
  std::size_t strips() const { return (size_ + 15) / 16; }
  std::size_t place(std::size_t position) const;
  const float* word(std::uint32_t flat) const { return words_.get() + flat * dim_; }
  WordStrips strips_of(std::size_t position) const;
  TableCosts table_costs(std::size_t position) const;
  bool own_costs(const float* rows, std::size_t n, Floats* costs) const;
  void subtract(const float* row, const std::uint32_t* flat, float* left) const;
  float distance(const float* row, const std::uint32_t* flat, float* left) const;
  class Beams;

  // Codewords of a position have their mean taken away, so that a partial sum can be compared with a whole vector; and
  // positions are in the order of their energy, which falls.
  std::size_t length_, size_, dim_;
  std::unique_ptr<std::size_t[]> order_;
  Floats mean_;    // (dim,) of all sums
  Floats words_;   // (length, size, dim)
  Floats strips_;  // the same in strips
  Floats table_;   // (length, length · size, strips · 16) products of codewords with those of a position; or none
};

// Adds (n, dim) rows, times their weights where there are some, to the sums of their labels less `first`; a label that
// has no sum is passed over.
template <class Label>
void add_rows(const float* rows, const Label* labels, std::size_t label_step, const float* weights, std::size_t n,
              std::size_t dim, std::uint64_t first, std::size_t count, float* sums) {
  for (std::size_t row = 0; row < n; ++row, rows += dim) {
    const std::uint64_t place = static_cast<std::uint64_t>(labels[row * label_step]) - first;
    if (place >= count) continue;
    float* sum = sums + static_cast<std::size_t>(place) * dim;
    if (weights == nullptr) {
      for (std::size_t i = 0; i < dim; ++i) sum[i] += rows[i];
    } else {
      for (std::size_t i = 0; i < dim; ++i) sum[i] += rows[i] * weights[row];
    }
  }
}

}  // namespace kdcode
