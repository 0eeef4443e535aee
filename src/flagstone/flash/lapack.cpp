#include "flagstone/flash/lapack.hpp"

#include <algorithm>
#include <optional>

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/factor/lu_transposed.hpp"
#include "flagstone/algorithms/factor/qr.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/base/bytes.hpp"
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
  linalg::cholesky(graph, a, a, {.who = s.who, .turned = uplo == Uplo::upper});
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

/// Rows [first, first + rows) of B.
StoredMatrix rows_of(const char* who, const LeastSquaresCall& call, Index first, Index rows) {
  MatrixArgument at = call.b;
  const Index before = call.order == Order::row_major ? first * at.leading : first;
  const std::uint64_t bytes = static_cast<std::uint64_t>(before) * size_of(call.dtype);
  at.place.offset += bytes;
  if (at.place.memory) at.place.memory += bytes;
  return {who, "b", call.order, at, rows, call.nrhs, call.dtype};
}

void zero_rows(Graph& graph, const Array& x) {
  if (count(x.shape()) == 0) return;
  const Index rows = x.shape()[0], cols = x.shape()[1];
  const Index step = std::max<Index>(1, static_cast<Index>(2 * MiB / size_of(x.dtype())) / cols);
  for (Index i = 0; i < rows; i += step) {
    TaskSpec task;
    task.name = "zero";
    task.accesses = {write({x, {{i, 0}, {std::min(step, rows - i), cols}}})};
    task.calls = {call::zero(x.dtype(), {0})};
    graph.add(std::move(task));
  }
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

Statistics getrf(Runtime& runtime, Index m, const SystemCall& call, Index* ipiv) {
  check_extents("getrf", {{"m", m}, {"n", call.n}});
  const Index least = std::min(m, call.n);
  const StoredMatrix a("getrf", "a", call.order, call.a, m, call.n, call.dtype);
  a.check_writable();
  check_pivots("getrf", ipiv, least, false);
  if (least == 0) return {};
  const Array matrix = a.matrix(), pivots = memory_array(ipiv, {least});
  const Statistics done = runtime.run([&](Graph& graph) {
    linalg::lu(graph, "getrf", {matrix}, {matrix, linalg::lu_tile(least)}, pivots, {});
  });
  for (Index i = 0; i < least; ++i) ++ipiv[i];
  return done;
}

Statistics gesv(Runtime& runtime, const SystemCall& call, Index* ipiv) {
  return factored(runtime, System("gesv", call, true, true), ipiv);
}

Statistics gels(Runtime& runtime, const LeastSquaresCall& call) {
  check_extents("gels", {{"m", call.m}, {"n", call.n}, {"nrhs", call.nrhs}});
  const StoredMatrix a("gels", "a", call.order, call.a, call.m, call.n, call.dtype);
  const bool plain = call.trans == Transpose::none, complex = is_complex(call.dtype);
  const Index rows = plain ? call.m : call.n, cols = plain ? call.n : call.m;
  const Index most = std::max(rows, cols), least = std::min(rows, cols);
  const StoredMatrix b = rows_of("gels", call, 0, most);
  check_written(b, a);
  if (call.nrhs == 0 || most == 0) return {};
  const bool tall = rows >= cols;
  linalg::Operand factored{a.matrix(), !plain, call.trans == Transpose::conjugate && complex};
  if (!tall) factored = {factored.array, !factored.transpose, complex && !factored.conjugate};
  const Array all = b.matrix(), top = rows_of("gels", call, 0, least).matrix();
  const Array below = rows_of("gels", call, least, most - least).matrix();
  const auto file = FlashFile::temporary(runtime.scratch("gels"), static_cast<std::uint64_t>(least * least) * a.item());
  const RawLayout layout{.shape = {least, least}, .dtype = call.dtype, .offset = 0, .leading = least};
  RawLayout turned = layout;
  turned.column_major = true;
  const linalg::Operand r{file->array(layout)};  // written in the tiles of the tree, read in those of a solve
  const linalg::TriangularOperand triangle{{file->array(turned), true}, false};
  return runtime.run([&](Graph& graph) {  // views of B and R overlap: one is written before another is read
    if (least == 0) return zero_rows(graph, all);
    const linalg::QrTree tree(most, least, call.dtype);
    const auto shapes = linalg::reflector_shapes(tree);
    const auto made = [&](std::size_t i) { return graph.temporary(shapes[i].first, call.dtype, shapes[i].second); };
    const linalg::Reflectors f{made(0), made(1), made(2)};
    linalg::qr_factor(graph, factored, f, &r, {.who = "gels", .turned = factored.transpose});
    if (tall) linalg::apply_q(graph, tree, f, {all}, true, {all}, {.who = "gels", .given = false});
    graph.drain();
    if (tall) return linalg::substitute(graph, "gels", {triangle}, {top}, top);
    linalg::substitute(graph, "gels", {linalg::adjoint(triangle)}, {top}, top);
    zero_rows(graph, below);
    graph.drain();
    linalg::apply_q(graph, tree, f, {all}, false, {all}, {.who = "gels", .given = false});
  });
}

}  // namespace flagstone::flash
