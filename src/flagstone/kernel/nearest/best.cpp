#include "flagstone/kernel/nearest/best.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/nearest/assign.hpp"

namespace flagstone::kernel {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Of a pair the same from either side. Of rows whose product leaves float64's range each element is scaled first.
double cosine(const Points& q, Index i, const Points& x, Index j, double product) {
  const double a = q.scales[i], b = x.scales[j];
  if (std::isnormal(product)) {
    const auto [less, more] = std::minmax(a, b);
    return product * more * less;
  }
  double sum = 0;
  for (Index l = 0; l < q.d; ++l) sum += (q.row(i)[l] * a) * (x.row(j)[l] * b);
  return sum;
}

double key_of(Metric metric, const Points& q, Index i, const Points& x, Index j) {
  const RowTable& loops = row_loops();
  if (metric == Metric::euclidean) return loops.distance(q.row(i), 1, x.row(j), 1, q.d);
  const double product = loops.product(q.row(i), x.row(j), q.d);
  if (metric == Metric::inner) return -product;
  return std::max(0.0, 1 - cosine(q, i, x, j, product));  // rounding orders no rows that are parallel
}

/// What users see of a key.
double told(Metric metric, double key) {
  return metric == Metric::euclidean ? std::sqrt(key) : metric == Metric::inner ? -key : key;
}

/// A key as a score: what half ‖x‖² - q·x is where the pair has it.
double score_of(Metric metric, double key, double square) {
  return metric == Metric::euclidean ? (key - square) / 2 : metric == Metric::cosine ? key - 1 : key;
}

/// Into the list of one query, behind what is as near and has a lower place.
void insert(double* keys, std::int64_t* places, Index k, double key, std::int64_t place) {
  Index at = k - 1;
  for (; at > 0 && (keys[at - 1] > key || (keys[at - 1] == key && places[at - 1] > place)); --at)
    keys[at] = keys[at - 1], places[at] = places[at - 1];
  keys[at] = key, places[at] = place;
}

/// The largest score that may belong to the list: of its last key, and what rounding may add.
float bound_of(Metric metric, double key, double square, double error) {
  const double bound = score_of(metric, key, square) + error;
  return std::nextafter(static_cast<float>(bound), std::numeric_limits<float>::infinity());
}

/// ½‖x‖² of each point, where the metric has it; the largest length.
double halves(Metric metric, const Points& points, float* half) {
  double longest = 0;
  for (Index j = 0; j < points.rows; ++j) {
    half[j] = metric == Metric::euclidean ? static_cast<float>(points.squares[j] / 2) : 0.0F;
    longest = std::max(longest, std::sqrt(points.squares[j]));
  }
  return longest;
}

double error_of(Index d, double square, double longest) {
  return score_error(d, std::sqrt(square), longest) + 0x1p-50 * square;
}

/// scores := the product of queries and points in rows of scores_width(points.rows), whose ends are 0; half :=
/// halves(points), its end infinite. Returns the largest length of a point.
double multiply(Metric metric, const Points& queries, const Points& points, float* half, float* scores) {
  const Index n = points.rows, width = scores_width(n);
  const double longest = halves(metric, points, half);
  std::fill(half + n, half + width, std::numeric_limits<float>::infinity());
  for (Index i = 0; i < queries.rows; ++i) std::fill(scores + i * width + n, scores + (i + 1) * width, 0.0F);
  const Tile dots{reinterpret_cast<std::byte*>(scores),
                  Dtype::float32,
                  {queries.rows, n},
                  {width * 4, 4},
                  static_cast<std::size_t>(queries.rows * width) * 4};
  gemm(1.0, queries.rounded_tile(), {}, points.rounded_tile(), {true, false}, 0.0, dots, nullptr);
  return longest;
}

/// One pair that may belong to the list of `query`; true where it does.
bool offer(const Best& best, Index query, double key, std::int64_t place) {
  double* keys = best.keys + query * best.key_step;
  std::int64_t* places = best.places + query * best.place_step;
  const double last = keys[best.k - 1];
  if (!(key < last || (key == last && place < places[best.k - 1]))) return false;
  insert(keys, places, best.k, key, place);
  return true;
}

}  // namespace

