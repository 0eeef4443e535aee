#include "flagstone/algorithms/eigenpairs/svds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::spectral {
namespace {

constexpr std::uint64_t chunk_bytes_wanted = 4 * MiB;

Operator operator_of(const SvdsInput& a) {
  if (a.sparse) return a.right() ? gram_operator(*a.sparse) : outer_operator(*a.sparse);
  return gram_operator(DensePanels(*a.dense, a.transpose));
}

/// other := A X of the found side's vectors (X already divided by σ), z += Aᴴ other.
void last_pass(Graph& graph, const SvdsInput& a, const Array& x, const Array& other, const Array& z) {
  if (!a.sparse) return dense_gram_multiply(graph, DensePanels(*a.dense, a.transpose), {}, x, z, &other, nullptr);
  if (a.right()) return sparse::multiply_and_project(graph, *a.sparse, x, nullptr, other, z);
  const Array between = graph.allocate(other.shape(), a.dtype());
  sparse::multiply_transposed(graph, conjugated(*a.sparse), x, nullptr, between);
  graph.barrier();
  sparse::multiply(graph, *a.sparse, between, nullptr, z);
  const Array rows = again_as(between);
  const Index step = other.chunks()[0], k = other.shape()[1];
  for (Index i = 0; i < other.shape()[0]; i += step) {
    const Box box{{i, 0}, {std::min(step, other.shape()[0] - i), k}};
    TaskSpec task;
    task.name = "vectors";
    task.accesses = {read({rows, box}), write({other, box})};
    task.calls = {call::copy(a.dtype(), {0}, {1})};
    task.cost.bytes_touched = 2.0 * static_cast<double>(size_of(a.dtype())) * static_cast<double>(count(box.shape));
    graph.add(std::move(task));
  }
  graph.barrier();
}

}  // namespace

bool SvdsInput::right() const {
  if (!sparse) return DensePanels(*dense, transpose).tall;
  return cols() <= 4 * rows();
}

Shape SvdsInput::chunks(Index k) const {
  if (!sparse) {
    const DensePanels panels(*dense, transpose);
    return {std::min(panels.extent, panels.step), k};
  }
  if (right()) return {std::min(rows(), sparse->panel_rows()), k};
  const auto fit = static_cast<Index>(chunk_bytes_wanted / (size_of(dtype()) * static_cast<std::uint64_t>(k)));
  return {std::clamp<Index>(fit, 1, cols()), k};
}

void svds(Graph& graph, const SvdsInput& a, const EigshOptions& options, const Array& other, SvdsResult& result) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  const Operator op = operator_of(a);
  const Index side = op.n, k = options.solver.k;
  const auto item = static_cast<Index>(size_of(a.dtype())), parts = item / 8;  // real numbers of an element
  const Charge kept =
      graph.charge(static_cast<std::uint64_t>(item * side * k));  // the vectors outlive the run's arrays
  SchurPairs pairs;
  const Array found = graph.allocate({side, k}, a.dtype());
  {
    Stages stages(graph, options.checkpoint);
    BlockKrylovSchur solver(graph, op, saving(options, stages));
    pairs = solver.solve();
    solver.vectors(pairs, again_as(found));
    graph.barrier();
  }
  const Array x = graph.allocate({side, k}, a.dtype()), z = graph.allocate({side, k}, a.dtype());
  std::vector<double> sigma(k), inverse(k, 0.0);
  const auto numbers = [](const Array& array) { return reinterpret_cast<double*>(array.store().memory()); };
  if (!graph.planning()) {
    for (Index j = 0; j < k; ++j) {
      sigma[j] = std::sqrt(std::max(0.0, pairs.values[j]));
      if (sigma[j] > least_sigma * sigma[0]) inverse[j] = 1 / sigma[j];
    }
    for (Index i = 0; i < side * k * parts; ++i) numbers(x)[i] = numbers(found)[i] * inverse[i / parts % k];
  }
  last_pass(graph, a, x, other, z);
  graph.barrier();
  static_cast<EigshResult&>(result) = {.values = sigma, .method = options.method};
  result.applications = pairs.applications + 1, result.passes = a.reads() * (pairs.applications + 1);
  result.converged = true, result.verified = pairs.verified;
  result.block = options.solver.block, result.ncv = options.solver.ncv;
  if (graph.planning()) return;
  const double rounding = 64 * std::numeric_limits<double>::epsilon() * sigma[0] * sigma[0];
  for (Index j = 0; j < k; ++j) {
    double square = 0;
    for (Index i = 0; i < side; ++i)
      for (Index part = 0; part < parts; ++part) {
        const Index at = (i * k + j) * parts + part;
        const double off = numbers(z)[at] - sigma[j] * numbers(found)[at];
        square += off * off;
      }
    result.residuals.push_back(std::sqrt(square));
    if (inverse[j] > 0 && result.residuals[j] > std::max(options.solver.tol * sigma[j], rounding / sigma[j]))
      result.converged = false;
  }
  result.converged = result.converged || options.solver.passes > 0;
  result.vectors.assign(numbers(found), numbers(found) + side * k * parts);
}

}  // namespace flagstone::spectral
