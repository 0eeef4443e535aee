#include "flagstone/algorithms/cluster/seeding.hpp"

#include <algorithm>
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

/// Candidates, drawn so many at a time in proportion to weight · D².
class Draws {
 public:
  Draws(Graph& graph, const Source& points, Index each, Index most, std::uint64_t seed)
      : graph_(graph),
        points_(points),
        candidates_(graph.allocate({most, points.cols}, Dtype::float64)),
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
        std::copy_n(rows[static_cast<std::size_t>(i)] + 2, d, numbers(candidates_) + (count_ + i) * d);
      }
    }
    if (drawn == 0) return false;  // D² knows those of the last round, which may be given once more
    base_ = count_, count_ += drawn;
    fresh_.round(graph_, drawn, points_.shifts());
    return true;
  }

  Graph& graph_;
  const Source& points_;
  Array candidates_, state_, pool_;
  CentreArrays fresh_;
  kernel::PhiloxKey key_;
  std::uint32_t call_ = 0;
  Index count_ = 0, base_ = 0;  // candidates; the first of the last round
};

/// k rows: of fewer candidates some more than once.
Array completed(Graph& graph, const Draws& draws, Index k) {
  const Index d = draws.candidates().shape()[1];
  const Array centres = graph.allocate({k, d}, Dtype::float64);
  if (graph.planning()) return centres;
  if (draws.count() == 0) throw NumericalError("kmeans: all weights are zero; a positive one is needed.");
  for (Index j = 0; j < k; ++j)
    std::copy_n(numbers(draws.candidates()) + j % draws.count() * d, d, numbers(centres) + j * d);
  return centres;
}

Array drawn(Graph& graph, const Source& points, Index k, Index each, std::uint64_t seed) {
  Draws draws(graph, points, each, k, seed);
  while (draws.count() < k && draws.draw()) {
  }
  return completed(graph, draws, k);
}

Array chosen(Graph& graph, const PointsInput& x, const Source& points, Index k, std::uint64_t seed) {
  const Index each = std::min(k, points.rows), most = std::min(rounds * each, points.rows);
  Draws draws(graph, points, each, most, seed);
  for (Index i = 0; i < rounds && draws.count() < most && draws.draw(); ++i) {
  }
  const Array weights = draws.weigh();
  if (!graph.planning() && draws.count() <= k) return completed(graph, draws, k);
  const Array held = first_rows(draws.candidates(), draws.count());
  PointsInput candidates{.dense = held, .unit = x.unit, .who = x.who};
  candidates.weights =
      memory_array(weights.store().memory(), {draws.count()}, Dtype::float64, {8}, weights.shared_store());
  const std::unique_ptr<Source> among = make_source(candidates);
  const Array centres = drawn(graph, *among, k, 1, seed + 1);
  Stages none(graph, nullptr);
  lloyd(graph, *among, centres, {.iterations = inner_iterations, .tol = 0, .unit = x.unit}, none);
  return centres;
}

}  // namespace

Init init_from_name(const std::string& name) {
  if (name == "k-means||") return Init::parallel;
  if (name == "k-means++") return Init::plus_plus;
  if (name == "random") return Init::random;
  throw ShapeError("kmeans: init is '" + name + "'; choose 'k-means||', 'k-means++', 'random' or give centres.");
}

Array seeds(Graph& graph, const PointsInput& x, const Source& points, Index k, Init init, std::uint64_t seed) {
  if (init == Init::parallel) return chosen(graph, x, points, k, seed);
  return drawn(graph, points, k, init == Init::random ? k : 1, seed);
}

Index seeding_passes(Init init, Index k) { return init == Init::parallel ? rounds + 1 : init == Init::random ? 1 : k; }

}  // namespace flagstone::cluster
