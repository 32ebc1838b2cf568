#pragma once

#include <cstdint>

namespace kdcode {

// A float16 as it lies in memory.
struct Half {
  std::uint16_t bits;
};

}  // namespace kdcode
