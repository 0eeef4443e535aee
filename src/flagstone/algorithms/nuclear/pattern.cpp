#include "flagstone/algorithms/nuclear/pattern.hpp"

#include <array>
#include <bit>

namespace flagstone::nuclear {
namespace {

constexpr int most_states = 64;

/// Pascal's triangle.
const std::array<std::array<Index, most_states>, most_states>& binomials() {
  static const auto table = [] {
    std::array<std::array<Index, most_states>, most_states> made{};
    for (std::size_t n = 0; n < most_states; ++n) {
      made[n][0] = 1;
      for (std::size_t k = 1; k <= n; ++k) made[n][k] = made[n - 1][k - 1] + (k < n ? made[n - 1][k] : 0);
    }
    return made;
  }();
  return table;
}

}  // namespace

Subsets::Subsets(int two_j, int k) {
  const Mask end = Mask{1} << (two_j + 1);
  if (k == 0) {
    masks_ = {0}, two_m_ = {0};
    return;
  }
  for (Mask mask = (Mask{1} << k) - 1; mask < end;) {
    int two_m = 0;
    for (Mask rest = mask; rest; rest &= rest - 1) two_m += 2 * std::countr_zero(rest) - two_j;
    masks_.push_back(mask), two_m_.push_back(two_m);
    const Mask low = mask & -mask, ripple = mask + low;  // Gosper: the next mask with as many bits
    mask = ripple | ((mask ^ ripple) / low >> 2);
  }
}

Index Subsets::rank(Mask mask) {
  const auto& choose = binomials();
  Index rank = 0;
  for (std::size_t i = 1; mask; mask &= mask - 1, ++i)
    rank += choose[static_cast<std::size_t>(std::countr_zero(mask))][i];
  return rank;
}

Distribution distribution_of(const Pattern& pattern) {
  Distribution all{0, {1}};
  for (const auto& [two_j, k] : pattern) {
    const Subsets subsets(two_j, k);
    const int most = k * (two_j + 1 - k);
    Distribution next{all.most + most, std::vector<Index>(static_cast<std::size_t>(all.most + most + 1), 0)};
    std::vector<Index> one(static_cast<std::size_t>(most + 1), 0);
    for (Index s = 0; s < subsets.count(); ++s) ++one[static_cast<std::size_t>((subsets.two_m(s) + most) / 2)];
    for (std::size_t a = 0; a < all.count.size(); ++a)
      for (std::size_t b = 0; b < one.size(); ++b) next.count[a + b] += all.count[a] * one[b];
    all = std::move(next);
  }
  return all;
}

Determinants::Determinants(const Pattern& pattern) {
  std::vector<Subsets> subsets;
  for (const auto& [two_j, k] : pattern) {
    subsets.emplace_back(two_j, k);
    count_ *= subsets.back().count();
    most_ += k * (two_j + 1 - k);
  }
  strides_.assign(pattern.size(), 1);
  for (std::size_t s = pattern.size(); s-- > 1;) strides_[s - 1] = strides_[s] * subsets[s].count();
  masks_.reserve(static_cast<std::size_t>(count_) * pattern.size());
  sectors_.resize(static_cast<std::size_t>(most_ + 1));
  for (Index det = 0; det < count_; ++det) {
    int two_m = 0;
    for (std::size_t s = 0; s < pattern.size(); ++s) {
      const Index rank = det / strides_[s] % subsets[s].count();
      masks_.push_back(subsets[s].mask(rank)), two_m += subsets[s].two_m(rank);
    }
    auto& sector = sectors_[static_cast<std::size_t>((two_m + most_) / 2)];
    two_m_.push_back(static_cast<std::int16_t>(two_m));
    within_.push_back(static_cast<std::int32_t>(sector.size()));
    sector.push_back(static_cast<std::int32_t>(det));
  }
}

const std::vector<std::int32_t>& Determinants::sector(int two_m) const {
  static const std::vector<std::int32_t> none;
  const int i = two_m + most_;
  return i < 0 || i > 2 * most_ || i % 2 ? none : sectors_[static_cast<std::size_t>(i / 2)];
}

}  // namespace flagstone::nuclear
