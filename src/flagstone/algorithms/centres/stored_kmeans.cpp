#include "flagstone/algorithms/centres/stored_kmeans.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "flagstone/algorithms/centres/block_order.hpp"
#include "flagstone/algorithms/centres/block_tasks.hpp"
#include "flagstone/algorithms/cluster/dense_points.hpp"
#include "flagstone/algorithms/cluster/lloyd.hpp"
#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::centres {
namespace {

using namespace cluster;

constexpr double share_of_room = 0.8;  // of the budget, for what stays; the rest is on its way

/// Partial sums of a reduction that wait or are being made: a binary counter over the panels.
double partial_sums(const Graph& graph, Index panels) {
  return static_cast<double>(graph.workers() + std::bit_width(static_cast<std::uint64_t>(panels)));
}

/// Lloyd's iterations over blocks of centres. After each the centres are another array: what the last save tells of
/// stays as it is until the next one.
class StoredLloyd {
 public:
  StoredLloyd(Graph& graph, const PointsInput& x, Index k, const LloydOptions& options, Stages& stages)
      : graph_(graph),
        x_(x),
        stages_(stages),
        source_(make_source(x)),
        kept_(graph.charge(40 * static_cast<std::uint64_t>(k) + 32 * static_cast<std::uint64_t>(x.cols()))),
        centres_(graph, k, x.cols(), x.sparse ? Layout::coordinates : Layout::rows),
        moves_(k, x.cols(), source_->panels, source_->shifts(), options) {
    const Shape state{source_->rows, state_width};
    to_.state = chosen() ? graph.allocate(state, Dtype::float64)
                         : graph.temporary(state, Dtype::float64, {source_->step, state_width});
    to_.opened = graph.allocate({source_->panels, centres_.count()}, Dtype::float64);
    to_.totals = graph.allocate({1, k + 3}, Dtype::float64);
  }

  /// What is saved, beside the centres themselves.
  void list_parts(StateParts& parts, Progress& progress) {
    list_progress(parts, progress);
    parts.value("generation", generation_);
    parts.values("shift", shift_);
  }

  void begin(const StoredCentres& seeds) {
    open();
    shift_.assign(static_cast<std::size_t>(centres_.d()), 0.0);
    for (Index b = 0; b < centres_.count(); ++b) load(seeds, b);
    made();
  }

  /// With the centres that a dead process left.
  void go_on() {
    saved_ = generation_;
    open();
    if (!tiles_->holds(whole(centres_.exact.shape())))
      throw FormatError("kmeans: the centers that were saved beside the record are gone; remove it to start again.");
    made();
  }

  void iterate(Progress& progress, Index most) {
    if (!to_.sums) {
      to_.sums = graph_.temporary({centres_.k(), centres_.d()}, Dtype::float64, {centres_.step(), centres_.d()});
      to_.farthest = graph_.allocate({source_->panels, 4 * std::min(centres_.k(), most_far)}, Dtype::float64);
    }
    pass(progress);
    move(progress);
    ++progress.iteration;
    made();
    stages_.offer(static_cast<double>(progress.iteration) / static_cast<double>(most + 1));
    forget();
  }

  /// One more pass, without an update.
  void label(Progress& progress, const Array& labels) {
    to_.sums = to_.farthest = {};
    to_.labels = chosen() ? graph_.allocate(labels.shape(), labels.dtype()) : labels;
    pass(progress);
    if (chosen()) write_rows(graph_, to_.labels, labels);
  }

  /// out := the centres.
  void write(const Array& out) {
    for (Index b = 0; b < centres_.count(); ++b) {
      TaskSpec task;
      task.name = "written";
      task.accesses = {read({centres_.exact, centres_.box(b)}), once(flagstone::write({out, centres_.box(b)}))};
      task.cost.bytes_touched = 16.0 * static_cast<double>(count(centres_.box(b).shape));
      task.calls = {out.dtype() == Dtype::float64 ? call::copy(out.dtype(), {0}, {1})
                                                  : call::convert(out.dtype(), {0}, {1})};
      graph_.add(std::move(task));
    }
    graph_.barrier();
  }

  Index point_reads() const { return point_reads_; }
  /// Of an iteration.
  const std::string& order() const { return order_; }

 private:
  /// Panels of chosen rows are no tiles of a grid.
  bool chosen() const { return x_.sparse && x_.sparse->rows; }
  std::string name() const { return "centres" + std::to_string(generation_); }
  Shape tile() const { return {centres_.step(), centres_.d()}; }