void clear(const Best& best, Index queries) {
  for (Index i = 0; i < queries; ++i) {
    std::fill_n(best.keys + i * best.key_step, best.k, infinity);
    std::fill_n(best.places + i * best.place_step, best.k, std::numeric_limits<std::int64_t>::max());
  }
}

void finish(Metric metric, const Best& best, Index queries) {
  for (Index i = 0; i < queries; ++i)
    for (double* key = best.keys + i * best.key_step; key < best.keys + i * best.key_step + best.k; ++key)
      *key = told(metric, *key);
}

Index take_best(Metric metric, const Points& queries, const Points& points, const Offered& offered, float* half,
                float* scores, const Best& best) {
  const RowTable& loops = row_loops();
  const Index n = points.rows, d = points.d, width = scores_width(n);
  const double longest = multiply(metric, queries, points, half, scores);
  Index scored = 0;
  for (Index i = 0; i < queries.rows; ++i) {
    const float* row = scores + i * width;
    const double square = queries.squares[i], error = error_of(d, square, longest);
    const double* last = best.keys + i * best.key_step + best.k - 1;
    const bool all = !(std::sqrt(square) + longest < most_length);
    float bound = bound_of(metric, *last, square, error);
    if (!all && loops.below(half, row, bound, width).count == 0) continue;
    for (Index j = 0; j < n; ++j) {
      if (!all && !(half[j] - row[j] <= bound)) continue;
      if (offered.self >= 0 && offered.self + i == offered.first + j) continue;
      ++scored;
      if (offer(best, i, key_of(metric, queries, i, points, j), offered.first + j))
        bound = bound_of(metric, *last, square, error);
    }
  }
  return scored;
}

Index take_best_turned(Metric metric, const Points& queries, const Points& points, Index first, const float* scores,
                       float* half, float* bounds, const Best& best) {
  const RowTable& loops = row_loops();
  const Index n = points.rows, d = points.d, width = scores_width(n);
  const double longest = halves(metric, queries, half);
  double farthest = longest;
  const auto bound = [&](Index j) {
    const double square = points.squares[j];
    return bound_of(metric, best.keys[j * best.key_step + best.k - 1], square, error_of(d, square, longest));
  };
  for (Index j = 0; j < n; ++j) {
    bounds[j] = bound(j);
    farthest = std::max(farthest, std::sqrt(points.squares[j]));
  }
  std::fill(bounds + n, bounds + width, -std::numeric_limits<float>::infinity());
  const bool all = !(farthest + longest < most_length);
  Index scored = 0;
  for (Index i = 0; i < queries.rows; ++i) {
    const float* row = scores + i * width;
    if (!all && loops.below_each(half[i], row, bounds, width) == 0) continue;
    for (Index j = 0; j < n; ++j) {
      if (!all && !(half[i] - row[j] <= bounds[j])) continue;
      ++scored;
      if (offer(best, j, key_of(metric, points, j, queries, i), first + i)) bounds[j] = bound(j);
    }
  }
  return scored;
}

Index take_within(Metric metric, const Points& queries, const Points& points, const Offered& offered, float* half,
                  float* scores, const Within& within) {
  const RowTable& loops = row_loops();
  const Index n = points.rows, d = points.d, width = scores_width(n);
  const double longest = multiply(metric, queries, points, half, scores), radius = within.radius;
  const double key = metric == Metric::euclidean ? radius * radius : metric == Metric::inner ? -radius : radius;
  Index scored = 0;
  for (Index i = 0; i < queries.rows; ++i) {
    const float* row = scores + i * width;
    const double square = queries.squares[i], error = error_of(d, square, longest) + 0x1p-50 * std::abs(key);
    const bool all = !(std::sqrt(square) + longest < most_length);
    const float bound = bound_of(metric, key, square, error);
    if (!all && loops.below(half, row, bound, width).count == 0) continue;
    Index found = 0;
    for (Index j = 0; j < n; ++j) {
      if (!all && !(half[j] - row[j] <= bound)) continue;
      if (offered.self >= 0 && offered.self + i == offered.first + j) continue;
      ++scored;
      const double value = told(metric, key_of(metric, queries, i, points, j));
      if (!(metric == Metric::inner ? value >= radius : value <= radius)) continue;
      within.places[found] = offered.first + j, within.values[found] = value, ++found;
    }
    if (found > 0) within.use(i, found);
  }
  return scored;
}

}  // namespace flagstone::kernel
