#include "flagstone/algorithms/stencil/skewed/skews.hpp"

#include <algorithm>

namespace flagstone::stencil {
namespace {

Interval common(const Interval& a, const Interval& b) {
  const Index first = std::max(a.first, b.first);
  return {first, std::max(first, std::min(a.last, b.last))};
}

constexpr Index far = Index{1} << 60;

/// Sums over the tiles of one axis.
struct Along {
  double read = 0, written = 0;
  double ever = 0, inside = 0, before = 0;  // of what is read: what is written by any tile, by this one first, earlier
  std::array<double, 2> needed{}, needed_before{};  // of these what is still needed of the final parity, of the other
  std::array<double, 2> kept{};                     // of what is written, what a later tile needs
};

}  // namespace

Skews::Skews(const Problem& problem, const SkewedScheme& scheme, Index deepest, Index last, const Axes& unit)
    : problem_(problem), block_(scheme.block), deepest_(std::max<Index>(1, deepest)) {
  for (std::size_t d = 0; d < 3; ++d) {
    if (!cut(d)) continue;
    const Index reach = problem.space.radius[d];
    if (problem.space.periodic(d)) offset_[d] = reach * (deepest_ - 1);
    const Index end =
        reach * (std::max<Index>(1, last) - 1) + offset_[d];  // where tile 0 begins at the last step, negated
    offset_[d] += (unit[d] - end % unit[d]) % unit[d];
  }
}

std::array<bool, 3> Skews::open() const {
  std::array<bool, 3> open{};
  for (std::size_t d = 0; d < 3; ++d) open[d] = cut(d) && problem_.space.periodic(d);
  return open;
}

Interval Skews::domain(std::size_t d, Index depth, Index step) const {
  const Index beyond = problem_.space.radius[d] * (depth - step);
  if (cut(d) && problem_.space.periodic(d)) return {-beyond, problem_.space.shape[d] + beyond};
  return problem_.needed(d, beyond);
}

Index Skews::tiles(std::size_t d, Index depth) const {
  if (!cut(d)) return 1;
  return ceil_div(problem_.space.shape[d] + problem_.space.radius[d] * (depth - 1) + offset_[d], block_[d]);
}

Interval Skews::computed(std::size_t d, Index tile, Index depth, Index step) const {
  if (!cut(d)) return domain(d, depth, step);
  const Index first = begin(d, tile) - problem_.space.radius[d] * (step - 1);
  return common({first, first + block_[d]}, domain(d, depth, step));
}

Interval Skews::read(std::size_t d, Index tile, Index depth) const {
  if (!cut(d)) return domain(d, depth, 0);
  const Index first = begin(d, tile), reach = problem_.space.radius[d];
  return common({first - reach * depth, first + block_[d] + reach}, domain(d, depth, 0));
}

Interval Skews::written(std::size_t d, Index tile, Index depth) const {
  if (!cut(d)) return domain(d, depth, 1);
  const Index first = begin(d, tile), reach = problem_.space.radius[d];
  return common({first - reach * (depth - 1), first + block_[d]}, domain(d, depth, 1));
}

std::vector<Index> Skews::cuts(std::size_t d, const std::vector<Index>& depths, Index most) const {
  const Interval all = domain(d, deepest_, 0);
  std::vector<Index> found{all.first, 0, problem_.space.shape[d], all.last};
  const auto enter = [&](const Interval& interval) { found.push_back(interval.first), found.push_back(interval.last); };
  for (const Index depth : depths) {
    enter(domain(d, depth, 0)), enter(domain(d, depth, 1));
    for (Index tile = 0; tile < tiles(d, depth); ++tile) enter(read(d, tile, depth)), enter(written(d, tile, depth));
  }
  std::sort(found.begin(), found.end());
  std::vector<Index> cuts;
  for (const Index at : found)
    while (cuts.empty() || cuts.back() < at)
      cuts.push_back(cuts.empty() ? at : std::min(at, cuts.back() + std::max<Index>(1, most)));
  return cuts;
}

Counts skewed_counts(const Problem& problem, const Skews& skews, Index depth, bool first, bool last) {
  std::array<Along, 3> along;
  for (std::size_t d = 0; d < 3; ++d) {
    Along& sums = along[d];
    const Index tiles = skews.tiles(d, depth), reach = problem.space.radius[d];
    for (Index k = 0; k < tiles; ++k) {
      const Interval read = skews.read(d, k, depth), written = skews.written(d, k, depth);
      const auto size = [](const Interval& a, Index from, Index to) {
        return static_cast<double>(common(a, {from, to}).length());
      };
      sums.read += size(read, -far, far), sums.written += size(written, -far, far);
      const bool cut = skews.cut(d);
      const Interval made = skews.domain(d, depth, 1);  // what is ever written
      const Index begin = cut ? skews.begin(d, k) : made.first;
      const Index end = k + 1 < tiles ? skews.begin(d, k + 1) : made.last, own = k > 0 ? begin : made.first;
      sums.ever += size(read, made.first, made.last);
      sums.before += size(read, made.first, own), sums.inside += size(read, own, std::min(end, made.last));
      for (std::size_t other = 0; other < 2; ++other) {
        const Index need = reach * (depth - 1 + static_cast<Index>(other));
        const Index from = cut ? std::max(made.first, begin - need) : made.first;
        sums.needed[other] += size(read, from, made.last);
        sums.needed_before[other] += size(read, from, own);
        if (k + 1 < tiles) sums.kept[other] += size(written, end - need, far);
      }
    }
  }
  // Sums over the axes: the first along which a point lies in another tile's part says which.
  const auto seen_before = [&] {
    double sum = 0, inside = 1;
    for (std::size_t d = 0; d < 3; inside *= along[d++].inside) {
      double each = inside * along[d].before;
      for (std::size_t e = d + 1; e < 3; ++e) each *= along[e].ever;
      sum += each;
    }
    return sum;
  };
  const auto of_parity = [&](std::size_t other, bool kept) {
    double sum = 0, ahead = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      const Along& here = along[d];
      double each = ahead * (kept ? here.kept[other] : here.needed_before[other]);
      for (std::size_t e = d + 1; e < 3; ++e) each *= kept ? along[e].written : along[e].needed[other];
      sum += each;
      ahead *= kept ? here.written - here.kept[other] : here.inside;
    }
    return sum;
  };
  const double read = along[0].read * along[1].read * along[2].read;
  const double written = along[0].written * along[1].written * along[2].written;
  const double seen = seen_before();
  const double order = static_cast<double>(problem.order()), all = problem.core_points();
  Counts counts;
  for (std::size_t parity = 0; parity < 2; ++parity) {
    const bool start = parity == 0 || problem.order() == 2;
    const std::size_t other = parity == static_cast<std::size_t>(depth & 1) ? 0 : 1;
    const double of_tiles = last ? of_parity(other, false) : seen;
    counts.read += start ? read - seen + of_tiles : last || first ? of_tiles : read;
    counts.written += last ? of_parity(other, true) : written;
  }
  if (last) counts.written += order * all;
  counts.given = static_cast<double>(problem.coefficients.size()) * written;
  for (Index t = 1; t <= depth; ++t) {
    double each = 1;
    for (std::size_t d = 0; d < 3; ++d) each *= static_cast<double>(skews.domain(d, depth, t).length());
    counts.updates += each;
  }
  return counts;
}

}  // namespace flagstone::stencil
