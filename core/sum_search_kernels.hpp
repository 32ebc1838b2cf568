// Distances of rows from codewords, sixteen codewords at a time, in one order of sums whatever the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace kdcode {

// What no cost that may be chosen reaches; codewords that only fill a strip up have it.
constexpr float no_cost = 3e38f;

// K codewords of e numbers in strips of sixteen: of each strip the halves of the squared norms, then a number after the
// other of all sixteen. Costs are ½‖w‖² − x·w, which is half the squared distance less half that of x from zero.
struct WordStrips {
  const float* strips;  // (count, 1 + dim, 16)
  std::size_t count, dim;
};

// What a row pays at a position for each codeword: its own costs and the table rows of the codewords that it has.
struct TableCosts {
  const float* own;  // of row r from own + r · own_step on, in whole strips
  std::size_t own_step;
  const float* table;         // rows of `strips` strips, one for each codeword of any position; null for no table
  const std::uint32_t* flat;  // of row r from flat + r · flat_step on: `depth` rows of the table, but for `skipped`
  std::size_t flat_step, depth, skipped;
  std::size_t strips, size;  // `size` codewords in so many strips
};

struct SumSearchKernels {
  // Writes the place of the smallest cost for each of (n, dim) rows, and that cost; place 0 where no cost is a number.
  void (*nearest)(const float* rows, std::size_t n, WordStrips words, std::int64_t* places);
  // Writes (n, count · 16) costs, without ½‖w‖² where `norms` is false.
  void (*costs)(const float* rows, std::size_t n, WordStrips words, bool norms, float* costs);
  // Writes the place of the smallest cost less `temperature` times the noise for each of `count` rows; a place of
  // `size` or more means none. The noise of row r is read from noise + r · size on, in whole strips; null for none.
  void (*choose)(TableCosts costs, const std::uint32_t* rows, std::size_t count, const float* noise, float temperature,
                 std::uint32_t* places);
  // Looks for the `width` smallest sums of the costs of n parents and of their codewords. Writes the sums in rising
  // order, with parent · size + place. Gives how many there are. `scratch` has room for n rows of costs.
  std::size_t (*smallest)(TableCosts costs, const float* parents, std::size_t n, std::size_t width, float* scratch,
                          float* sums, std::uint32_t* places);
};

KDCODE_DECLARE_KERNELS(SumSearchKernels, sum_search_kernels)

}  // namespace kdcode
