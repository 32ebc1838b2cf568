// Transform codes and rows of blocks as Python holds them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "level_search.hpp"
#include "transform.hpp"

namespace kdcode {

template <class Value>
using Vector = Array<const Value, 1>;
template <class Value>
using Matrix = Array<const Value, 2>;

// Rows of blocks, with the arrays that they are in.
struct HeldBlocks {
  Vector<std::uint8_t> codes, classes, starts, good;  // starts as bytes: they need not be aligned in a file
  std::vector<std::uint64_t> breaks;
  std::vector<std::uint32_t> lengths;
  std::unique_ptr<RowFinder> finder;
};

// A codec of the core, with what levels cost once somebody encodes.
class HeldTransform {
 public:
  explicit HeldTransform(std::unique_ptr<Transform> codec) : codec_(std::move(codec)) {}
  const Transform& codec() const { return *codec_; }
  void prepare(std::span<const float> rotation) { codec_->prepare(rotation); }
  std::shared_ptr<const LevelCosts> costs(std::uint32_t largest) {
    const std::lock_guard lock(mutex_);
    if (!costs_ || largest_ != largest) costs_ = std::make_shared<const LevelCosts>(codec_->levels(), largest);
    largest_ = largest;
    return costs_;
  }

 private:
  std::unique_ptr<Transform> codec_;
  std::shared_ptr<const LevelCosts> costs_;
  std::uint32_t largest_ = 0;
  std::mutex mutex_;
};

// How many rows are done, and which bytes of the file, begin and length, have to be checked before the next one.
using Stopped = std::tuple<std::size_t, std::size_t, std::size_t>;

// What is wrong with a row, as an exception.
[[noreturn]] void refuse_rows(const DecodeTrouble& trouble, std::int64_t row, std::size_t rows, std::size_t classes);
// Refuses rows that were not made by such a codec.
void check_fit(const Transform& codec, const HeldBlocks& blocks);

}  // namespace kdcode
