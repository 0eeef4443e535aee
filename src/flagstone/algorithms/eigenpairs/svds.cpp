#include "flagstone/algorithms/eigenpairs/svds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::spectral {
namespace {

constexpr std::uint64_t chunk_bytes_wanted = 4 * MiB, held_bytes = 64 * MiB;

Operator operator_of(const SvdsInput& a) {
  if (a.sparse) return a.right() ? gram_operator(*a.sparse) : outer_operator(*a.sparse);
  return gram_operator(DensePanels(*a.dense, a.transpose));
}

/// Columns [col, col + w) of other := A X of the found side's vectors (X already divided by σ), z += Aᴴ other.
void last_pass(Graph& graph, const SvdsInput& a, const Array& x, const Array& other, Index col, const Array& z) {
  if (!a.sparse) return dense_gram_multiply(graph, DensePanels(*a.dense, a.transpose), {}, x, z, &other, nullptr);
  const Index width = x.shape()[1];
  if (a.right()) return sparse::multiply_and_project(graph, *a.sparse, x, nullptr, other, z, col);
  const Array between = graph.allocate({other.shape()[0], width}, a.dtype());
  sparse::multiply_transposed(graph, conjugated(*a.sparse), x, nullptr, between);
  graph.barrier();
  const Array rows = again_as(between);
  sparse::multiply(graph, *a.sparse, again_as(between), nullptr, z);
  const Index step = other.chunks()[0];
  for (Index i = 0; i < other.shape()[0]; i += step) {
    const Index height = std::min(step, other.shape()[0] - i);
    TaskSpec task;
    task.name = "vectors";
    task.accesses = {read({rows, {{i, 0}, {height, width}}}), write({other, {{i, col}, {height, width}}})};
    task.calls = {call::copy(a.dtype(), {0}, {1})};
    task.cost.bytes_touched = 2.0 * static_cast<double>(size_of(a.dtype())) * static_cast<double>(height * width);
    graph.add(std::move(task));
  }
  graph.barrier();
}

double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }

/// x := columns [col, col + w) of the found vectors, each times its factor.
void load_scaled(Graph& graph, const Array& found, Index col, const std::vector<double>& factors, const Array& x) {
  const Array target = again_as(x);
  const Index step = found.chunks()[0], width = x.shape()[1], k = found.shape()[1];
  for (Index i = 0; i < found.shape()[0]; i += step) {
    const Index height = std::min(step, found.shape()[0] - i);
    TaskSpec task;
    task.name = "load_vectors";
    task.accesses = {read({found, {{i, 0}, {height, k}}}), write({target, {{i, 0}, {height, width}}})};
    task.body = [=](std::span<const Tile> tiles) {
      const Index parts = static_cast<Index>(size_of(x.dtype())) / 8;  // real numbers of an element
      for (Index row = 0; row < height; ++row) {
        const auto* from = reinterpret_cast<const double*>(tiles[0].data + row * tiles[0].strides[0]) + col * parts;
        auto* to = reinterpret_cast<double*>(tiles[1].data + row * tiles[1].strides[0]);
        for (Index j = 0; j < width * parts; ++j) to[j] = from[j] * factors[static_cast<std::size_t>(col + j / parts)];
      }
    };
    task.cost.bytes_touched = 2.0 * static_cast<double>(size_of(x.dtype())) * static_cast<double>(height * width);
    graph.add(std::move(task));
  }
  graph.barrier();
}

