#include "flagstone/algorithms/factor/solve.hpp"

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"

namespace flagstone::linalg {

void solve_definite(Graph& graph, const Operand& a, const Operand& b, const Array& x) {
  const Index n = a.rows(), edge = factor_tile(n, a.array.dtype());
  const Operand l{graph.temporary({n, n}, a.array.dtype(), {edge, edge})};
  cholesky(graph, a, l, {});
  substitute(graph, "solve", {{l}, adjoint({l})}, b, x);
}

}  // namespace flagstone::linalg
