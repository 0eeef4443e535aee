#include "flagstone/algorithms/cluster/seeding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "flagstone/algorithms/cluster/lloyd.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::cluster {
namespace {

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
  if (draws.count() == 0) throw NumericalError(points.asked.who + ": all weights are zero; a positive one is needed.");
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

class GreedyChoice {
 public:
  GreedyChoice(Candidates& candidates, const double* weights, Index n, Index trials, kernel::Stream stream)
      : candidates_(candidates),
        weights_(weights),
        n_(n),
        words_(stream, 0),
        squares_(static_cast<std::size_t>(n), 1.0),
        best_(squares_),
        tried_(static_cast<std::size_t>(trials), squares_) {}

  std::vector<Index> choose(Index k) {
    std::vector<Index> chosen{draw(sum_of(squares_))};
    candidates_.squares(chosen, std::span(tried_).first(1));
    best_.swap(tried_[0]);
    left_ = sum_of(best_);
    while (std::cmp_less(chosen.size(), k)) {
      squares_.swap(best_);
      chosen.push_back(left_ > 0 ? best_of_trials() : static_cast<Index>(chosen.size()) % n_);
    }
    return chosen;
  }

 private:
  double sum_of(const std::vector<double>& squares) const {
    double sum = 0;
    for (Index i = 0; i < n_; ++i) sum += weights_[i] * squares[static_cast<std::size_t>(i)];
    return sum;
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
  Index best_of_trials() {
    const double all = sum_of(squares_);
    std::vector<Index> places(tried_.size());
    for (Index& place : places) place = draw(all);
    candidates_.squares(places, tried_);
    Index best = 0;
    left_ = std::numeric_limits<double>::infinity();
    for (std::size_t t = 0; t < places.size(); ++t) {
      for (std::size_t i = 0; i < squares_.size(); ++i) tried_[t][i] = std::min(tried_[t][i], squares_[i]);
      const double sum = sum_of(tried_[t]);
      if (!(sum < left_)) continue;
      left_ = sum, best = places[t];
      best_.swap(tried_[t]);
    }
    return best;
  }

  Candidates& candidates_;
  const double* weights_;
  Index n_;
  kernel::FurtherWords words_;
  std::vector<double> squares_, best_;
  std::vector<std::vector<double>> tried_;
  double left_ = 0;
};

/// Candidates in memory.
class HeldCandidates final : public Candidates {
 public:
  HeldCandidates(const double* points, Index n, Index d) : points_(points), n_(n), d_(d) {}
  void squares(std::span<const Index> places, std::span<std::vector<double>> to) override {
    const kernel::RowTable& loops = kernel::row_loops();
    for (std::size_t t = 0; t < places.size(); ++t)
      for (Index i = 0; i < n_; ++i)
        to[t][static_cast<std::size_t>(i)] = loops.distance(points_ + i * d_, 1, points_ + places[t] * d_, 1, d_);
  }

 private:
  const double* points_;
  Index n_, d_;
};

Array chosen(Graph& graph, const PointsInput& x, const Source& points, Index k, std::uint64_t seed) {
  const Index each = std::min(k, points.rows), most = std::min(seeding_rounds * each, points.rows);
  Draws draws(graph, points, each, most, seed);
  for (Index i = 0; i < seeding_rounds && draws.count() < most && draws.draw(); ++i) {
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
  const Index n = draws.count(), trials = greedy_trials(k);
  const auto tried = static_cast<double>(n * k * trials);
  Charge squares = graph.charge(8 * static_cast<std::uint64_t>(n * (trials + 2) + k));
  graph.host_work("seeds", {3 * tried * static_cast<double>(width), 0, true});
  if (!graph.planning()) {
    HeldCandidates candidates(numbers(held), draws.count(), width);
    const std::vector<Index> places = choose_greedily(candidates, numbers(weights), n, k, seed);
    for (Index j = 0; j < k; ++j)
      std::copy_n(numbers(held) + places[static_cast<std::size_t>(j)] * width, width, numbers(centres) + j * width);
  }
  squares = {};
  Stages none(graph, nullptr);
  lloyd(graph, *among, centres, {.iterations = seeding_moves, .tol = 0, .unit = x.unit}, none);
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

Index greedy_trials(Index k) { return 2 + static_cast<Index>(std::log(static_cast<double>(k))); }

std::vector<Index> choose_greedily(Candidates& candidates, const double* weights, Index n, Index k,
                                   std::uint64_t seed) {
  const kernel::Stream stream{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
                              seeding_rounds + 1};
  return GreedyChoice(candidates, weights, n, greedy_trials(k), stream).choose(k);
}

Index seeding_passes(Init init, Index k) {
  return init == Init::parallel ? seeding_rounds + 1 : init == Init::random ? 1 : k;
}

}  // namespace flagstone::cluster
