// The trellis of dependent quantization: which of two quantizers a coordinate has.
//
// Quantizer 0 has the even multiples of the step, quantizer 1 the odd ones and zero. Magnitude k of quantizer q stands
// for the multiple 2k - q, with a sign, and 0 for k = 0. A state machine reads the parities of the magnitudes; the
// lowest bit of its state is the quantizer of the next coordinate. All machines here let a parity enter at bit 3 or
// above, so that the quantizers of four coordinates in a row, a quad, follow from the state alone: a quad is one symbol
// of the entropy coder, or two, or four. They were found by search; on Gaussian rows they lose no more than
// Ungerboeck's.
#pragma once

#include <array>
#include <cstdint>

namespace kdcode {

struct Trellis {
  unsigned bits;           // of a state; 0 for one state, where all coordinates have quantizer 0
  std::uint32_t feedback;  // what is added to the shifted state where its lowest bit is one
  std::uint32_t forward;   // what is added where the parity is one

  constexpr unsigned states() const { return 1u << bits; }
  constexpr unsigned next(unsigned state, unsigned parity) const {
    return (state >> 1) ^ ((state & 1) != 0 ? feedback : 0) ^ (parity != 0 ? forward : 0);
  }
};

// In octal, as is the custom: the parity checks h0 and h1 without their lowest bits.
inline constexpr std::array<Trellis, 5> trellises{{{0, 0, 0},
                                                   {5, 055 >> 1, 020 >> 1},
                                                   {6, 0115 >> 1, 040 >> 1},
                                                   {7, 0223 >> 1, 0100 >> 1},
                                                   {8, 0463 >> 1, 0320 >> 1}}};

// The trellis with so many states, or null.
constexpr const Trellis* trellis_of(unsigned states) {
  for (const Trellis& one : trellises) {
    if (one.states() == states) return &one;
  }
  return nullptr;
}

// The parity of the magnitude of a multiple: that of (|m| + q) / 2. The quantizer is the parity of the multiple itself,
// but for zero, which is even in both.
constexpr unsigned parity_of(int multiple) {
  const auto m = static_cast<unsigned>(multiple);
  return ((m >> 1) ^ (m & ~(m >> 31))) & 1;
}

constexpr int magnitude_of(int multiple, unsigned quantizer) {
  return ((multiple < 0 ? -multiple : multiple) + static_cast<int>(multiple != 0 ? quantizer : 0)) / 2;
}

}  // namespace kdcode
