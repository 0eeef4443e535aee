#include "flagstone/algorithms/factor/lu_triangles.hpp"

#include "flagstone/algorithms/kernels/factor.hpp"

namespace flagstone::linalg {

void lu_triangles(Graph& graph, const char* who, const Operand& a, const Array& l, const Array& u,
                  const Array& pivots) {
  using kernel::Part;
  const LuColumns f(l, u, lu_tile(a.rows()));
  const Dtype dtype = l.dtype();
  lu(graph, who, a, f, pivots, RowOrder::interleaved);
  graph.trust_order(true);
  for (Index k = 0; k < f.count(); ++k) {  // a column at a time: its rows as the end has them, its diagonal tile to U
    const Index first = f.first(k), w = f.width(k);
    const Box square{{0, 0}, {w, w}};
    TaskSpec task;
    task.name = "apart";
    task.accesses = {update(f.lower(k)), write({u, {{first, first}, {w, w}}})};
    for (Index later = k + 1; later < f.count(); ++later) {
      const auto chosen = static_cast<std::uint32_t>(task.accesses.size());
      task.accesses.push_back(read({pivots, {{f.first(later)}, {f.width(later)}}}));
      task.calls.push_back(call::laswp(dtype, first, f.first(later), false, {chosen}, {0}));
    }
    task.calls.push_back(call::take(dtype, Part::upper, {0, false, false, square}, 0, {1}, {}));
    task.calls.push_back(
        call::take(dtype, Part::unit_lower, {0, false, false, square}, 0, {0, false, false, square}, {}));
    task.cost.bytes_touched = 2.0 * static_cast<double>((f.order() - first) * w) * static_cast<double>(size_of(dtype));
    graph.add(std::move(task));
  }
  graph.trust_order(false);
}

}  // namespace flagstone::linalg
