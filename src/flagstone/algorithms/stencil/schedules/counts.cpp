#include "flagstone/algorithms/stencil/schedules/counts.hpp"

#include <algorithm>

#include "flagstone/algorithms/stencil/schedules/levels.hpp"

namespace flagstone::stencil {
namespace {

/// How far an axis goes for intervals that are grown; a periodic one on and on.
struct Clip {
  Index last = 0;
  bool periodic = false;
  Index length(Index first, Index end, Index by) const {
    if (periodic) return end - first + 2 * by;
    return std::max<Index>(0, std::min(last, end + by) - std::max<Index>(0, first - by));
  }
};

/// Σ f(first, last) over pieces of so many points each: whole ones that lie no nearer than `far` to either end of the
/// axis are alike, and one of them is asked. Cost: the pieces near the ends.
template <class F>
double over_pieces(const Interval& all, Index edge, Index far, const Clip& axis, const F& f) {
  const Index pieces = ceil_div(all.length(), edge);
  Index alike_from = 0, alike_to = all.length() / edge;  // of whole pieces
  if (!axis.periodic) {
    alike_from = std::max<Index>(0, ceil_div(std::max<Index>(0, far - all.first), edge));
    alike_to = std::min(alike_to, std::max<Index>(0, axis.last - far - all.first) / edge);
  }
  double sum = 0;
  for (Index k = 0; k < pieces; ++k) {
    const Index first = all.first + k * edge;
    const double each = f(first, std::min(all.last, first + edge));
    if (k == alike_from && alike_to > k + 1)
      sum += each * static_cast<double>(alike_to - k), k = alike_to - 1;
    else
      sum += each;
  }
  return sum;
}

/// Σ over blocks along axis d of their extents grown by so many steps; an axis that is not cut has no halo.
double grown_along(const Problem& problem, const Axes& block, std::size_t d, Index steps) {
  const Index n = problem.space.shape[d], by = steps * problem.space.radius[d];
  const Interval core = problem.core(d);
  if (block[d] >= n && core.length() == n) return static_cast<double>(n);
  const Clip axis{n, problem.space.periodic(d)};
  return over_pieces(core, block[d], by, axis,
                     [&](Index first, Index last) { return static_cast<double>(axis.length(first, last, by)); });
}

/// The same over the cache blocks of all blocks, `left` steps before the superstep's end, each grown by `by` steps.
double nested_along(const Problem& problem, const BlockScheme& scheme, std::size_t d, Index left, Index by) {
  const Index n = problem.space.shape[d], reach = problem.space.radius[d];
  const Interval core = problem.core(d);
  const bool cut = scheme.block[d] < n || core.length() < n, periodic = problem.space.periodic(d);
  const Clip axis{n, periodic};
  return over_pieces(core, scheme.block[d], (left + by) * reach, axis, [&](Index first, Index last) {
    Interval all{first, last};
    if (cut) all.first -= left * reach, all.last += left * reach;
    if (cut && !periodic) all = {std::max<Index>(0, all.first), std::min(n, all.last)};
    Index edge = scheme.cache.block[d];
    if (edge < 1 || edge > all.length() || (periodic && !cut)) edge = all.length();
    if (periodic && !cut) return static_cast<double>(all.length());
    return over_pieces(all, edge, by * reach, axis,
                       [&](Index from, Index to) { return static_cast<double>(axis.length(from, to, by * reach)); });
  });
}

}  // namespace

Counts block_counts(const Problem& problem, const Axes& block, Index depth) {
  const auto grown = [&](Index steps) {
    return grown_along(problem, block, 0, steps) * grown_along(problem, block, 1, steps) *
           grown_along(problem, block, 2, steps);
  };
  Counts counts;
  const double behind = grown(problem.behind(depth));
  counts.read = grown(depth) + static_cast<double>(problem.order() - 1) * behind;
  counts.given = static_cast<double>(problem.coefficients.size()) * behind;
  counts.written = static_cast<double>(problem.order()) * grown(0);
  for (Index t = 1; t <= depth; ++t) counts.updates += grown(depth - t);
  return counts;
}

Counts nested_counts(const Problem& problem, const BlockScheme& scheme, Index depth) {
  Counts counts = block_counts(problem, scheme.block, depth);
  const Supersteps runs(depth, scheme.cache.depth);
  counts.updates = 0;
  for (Index run = 0, done = 0; run < runs.number(); done += runs[run++])
    for (Index t = 1; t <= runs[run]; ++t) {
      const Index left = depth - done - runs[run], by = runs[run] - t;
      counts.updates += nested_along(problem, scheme, 0, left, by) * nested_along(problem, scheme, 1, left, by) *
                        nested_along(problem, scheme, 2, left, by);
    }
  return counts;
}

Counts wavefront_counts(const Problem& problem, const WavefrontScheme& scheme, Index depth) {
  const Versions versions(problem);
  const Axes& n = problem.space.shape;
  const std::size_t d = strip_axis(problem);
  const double row = static_cast<double>(n[1] * n[2] / std::max<Index>(1, n[d]));
  const double plane = static_cast<double>(n[1]) * static_cast<double>(n[2]);
  const Levels levels(problem, scheme, depth);
  const auto planes = [&](Index level) { return plane * static_cast<double>(levels.planes(level).length()); };
  Counts counts;
  counts.read = planes(0) + static_cast<double>(problem.order() - 1) * planes(problem.fields() ? 0 : 1);
  counts.given = static_cast<double>(problem.coefficients.size()) * planes(1);
  counts.written = static_cast<double>(problem.order()) * plane * static_cast<double>(problem.core(0).length());
  for (Index t = 1; t <= depth; ++t) {
    const Index level = t * versions.stages();
    counts.updates += static_cast<double>(levels.planes(level).length() * levels.rows(level).length()) * row;
  }
  return counts;
}

double wavefront_faces(const Problem& problem, const WavefrontScheme& scheme, Index depth) {
  const Levels levels(problem, scheme, depth);
  double elements = 0;
  for (Index strip = 1; strip < levels.strips(); ++strip)
    for (Index level = 1; level < levels.depth(); ++level) {
      const Interval planes = levels.planes(level);
      const auto fields = static_cast<double>(levels.versions().replaced(level).size());
      elements += fields * static_cast<double>(levels.range(0, levels.face(level, strip)).count() * planes.length());
    }
  return elements;
}

}  // namespace flagstone::stencil
