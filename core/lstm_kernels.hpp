// The elementwise part of an LSTM.
#pragma once

#include <cstddef>

#include "kernels.hpp"

namespace kdcode {

struct GatesJob {
  const float* products;  // (rows, 4, dim): the hidden state times the matrices of the gates f, i, o, m
  const float* words;     // (rows, dim) codewords, which are added to each gate
  const float* bias;      // (4, dim)
  std::size_t rows, dim;
  float* hidden;  // (rows, dim), as are the others
  float* memory;
  float* total;  // of all hidden states; no number from where a gate is not finite
};

struct LstmKernels {
  void (*gates)(const GatesJob&);
};

KDCODE_DECLARE_KERNELS(LstmKernels, lstm_kernels)

}  // namespace kdcode
