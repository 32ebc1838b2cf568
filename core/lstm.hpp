// The paper's LSTM over codewords: each is added to every gate, and coordinates are the sum of all hidden states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "codewords.hpp"

namespace kdcode {

class Lstm final : public CodewordCodec {
 public:
  // `recurrent` is (4, dim, dim) and `bias` (4, dim), gates in the order f, i, o, m. Null where the shape is none.
  static std::unique_ptr<Lstm> make(const Codewords& codewords, const Weight& recurrent, const Weight& bias);

 protected:
  std::size_t scratch_floats(std::size_t rows) const override;
  void compose(const std::uint32_t* codes, std::size_t rows, float* scratch, float* coordinates) const override;
  bool compose_wide(const std::uint32_t* codes, double* coordinates) const override;

 private:
  Lstm(const Codewords& own, const Weight& recurrent, const Weight& bias)
      : CodewordCodec(own), recurrent_(recurrent), bias_(bias) {}

  Weight recurrent_, bias_;
};

}  // namespace kdcode
