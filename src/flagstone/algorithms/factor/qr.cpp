#include "flagstone/algorithms/factor/qr.hpp"

#include <cmath>

#include "flagstone/algorithms/factor/qr_tasks.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index chains_a_worker = 3;  // one computes, one has arrived, one is on its way
constexpr int queues_of_a_card = 4;

/// How many tiles are computed at a time.
int lanes(const Graph& graph) { return graph.large_tiles() ? queues_of_a_card : graph.workers(); }

/// For what no other kind of device reads: reflectors that are not a result.
QrTree tree_of(const Graph& graph, const Operand& a, const QrOptions& options) {
  const QrCut cut = graph.large_tiles() ? QrCut::card() : QrCut();
  return {a.rows(), a.cols(), a.array.dtype(), options.cut.value_or(cut)};
}

std::uint64_t tile_bytes(const QrTree& tree) {
  return static_cast<std::uint64_t>(tree.rows * tree.cols) * size_of(tree.dtype);
}

/// In scratch; where progress is saved, in files beside it.
Reflectors temporaries(Stages& stages, const QrTree& tree) {
  if (tree.panels == 0) return {};
  const auto shapes = reflector_shapes(tree);
  const auto make = [&](const char* name, std::size_t i) {
    return stages.temporary(name, shapes[i].first, tree.dtype, shapes[i].second);
  };
  return {make("v", 0), make("t", 1), make("r", 2)};
}

/// Columns of tiles whose reflectors, and R above them, are complete: what a later process does not compute again.
class FinishedColumns {
 public:
  FinishedColumns(Stages& stages, const QrTree& tree, const Reflectors& f)
      : tree_(tree),
        v_(stages.tiles(f.v, tile(0), "v")),
        t_(stages.tiles(f.t, tile(1), "t")),
        r_(stages.tiles(f.r, tile(2), "r")) {}

  /// The first that is not.
  Index first() const {
    Index j = 0;
    while (j < tree_.col_tiles && v_.holds(column(j, 0)) && t_.holds(column(j, 1)) && r_.holds(column(j, 2))) ++j;
    return j;
  }
  void finish(Index from, Index end) {
    for (Index j = from; j < end; ++j) v_.finish(column(j, 0)), t_.finish(column(j, 1)), r_.finish(column(j, 2));
    v_.offer();
  }

 private:
  Shape tile(std::size_t i) const { return reflector_shapes(tree_)[i].second; }
  Box column(Index j, std::size_t i) const {
    return {{j * tree_.cols, 0}, {tree_.width(j), reflector_shapes(tree_)[i].first[1]}};
  }

  const QrTree& tree_;
  FinishedTiles v_, t_, r_;
};

/// What becomes of the reflectors.
struct Keeping {
  bool last_panel = false;  // its are needed too
  bool dropped = false;     // as QrTasks
};

/// The loops of a factorization, over the tasks of steps.
class Factorization {
 public:
  Factorization(Graph& graph, const QrTree& tree, const Reflectors& f, Columns& a, Keeping keeping, QrOrder order,
                const Named& named)
      : tree_(tree),
        tasks_(graph, tree, f, keeping.dropped, named),
        a_(a),
        kept_(keeping.last_panel),
        order_(order),
        beside_(std::max<Index>(1, chains_a_worker * lanes(graph))) {}

  /// Slabs: the panels to the left go over each, then its own; every tile of V is written once.
  void left_looking(FinishedColumns& finished) {
    for (Index from = finished.first(); from < tree_.col_tiles; from += order_.slab) {
      const Index end = std::min(tree_.col_tiles, from + order_.slab);
      for (Index k = 0; k < std::min(from, tree_.panels); ++k) update(k, from, end);
      inside(from, end, [&](Index k) { finished.finish(k, k + 1); });
      finished.finish(std::clamp(tree_.panels, from, end), end);
    }
  }

