#include "flagstone/algorithms/cluster/seeding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "flagstone/algorithms/cluster/lloyd.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::cluster {
namespace {

constexpr Index rounds = 5;             // of k-means||: more find no better seeds (the paper's figure 5.3)
constexpr Index inner_iterations = 20;  // over its candidates

/// Numbers of a candidate: its coordinates where points are seen in a subspace.
Index width_of(const Source& points) { return points.onto ? points.onto->size() : points.cols; }

/// Candidates, drawn so many at a time in proportion to weight · D².
class Draws {
 public:
  Draws(Graph& graph, const Source& points, Index each, Index most, std::uint64_t seed)
      : graph_(graph),
        points_(points),
        candidates_(graph.allocate({most, width_of(points)}, Dtype::float64)),
        state_(points.state(graph)),
        pool_(graph.allocate({each, points.cols + 2}, Dtype::float64)),
        fresh_(graph, each, points.cols),
        key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

  Index count() const { return count_; }
  const Array& candidates() const { return candidates_; }

  /// One read: D² to the candidates of the last round, and what is drawn by it. False where nothing was left to draw.
  bool draw() {
    Drawing pass = begin();
    pass.pool = pool_;
    if (!graph_.planning()) clear_pool();
    run(pass);
    return take();
  }
  /// One read: of each candidate the weights of the points that are nearest to it.
  Array weigh() {
    Drawing pass = begin();
    pass.counts = graph_.allocate({1, candidates_.shape()[0]}, Dtype::float64);
    run(pass);
    return pass.counts;
  }

 private:
  Drawing begin() {
    Drawing pass{.state = state_, .stream = {key_, call_++}};
    if (count_ > 0) pass.fresh = &fresh_, pass.base = base_;
    return pass;
  }
  void run(const Drawing& pass) {
    points_.draw(graph_, pass);
    graph_.barrier();
  }
  void clear_pool() {
    for (Index i = 0; i < pool_.shape()[0]; ++i)
      numbers(pool_)[i * pool_.shape()[1]] = std::numeric_limits<double>::infinity();
  }
  bool take() {
    const Index d = points_.cols, each = pool_.shape()[0], room = candidates_.shape()[0] - count_;
    Index drawn = std::min(each, room);
    if (!graph_.planning()) {
      std::vector<const double*> rows;
      for (Index i = 0; i < each; ++i)
        if (numbers(pool_)[i * (d + 2)] < std::numeric_limits<double>::infinity())
          rows.push_back(numbers(pool_) + i * (d + 2));
      std::sort(rows.begin(), rows.end(),
                [](const double* a, const double* b) { return std::tuple(a[0], a[1]) < std::tuple(b[0], b[1]); });
      drawn = std::min<Index>(static_cast<Index>(rows.size()), room);
      for (Index i = 0; i < drawn; ++i) {
        std::copy_n(rows[static_cast<std::size_t>(i)] + 2, d, numbers(fresh_.exact()) + i * d);
        if (!points_.onto) std::copy_n(numbers(fresh_.exact()) + i * d, d, numbers(candidates_) + (count_ + i) * d);
      }
    }
    if (points_.onto && drawn > 0) project(drawn);
    if (drawn == 0) return false;  // D² knows those of the last round, which may be given once more
    base_ = count_, count_ += drawn;
    fresh_.round(graph_, drawn, points_.shifts());
    return true;
  }

  /// Those that were drawn, as they are seen; of candidates their coordinates are enough.
  void project(Index drawn) {
    const Array fresh = first_rows(fresh_.exact(), drawn);
    const Array coordinates = points_.onto->coordinates(graph_, fresh);
    points_.onto->points(graph_, coordinates, fresh);
    if (graph_.planning()) return;
    const Index r = points_.onto->size();
    std::copy_n(numbers(coordinates), drawn * r, numbers(candidates_) + count_ * r);
  }

  Graph& graph_;
  const Source& points_;
  Array candidates_, state_, pool_;
  CentreArrays fresh_;
  kernel::PhiloxKey key_;
  std::uint32_t call_ = 0;
  Index count_ = 0, base_ = 0;  // candidates; the first of the last round
};

/// Of their coordinates centres, where candidates are kept as these.
Array points_of(Graph& graph, const Source& points, Array centres) {
  if (!points.onto) return centres;
  const Array made = graph.allocate({centres.shape()[0], points.cols}, Dtype::float64);
  points.onto->points(graph, centres, made);
  return made;
}

/// k rows: of fewer candidates some more than once.
Array completed(Graph& graph, const Source& points, const Draws& draws, Index k) {
  const Index d = draws.candidates().shape()[1];
  Array centres = graph.allocate({k, d}, Dtype::float64);
  if (graph.planning()) return points_of(graph, points, centres);
  if (draws.count() == 0) throw NumericalError("kmeans: all weights are zero; a positive one is needed.");
  for (Index j = 0; j < k; ++j)
    std::copy_n(numbers(draws.candidates()) + j % draws.count() * d, d, numbers(centres) + j * d);
  return points_of(graph, points, centres);
}

Array drawn(Graph& graph, const Source& points, Index k, Index each, std::uint64_t seed) {
  Draws draws(graph, points, each, k, seed);
  while (draws.count() < k && draws.draw()) {
  }
  return completed(graph, points, draws, k);
}

/// Greedy k-means++ over candidates in memory: of 2 + ln k draws in proportion to weight · D² the one that leaves the
/// least Σ weight · D² (Arthur and Vassilvitskii 2007, as scikit-learn has it).
class GreedyChoice {
 public:
  GreedyChoice(const double* points, const double* weights, Index n, Index d, kernel::Stream stream)
      : points_(points),
        weights_(weights),
        n_(n),
        d_(d),
        words_(stream, 0),
        squares_(static_cast<std::size_t>(n), 1.0),
        trial_(squares_),
        best_(squares_) {}
  static Index trials(Index k) { return 2 + static_cast<Index>(std::log(static_cast<double>(k))); }

