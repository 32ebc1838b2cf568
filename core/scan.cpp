#include "scan.hpp"

#include <algorithm>
#include <memory>
#include <new>

namespace kdcode {
namespace {

// Rows that are looked at before it is asked whether there is room for what may be found.
constexpr std::size_t most_rows = 512;

// The sum of a table entry for each code, in four parts whose additions do not wait for each other.
template <class Code>
float sum_entries(const Code* codes, std::size_t length, std::size_t size, const float* table) {
  float a = 0, b = 0, c = 0, d = 0;
  std::size_t i = 0;
  for (; length - i >= 4; i += 4, table += 4 * size) {
    a += table[codes[i]];
    b += table[size + codes[i + 1]];
    c += table[2 * size + codes[i + 2]];
    d += table[3 * size + codes[i + 3]];
  }
  for (; i < length; ++i, table += size) a += table[codes[i]];
  return (a + b) + (c + d);
}

// Writes down the rows whose score may exceed the floor of a query.
void keep(const Scan& scan, std::size_t query, const float* sums, std::size_t first, std::size_t count) {
  const float floor = scan.floors[query], slack = scan.slack[query];
  std::int64_t* found = scan.found + query * scan.room;
  float *lows = scan.lows + query * scan.room, *highs = scan.highs + query * scan.room;
  std::size_t kept = static_cast<std::size_t>(scan.counts[query]);
  if (kept > scan.room || scan.room - kept < count) return;  // somebody has written to the counts since
  for (std::size_t i = 0; i < count; ++i) {
    const float factor = scan.factors == nullptr ? 1.0f : scan.factors[first + i];
    const float score = sums[i] * factor + (scan.offsets == nullptr ? 0.0f : scan.offsets[first + i]);
    if (!(score + slack * factor > floor)) continue;
    found[kept] = static_cast<std::int64_t>(first + i);
    lows[kept] = score - slack * factor;
    highs[kept++] = score + slack * factor;
  }
  scan.counts[query] = static_cast<std::int64_t>(kept);
}

bool has_room(const Scan& scan, std::size_t rows) {
  for (std::size_t query = 0; query < scan.queries; ++query) {
    const std::int64_t count = scan.counts[query];
    if (count < 0 || static_cast<std::uint64_t>(count) > scan.room ||
        scan.room - static_cast<std::size_t>(count) < rows)
      return false;
  }
  return true;
}

}  // namespace

Reached scan_rows(const CodeRows& rows, const CodeShape& shape, const Scan& scan, std::size_t first, std::size_t stop) {
  const bool are_bytes = rows.position_bits == 8 && shape.size >= 256 && rows.level_bits == 0;
  const std::size_t stride = shape.length + 1;
  std::unique_ptr<std::uint32_t[]> codes;
  if (!are_bytes) codes.reset(new (std::nothrow) std::uint32_t[most_rows * stride]);
  if (!are_bytes && !codes) return {first, Stop::no_memory};
  stop = std::min(stop, rows.count);
  float sums[most_rows];
  while (first < stop) {
    const std::size_t count = std::min(most_rows, stop - first);
    if (!has_room(scan, count)) return {first, Stop::none};
    if (!is_checked(rows, first, count)) return {first, Stop::unchecked};
    if (!are_bytes) {
      const Reached read = read_codes(rows, shape, nullptr, first, count, count, codes.get());
      if (read.why != Stop::none) return {first + read.place, read.why};
    }
    for (std::size_t query = 0; query < scan.queries; ++query) {
      const float* table = scan.tables + query * shape.length * shape.size;
      for (std::size_t i = 0; i < count; ++i) {
        if (are_bytes) {
          sums[i] = sum_entries(rows.bytes + (first + i) * rows.row_bytes, shape.length, shape.size, table);
        } else {
          const std::uint32_t* own = codes.get() + i * stride;
          sums[i] = sum_entries(own, shape.length, shape.size, table);
          if (rows.level_bits != 0) sums[i] *= scan.levels[own[shape.length]];
        }
      }
      keep(scan, query, sums, first, count);
    }
    first += count;
  }
  return {first, Stop::none};
}

}  // namespace kdcode
