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
};
/// Of one slot in a last superstep.
struct Needed {
  double all = 0, before = 0;  // of what is read: what is still needed, and written by an earlier tile
  double kept = 0;             // of what is written: what a later tile needs
};

double part_of(const Interval& a, Index from, Index to) { return static_cast<double>(common(a, {from, to}).length()); }

/// What the tiles of one axis are to each other in a superstep.
class AlongTiles {
 public:
  AlongTiles(const Skews& skews, std::size_t d, Index levels)
      : skews_(skews), d_(d), levels_(levels), made_(skews.domain(d, levels, 1)) {}

  Along sums() const {
    Along sums;
    for (Index k = 0; k < tiles(); ++k) {
      const Interval read = skews_.read(d_, k, levels_), written = skews_.written(d_, k, levels_);
      sums.read += static_cast<double>(read.length()), sums.written += static_cast<double>(written.length());
      sums.ever += part_of(read, made_.first, made_.last);
      sums.before += part_of(read, made_.first, own(k)),
          sums.inside += part_of(read, own(k), std::min(end(k), made_.last));
    }
    return sums;
  }
  /// Of a slot that later tiles read until a level.
  Needed needed(Index last_read) const {
    Needed sums;
    const Index need = skews_.reach(d_) * last_read;
    for (Index k = 0; k < tiles(); ++k) {
      const Interval read = skews_.read(d_, k, levels_), written = skews_.written(d_, k, levels_);
      const Index from = skews_.cut(d_) ? std::max(made_.first, skews_.begin(d_, k) - need) : made_.first;
      sums.all += part_of(read, from, made_.last), sums.before += part_of(read, from, own(k));
      if (k + 1 < tiles()) sums.kept += part_of(written, end(k) - need, far);
    }
    return sums;
  }

 private:
  Index tiles() const { return skews_.tiles(d_, levels_); }
  Index own(Index k) const { return k > 0 && skews_.cut(d_) ? skews_.begin(d_, k) : made_.first; }
  Index end(Index k) const { return k + 1 < tiles() ? skews_.begin(d_, k + 1) : made_.last; }

  const Skews& skews_;
  std::size_t d_;
  Index levels_;
  Interval made_;  // what is ever written
};

}  // namespace

Skews::Skews(const Problem& problem, const SkewedScheme& scheme, Index deepest, Index last, const Axes& unit)
    : problem_(problem), slots_(problem), block_(scheme.block), deepest_(levels(std::max<Index>(1, deepest))) {
  for (std::size_t d = 0; d < 3; ++d) {
    if (!cut(d)) continue;
    if (problem.space.periodic(d)) offset_[d] = reach(d) * (deepest_ - 1);
    // Where tile 0 begins at the last level, negated.
    const Index end = reach(d) * (levels(std::max<Index>(1, last)) - 1) + offset_[d];
    offset_[d] += (unit[d] - end % unit[d]) % unit[d];
  }
}

std::array<bool, 3> Skews::open() const {
  std::array<bool, 3> open{};
  for (std::size_t d = 0; d < 3; ++d) open[d] = cut(d) && problem_.space.periodic(d);
  return open;
}

Interval Skews::domain(std::size_t d, Index levels, Index level) const {
  const Index beyond = reach(d) * (levels - level);
  if (cut(d) && problem_.space.periodic(d)) return {-beyond, problem_.space.shape[d] + beyond};
  return problem_.needed(d, beyond);
}

Index Skews::tiles(std::size_t d, Index levels) const {
  if (!cut(d)) return 1;
  return ceil_div(problem_.space.shape[d] + reach(d) * (levels - 1) + offset_[d], block_[d]);
}

Interval Skews::computed(std::size_t d, Index tile, Index levels, Index level) const {
  if (!cut(d)) return domain(d, levels, level);
  const Index first = begin(d, tile) - reach(d) * (level - 1);
  return common({first, first + block_[d]}, domain(d, levels, level));
}

Interval Skews::read(std::size_t d, Index tile, Index levels) const {
  if (!cut(d)) return domain(d, levels, 0);
  const Index first = begin(d, tile);
  return common({first - reach(d) * levels, first + block_[d] + reach(d)}, domain(d, levels, 0));
}

Interval Skews::written(std::size_t d, Index tile, Index levels) const {
  if (!cut(d)) return domain(d, levels, 1);
  const Index first = begin(d, tile);
  return common({first - reach(d) * (levels - 1), first + block_[d]}, domain(d, levels, 1));
}

double Skews::images(Index levels) const {
  double all = 1, field = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto length = static_cast<double>(domain(d, levels, 0).length());
    all *= length, field *= open()[d] ? static_cast<double>(problem_.space.shape[d]) : length;
  }
  return all - field;
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

Index Skews::most_cells(std::size_t d, const std::vector<Index>& depths, Index most) const {
  if (!cut(d)) return static_cast<Index>(cuts(d, depths, most).size()) - 1;
  // The ends of the field and of its images; of each tile of these levels k b - h l, k b - h (l - 1) and, of all levels
  // the same, k b and k b + h; what is longer than `most` once more.
  Index edges = 4;
  for (const Index levels : depths) edges += 4 + tiles(d, levels) * (levels == depths.front() ? 4 : 2);
  return edges + domain(d, deepest_, 0).length() / std::max<Index>(1, most);
}

std::vector<Index> Skews::depths(const Supersteps& supersteps) const {
  std::vector<Index> found{levels(supersteps[0]), levels(supersteps[supersteps.number() - 1])};
  if (found[0] == found[1]) found.pop_back();
  return found;
}

Counts skewed_counts(const Problem& problem, const Skews& skews, Index depth, bool first, bool last) {
  const Slots& slots = skews.slots();
  const Index levels = skews.levels(depth);
  std::vector<AlongTiles> tiles;
  std::array<Along, 3> along;
  for (std::size_t d = 0; d < 3; ++d) along[d] = tiles.emplace_back(skews, d, levels).sums();
  // Sums over the axes: the first along which a point lies in another tile's part says which.
  double seen = 0, read = 1, written = 1, inside = 1;
  for (std::size_t d = 0; d < 3; inside *= along[d++].inside) {
    double each = inside * along[d].before;
    for (std::size_t e = d + 1; e < 3; ++e) each *= along[e].ever;
    seen += each, read *= along[d].read, written *= along[d].written;
  }
  Counts counts;
  for (std::size_t slot = 0; slot < slots.number(); ++slot) {
    std::array<Needed, 3> needed;
    for (std::size_t d = 0; d < 3; ++d) needed[d] = tiles[d].needed(slots.last_read(slot, levels));
    double loaded = 0, kept = 0, ahead = 1, dropped = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      double load = ahead * needed[d].before, keep = dropped * needed[d].kept;
      for (std::size_t e = d + 1; e < 3; ++e) load *= needed[e].all, keep *= along[e].written;
      loaded += load, kept += keep;
      ahead *= along[d].inside, dropped *= along[d].written - needed[d].kept;
    }
    const double of_tiles = last ? loaded : seen;
    counts.read += slots.begins(slot) ? read - seen + of_tiles : last || first ? of_tiles : read;
    counts.written += last ? kept : written;
  }
  if (last) counts.written += static_cast<double>(problem.order()) * problem.core_points();
  counts.given = static_cast<double>(problem.coefficients.size()) * written;
  for (Index t = 1; t <= depth; ++t) {
    double each = 1;
    for (std::size_t d = 0; d < 3; ++d) each *= static_cast<double>(skews.domain(d, levels, skews.levels(t)).length());
    counts.updates += each;
  }
  return counts;
}

}  // namespace flagstone::stencil