  /// The array of this generation.
  void open() {
    tiles_.reset();
    centres_.exact = stages_.temporary(name(), {centres_.k(), centres_.d()}, Dtype::float64, tile());
    tiles_ = std::make_unique<FinishedTiles>(stages_, centres_.exact, tile(), name());
  }

  /// All centres of this generation are computed.
  void made() {
    tiles_->finish(whole(centres_.exact.shape()));
    if (graph_.planning() || !source_->shifts()) return;
    std::copy(shift_.begin(), shift_.end(), numbers(centres_.shift));
  }

  /// Files of generations that nobody goes on from: all but the last that was saved, and this one.
  void forget() {
    if (!stages_.saving()) return;
    if (generation_ - 1 != saved_) remove(generation_ - 1);
    if (tiles_->unnoted()) return;
    if (saved_ >= 0 && saved_ != generation_) remove(saved_);
    saved_ = generation_;
  }
  void remove(Index generation) const {
    std::error_code ignored;  // it is in the folder of the record, which goes as a whole
    std::filesystem::remove(stages_.directory() + "/centres" + std::to_string(generation), ignored);
  }

  /// Where centre j is added to the mean of all: in their order, as in memory.
  void add_to_shift(const double* centre) {
    for (Index l = 0; l < centres_.d(); ++l)
      shift_[static_cast<std::size_t>(l)] += centre[l] / static_cast<double>(centres_.k());
  }

  /// A block := seeds, of unit length where that is what is compared.
  void load(const StoredCentres& seeds, Index block) {
    Box box = centres_.box(block);
    if (seeds.transpose) std::swap(box.start[0], box.start[1]), std::swap(box.shape[0], box.shape[1]);
    graph_.await({read({seeds.array, box}), flagstone::write({centres_.exact, centres_.box(block)})},
                 [&](std::span<const Tile> tiles) {
                   kernel::convert(seeds.transpose ? call::turned(tiles[0], {1, 0}) : tiles[0], nullptr, tiles[1]);
                   for (Index j = 0; j < centres_.length(block); ++j) {
                     double* centre = tiles[1].as<double>() + j * centres_.d();
                     check(centre, centres_.first(block) + j);
                     if (x_.unit) make_unit(centre);
                     add_to_shift(centre);
                   }
                 });
  }
  void check(const double* centre, Index j) const {
    const Index bad = kernel::first_bad(centre, centres_.d());
    if (bad < 0) return;
    throw NumericalError(x_.asked.who + ": the centers have NaN or Inf at row " + std::to_string(j) + ", column " +
                         std::to_string(bad) + "; give finite ones.");
  }
  void make_unit(double* centre) const {
    const double length = std::sqrt(kernel::row_loops().product(centre, centre, centres_.d()));
    for (Index l = 0; length > 0 && l < centres_.d(); ++l) centre[l] /= length;
  }

  BlockSizes sizes(const BlockTasks& tasks) const {
    const auto values = static_cast<double>(centres_.step() * centres_.d()), rows = static_cast<double>(source_->rows);
    BlockSizes sizes{.panels = source_->panels, .blocks = centres_.count(), .sums = static_cast<bool>(to_.sums)};
    sizes.points = tasks.point_bytes();
    sizes.state = 8.0 * state_width * rows;
    sizes.panel = tasks.panel_bytes() + 8.0 * state_width * static_cast<double>(source_->step);
    sizes.block = 12 * values;
    sizes.sums_block = 8 * values * (1 + partial_sums(graph_, source_->panels));
    const double passing =
        2 * sizes.block + static_cast<double>(graph_.workers()) * (sizes.panel + tasks.scratch_bytes());
    sizes.room = share_of_room * static_cast<double>(graph_.budget()) - passing;
    return sizes;
  }