  /// One column of tiles of which R alone is wanted, the triangles of groups in `found`: they are merged elsewhere, so
  /// that what is noted of them stays as it is.
  void tall(FinishedTiles& groups, const Array& found, QrTasks& merging) {
    const auto triangles = [&](Index from, Index end) {
      return Box{{0, from * tree_.cols}, {tree_.cols, (end - from) * tree_.cols}};
    };
    const auto merge = [&](Index from, Index end) {
      for (Index q = from; q < end; ++q) merging.copy_triangle(found, q);
      std::vector<QrTree::Step> steps;
      tree_.merges(0, from, end, steps);
      for (const QrTree::Step& step : steps) merging.factor(a_, 0, step, false);
    };
    Index first = 0;
    while (first < tree_.groups && groups.holds(triangles(first, first + 1))) ++first;
    merge(0, first);
    for (Index from = first; from < tree_.groups; from += beside_) {
      const Index end = std::min(tree_.groups, from + beside_);
      std::vector<QrTree::Step> steps;
      tree_.chains(0, from, end, steps);
      for (const QrTree::Step& step : steps) tasks_.factor(a_, 0, step, false);
      groups.finish(triangles(from, end));
      groups.offer();
      merge(from, end);
    }
  }

  /// Panels, `slab` of them together, go over the rest of the matrix, block by block of as many columns.
  void streamed() {
    for (Index from = 0; from < tree_.panels; from += order_.slab) {
      const Index end = std::min(tree_.panels, from + order_.slab);
      inside(from, end, [](Index) {});
      for (Index j = end; j < tree_.col_tiles; j += order_.slab) {
        const Index last = std::min(tree_.col_tiles, j + order_.slab);
        if (tree_.groups == 1)
          sweep(from, end, j, last);
        else
          for (Index k = from; k < end; ++k) update(k, j, last);
      }
    }
  }

 private:
  void update(Index k, Index from, Index end) {
    for (const QrTree::Step& step : tree_.steps(k, beside_))
      for (Index j = from; j < end; ++j) tasks_.apply(a_, j, k, step, true);
  }

  /// Right-looking among columns that stay in memory; done(k): column k is as it will stay.
  template <class Done>
  void inside(Index from, Index end, Done done) {
    for (Index k = from; k < std::min(end, tree_.panels); ++k) {
      const bool kept = kept_ || k + 1 < tree_.col_tiles;
      for (const QrTree::Step& step : tree_.steps(k, beside_)) tasks_.factor(a_, k, step, kept);
      update(k, k + 1, end);
      done(k);
    }
  }

  /// One chain a panel: all panels go down the rows together, so that each row is read and written once.
  void sweep(Index from, Index end, Index j, Index last) {
    for (Index i = tree_.start(from); i < tree_.row_tiles; ++i)
      for (Index k = from; k < end && tree_.start(k) <= i; ++k) {
        const Index top = tree_.start(k);
        const QrTree::Step step{i == top ? QrTree::Step::head : QrTree::Step::chain, top, i};
        for (Index c = j; c < last; ++c) tasks_.apply(a_, c, k, step, true);
      }
  }

  const QrTree& tree_;
  QrTasks tasks_;
  Columns& a_;
  bool kept_;
  QrOrder order_;
  Index beside_;
};

void begin(Graph& graph, const QrTree& tree, Index slab) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());
  graph.trust_order(true);
  graph.look_ahead(static_cast<std::size_t>(2 * slab * tree.row_tiles + 256));
}

/// R of one column of tiles.
void factorize_tall(Graph& graph, Stages& stages, const QrTree& tree, const Operand& a, const Operand& r,
                    const QrOrder& order, const Named& named) {
  Reflectors f = temporaries(stages, tree), merged = f;
  merged.r = graph.temporary(f.r.shape(), tree.dtype, {tree.cols, tree.cols});
  Columns columns(tree, f.v, tree.n, a, named);
  QrTasks merging(graph, tree, merged, !stages.saving(), named);
  FinishedTiles groups = stages.tiles(f.r, {tree.cols, tree.cols}, "r");
  begin(graph, tree, 1);
  Factorization(graph, tree, f, columns, {}, order, named).tall(groups, f.r, merging);
  merging.store_triangle(columns, 0, r);
  graph.trust_order(false);
}

