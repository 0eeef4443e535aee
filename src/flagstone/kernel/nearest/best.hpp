#pragma once
// Of each query the k nearest points so far, or all within a radius: one product of queries and points, which is never
// stored; whatever may belong to them is scored again in float64, and that number decides.
#include <cstdint>
#include <functional>

#include "flagstone/kernel/nearest/points.hpp"

namespace flagstone::kernel {

/// What is small where two points are near. inner: -x·q while it is searched.
enum class Metric : std::uint8_t { euclidean, cosine, inner };

/// k keys and places of each query, ascending, ties by place: rows `step` numbers apart.
struct Best {
  double* keys = nullptr;
  std::int64_t* places = nullptr;
  Index k = 0, key_step = 0, place_step = 0;
};
/// Nothing found yet.
void clear(const Best& best, Index queries);
/// Distances in place of keys: roots, or products.
void finish(Metric metric, const Best& best, Index queries);

/// Of each of `points` the best among `queries`, from the scores that take_best left: half the arithmetic of points
/// with themselves. `first`: the number of the first query. `half`: queries.rows, `bounds`: scores_width(points.rows).
/// Returns how many pairs were scored again.
Index take_best_turned(Metric metric, const Points& queries, const Points& points, Index first, const float* scores,
                       float* half, float* bounds, const Best& best);

struct Offered {
  Index first = 0;  // the number of the first point
  Index self = -1;  // not -1: the number of the first query, which is not its own neighbour
};
/// best := with these points too. Of both, points are unit rows for `cosine`. `half`: scores_width(points.rows),
/// `scores`: queries.rows times that, both float32. Returns how many pairs were scored again.
/// Cost: 2 queries points d flops in float32; expected k ln(n / k) insertions a query over n points in random order.
Index take_best(Metric metric, const Points& queries, const Points& points, const Offered& offered, float* half,
                float* scores, const Best& best);

/// What lies within a radius: distances of at most `radius`; products of at least that.
struct Within {
  double radius = 0;
  std::int64_t* places = nullptr;                     // points.rows of each: the neighbours of one query, by place
  double* values = nullptr;                           // distances or products
  std::function<void(Index query, Index found)> use;  // hears of each query that has any
};
/// All points within the radius of each query; the rest as take_best. Returns how many pairs were scored again.
Index take_within(Metric metric, const Points& queries, const Points& points, const Offered& offered, float* half,
                  float* scores, const Within& within);

}  // namespace flagstone::kernel
