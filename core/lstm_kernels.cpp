#include "lstm_kernels.hpp"

#include "columns.hpp"

namespace kdcode {
namespace {

KDCODE_COLUMN Floats choose(Ints mask, Floats yes, Floats no) {
  return (Floats)(((Ints)yes & mask) | ((Ints)no & ~mask));
}

KDCODE_COLUMN Floats within(Floats lanes, float low, float high) {
  const Floats lows = all_of(low), highs = all_of(high);
  lanes = choose(lanes > lows, lanes, lows);
  return choose(lanes < highs, lanes, highs);
}

// e^x to 2e-7: 2^n · e^r, where r is at most ln(2) / 2 and its power series is cut after seven terms.
KDCODE_COLUMN Floats exponential(Floats lanes) {
  lanes = within(lanes, -87.0f, 87.0f);
  constexpr float magic = 12582912.0f;  // 1.5 · 2^23: added and taken away again, it rounds to whole numbers
  const Floats whole = (lanes * 1.44269504f + magic) - magic;
  const Floats rest = (lanes - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln(2) in two parts
  Floats power = rest * (1.0f / 5040) + (1.0f / 720);
  power = power * rest + (1.0f / 120);
  power = power * rest + (1.0f / 24);
  power = power * rest + (1.0f / 6);
  power = power * rest + 0.5f;
  power = power * rest + 1.0f;
  power = power * rest + 1.0f;
  return power * (Floats)((__builtin_convertvector(whole, Ints) + 127) << 23);
}

KDCODE_COLUMN Floats sigmoid(Floats lanes) { return 1.0f / (1.0f + exponential(-lanes)); }

// Near zero, where 1 - 2 / (1 + e^2x) would lose digits, by the first terms of x · (1 - x²/3 + …).
KDCODE_COLUMN Floats tangent(Floats lanes) {
  const Floats far = 1.0f - 2.0f / (1.0f + exponential(2.0f * lanes)), square = lanes * lanes;
  Floats near = square * (62.0f / 2835) - (17.0f / 315);
  near = near * square + (2.0f / 15);
  near = near * square - (1.0f / 3);
  near = (near * square + 1.0f) * lanes;
  return choose((lanes < 0.25f) & (lanes > -0.25f), near, far);
}

KDCODE_COLUMN Floats first_at(const float* from, std::size_t count) {
  Floats numbers = {};
  __builtin_memcpy(&numbers, from, count * sizeof(float));
  return numbers;
}

KDCODE_COLUMN void put_first(float* to, Floats numbers, std::size_t count) {
  __builtin_memcpy(to, &numbers, count * sizeof(float));
}

void gates(const GatesJob& job) {
  for (std::size_t row = 0; row < job.rows; ++row) {
    for (std::size_t column = 0; column < job.dim; column += lanes) {
      const std::size_t left = job.dim - column, count = left < lanes ? left : lanes, at = row * job.dim + column;
      const Floats word = first_at(job.words + at, count);
      Floats gate[4], wrong = {};
      for (std::size_t i = 0; i < 4; ++i) {
        const Floats bias = first_at(job.bias + i * job.dim + column, count);
        gate[i] = word + (first_at(job.products + (row * 4 + i) * job.dim + column, count) + bias);
        wrong += gate[i] - gate[i];
      }
      Floats memory = first_at(job.memory + at, count);
      memory = sigmoid(gate[0]) * memory + sigmoid(gate[1]) * tangent(gate[3]);
      const Floats hidden = sigmoid(gate[2]) * tangent(memory);
      put_first(job.memory + at, memory, count);
      put_first(job.hidden + at, hidden, count);
      put_first(job.total + at, first_at(job.total + at, count) + hidden + wrong, count);
    }
  }
}

}  // namespace

const LstmKernels KDCODE_KERNELS(lstm_kernels) = {gates};

}  // namespace kdcode