/// `kept`: where the reflectors go, if they are needed; `outputs`: they are results, not in scratch.
void factorize(Graph& graph, Stages& stages, const QrTree& tree, const Operand& a, const Reflectors* kept, bool outputs,
               const Operand* r, const QrOptions& options) {
  if (tree.panels == 0) return;
  const Named named{options.who, options.turned};
  QrOrder order = choose_order(tree, order_budget(graph), lanes(graph));
  if (options.order) *options.order = tree.col_tiles == 1 ? "one column of them" : order.text();
  if (!kept && tree.col_tiles == 1) return factorize_tall(graph, stages, tree, a, *r, order, named);
  const Reflectors f = kept ? *kept : temporaries(stages, tree);
  Columns columns(tree, f.v, tree.n, a, named);
  const bool once = !outputs && !stages.saving() && !options.saved;
  FinishedColumns finished(stages, tree, f);
  begin(graph, tree, order.slab);
  const Index first = finished.first();
  columns.there(0, first);
  if (first > 0) order.streamed = false;
  // All slabs but the last leave memory for the next one: while it is factored, not when the next one wants the room.
  const Index last = first + std::max<Index>(0, tree.col_tiles - 1 - first) / order.slab * order.slab;
  if (!order.streamed) write_early(f.v, {{0, 0}, {last * tree.cols, tree.m}});
  Factorization factorization(graph, tree, f, columns, {kept != nullptr, once && !kept}, order, named);
  order.streamed ? factorization.streamed() : factorization.left_looking(finished);
  const bool dropped = once && (!kept || tree.rows == tree.cols);  // tall tiles have reflectors too
  QrTasks storing(graph, tree, f, dropped, named);
  if (r)
    for (Index k = 0; k < tree.panels; ++k) storing.store_triangle(columns, k, *r);
  graph.trust_order(false);
}

/// Columns of `c` that stay in memory while all panels go over them.
Index columns_beside(Graph& graph, const QrTree& tree) {
  const std::uint64_t tile = tile_bytes(tree), column = tile * static_cast<std::uint64_t>(tree.row_tiles);
  const std::uint64_t streams = tile * static_cast<std::uint64_t>(2 * lanes(graph) + 4);
  const std::uint64_t budget = order_budget(graph);
  return budget > streams + column ? static_cast<Index>((budget - streams) / column) : 1;
}

/// Applies panels to C, slab by slab, and stores it.
void apply_all(Graph& graph, const QrTree& tree, const Reflectors& f, Columns& c, bool adjoint, bool from_identity,
               bool dropped, const Operand& out, const Named& named) {
  QrTasks tasks(graph, tree, f, dropped, named);
  const Index slab = columns_beside(graph, tree), beside = chains_a_worker * lanes(graph);
  begin(graph, tree, std::min(slab, c.tiles()));
  for (Index from = 0; from < c.tiles(); from += slab) {
    const Index end = std::min(c.tiles(), from + slab);
    for (Index p = 0; p < tree.panels; ++p) {
      const Index k = adjoint ? p : tree.panels - 1 - p;
      std::vector<QrTree::Step> steps = tree.steps(k, beside);
      if (!adjoint) std::reverse(steps.begin(), steps.end());
      // Columns of the identity left of panel k are zero where it works.
      const Index first = from_identity && tree.panels > 1 ? std::max(from, k) : from;
      for (const QrTree::Step& step : steps)
        for (Index j = first; j < end; ++j) tasks.apply(c, j, k, step, adjoint);
    }
    c.store(graph, out, from, end);
  }
  graph.trust_order(false);
}

}  // namespace

