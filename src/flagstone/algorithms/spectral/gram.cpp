#include "flagstone/algorithms/spectral/gram.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/lapack.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::spectral {
namespace {

constexpr Index direct_side = 768;  // up to here LAPACK takes less than about 0.1 s
constexpr Index strip = 256;
constexpr double flops_per_second = 5e10;

double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }

bool direct(Index side, Index k) { return side <= direct_side || 4 * krylov_block(k, side) >= side; }
double inner_tol(double tol) { return std::clamp(tol / 100, 1e-10, 1e-7); }

KrylovResult by_lapack(Graph& graph, const Array& g, Index k) {
  const Index n = g.shape()[0];
  const Charge workspace = graph.charge(kernel::symmetric_eigen_bytes(n) + static_cast<std::uint64_t>(8 * n));
  KrylovResult result;
  result.vectors = graph.allocate({n, k}, Dtype::float64);
  const auto side = static_cast<double>(n);
  graph.host_work("eigen", {9 * side * side * side, 0, true});
  if (graph.planning()) return result;
  std::vector<double> values(n);
  if (kernel::symmetric_eigen(n, numbers(g), values.data()) != 0)
    throw NumericalError("pca: the eigenvalues of the Gram matrix did not converge; X may overflow, scale it down.");
  for (Index j = 0; j < k; ++j) {
    result.values.push_back(std::max(0.0, values[n - 1 - j]));
    for (Index i = 0; i < n; ++i) numbers(result.vectors)[i * k + j] = numbers(g)[(n - 1 - j) * n + i];
  }
  return result;
}

void mirror(double* g, Index n) {
  constexpr Index block = 64;
  for (Index i0 = 0; i0 < n; i0 += block)
    for (Index j0 = 0; j0 <= i0; j0 += block)
      for (Index i = i0; i < std::min(n, i0 + block); ++i)
        for (Index j = j0; j < std::min(i, j0 + block); ++j) g[j * n + i] = g[i * n + j];
}

/// Y := G X by row strips. The arrays are seen through handles of this call's own, whose boxes are the strips.
void multiply(Graph& graph, const Array& g, const Array& x, const Array& y) {
  const Index n = g.shape()[0], b = x.shape()[1];
  const auto alias = [](const Array& array) {
    return memory_array(array.store().memory(), array.shape(), array.dtype(), {});
  };
  const Array left = alias(g), right = alias(x), product = alias(y);
  for (Index i = 0; i < n; i += strip) {
    const Index rows = std::min(strip, n - i);
    TaskSpec task;
    task.name = "symm";
    task.accesses = {read({left, {{i, 0}, {rows, n}}}), read({right, whole(right.shape())}),
                     update({product, {{i, 0}, {rows, b}}})};
    task.cost = {2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(b), 0, true};
    task.calls = {call::gemm(Dtype::float64, 1.0, {0}, {1}, 1.0, {2})};
    task.calls[0].flops = task.cost.flops;
    graph.add(std::move(task));
  }
  graph.barrier();
}

KrylovOptions inner_options(Index side, Index k, double tol, std::uint64_t seed) {
  KrylovOptions options;
  options.k = k;
  options.block = krylov_block(k, side);
  options.tol = inner_tol(tol);
  options.seed = seed;
  options.steps = krylov_steps(k, options.block, side, options.tol);
  return options;
}

}  // namespace

KrylovResult gram_eigenpairs(Graph& graph, const Array& g, Index k, double tol, std::uint64_t seed) {
  const Index n = g.shape()[0];
  if (direct(n, k)) return by_lapack(graph, g, k);
  if (!graph.planning()) mirror(numbers(g), n);
  Operator op;
  op.n = n;
  op.apply = [&g](Graph& inner, const Array& x, const Array& y) { multiply(inner, g, x, y); };
  return block_krylov(graph, op, inner_options(n, k, tol, seed));
}

std::uint64_t gram_eigenpairs_bytes(Index side, Index k, double tol) {
  if (direct(side, k)) return kernel::symmetric_eigen_bytes(side) + static_cast<std::uint64_t>(8 * side * (k + 1));
  const KrylovOptions options = inner_options(side, k, tol, 0);
  return krylov_bytes(k, options.block, side, options.steps, Dtype::float64);
}

double gram_eigenpairs_seconds(Index side, Index k, double tol) {
  const auto n = static_cast<double>(side);
  if (direct(side, k)) return 9 * n * n * n / flops_per_second;
  const KrylovOptions options = inner_options(side, k, tol, 0);
  return options.steps * 2 * n * n * static_cast<double>(options.block) / flops_per_second;
}

}  // namespace flagstone::spectral
