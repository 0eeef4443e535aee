#include "flagstone/flash/lapack.hpp"

#include <algorithm>
#include <optional>

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/factor/lu_transposed.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::flash {
namespace {

/// A and B of a call, checked.
struct System {
  System(const char* who, const SystemCall& call, bool factors, bool solves)
      : who(who), n(call.n), nrhs(solves ? call.nrhs : 0) {
    check_extents(who, {{"n", call.n}, {"nrhs", nrhs}});
    const StoredMatrix stored_a(who, "a", call.order, call.a, n, n, call.dtype);
    if (factors) stored_a.check_writable();
    if (n == 0) return;
    a = stored_a.matrix();
    if (!solves) return;
    const StoredMatrix stored_b(who, "b", call.order, call.b, n, nrhs, call.dtype);
    check_written(stored_b, stored_a);
    if (nrhs > 0) b = stored_b.matrix();
  }

  const char* who;
  Index n, nrhs;
  Array a, b;
};

void factor(Graph& graph, const System& s, Uplo uplo) {
  const linalg::Operand a{s.a, uplo == Uplo::upper};  // U is Lᵀ of Aᵀ = L Lᴴ
  linalg::cholesky(graph, a, a, {});
}

void solve(Graph& graph, const System& s, Uplo uplo) {
  const linalg::TriangularOperand factor{{s.a}, uplo == Uplo::lower}, other = linalg::adjoint(factor);
  const auto& first = uplo == Uplo::lower ? factor : other;
  const auto& second = uplo == Uplo::lower ? other : factor;
  linalg::substitute(graph, s.who, {first, second}, {s.b}, s.b);
}

linalg::LuColumns columns(const System& s) { return {s.a, linalg::lu_tile(s.n)}; }

/// Rows counted from 0, as the algorithm has them.
Array pivots_from(Graph& graph, const Index* ipiv, Index n) {
  const Array pivots = graph.allocate({n}, Dtype::int64);
  if (!graph.planning())
    std::transform(ipiv, ipiv + n, elements_of<Index>(pivots).begin(), [](Index row) { return row - 1; });
  return pivots;
}

void check_pivots(const char* who, const Index* ipiv, Index n, bool given) {
  if (n > 0 && !ipiv)
    throw ShapeError(std::string(who) + ": ipiv is a null pointer; give room for " + std::to_string(n) +
                     " row numbers.");
  for (Index i = 0; given && i < n; ++i)
    if (ipiv[i] <= i || ipiv[i] > n)
      throw ShapeError(std::string(who) + ": ipiv[" + std::to_string(i) + "] is " + std::to_string(ipiv[i]) +
                       "; a row from " + std::to_string(i + 1) + " to " + std::to_string(n) +
                       " is needed, as getrf gives it.");
}

void factor(Graph& graph, const System& s, const Array& pivots) {
  linalg::lu(graph, s.who, {s.a}, columns(s), pivots, {});
}

void solve(Graph& graph, const System& s, const Array& pivots, Transpose trans) {
  const auto rows = linalg::RowOrder::lapack;
  if (trans == Transpose::none)
    linalg::lu_solve(graph, s.who, columns(s), pivots, rows, {s.b}, s.b);
  else
    linalg::lu_solve_transposed(graph, s.who, columns(s), pivots, rows, trans == Transpose::conjugate, {s.b}, s.b);
}

/// The factorization, and a solve after it, where there is something to solve.
Statistics factored(Runtime& runtime, const System& s, Index* ipiv) {
  check_pivots(s.who, ipiv, s.n, false);
  if (s.n == 0) return {};
  const Array pivots = memory_array(ipiv, {s.n});
  const Statistics done = runtime.run([&](Graph& graph) {
    factor(graph, s, pivots);
    if (s.nrhs > 0) solve(graph, s, pivots, Transpose::none);
  });
  for (Index i = 0; i < s.n; ++i) ++ipiv[i];
  return done;
}

}  // namespace

Statistics potrf(Runtime& runtime, Uplo uplo, const SystemCall& call) {
  const System s("potrf", call, true, false);
  if (s.n == 0) return {};
  return runtime.run([&](Graph& graph) { factor(graph, s, uplo); });
}

Statistics potrs(Runtime& runtime, Uplo uplo, const SystemCall& call) {
  const System s("potrs", call, false, true);
  if (s.n == 0 || s.nrhs == 0) return {};
  return runtime.run([&](Graph& graph) { solve(graph, s, uplo); });
}

Statistics posv(Runtime& runtime, Uplo uplo, const SystemCall& call) {
  const System s("posv", call, true, true);
  if (s.n == 0) return {};
  return runtime.run([&](Graph& graph) {
    factor(graph, s, uplo);
    if (s.nrhs > 0) solve(graph, s, uplo);
  });
}

Statistics getrf(Runtime& runtime, const SystemCall& call, Index* ipiv) {
  return factored(runtime, System("getrf", call, true, false), ipiv);
}

Statistics getrs(Runtime& runtime, Transpose trans, const SystemCall& call, const Index* ipiv) {
  const System s("getrs", call, false, true);
  check_pivots("getrs", ipiv, s.n, true);
  if (s.n == 0 || s.nrhs == 0) return {};
  return runtime.run([&](Graph& graph) { solve(graph, s, pivots_from(graph, ipiv, s.n), trans); });
}

Statistics gesv(Runtime& runtime, const SystemCall& call, Index* ipiv) {
  return factored(runtime, System("gesv", call, true, true), ipiv);
}

}  // namespace flagstone::flash
