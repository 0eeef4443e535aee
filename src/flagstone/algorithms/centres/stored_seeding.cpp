#include "flagstone/algorithms/centres/stored_seeding.hpp"

#include <algorithm>
#include <utility>

#include "flagstone/algorithms/centres/stored_draws.hpp"
#include "flagstone/algorithms/centres/stored_lloyd.hpp"
#include "flagstone/algorithms/cluster/dense_points.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::centres {
namespace {

using namespace cluster;

/// Candidates in boxes of some rows.
class StoredCandidates final : public Candidates {
 public:
  StoredCandidates(Graph& graph, const Array& points, Index step) : graph_(graph), points_(points), step_(step) {}

  void squares(std::span<const Index> places, std::span<std::vector<double>> to) override {
    const Index n = points_.shape()[0], d = points_.shape()[1];
    std::vector<double> chosen(places.size() * static_cast<std::size_t>(d));
    for (std::size_t t = 0; t < places.size(); ++t)
      graph_.await({again(read(box(places[t] / step_)))}, [&](std::span<const Tile> tiles) {
        std::copy_n(tiles[0].as<const double>() + places[t] % step_ * d, d, chosen.begin() + static_cast<Index>(t) * d);
      });
    const kernel::RowTable& loops = kernel::row_loops();
    const Index boxes = ceil_div(n, step_);
    for (Index i = 0; i < boxes; ++i) {  // there and back: what is still in memory comes first
      const Index b = backwards_ ? boxes - 1 - i : i;
      graph_.await({again(read(box(b)))}, [&](std::span<const Tile> tiles) {
        const auto* from = tiles[0].as<const double>();
        for (std::size_t t = 0; t < places.size(); ++t)
          for (Index j = 0; j < tiles[0].shape[0]; ++j)
            to[t][static_cast<std::size_t>(b * step_ + j)] =
                loops.distance(from + j * d, 1, chosen.data() + static_cast<Index>(t) * d, 1, d);
      });
    }
    backwards_ = !backwards_;
  }

 private:
  Region box(Index b) const {
    const Index first = b * step_;
    return {points_, {{first, 0}, {std::min(step_, points_.shape()[0] - first), points_.shape()[1]}}};
  }

  Graph& graph_;
  Array points_;
  Index step_;
  bool backwards_ = false;
};

/// Places of k among the candidates; in a plan anywhere, after as many reads.
std::vector<Index> choose(Graph& graph, const Array& candidates, Index step, const Array& weights, Index k,
                          std::uint64_t seed) {
  const Index n = candidates.shape()[0], d = candidates.shape()[1], trials = greedy_trials(k);
  const Charge held = graph.charge(8 * static_cast<std::uint64_t>(n * (trials + 2) + trials * d + k));
  graph.host_work("seeds",
                  {3 * static_cast<double>(n) * static_cast<double>(k * trials) * static_cast<double>(d), 0, true});
  StoredCandidates stored(graph, candidates, step);
  if (!graph.planning()) return choose_greedily(stored, numbers(weights), n, k, seed);
  const std::vector<Index> places(static_cast<std::size_t>(trials), 0);
  for (Index j = 0; j < k; ++j) stored.squares(places, {});
  std::vector<Index> made(static_cast<std::size_t>(k));
  for (Index j = 0; j < k; ++j) made[static_cast<std::size_t>(j)] = j * (n / k);
  return made;
}

/// Finds them, into an array in boxes of `step` rows.
class Finder {
 public:
  Finder(Graph& graph, const PointsInput& x, Index k, std::uint64_t seed, const Array& to, Index step)
      : graph_(graph), x_(x), k_(k), seed_(seed), to_(to), step_(step) {}

  /// So many a round, until there are k. Returns the reads of X.
  Index drawn(Index each) {
    StoredDraws draws(graph_, x_, each, k_, seed_);
    while (std::cmp_less(draws.rows().size(), k_) && draws.draw()) {
    }
    draws.end();
    complete(draws);
    return draws.reads();
  }

  /// k-means||.
  Index chosen() {
    const Index each = std::min(k_, x_.rows()), most = std::min(seeding_rounds * each, x_.rows());
    StoredDraws draws(graph_, x_, each, most, seed_);
    for (Index i = 0; i < seeding_rounds && std::cmp_less(draws.rows().size(), most) && draws.draw(); ++i) {
    }
    const Array weights = draws.weigh();
    const auto n = static_cast<Index>(draws.rows().size());
    if (n <= k_) {
      complete(draws);
      return draws.reads();
    }
    // In boxes of the panels that they are in memory: so their sums have the same order.
    const Index d = x_.cols(), step = DensePanels::step_in_memory(n, static_cast<std::uint64_t>(d) * 8);
    const Array candidates = graph_.temporary({n, d}, Dtype::float64, {step, d});
    draws.gather(draws.rows(), candidates, step);
    const std::vector<Index> places = choose(graph_, candidates, step, weights, k_, seed_);
    std::vector<Index> rows;
    for (const Index place : places) rows.push_back(draws.rows()[static_cast<std::size_t>(place)]);
    const Array begun = graph_.temporary({k_, d}, Dtype::float64, {step_, d});
    draws.gather(rows, begun, step_);
    PointsInput among{.dense = candidates, .unit = x_.unit, .asked = x_.asked};
    among.weights = memory_array(weights.store().memory(), {n}, Dtype::float64, {8}, weights.shared_store());
    Stages none(graph_, nullptr);
    Progress progress;
    StoredLloyd lloyd(graph_, among, k_, {.iterations = seeding_moves, .tol = 0, .unit = x_.unit}, none, step_);
    lloyd.run(progress, {.array = begun, .found = true}, "candidates");
    forget(graph_, candidates, step);
    lloyd.write(to_);
    return draws.reads();
  }

 private:
  /// Of fewer points some more than once.
  void complete(StoredDraws& draws) {
    if (draws.rows().empty()) throw NumericalError(x_.asked.who + ": all weights are zero; a positive one is needed.");
    std::vector<Index> rows;
    for (Index j = 0; j < k_; ++j) rows.push_back(draws.rows()[static_cast<std::size_t>(j) % draws.rows().size()]);
    draws.gather(rows, to_, step_);
  }

  Graph& graph_;
  PointsInput x_;
  Index k_;
  std::uint64_t seed_;
  Array to_;
  Index step_;
};

}  // namespace

StoredCentres stored_seeds(Graph& graph, const PointsInput& x, Index k, Init init, std::uint64_t seed, Stages& stages,
                           double done, Index& reads) {
  const Index d = x.cols(), step = block_rows(k, d, x.sparse ? Layout::coordinates : Layout::rows);
  const Array made = stages.temporary("seeds", {k, d}, Dtype::float64, {step, d});
  FinishedTiles tiles(stages, made, {step, d}, "seeds");
  const Box all = whole(made.shape());
  if (!tiles.holds(all)) {
    Finder finder(graph, x, k, seed, made, step);
    reads += init == Init::parallel ? finder.chosen() : finder.drawn(init == Init::random ? k : 1);
    tiles.finish(all);
    stages.offer(done);
  }
  return {.array = made, .found = true};
}

}  // namespace flagstone::centres