  void pass(Progress& progress) {
    if (!graph_.planning()) std::fill_n(numbers(to_.totals), count(to_.totals.shape()), 0.0);
    centres_.round(graph_);
    const std::unique_ptr<BlockTasks> made =
        x_.sparse ? make_sparse_tasks(graph_, x_, centres_, to_) : make_dense_tasks(graph_, x_, centres_, to_);
    BlockTasks& tasks = *made;
    if (to_.sums) zero_sums();
    const BlockSizes known = sizes(tasks);
    const BlockOrder order = choose_order(known);
    if (to_.sums || order_.empty()) order_ = told(order, known);
    // As in memory: there and back, so that sums of panels are added in the same order.
    const std::vector<Index> panels = order_of({.backwards = progress.iteration % 2 == 1}, source_->panels);
    graph_.trust_order(true);
    if (order.points_stay)
      stream_blocks(tasks, order, panels);
    else
      stream_points(tasks, order, panels);
    for (Index from = order.fused; to_.sums && from < centres_.count(); from += order.group)
      for (const Index p : panels) sum(tasks, p, from, from + order.group);
    graph_.barrier();
    graph_.trust_order(false);
    point_reads_ += order.point_reads;
    if (graph_.planning()) return;
    const double* totals = numbers(to_.totals);
    progress.weights.assign(totals, totals + centres_.k());
    progress.inertia = totals[centres_.k() + static_cast<Index>(Total::inertia)];
    const double* opened = numbers(to_.opened);
    for (Index i = 0; i < count(to_.opened.shape()); ++i) progress.decided += opened[i];
  }

  void zero_sums() {
    for (Index b = 0; b < centres_.count(); ++b) {
      TaskSpec task;
      task.name = "kmeans_zero";
      task.accesses = {flagstone::write({to_.sums, centres_.box(b)})};
      task.cost.bytes_touched = 8.0 * static_cast<double>(count(centres_.box(b).shape));
      task.calls = {call::zero(Dtype::float64, {0})};
      graph_.add(std::move(task));
    }
  }

  void sum(BlockTasks& tasks, Index panel, Index from, Index end) const {
    for (Index b = from; b < std::min(end, centres_.count()); ++b) tasks.add_sums(panel, b);
  }

  /// Panels stay, some at a time; blocks stream past them, there and back.
  void stream_blocks(BlockTasks& tasks, const BlockOrder& order, const std::vector<Index>& panels) const {
    const Index blocks = centres_.count(), all = source_->panels;
    for (Index at = 0, round = 0; at < all; at += order.stay, ++round) {
      const std::vector<Index> stay(panels.begin() + at, panels.begin() + std::min(all, at + order.stay));
      for (Index i = 0; i < blocks; ++i)
        for (const Index p : stay) tasks.assign(p, round % 2 == 0 ? i : blocks - 1 - i, i == 0, i == blocks - 1);
      for (const Index p : stay) sum(tasks, p, 0, order.fused);
    }
  }

  /// Blocks stay, some at a time; panels stream past them, there and back, the last time in their order.
  void stream_points(BlockTasks& tasks, const BlockOrder& order, const std::vector<Index>& panels) const {
    const Index blocks = centres_.count(), all = source_->panels, rounds = ceil_div(blocks, order.stay);
    for (Index round = 0; round < rounds; ++round)
      for (Index i = 0; i < all; ++i) {
        const Index p = panels[static_cast<std::size_t>((rounds - round) % 2 == 1 ? i : all - 1 - i)];
        for (Index b = round * order.stay; b < std::min(blocks, (round + 1) * order.stay); ++b)
          tasks.assign(p, b, b == 0, b == blocks - 1);
        if (round == rounds - 1) sum(tasks, p, 0, order.fused);
      }
  }

  /// The next generation := where the centres go, block after block.
  void move(Progress& progress) {
    if (!graph_.planning())
      moves_.begin(numbers(to_.totals), {reinterpret_cast<const Far*>(numbers(to_.farthest)),
                                         static_cast<std::size_t>(count(to_.farthest.shape()) / 4)});
    const Array before = centres_.exact;
    ++generation_;
    open();
    shift_.assign(static_cast<std::size_t>(centres_.d()), 0.0);
    for (Index b = 0; b < centres_.count(); ++b) move(before, b);
    if (!graph_.planning()) moves_.finish(progress);
  }

