#include "flagstone/algorithms/factor/lu_triangles.hpp"

#include "flagstone/algorithms/factor/lu_progress.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"

namespace flagstone::linalg {
namespace {

/// A column of tiles, from its diagonal down, as the end has its rows: to `l`, and its diagonal tile to `u`.
void take_apart(Graph& graph, const LuColumns& f, const Array& pivots, Index k, const Region& l, const Region& u) {
  using kernel::Part;
  const Index first = f.first(k), w = f.width(k);
  const Dtype dtype = l.array.dtype();
  const Box square{{0, 0}, {w, w}}, column{{0, 0}, l.box.shape};
  TaskSpec task;
  task.name = "apart";
  const bool moved = f.lower(k).array.id() != l.array.id();
  task.accesses = {moved ? write(l) : update(l), write(u)};
  if (moved) {
    task.accesses.push_back(read(f.lower(k)));
    task.calls.push_back(call::take(dtype, Part::all, {2, false, false, column}, 0, {0, false, false, column}, {}));
  }
  for (Index later = k + 1; later < f.panels(); ++later) {
    const auto chosen = static_cast<std::uint32_t>(task.accesses.size());
    task.accesses.push_back(read({pivots, {{f.first(later)}, {f.width(later)}}}));
    task.calls.push_back(call::laswp(dtype, first, f.first(later), false, {chosen}, {0}));
  }
  task.calls.push_back(call::take(dtype, Part::upper, {0, false, false, square}, 0, {1}, {}));
  task.calls.push_back(
      call::take(dtype, Part::unit_lower, {0, false, false, square}, 0, {0, false, false, square}, {}));
  task.cost.bytes_touched = 2.0 * static_cast<double>(count(column.shape)) * static_cast<double>(size_of(dtype));
  graph.add(std::move(task));
}

}  // namespace

void lu_triangles(Graph& graph, const char* who, const Operand& a, const Array& l, const Array& u, const Array& pivots,
                  const LuOptions& options) {
  check_lu(who, a);
  Stages stages(graph, options.checkpoint);
  LuProgress progress(stages, pivots);
  const LuColumns whole(l, u, lu_tile(a.rows()));
  const bool apart = options.saved || stages.saving();
  const LuColumns f =
      apart ? whole.apart(kept_tiles(graph, stages, whole.rows(), whole.tile(), whole.count(), l.dtype())) : whole;
  if (apart) progress.note(whole, false), progress.note(f, true);
  lu_columns(graph, who, a, f, pivots, progress);
  graph.trust_order(true);
  for (Index k = 0; k < f.panels(); ++k) {
    const Region diagonal{u, {{f.first(k), f.first(k)}, {f.width(k), f.width(k)}}};
    if (apart && progress.holds(whole.lower(k)) && progress.holds(diagonal)) continue;
    take_apart(graph, f, pivots, k, whole.lower(k), diagonal);
    if (apart) progress.finish(diagonal), progress.finish(whole.lower(k));
  }
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
