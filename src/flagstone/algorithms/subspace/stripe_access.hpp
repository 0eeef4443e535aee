#pragma once
// Which stretches of Z's files the groups of a stripe are.
#include <cstdint>
#include <utility>
#include <vector>

#include "flagstone/algorithms/subspace/block_basis.hpp"

namespace flagstone::subspace {

inline constexpr std::int32_t in_memory = -1;

/// A stretch of one file of Z, or of what is held of it in memory.
struct Part {
  std::int32_t file = 0;
  Index begin = 0, end = 0;
  auto operator<=>(const Part&) const = default;
};

/// Which parts of Z some groups of a stripe are, and where in them their blocks begin.
struct StripeAccess {
  std::vector<Part> parts;
  std::vector<std::pair<std::int32_t, Index>> of_group;  // part, first element in it; -1: none
};

/// Whether every group with columns has a block of its own.
bool all_stored(const BlockLayout& z);
/// The block of a group that has columns.
Part part_of(const BlockLayout& z, Index group);
/// All groups of a stripe: where every block is stored (`all`), one stretch of each file.
StripeAccess access_of(const BlockLayout& z, Index stripe, bool all);

}  // namespace flagstone::subspace