  void move(const Array& before, Index block) {
    const Index first = centres_.first(block), rows = centres_.length(block);
    const Box box = centres_.box(block);
    const Region sums{to_.sums, box};
    graph_.await({read(sums), read({before, box})}, [&](std::span<const Tile> tiles) {
      moves_.note(first, rows, tiles[0].as<const double>(), tiles[1].as<const double>());
    });
    const auto here = [&](Index j) { return j >= first && j < first + rows; };
    for (const CentreMoves::Refill& refill : moves_.refills()) {
      if (!here(refill.from) && !here(refill.to)) continue;
      const std::vector<double> point = source_->row(graph_, refill.row);
      graph_.await({update(sums)}, [&](std::span<const Tile> tiles) {
        moves_.refill(refill, point.data(), first, rows, tiles[0].as<double>());
      });
    }
    graph_.await({last(read(sums)), last(read({before, box})), flagstone::write({centres_.exact, box})},
                 [&](std::span<const Tile> tiles) {
                   auto* to = tiles[2].as<double>();
                   moves_.move(first, rows, tiles[0].as<const double>(), tiles[1].as<const double>(), to);
                   for (Index j = 0; j < rows; ++j) add_to_shift(to + j * centres_.d());
                 });
  }

  Graph& graph_;
  PointsInput x_;
  Stages& stages_;
  std::unique_ptr<Source> source_;
  Charge kept_;  // weights of clusters, here, in moves_ and in results; vectors of d
  CentreBlocks centres_;
  CentreMoves moves_;
  BlockArrays to_;
  std::vector<double> shift_;  // the mean of the centres
  std::string order_;
  Index generation_ = 0, saved_ = -1, point_reads_ = 0;
  std::unique_ptr<FinishedTiles> tiles_;
};

void fill(const Progress& progress, KMeansResult& result) {
  result.iterations = progress.iteration, result.converged = progress.converged;
  result.weights = progress.weights, result.inertia = progress.inertia, result.decided = progress.decided;
}

}  // namespace

void check_stored(const PointsInput& x, const KMeansOptions& options, const StoredCentres& seeds) {
  if (options.minibatch)
    throw ShapeError(x.asked.who +
                     ": centers on disk move by whole reads of X; method='lloyd' is needed, or centers in memory.");
  KMeansOptions asked = options;
  asked.centres.reset(), asked.k = options.k;
  check_kmeans(x, asked);
  Shape shape = seeds.array.shape();
  if (seeds.transpose) std::swap(shape[0], shape[1]);
  if (shape != Shape{options.k, x.cols()} || is_complex(seeds.array.dtype()))
    throw ShapeError(x.asked.who + ": the centers are " + to_string(shape) + " " +
                     std::string(name_of(seeds.array.dtype())) + "; " + std::to_string(options.k) + " real ones of " +
                     std::to_string(x.cols()) + " columns are needed.");
}

bool centres_fit(const Graph& graph, const PointsInput& x, Index k) {
  const auto panels = panels_of(*x.dense, x.transpose);
  const auto values = static_cast<double>(k) * static_cast<double>(x.cols());
  const double needed = (36 + 8 * partial_sums(graph, panels->count())) * values +
                        static_cast<double>(graph.workers() + 1) * panel_bytes(*panels);
  return needed <= share_of_room * static_cast<double>(graph.budget());
}

void stored_kmeans(Graph& graph, const PointsInput& x, const KMeansOptions& options, const StoredCentres& seeds,
                   const Array& labels, const Array& centres, KMeansResult& result) {
  check_stored(x, options, seeds);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  const LloydOptions lloyds{options.iterations, options.tol, x.unit};
  Stages stages(graph, options.checkpoint);
  Progress progress;
  StoredLloyd lloyd(graph, x, options.k, lloyds, stages);
  const auto kept = stages.keep("lloyd", [&](StateParts& parts) { lloyd.list_parts(parts, progress); });
  if (kept.loaded())
    lloyd.go_on();
  else
    lloyd.begin(seeds);
  const Index most = graph.planning() ? planned_iterations(lloyds) : options.iterations;
  while (progress.iteration < most && !progress.converged) lloyd.iterate(progress, most);
  if (labels) lloyd.label(progress, labels);
  lloyd.write(centres);
  fill(progress, result);
  result.passes = lloyd.point_reads(), result.order = lloyd.order();
}

void assign_to_stored(Graph& graph, const PointsInput& x, const StoredCentres& centres, const Array& labels,
                      KMeansResult& result) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  Stages stages(graph, nullptr);
  Progress progress;
  StoredLloyd lloyd(graph, x, centres.array.shape()[centres.transpose ? 1 : 0], {.unit = x.unit}, stages);
  lloyd.begin(centres);
  lloyd.label(progress, labels);
  fill(progress, result);
  result.passes = lloyd.point_reads(), result.order = lloyd.order();
}

}  // namespace flagstone::centres
