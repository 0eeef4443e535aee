#pragma once
// Balanced trees of labels: what follows from their number alone.
#include <cstdint>
#include <utility>

#include "flagstone/base/shape.hpp"

namespace flagstone::labels {

/// A complete binary tree of `depth` levels below the root: node j of level l has the places range(l, j) of an order of
/// the labels, the left child ⌈half⌉ of them.
struct TreeShape {
  Index labels = 0, depth = 0;
  static TreeShape of(Index labels, Index max_leaf) {
    TreeShape made{labels, 0};
    while (((labels - 1) >> made.depth) + 1 > max_leaf) ++made.depth;
    return made;
  }
  Index nodes(Index level) const { return Index{1} << level; }
  std::pair<Index, Index> range(Index level, Index node) const {
    Index first = 0, n = labels;
    for (Index l = level - 1; l >= 0; --l) {
      const Index left = (n + 1) / 2;
      if (node >> l & 1)
        first += left, n -= left;
      else
        n = left;
    }
    return {first, n};
  }
};

/// Mixes what a draw is for into a seed of its own (splitmix64).
inline std::uint64_t seed_of(std::uint64_t seed, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  for (const std::uint64_t part : {a, b, c}) {
    seed += 0x9E3779B97F4A7C15U + part;
    seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9U;
    seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EBU;
    seed ^= seed >> 31;
  }
  return seed;
}

}  // namespace flagstone::labels
