#pragma once
// The Slater determinants of one kind of nucleon in given orbits, as far as they depend on angular momenta alone.
#include <cstdint>
#include <utility>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::nuclear {

using Mask = std::uint64_t;  // of the states of one orbit: bit i is m = i - j

/// The k-subsets of the states of an orbit in ascending order of their masks, which is colexicographic: the rank of one
/// is a sum of binomials, so nothing is searched.
class Subsets {
 public:
  Subsets(int two_j, int k);
  Index count() const { return static_cast<Index>(masks_.size()); }
  Mask mask(Index rank) const { return masks_[static_cast<std::size_t>(rank)]; }
  int two_m(Index rank) const { return two_m_[static_cast<std::size_t>(rank)]; }
  static Index rank(Mask mask);

 private:
  std::vector<Mask> masks_;
  std::vector<int> two_m_;
};

/// How many nucleons are in orbits of which j, of partly filled orbits alone: sorted by (2j, k). Groups with equal
/// patterns have equal J², to the bit.
using Pattern = std::vector<std::pair<int, int>>;

/// Number of determinants of a pattern by 2M: element i is 2M = 2i - most.
struct Distribution {
  int most = 0;  // the largest 2M
  std::vector<Index> count;
  Index at(int two_m) const {
    const int i = two_m + most;
    return i < 0 || i > 2 * most || i % 2 ? 0 : count[static_cast<std::size_t>(i / 2)];
  }
};
Distribution distribution_of(const Pattern& pattern);

/// The determinants of a pattern: a subset for each of its slots, the last one fastest.
class Determinants {
 public:
  explicit Determinants(const Pattern& pattern);
  Index count() const { return count_; }
  std::size_t slots() const { return strides_.size(); }
  Mask mask(Index det, std::size_t slot) const { return masks_[static_cast<std::size_t>(det) * slots() + slot]; }
  Index stride(std::size_t slot) const { return strides_[slot]; }
  int two_m(Index det) const { return two_m_[static_cast<std::size_t>(det)]; }
  /// Its place among those of the same M.
  Index within(Index det) const { return within_[static_cast<std::size_t>(det)]; }
  int most() const { return most_; }
  /// Those of one M, ascending.
  const std::vector<std::int32_t>& sector(int two_m) const;

 private:
  Index count_ = 1;
  std::vector<Index> strides_;
  std::vector<Mask> masks_;
  std::vector<std::int16_t> two_m_;
  std::vector<std::int32_t> within_;
  int most_ = 0;
  std::vector<std::vector<std::int32_t>> sectors_;
};

}  // namespace flagstone::nuclear