/// ‖z - σ v‖ of each column, where x is v / σ; of a σ that is not told from 0 σ itself. A is in units of 2^exponent, so
/// that squares are in range.
void add_residuals(const Array& x, const Array& z, Index col, const std::vector<double>& sigma, int exponent,
                   std::vector<double>& residuals) {
  const double unit = std::ldexp(1.0, -exponent);
  const Index side = x.shape()[0], width = x.shape()[1], parts = static_cast<Index>(size_of(x.dtype())) / 8;
  for (Index j = 0; j < width; ++j) {
    const double value = sigma[static_cast<std::size_t>(col + j)];
    double square = 0;
    for (Index i = 0; i < side; ++i)
      for (Index part = 0; part < parts; ++part) {
        const Index at = (i * width + j) * parts + part;
        const double off = (numbers(z)[at] - value * (numbers(x)[at] * value)) * unit;
        square += off * off;
      }
    residuals.push_back(value > least_sigma * sigma[0] ? std::ldexp(std::sqrt(square), exponent) : value);
  }
}

}  // namespace

bool SvdsInput::right() const {
  if (!sparse) return DensePanels(*dense, transpose).tall;
  return cols() <= 4 * rows();
}

Index SvdsInput::width(Index k, Index block) const {
  if (!sparse || sparse->rows) return k;
  const auto held = static_cast<Index>(size_of(dtype())) * std::max<Index>(1, cols());
  const Index fit = static_cast<Index>(held_bytes) / held;
  return std::min(k, std::max<Index>(std::max<Index>(16, block), fit / 16 * 16));
}

Shape SvdsInput::chunks(Index k, Index block) const {
  if (!sparse) {
    const DensePanels panels(*dense, transpose);
    return {std::min(panels.extent, panels.step), k};
  }
  const Index wide = width(k, block);
  if (right()) return {std::min(rows(), sparse->panel_rows()), wide};
  const auto fit = static_cast<Index>(chunk_bytes_wanted / (size_of(dtype()) * static_cast<std::uint64_t>(wide)));
  return {std::clamp<Index>(fit, 1, cols()), wide};
}

void svds(Graph& graph, const SvdsInput& a, const EigshOptions& options, const Array& found, const Array& other,
          SvdsResult& result) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  const Operator op = operator_of(a);
  const Index side = op.n, k = options.solver.k, width = a.width(k, options.solver.block);
  SchurPairs pairs;
  {
    Stages stages(graph, options.checkpoint);
    BlockKrylovSchur solver(graph, op, saving(options, stages));
    pairs = solver.solve();
    solver.vectors(pairs, found);
    graph.barrier();
  }
  const int half = pairs.exponent / 2;  // of AᵀA: even
  std::vector<double> sigma(static_cast<std::size_t>(k)), inverse(sigma.size(), 0.0), residuals;
  for (std::size_t j = 0; j < sigma.size() && !graph.planning(); ++j) {
    sigma[j] = std::ldexp(std::sqrt(std::max(0.0, pairs.values[j])), half);
    if (sigma[j] > least_sigma * sigma[0]) inverse[j] = 1 / sigma[j];
  }
  for (Index col = 0; col < k; col += width) {
    const Index cols = std::min(width, k - col);
    const Array x = graph.allocate({side, cols}, a.dtype()), z = graph.allocate({side, cols}, a.dtype());
    load_scaled(graph, found, col, inverse, x);
    last_pass(graph, a, x, other, col, z);
    graph.barrier();
    if (!graph.planning()) add_residuals(x, z, col, sigma, half, residuals);
  }
  const int last = static_cast<int>(ceil_div(k, width));
  result = {.values = sigma, .residuals = residuals, .method = options.method};
  result.applications = pairs.applications + last, result.passes = a.reads() * result.applications;
  result.converged = true, result.verified = pairs.verified;
  result.block = options.solver.block, result.ncv = options.solver.ncv;
  const double rounding = 64 * std::numeric_limits<double>::epsilon() * sigma[0];
  for (std::size_t j = 0; j < residuals.size(); ++j)
    if (inverse[j] > 0 && residuals[j] > std::max(options.solver.tol * sigma[j], rounding * (sigma[0] / sigma[j])))
      result.converged = false;
  result.converged = result.converged || options.solver.passes > 0;
}

}  // namespace flagstone::spectral
