#include "flagstone/algorithms/factor/solve.hpp"

#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::linalg {

void factor_and_solve(Graph& graph, const Operand& a, const Operand& l, CholeskyOptions options, const Operand& b,
                      const Array& x, const Array* diagonal) {
  check_substitute(options.who.c_str(), {l}, b, &x);
  // Beside the block of the factorization, which shrinks for it, as long as that costs less than a sweep.
  const auto bytes = static_cast<std::uint64_t>(count(x.shape())) * size_of(x.dtype());
  if (bytes > graph.budget() / 8) {
    cholesky(graph, a, l, options);
    return substitute(graph, options.who.c_str(), {{l}, adjoint({l})}, b, x, {.diagonal = diagonal});
  }
  options.right = b, options.forward = x;
  if (diagonal) options.diagonal = *diagonal;
  cholesky(graph, a, l, options);
  substitute(graph, options.who.c_str(), {adjoint({l})}, {x}, x);
}

void solve_definite(Graph& graph, const std::string& who, const Operand& a, const Operand& b, const Array& x,
                    const Array* diagonal, const std::shared_ptr<Checkpoint>& checkpoint) {
  const Index n = a.rows(), edge = factor_tile(n, a.array.dtype());
  // "tiles": the name under which cholesky() notes them.
  const Array l = Stages(graph, checkpoint).temporary("tiles", {n, n}, a.array.dtype(), {edge, edge});
  factor_and_solve(graph, a, {l}, {.who = who, .checkpoint = checkpoint}, b, x, diagonal);
}

}  // namespace flagstone::linalg
