#include "flagstone/algorithms/pca/pca.hpp"

#include <algorithm>
#include <cmath>

#include "flagstone/algorithms/pca/source.hpp"
#include "flagstone/algorithms/spectral/gram.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::spectral {
namespace {

double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }

/// Where a checkpoint is due: `parts`, the method, and what the source knows.
void offer(const PcaOptions& options, const Source& source, double done, std::vector<Checkpoint::Part> parts) {
  if (!options.checkpoint || !options.checkpoint->due()) return;
  source.save(parts);
  options.checkpoint->save(done, parts);
}

Checkpoint::Part method_part(const std::string& method) {
  return Checkpoint::part("method", method.data(), method.size());
}

KrylovResult by_gram(Graph& graph, Source& source, const PcaOptions& options) {
  const Array g = graph.allocate({source.side, source.side}, Dtype::float64);
  const bool saved = !graph.planning() && options.checkpoint && options.checkpoint->has("gram");
  if (saved)
    options.checkpoint->load("gram", numbers(g), g.nbytes());
  else
    source.gram_matrix(graph, g);
  const std::string method = "gram";
  if (!graph.planning() && !saved)
    offer(options, source, 0.5, {method_part(method), Checkpoint::part("gram", numbers(g), g.nbytes() / 8)});
  return gram_eigenpairs(graph, g, options.k, options.tol, options.seed);
}

/// The eigenpairs as they were found: only the last pass is left.
struct Found {
  std::int64_t applications = 0, dtype = 0;
  double estimate = 0;
};
void save_found(const KrylovResult& found, const PcaOptions& options, const Source& source, const std::string& method,
                double done) {
  const Found about{found.applications, static_cast<std::int64_t>(found.dtype), found.estimate};
  offer(options, source, done,
        {method_part(method), Checkpoint::part("found", &about, 1),
         Checkpoint::part("values", found.values.data(), found.values.size()),
         Checkpoint::part("vectors", numbers(found.vectors), found.vectors.nbytes() / 8)});
}
KrylovResult load_found(Graph& graph, const Checkpoint& from, Index side, Index k) {
  Found about;
  from.load("found", &about, sizeof about);
  KrylovResult found;
  found.applications = static_cast<int>(about.applications);
  found.dtype = static_cast<Dtype>(about.dtype), found.estimate = about.estimate;
  found.values = from.load<double>("values");
  found.vectors = graph.allocate({side, k}, Dtype::float64);
  from.load("vectors", numbers(found.vectors), found.vectors.nbytes());
  return found;
}

KrylovResult by_krylov(Graph& graph, Source& source, const PcaOptions& options, Index block, Dtype dtype) {
  Operator op;
  op.n = source.side;
  op.apply = [&source](Graph& inner, const Array& v, const Array& y) { source.gram_multiply(inner, v, y); };
  KrylovOptions o;
  o.k = options.k, o.block = block, o.tol = options.tol, o.seed = options.seed, o.dtype = dtype;
  o.steps = krylov_steps(options.k, block, source.side, options.tol);
  o.checkpoint = graph.planning() ? nullptr : options.checkpoint;
  const std::string method = "krylov";
  o.beside = [&](std::vector<Checkpoint::Part>& parts) {
    parts.push_back(method_part(method));
    source.save(parts);
  };
  return block_krylov(graph, op, o);
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
  // Components and means outlive the run's arrays in plain vectors.
  const auto k = static_cast<std::uint64_t>(options.k), n = static_cast<std::uint64_t>(x.cols());
  const Charge small = graph.charge(8 * n * (k + 2));
  const auto source = x.sparse ? make_sparse_source(graph, *x.sparse, options.center)
                               : make_dense_source(*x.dense, x.transpose, options.center);
  const Dtype product = product_dtype(x, options);
  const bool gram = choice.method == "gram";
  // XᵀX - m mean meanᵀ of a sparse X; a dense one is centred before it is multiplied.
  if (gram && x.sparse && !graph.planning() &&
      cancellation(x.rows(), source->mean, source->squares) * 0x1p-52 > options.tol)
    throw NumericalError(
        "pca: X's column means are so large beside its spread that a Gram matrix loses the digits tol asks for; use "
        "method='krylov', or subtract a constant first.");
  const bool real = !graph.planning() && options.checkpoint;
  if (real) source->restore(graph, *options.checkpoint);
  const bool known = real && options.checkpoint->has("found");
  KrylovResult found = known  ? load_found(graph, *options.checkpoint, source->side, options.k)
                       : gram ? by_gram(graph, *source, options)
                              : by_krylov(graph, *source, options, choice.block, product);
  if (real && !known)
    save_found(found, options, *source, choice.method, 1.0 - 1.0 / std::max(2, gram ? 2 : found.applications + 1));
  LastPass pass;
  pass.vectors = std::move(found.vectors);
  for (const double value : found.values) pass.sigma.push_back(std::sqrt(value));
  const bool narrow = product == Dtype::float32 && (graph.planning() || in_range_of_float32(found.values[0]));
  const Dtype last = !gram && !graph.planning() ? found.dtype : narrow ? Dtype::float32 : Dtype::float64;
  // float32 products measure a sigma to about 1e-7 sigma_1; a float64 Gram matrix knows it better.
  pass.measure = !(gram && last == Dtype::float32);
  source->finish(graph, pass, scores, last);
  result = {};
  result.method = choice.method;
  result.passes = choice.passes;
  if (graph.planning()) return;
  if (!gram) result.passes += found.applications - krylov_steps(options.k, choice.block, source->side, options.tol);
  fill_result(*source, pass, result);
}

}  // namespace flagstone::spectral