  void choose(Index k, double* to) {
    Index place = draw(sum_of(squares_));
    left_ = distances(place, best_, true);
    for (Index j = 0; j < k; ++j) {
      std::copy_n(points_ + place * d_, d_, to + j * d_);
      squares_.swap(best_);
      if (j + 1 < k) place = left_ > 0 ? best_of(trials(k)) : (j + 1) % n_;
    }
  }

 private:
  double sum_of(const std::vector<double>& squares) const {
    return std::inner_product(squares.begin(), squares.end(), weights_, 0.0);
  }
  /// A place in proportion to weight · D².
  Index draw(double all) {
    double left = words_.uniform() * all;
    Index last = 0;
    for (Index i = 0; i < n_; ++i) {
      const double chance = weights_[i] * squares_[static_cast<std::size_t>(i)];
      if (chance > 0) last = i;
      if ((left -= chance) < 0) return last;
    }
    return last;
  }
  /// to := D² with one more centre; their weighted sum.
  double distances(Index place, std::vector<double>& to, bool first) const {
    const kernel::RowTable& loops = kernel::row_loops();
    double sum = 0;
    for (Index i = 0; i < n_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double square = loops.distance(points_ + i * d_, 1, points_ + place * d_, 1, d_);
      to[at] = first ? square : std::min(square, squares_[at]);
      sum += weights_[i] * to[at];
    }
    return sum;
  }
  Index best_of(Index trials) {
    Index best = 0;
    double least = std::numeric_limits<double>::infinity();
    const double all = sum_of(squares_);
    for (Index t = 0; t < trials; ++t) {
      const Index place = draw(all);
      const double sum = distances(place, trial_, false);
      if (!(sum < least)) continue;
      least = sum, best = place;
      trial_.swap(best_);
    }
    left_ = least;
    return best;
  }

  const double *points_, *weights_;
  Index n_, d_;
  kernel::FurtherWords words_;
  std::vector<double> squares_, trial_, best_;
  double left_ = 0;
};

Array chosen(Graph& graph, const PointsInput& x, const Source& points, Index k, std::uint64_t seed) {
  const Index each = std::min(k, points.rows), most = std::min(rounds * each, points.rows);
  Draws draws(graph, points, each, most, seed);
  for (Index i = 0; i < rounds && draws.count() < most && draws.draw(); ++i) {
  }
  const Array weights = draws.weigh();
  if (!graph.planning() && draws.count() <= k) return completed(graph, points, draws, k);
  const Array held = first_rows(draws.candidates(), draws.count());
  PointsInput candidates{.dense = held, .unit = x.unit, .asked = x.asked};
  candidates.weights =
      memory_array(weights.store().memory(), {draws.count()}, Dtype::float64, {8}, weights.shared_store());
  const std::unique_ptr<Source> among = make_source(candidates);
  const Index width = width_of(points);
  const Array centres = graph.allocate({k, width}, Dtype::float64);
  const auto tried = static_cast<double>(draws.count() * k * GreedyChoice::trials(k));
  graph.host_work("seeds", {3 * tried * static_cast<double>(width), 0, true});
  if (!graph.planning())
    GreedyChoice(numbers(held), numbers(weights), draws.count(), width,
                 {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, rounds + 1})
        .choose(k, numbers(centres));
  Stages none(graph, nullptr);
  lloyd(graph, *among, centres, {.iterations = inner_iterations, .tol = 0, .unit = x.unit}, none);
  return points_of(graph, points, centres);
}

}  // namespace

Init init_from_name(const std::string& name) {
  if (name == "k-means||") return Init::parallel;
  if (name == "k-means++") return Init::plus_plus;
  if (name == "random") return Init::random;
  throw ShapeError("kmeans: init is '" + name + "'; choose 'k-means||', 'k-means++', 'random' or give centers.");
}

Array seeds(Graph& graph, const PointsInput& x, const Source& points, Index k, Init init, std::uint64_t seed) {
  if (init == Init::parallel) return chosen(graph, x, points, k, seed);
  return drawn(graph, points, k, init == Init::random ? k : 1, seed);
}

Index seeding_passes(Init init, Index k) { return init == Init::parallel ? rounds + 1 : init == Init::random ? 1 : k; }

}  // namespace flagstone::cluster
