#include "level_search.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "level_search_kernels.hpp"

namespace kdcode {
namespace {

constexpr float bit_for_sides = 0.5f;  // what a bit is worth that is left for sides, beside one spent on levels
constexpr float wider = 1.5f;          // what λ is multiplied by for a block that does not fit into the longest class
constexpr int most_wider = 60;

// Choices are made sixteen at a time, and run past the end of the last row.
std::size_t padded(std::size_t count) { return (count + 15) / 16 * 16 + 16; }

}  // namespace

LevelCosts::LevelCosts(const LevelCodec& codec, std::uint32_t largest)
    : magnitudes_(std::max<std::uint32_t>(largest, 2) + 1), active_(codec.active()) {
  const unsigned contexts = codec.tables().contexts();
  bits_.resize(std::size_t{contexts} * 2 * magnitudes_);
  for (unsigned table = 0; table < 2 * contexts; ++table) {
    for (std::uint32_t k = 0; k < magnitudes_; ++k) {
      bits_[std::size_t{table} * magnitudes_ + k] = codec.tables().bits(table / 2, table % 2, k);
    }
  }
  tables_.resize(codec.classes() * active_);
  for (std::size_t own = 0; own < codec.classes(); ++own) {
    for (std::size_t i = 0; i < active_; ++i) {
      tables_[own * active_ + i] = static_cast<std::int32_t>(codec.context_of(i, own) * 2 * magnitudes_);
    }
  }
}

LevelSearch::LevelSearch(const LevelCodec& codec, const LevelCosts& costs) : codec_(codec), costs_(costs) {
  const std::size_t levels = codec.rows() * codec.active();
  sizes_.resize(levels);
  choice_costs_.resize(4 * padded(levels));
  choice_bits_.resize(4 * padded(levels));
  choice_magnitudes_.resize(4 * padded(levels));
  total_.resize(codec.trellis().states());
  spent_.resize(codec.trellis().states());
  decisions_.resize(levels * std::max<std::size_t>(1, codec.trellis().states() / 16));
}

LevelSearch::Path LevelSearch::best_path(std::size_t own, float trade, float room) {
  const std::size_t active = codec_.active(), levels = codec_.rows() * active, stride = padded(levels);
  const Trellis& trellis = codec_.trellis();
  const LevelSearchKernels& kernels = KDCODE_CHOSEN(level_search_kernels);
  for (std::size_t row = 0; row < codec_.rows(); ++row) {
    // Rows are as long as they are: choices of the last sixteen run into those of the next row, which follow.
    const LevelChoices choices{choice_costs_.data() + row * active, choice_bits_.data() + row * active,
                               choice_magnitudes_.data() + row * active, stride};
    kernels.choose(sizes_.data() + row * active, costs_.tables(own), active, costs_.bits(),
                   static_cast<std::int32_t>(costs_.magnitudes()), trade, choices);
  }
  for (std::size_t choice = 0; choice < 4; ++choice) {  // what is of no row is zero
    for (std::size_t i = used_; i < levels; ++i) {
      const std::size_t table =
          static_cast<std::size_t>(costs_.tables(own)[i % active]) + choice / 2 * costs_.magnitudes();
      choice_costs_[choice * stride + i] = choice % 2 != 0 ? far : trade * costs_.bits()[table];
      choice_bits_[choice * stride + i] = costs_.bits()[table];
      choice_magnitudes_[choice * stride + i] = 0;
    }
  }
  const LevelChoices choices{choice_costs_.data(), choice_bits_.data(), choice_magnitudes_.data(), stride};
  std::fill(total_.begin(), total_.end(), far);
  std::fill(spent_.begin(), spent_.end(), 0.0f);
  total_[0] = 0;
  if (trellis.bits == 0) {
    for (std::size_t i = 0; i < levels; ++i) {
      const std::size_t second = choices.cost[stride + i] < choices.cost[i] ? 1 : 0;
      total_[0] += choices.cost[second * stride + i];
      spent_[0] += choices.bits[second * stride + i];
      decisions_[i] = static_cast<std::uint16_t>(second);
    }
  } else {
    kernels.walk(choices, levels, trellis.states(), trellis.feedback, trellis.forward, total_.data(), spent_.data(),
                 decisions_.data());
  }
  Path path;
  float least = far, least_total = far;
  for (std::size_t state = 0; state < total_.size(); ++state) {
    if (total_[state] < least_total) least_total = total_[state], path.natural_bits = spent_[state];
    // The error, and what bits cost that are better left for sides.
    const float worth = total_[state] - (1 - bit_for_sides) * trade * spent_[state];
    if (spent_[state] <= room && total_[state] < far && worth < least) {
      least = worth, path.state = state, path.bits = spent_[state], path.fits = true;
    }
  }
  return path;
}

void LevelSearch::trace(std::size_t state, const float* coordinates, std::int32_t* multiples) const {
  const std::size_t active = codec_.active(), levels = codec_.rows() * active, stride = padded(levels);
  const Trellis& trellis = codec_.trellis();
  const std::size_t vectors = std::max<std::size_t>(1, trellis.states() / 16);
  std::fill_n(multiples, codec_.rows() * codec_.dim(), 0);
  for (std::size_t i = levels; i-- > 0;) {
    const unsigned parity =
        trellis.bits == 0 ? decisions_[i] : decisions_[i * vectors + state / 16] >> (state % 16) & 1;
    unsigned quantizer = 0;
    if (trellis.bits != 0) {
      quantizer = static_cast<unsigned>(state >> (trellis.bits - 1));
      const std::size_t moved = state ^ (quantizer != 0 ? trellis.feedback : 0) ^ (parity != 0 ? trellis.forward : 0);
      state = 2 * moved | quantizer;
    }
    const std::int32_t magnitude = choice_magnitudes_[(2 * quantizer + parity) * stride + i];
    const std::int32_t multiple = magnitude == 0 ? 0 : 2 * magnitude - static_cast<std::int32_t>(quantizer);
    const std::size_t place = i / active * codec_.dim() + i % active;
    multiples[place] = coordinates[place] < 0 && codec_.tables().has_signs() ? -multiple : multiple;
  }
}

std::size_t LevelSearch::first_place(std::span<const std::uint8_t> allowed, float room_taken) const {
  const std::size_t active = codec_.active();
  std::size_t low = 0, high = allowed.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    float bits = room_taken;
    const std::int32_t* tables = costs_.tables(allowed[middle]);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const float level = std::min(sizes_[i] / 2 + 0.4f, static_cast<float>(costs_.magnitudes() - 1));
      bits += costs_.bits()[static_cast<std::size_t>(tables[i % active]) + static_cast<std::size_t>(level)];
    }
    if (bits <= 8.0f * static_cast<float>(codec_.length(allowed[middle]))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

bool LevelSearch::search(const float* coordinates, float trade, float taken, float margin,
                         std::span<const std::uint8_t> allowed, std::int32_t* multiples, Found* found) {
  const auto room = [&](std::size_t place) {
    return 8.0f * static_cast<float>(codec_.length(allowed[place])) - margin - taken;
  };
  std::size_t place = first_place(allowed, taken + margin);
  bool has_path = false;
  for (int turn = 0; turn < most_wider + 2 * static_cast<int>(allowed.size()); ++turn) {
    const Path path = best_path(allowed[place], trade, room(place));
    if (path.fits) {
      const bool went_up = turn != 0 && !has_path;
      trace(path.state, coordinates, multiples);
      found->own = allowed[place];
      has_path = true;
      // A shorter class may do: contexts follow from the class, so that the path there is another one.
      if (went_up || place == 0 || path.natural_bits > room(place - 1)) return true;
      --place;
    } else if (has_path) {
      return true;
    } else if (place + 1 == allowed.size()) {
      trade *= wider;
    } else {
      ++place;
    }
  }
  return has_path;
}

std::uint32_t LevelSearch::above(const float* coordinates, const std::int32_t* multiples) const {
  std::uint32_t bits = 0;
  const std::size_t count = std::min<std::size_t>(most_sides, sizes_.size());
  for (std::size_t i = 0; i < most_sides; ++i) {
    bits <<= 1;
    if (i >= count) continue;
    const std::size_t place = i / codec_.active() * codec_.dim() + i % codec_.active();
    bits |= coordinates[place] > static_cast<float>(multiples[place]);
  }
  return bits;
}

LevelSearch::Found LevelSearch::find(const float* coordinates, std::size_t used, const std::uint16_t* numbers,
                                     float trade, std::span<const std::uint8_t> allowed, std::int32_t* multiples,
                                     std::uint8_t* bytes) {
  const std::size_t active = codec_.active();
  const float largest = 2.0f * static_cast<float>(costs_.magnitudes() - 1);
  used_ = std::min(used, codec_.rows()) * active;
  float taken = 0;
  for (std::size_t row = 0; row < codec_.rows(); ++row) {
    if (codec_.centroids() != 0) taken += codec_.number_bits(numbers[row]);
    for (std::size_t i = 0; i < active; ++i) {
      const float value = coordinates[row * codec_.dim() + i];
      const float size = codec_.tables().has_signs() ? std::fabs(value) : std::max(value, 0.0f);
      sizes_[row * active + i] = row < used ? std::min(size, largest) : 0.0f;
    }
  }
  Found found;
  // Costs are those of single coordinates. The coder rounds them, and a group that has no symbol takes more, so that a
  // few of thousands of blocks need more than they should: they are searched again, with more room to spare each time.
  const float most = 8.0f * static_cast<float>(codec_.longest());
  for (float margin = 0.05f + 0.0004f * static_cast<float>(sizes_.size()); margin < most;
       margin += std::max(1.0f, margin)) {
    if (!search(coordinates, trade, taken, margin, allowed, multiples, &found)) break;
    found.above = above(coordinates, multiples);
    found.sides = codec_.write(multiples, numbers, found.own, found.above, bytes);
    if (found.sides >= 0) return found;
  }
  std::fill_n(multiples, codec_.rows() * codec_.dim(), 0);
  found.own = allowed.back();
  found.above = above(coordinates, multiples);
  found.sides = codec_.write(multiples, numbers, found.own, found.above, bytes);
  return found;
}

}  // namespace kdcode
