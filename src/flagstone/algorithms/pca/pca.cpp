#include "flagstone/algorithms/pca/pca.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/pca/source.hpp"
#include "flagstone/algorithms/spectral/gram.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::spectral {
namespace {

/// Components and means outlive the run's arrays in plain vectors.
Charge charge_vectors(Graph& graph, const PcaInput& x, const PcaOptions& options) {
  return graph.charge(8 * static_cast<std::uint64_t>(x.cols()) * (static_cast<std::uint64_t>(options.k) + 2));
}

std::unique_ptr<Source> source_of(Graph& graph, const PcaInput& x, const PcaOptions& options, bool gram) {
  return x.sparse ? make_sparse_source(graph, *x.sparse, options.center, gram)
                  : make_dense_source(*x.dense, x.transpose, options.center);
}

/// XᵀX - m mean meanᵀ of a sparse X; a dense one is centred before it is multiplied.
void check_cancellation(const Graph& graph, const PcaInput& x, const PcaOptions& options, const Source& source) {
  if (graph.planning() || !x.sparse) return;
  if (cancellation(x.rows(), source.mean, source.squares) * 0x1p-52 > options.tol)
    throw NumericalError(
        "pca: X's column means are so large beside its spread that a Gram matrix loses the digits tol asks for; use "
        "method='krylov', or subtract a constant first.");
}

KrylovResult by_gram(Graph& graph, Source& source, const PcaOptions& options, Stages& stages) {
  const auto gram_matrix = [&] {
    const Array g = graph.allocate({source.side, source.side}, Dtype::float64);
    source.gram_matrix(graph, g);
    return g;
  };
  return gram_eigenpairs(graph, stages.once("gram", gram_matrix, 0.5), options.k, options.tol, options.seed);
}

KrylovResult by_krylov(Graph& graph, Source& source, const PcaOptions& options, Index block, Stages& stages,
                       Dtype dtype) {
  Operator op;
  op.n = source.side;
  op.apply = [&source](Graph& inner, const Array& v, const Array& y) { source.gram_multiply(inner, v, y); };
  KrylovOptions o;
  o.k = options.k, o.block = block, o.tol = options.tol, o.seed = options.seed, o.dtype = dtype;
  o.steps = krylov_steps(options.k, block, source.side, options.tol);
  o.stages = &stages;
  return block_krylov(graph, op, o);
}

/// The basis lies in scratch where it has no room, and restarts bound it: what block_krylov holds in memory.
KrylovResult by_krylov_schur(Graph& graph, Source& source, const PcaOptions& options, Stages& stages) {
  Operator op;
  op.n = source.side;
  op.apply = [&source](Graph& inner, const Array& v, const Array& y) { source.gram_multiply(inner, v, y); };
  SchurOptions o = schur_of(options, source.side);
  o.stages = &stages;
  if (options.checkpoint) o.kept_in = options.checkpoint->directory();
  KrylovResult found{.vectors = graph.allocate({op.n, o.k}, Dtype::float64)};
  BlockKrylovSchur solver(graph, op, o);
  const SchurPairs pairs = solver.solve();
  solver.vectors(pairs, again_as(found.vectors));
  graph.barrier();
  if (!graph.planning() && !pairs.converged)
    throw ConvergenceError("pca: " + std::to_string(pairs.applications) + " passes did not reach tol = " +
                           std::to_string(options.tol) + "; give a larger one, or method='krylov'.");
  found.applications = pairs.applications;
  for (const double value : pairs.values) found.values.push_back(std::max(0.0, value));
  return found;
}

/// Reads of X that are done when the eigenpairs are known; one is left. A Gram matrix took one, however often it was
/// applied itself.
double share_of_passes(const KrylovResult& pairs, bool gram) {
  return 1.0 - 1.0 / std::max(2, gram ? 2 : pairs.applications + 1);
}

/// What the last pass starts from.
LastPass last_pass(const Graph& graph, const KrylovResult& pairs, bool gram, Dtype product) {
  LastPass pass;
  pass.vectors = pairs.vectors;
  for (const double value : pairs.values) pass.sigma.push_back(std::sqrt(value));
  const bool narrow = product == Dtype::float32 && (graph.planning() || in_range_of_float32(pairs.values[0]));
  pass.precision = !gram && !graph.planning() ? pairs.dtype : narrow ? Dtype::float32 : Dtype::float64;
  // float32 products measure a sigma to about 1e-7 sigma_1; a float64 Gram matrix knows it better.
  pass.measure = !(gram && pass.precision == Dtype::float32);
  return pass;
}

void fill_result(const Source& source, LastPass& pass, PcaResult& result) {
  result.components = std::move(pass.components);
  result.residual = std::move(pass.residual);
  result.singular_values = pass.sigma;
  result.mean = source.mean;
  const double freedom = std::max(1.0, static_cast<double>(source.rows - 1));
  for (const double sigma : pass.sigma) {
    result.explained_variance.push_back(sigma * sigma / freedom);
    result.explained_variance_ratio.push_back(source.squares > 0 ? std::min(1.0, sigma * sigma / source.squares) : 0.0);
  }
}

}  // namespace

void pca(Graph& graph, const PcaInput& x, const PcaOptions& options, const PcaChoice& choice, const Array& scores,
         PcaResult& result) {
  check_pca(x, options);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  const Charge vectors = charge_vectors(graph, x, options);
  const bool gram = choice.method == "gram";
  const auto source = source_of(graph, x, options, gram);
  if (gram) check_cancellation(graph, x, options, *source);
  const Dtype product = product_dtype(x, options);
  Stages stages(graph, options.checkpoint);
  stages.begun_with("method", choice.method);
  const auto means = stages.keep("means", [&](StateParts& parts) { source->list_parts(graph, parts); });
  const bool schur = choice.method == "krylov-schur";
  const auto eigenpairs = [&] {
    if (schur) return by_krylov_schur(graph, *source, options, stages);
    return gram ? by_gram(graph, *source, options, stages)
                : by_krylov(graph, *source, options, choice.block, stages, product);
  };
  const KrylovResult pairs =
      stages.once("eigenpairs", eigenpairs, [&](const KrylovResult& found) { return share_of_passes(found, gram); });
  LastPass pass = last_pass(graph, pairs, gram, product);
  source->finish(graph, pass, scores);
  result = {.passes = choice.passes, .method = choice.method};
  if (graph.planning()) return;
  if (!gram)
    result.passes += pairs.applications - (schur ? schur_steps(schur_of(options, source->side), source->side)
                                                 : krylov_steps(options.k, choice.block, source->side, options.tol));
  fill_result(*source, pass, result);
}

}  // namespace flagstone::spectral