std::string QrOrder::text() const {
  return (streamed ? "panels of " : "slabs of ") + std::to_string(slab) +
         (slab == 1 ? " column of tiles" : " columns of tiles") + (streamed ? ", rows streamed" : "");
}

QrOrder choose_order(const QrTree& tree, std::uint64_t budget, int workers) {
  if (tree.col_tiles <= 1) return {};
  const std::uint64_t tile = tile_bytes(tree);
  const auto streams = static_cast<std::uint64_t>(3 * workers + 6);
  const std::uint64_t tiles = budget / tile > streams ? budget / tile - streams : 1;
  const auto slab = static_cast<Index>(tiles / static_cast<std::uint64_t>(std::max<Index>(1, tree.row_tiles)));
  if (slab >= tree.col_tiles) return {false, std::max<Index>(1, tree.col_tiles)};
  // Reads: F/w of slabs; F (1/w + 1/d) of panels and blocks as wide as a square that stays, and as much written.
  const auto square = std::max<Index>(1, static_cast<Index>(std::sqrt(static_cast<double>(tiles) + 4.0)) - 2);
  const bool fused = tree.groups == 1;
  const double streamed = fused ? 3.25 / static_cast<double>(square) : 3.25;
  if (slab >= 1 && 1.0 / static_cast<double>(slab) <= streamed) return {false, slab};
  return {true, fused ? square : 1};
}

void check_qr(const std::string& who, const Operand& a) {
  if (a.array.ndim() != 2)
    throw ShapeError(who + ": the matrix has " + std::to_string(a.array.ndim()) + " dimensions; two are needed.");
  const Dtype t = a.array.dtype();
  if (t != Dtype::float32 && t != Dtype::float64 && !is_complex(t))
    throw ShapeError(who + ": the matrix is " + std::string(name_of(t)) +
                     "; float32, float64, complex64 or complex128 is needed.");
}

void qr_factor(Graph& graph, const Operand& a, const Reflectors& f, const Operand* r, const QrOptions& options) {
  Stages stages(graph, options.checkpoint);
  factorize(graph, stages, QrTree(a.rows(), a.cols(), a.array.dtype()), a, &f, true, r, options);
}

void qr_r(Graph& graph, const Operand& a, const Operand& r, const QrOptions& options) {
  Stages stages(graph, options.checkpoint);
  factorize(graph, stages, tree_of(graph, a, options), a, nullptr, false, &r, options);
}

void apply_q(Graph& graph, const QrTree& tree, const Reflectors& f, const Operand& b, bool adjoint, const Operand& out,
             const ApplyOptions& options) {
  const Index cols = b.cols();
  const Named named{options.who, options.turned};
  if (tree.m == 0 || cols == 0) return;
  Columns c(tree, graph.temporary({cols, tree.m}, tree.dtype, {tree.cols, tree.rows}), cols, b, named,
            call::Whose::right_sides, options.given ? call::Whose::product : call::Whose::result);
  apply_all(graph, tree, f, c, adjoint, false, false, out, named);
}

void form_q(Graph& graph, const QrTree& tree, const Reflectors& f, bool dropped, const Operand& out,
            const QrOptions& options) {
  const Index cols = out.cols();
  const Named named{options.who, options.turned};
  if (tree.m == 0 || cols == 0) return;
  Columns c(tree, graph.temporary({cols, tree.m}, tree.dtype, {tree.cols, tree.rows}), cols, {}, named);
  apply_all(graph, tree, f, c, false, true, dropped, out, named);
}

void qr(Graph& graph, const Operand& a, const Operand& q, const Operand& r, const QrOptions& options) {
  const QrTree tree = tree_of(graph, a, options);
  Stages stages(graph, options.checkpoint);
  const Reflectors f = temporaries(stages, tree);
  factorize(graph, stages, tree, a, &f, false, &r, options);
  form_q(graph, tree, f, !stages.saving() && !options.saved, q, options);
}

}  // namespace flagstone::linalg
