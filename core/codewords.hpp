// Codecs whose codes choose among codewords: what sums (sums.hpp) and the LSTM (lstm.hpp) have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "code_rows.hpp"
#include "sums_kernels.hpp"

namespace kdcode {

// A stored tensor of someone else's: numbers, and a factor for each leading index, or null for ones.
struct Weight {
  const void* numbers;
  Number number;
  const float* scales;
};

// The shape of a codec, and its tensors, which may be written to between calls: their values count when they are read.
struct Codewords {
  std::size_t size, length, dim;         // K, D and e
  std::size_t inner_dim, embedding_dim;  // of vectors before and after the basis
  Weight codebook;                       // (length, size, dim)
  Weight basis;                          // (inner_dim, embedding_dim); no numbers where there is none
  const float* levels;                   // of row scales
  std::size_t level_count;               // 0 where rows have no scales
};

double number_at(const Weight& weight, std::size_t leading, std::size_t place);

class CodewordCodec {
 public:
  explicit CodewordCodec(const Codewords& own) : own_(own), ones_(own.codebook.scales ? 0 : own.length, 1.0f) {}
  virtual ~CodewordCodec() = default;

  const Codewords& codewords() const { return own_; }
  CodeShape code_shape() const { return {own_.length, own_.size, own_.level_count}; }

  // How `decode` reads rows.
  struct Asked {
    const std::int64_t* numbers;  // (count,) of rows; null for rows 0, 1, ...
    std::size_t count, done;      // how many, and how many are decoded already
    std::int64_t zero_row;        // the row whose vector is zero; negative where none is
    bool finite;                  // whether a vector beyond float32 stops the call
  };

  // Writes the (count, embedding_dim) vectors of rows. A row whose numbers leave float32 on the way is computed in
  // double; what still does not fit stops the call, or is infinite.
  Reached decode(const CodeRows& rows, const Asked& asked, float* vectors) const;

 protected:
  // (length,) of the codewords of each position.
  const float* codebook_scales() const { return own_.codebook.scales ? own_.codebook.scales : ones_.data(); }

  // Floats that `compose` needs for so many rows.
  virtual std::size_t scratch_floats(std::size_t rows) const = 0;

  // (rows, length + 1) codes to (rows, inner_dim) coordinates. Where one leaves float32 on the way, so must a result.
  virtual void compose(const std::uint32_t* codes, std::size_t rows, float* scratch, float* coordinates) const = 0;

  // The same for one row in double, by plain loops; false where there is no memory.
  virtual bool compose_wide(const std::uint32_t* codes, double* coordinates) const = 0;

 private:
  enum class Wide { fits, too_large, no_memory };
  void finish(const std::uint32_t* codes, std::size_t rows, float* coordinates, float* vectors) const;
  Wide decode_wide(const std::uint32_t* codes, float* vector) const;

  Codewords own_;
  std::vector<float> ones_;
};

}  // namespace kdcode
