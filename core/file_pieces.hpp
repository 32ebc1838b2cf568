// Which pieces of a mapped file match their digests. What lies in others must not be read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checked.hpp"

namespace kdcode {

struct FilePieces {
  static constexpr std::size_t piece_bytes = 1 << 16;

  const std::uint8_t* good = nullptr;  // of each piece, not 0 where it matches; null where all may be read
  std::size_t count = 0;

  // Whether it is known of all bytes of [start, start + size) whether they match.
  bool cover(std::size_t start, std::size_t size) const {
    std::size_t end = 0;
    return good == nullptr || size == 0 || (add(start, size, &end) && (end - 1) / piece_bytes < count);
  }

  // Whether all bytes of [start, start + size), which are covered, match.
  bool are_good(std::size_t start, std::size_t size) const {
    if (good == nullptr || size == 0) return true;
    const std::size_t last = (start + size - 1) / piece_bytes;
    for (std::size_t piece = start / piece_bytes; piece <= last; ++piece) {
      if (!good[piece]) return false;
    }
    return true;
  }
};

}  // namespace kdcode
