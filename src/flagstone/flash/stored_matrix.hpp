#pragma once
// A matrix argument as it lies in rows, on disk or in memory: its array, what it overlaps, a copy of it.
#include <cstdint>
#include <string>

#include "flagstone/flash/gemm.hpp"

namespace flagstone::flash {

/// One argument as it is stored, in rows.
struct Stored {
  const char* name;
  Place place;
  Index rows, cols, leading;
  Dtype dtype;

  std::uint64_t item() const { return size_of(dtype); }
  std::uint64_t begin() const {
    return place.file ? place.offset : static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place.memory));
  }
  std::uint64_t end() const {
    if (rows == 0 || cols == 0) return begin();
    return begin() + static_cast<std::uint64_t>((rows - 1) * leading + cols) * item();
  }
  std::string text() const { return std::to_string(rows) + " x " + std::to_string(cols); }
};

/// ShapeError where rows do not fit their distance, or nothing is there.
void check(const char* who, const Stored& x, bool column_major);
Array array_of(const Stored& x);
/// Do any of their bytes coincide? Exact for rows of one pitch (blocks of one matrix), else by their extents.
bool overlap(const Stored& a, const Stored& b);
/// A copy in a nameless file of the scratch directory. Cost: one read and one write of `x`.
Stored copied(Runtime& runtime, const char* who, const Stored& x);

}  // namespace flagstone::flash
