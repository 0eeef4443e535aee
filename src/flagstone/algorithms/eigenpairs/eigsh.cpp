#include "flagstone/algorithms/eigenpairs/eigsh.hpp"

#include <algorithm>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::spectral {
namespace {

constexpr int most_applications = 1000;  // beyond it a spectrum is hopeless for a Krylov method without inverses

Operator operator_of(const EigshInput& a) {
  if (a.sparse) return sparse_operator(*a.sparse);
  if (a.dense) return dense_operator(*a.dense);
  return called_operator(a.n, a.applied);
}

std::string given(const SchurOptions& o, const char* name, Index value) {
  return o.who + ": " + name + " is " + std::to_string(value);
}

}  // namespace

EigshOptions completed(EigshOptions options, Index n) {
  SchurOptions& o = options.solver;
  if (o.k < 1 || o.k > n)
    throw ShapeError(given(o, "k", o.k) + " and A is " + to_string({n, n}) + "; k must lie between 1 and " +
                     std::to_string(n) + ".");
  if (!(o.tol > 0 && o.tol < 1))
    throw ShapeError(o.who + ": tol is " + std::to_string(o.tol) + "; a number between 0 and 1 is needed.");
  if (o.block < 0 || o.block > n)
    throw ShapeError(given(o, "block", o.block) + "; between 1 and " + std::to_string(n) + " vectors are needed.");
  if (o.block == 0) o.block = schur_block(o.k, n);
  const Index least = std::min(n, o.k + 2 * o.block);
  if (o.ncv != 0 && (o.ncv < least || o.ncv > n))
    throw ShapeError(given(o, "ncv", o.ncv) + "; a basis of " + std::to_string(least) + " to " + std::to_string(n) +
                     " columns is needed for k = " + std::to_string(o.k) + " and block = " + std::to_string(o.block) +
                     ".");
  const bool whole = options.method == "krylov";  // no restart
  if (o.ncv == 0 && (whole || o.passes > 0))
    o.ncv = std::min(n, o.block * std::max(3, o.passes > 0 ? o.passes + 1 : 2 * schur_steps(o, n)) + o.k);
  if (o.ncv == 0) o.ncv = schur_ncv(o.k, o.block, n);
  if (o.keep < 0 || o.keep > o.ncv - 2 * o.block)
    if (o.keep != 0)
      throw ShapeError(given(o, "keep", o.keep) + "; at most " + std::to_string(o.ncv - 2 * o.block) +
                       " Ritz vectors leave room for two blocks of the basis.");
  if (o.most == 0) o.most = most_applications;
  if (o.passes > 0) o.most = o.passes;
  if (o.most * o.block < o.k)
    throw ShapeError(o.who + ": " + std::to_string(o.most) + " applications to " + std::to_string(o.block) +
                     " vectors span fewer than k = " + std::to_string(o.k) + "; give more passes, maxiter or block.");
  options.method = whole ? "krylov" : "krylov-schur";
  return options;
}

Shape vectors_chunks(const EigshOptions& options, Index n) {
  return {std::min(n, BlockKrylovSchur::cut_of(options.solver, n).rows), options.solver.k};
}

SchurOptions saving(const EigshOptions& options, Stages& stages) {
  SchurOptions solver = options.solver;
  solver.stages = &stages;
  if (options.checkpoint) solver.kept_in = options.checkpoint->directory();
  return solver;
}

void eigsh(Graph& graph, const EigshInput& a, const EigshOptions& options, const Array& vectors, EigshResult& result) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  const Operator op = operator_of(a);
  Charge left;  // to what a function of the caller runs
  if (a.applied) left = graph.charge(graph.budget() / 3);
  Stages stages(graph, options.checkpoint);
  BlockKrylovSchur solver(graph, op, saving(options, stages));
  SchurPairs pairs = solver.solve();
  solver.vectors(pairs, vectors);
  solver.measure(pairs, vectors);
  const Index last = ceil_div(options.solver.k, options.solver.block);
  result = {.method = options.method};
  result.applications = result.passes = pairs.applications + static_cast<int>(last);
  result.converged = pairs.converged || options.solver.passes > 0;  // nothing else was asked for
  result.verified = pairs.verified;
  result.block = options.solver.block, result.ncv = options.solver.ncv;
  result.values = std::move(pairs.values), result.residuals = std::move(pairs.residuals);
}

}  // namespace flagstone::spectral
