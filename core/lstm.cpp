#include "lstm.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "dispatch.hpp"
#include "lstm_kernels.hpp"

namespace kdcode {
namespace {

double sigmoid(double number) { return 0.5 * (std::tanh(0.5 * number) + 1); }  // tanh cannot overflow

}  // namespace

std::unique_ptr<Lstm> Lstm::make(const Codewords& own, const Weight& recurrent, const Weight& bias) {
  if (own.dim != own.inner_dim || own.basis.numbers == nullptr) return nullptr;
  return std::unique_ptr<Lstm>(new (std::nothrow) Lstm(own, recurrent, bias));
}

// The matrices of the gates side by side and their bias, then what a step works on: see `compose`.
std::size_t Lstm::scratch_floats(std::size_t rows) const {
  const std::size_t dim = codewords().dim;
  return 4 * dim * dim + 4 * dim + 7 * rows * dim;
}

void Lstm::compose(const std::uint32_t* codes, std::size_t rows, float* scratch, float* coordinates) const {
  const Codewords& own = codewords();
  const std::size_t dim = own.dim, size = rows * dim;
  float *const matrix = scratch, *const bias = matrix + 4 * dim * dim;
  float *const products = bias + 4 * dim, *const words = products + 4 * size;
  float *const hidden = words + size, *const memory = hidden + size;
  for (std::size_t row = 0; row < 4 * dim; ++row) {
    for (std::size_t i = 0; i < dim; ++i) {
      matrix[i * 4 * dim + row] = static_cast<float>(number_at(recurrent_, 0, row * dim + i));
    }
    bias[row] = static_cast<float>(number_at(bias_, 0, row));
  }
  std::fill_n(hidden, 2 * size, 0.0f);
  std::fill_n(coordinates, size, 0.0f);
  for (std::size_t position = 0; position < own.length; ++position) {
    // The codewords of one position alone, as a sum of one.
    const Block block{position, position + 1, 0, dim};
    KDCODE_CHOSEN(sums_kernels)
        .add({own.codebook.numbers, own.codebook.number, codebook_scales(), nullptr, &block, 1, own.length, own.size,
              dim, codes, rows, dim, words});
    KDCODE_CHOSEN(sums_kernels).multiply({hidden, matrix, Number::float32, rows, dim, 4 * dim, products});
    KDCODE_CHOSEN(lstm_kernels).gates({products, words, bias, rows, dim, hidden, memory, coordinates});
  }
}

bool Lstm::compose_wide(const std::uint32_t* codes, double* coordinates) const {
  const Codewords& own = codewords();
  const std::size_t dim = own.dim;
  const std::unique_ptr<double[]> state(new (std::nothrow) double[3 * dim]());
  if (!state) return false;
  double *hidden = state.get(), *memory = hidden + dim, *next = memory + dim;
  std::fill_n(coordinates, dim, 0.0);
  for (std::size_t position = 0; position < own.length; ++position) {
    for (std::size_t i = 0; i < dim; ++i) {
      double gate[4];
      for (std::size_t g = 0; g < 4; ++g) {
        gate[g] = number_at(own.codebook, position, (position * own.size + codes[position]) * dim + i);
        gate[g] += number_at(bias_, 0, g * dim + i);
        for (std::size_t j = 0; j < dim; ++j) gate[g] += number_at(recurrent_, 0, (g * dim + i) * dim + j) * hidden[j];
      }
      memory[i] = sigmoid(gate[0]) * memory[i] + sigmoid(gate[1]) * std::tanh(gate[3]);
      next[i] = sigmoid(gate[2]) * std::tanh(memory[i]);
    }
    std::swap(hidden, next);
    for (std::size_t i = 0; i < dim; ++i) coordinates[i] += hidden[i];
  }
  return true;
}

}  // namespace kdcode
