#include "flagstone/flash/blas3.hpp"

#include <optional>
#include <string>
#include <utility>

#include "flagstone/algorithms/factor/triangular_product.hpp"
#include "flagstone/algorithms/linalg/matmul.hpp"
#include "flagstone/algorithms/linalg/rank_k.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/lazy/structured_array.hpp"

namespace flagstone::flash {
namespace {

constexpr Order turned(Order order) { return order == Order::row_major ? Order::column_major : Order::row_major; }

/// The transposed matrix, at the same place.
StoredMatrix transposed(StoredMatrix x) {
  x.order = turned(x.order);
  return x;
}

/// op(A) X = B, or op(A) X: A as a triangle that stands to the left of X.
struct Triangular {
  Triangular(const char* who, const TrsmCall& call) {
    check_extents(who, {{"m", call.m}, {"n", call.n}});
    const bool left = call.side == Side::left;
    const Index edge = left ? call.m : call.n;
    const StoredMatrix a(who, "a", call.order, call.a, edge, edge, call.dtype);
    const StoredMatrix given(who, "b", call.order, call.b, call.m, call.n, call.dtype);
    check_written(given, a);
    if (call.m == 0 || call.n == 0) return;
    // X op(A) = B is op(A)ᵀ Xᵀ = Bᵀ.
    const bool turn = (call.transa != Transpose::none) == left;
    const bool conjugate = call.transa == Transpose::conjugate && is_complex(call.dtype);
    t = {{a.matrix(), turn, conjugate}, (call.uplo == Uplo::lower) != turn, call.diagonal == Diagonal::unit};
    x = (left ? given : transposed(given)).matrix();
  }

  linalg::TriangularOperand t;
  Array x;  // none: there is nothing to do
};

}  // namespace

Statistics trsm(Runtime& runtime, const TrsmCall& call) {
  const Triangular s("trsm", call);
  if (!s.x) return {};
  return runtime.run(
      [&](Graph& graph) { linalg::substitute(graph, "trsm", {s.t}, {s.x}, s.x, {.alpha = call.alpha}); });
}

Statistics trmm(Runtime& runtime, const TrsmCall& call) {
  const Triangular s("trmm", call);
  if (!s.x) return {};
  return runtime.run([&](Graph& graph) { linalg::triangular_product(graph, "trmm", s.t, s.x, call.alpha); });
}

Statistics rank_k(Runtime& runtime, const RankKCall& call) {
  check_extents(call.who, {{"n", call.n}, {"k", call.k}});
  const bool plain = call.trans == Transpose::none;
  const auto stored = [&](const char* name, const MatrixArgument& x) {
    return StoredMatrix(call.who, name, call.order, x, plain ? call.n : call.k, plain ? call.k : call.n, call.dtype);
  };
  const StoredMatrix a = stored("a", call.a), b = call.b ? stored("b", *call.b) : a;
  const StoredMatrix c(call.who, "c", call.order, call.c, call.n, call.n, call.dtype);
  if (!plain && is_complex(call.dtype) && call.hermitian != (call.trans == Transpose::conjugate))
    throw ShapeError(std::string(call.who) + ": trans is not the one of this product; none or " +
                     (call.hermitian ? "conjugate" : "plain") + " is needed.");
  check_written(c, a);
  check_written(c, b);
  if (call.n == 0) return {};
  // The upper triangle of C is the lower one of Cᵀ = alpha conj(A) Aᵀ + beta Cᵀ; of rank 2k, alpha conj(B) Aᵀ first.
  const bool upper = call.uplo == Uplo::upper;
  const Array target = (upper ? transposed(c) : c).matrix();
  const bool conjugate = call.hermitian && is_complex(call.dtype) && upper == plain;  // Aᴴ A is that of Aᴴ
  return runtime.run([&](Graph& graph) {
    const linalg::RankKOptions options{.alpha = call.k == 0               ? 0.0
                                                : upper && call.hermitian ? std::conj(call.alpha)
                                                                          : call.alpha,
                                       .beta = call.beta,
                                       .hermitian = call.hermitian,
                                       .half = linalg::Half::lower,
                                       .in_place = true};
    const auto operand = [&](const StoredMatrix& x) {
      return call.k == 0 ? linalg::Operand{graph.allocate({call.n, 1}, call.dtype)}
                         : linalg::Operand{x.matrix(), !plain, conjugate};
    };
    const linalg::Operand x = operand(a), y = call.b ? operand(b) : x;
    linalg::rank_k(graph, x, call.b ? &y : nullptr, nullptr, target, options);
  });
}

Statistics symm(Runtime& runtime, const SymmCall& call) {
  check_extents(call.who, {{"m", call.m}, {"n", call.n}});
  const bool left = call.side == Side::left, rows = call.order == Order::row_major;
  const Index edge = left ? call.m : call.n;
  StoredMatrix a(call.who, "a", call.order, call.a, edge, edge, call.dtype);
  StoredMatrix b(call.who, "b", call.order, call.b, call.m, call.n, call.dtype);
  const StoredMatrix c(call.who, "c", call.order, call.c, call.m, call.n, call.dtype);
  if (call.m == 0 || call.n == 0) return {};
  check_written(c, a);
  if (overlap(b, c)) b = copied(runtime, b);
  // In columns: Cᵀ = Bᵀ Aᵀ, and the lines of A are the rows of Aᵀ, whose triangle is the other one.
  const Structure::Kind kind = call.hermitian ? Structure::Kind::hermitian : Structure::Kind::symmetric;
  linalg::Operand x{structured_array(a.lines_as_rows(), {kind, (call.uplo == Uplo::lower) == rows})};
  linalg::Operand y{b.lines_as_rows()};
  if (left != rows) std::swap(x, y);
  const Array target = c.lines_as_rows();
  return runtime.run([&](Graph& graph) {
    linalg::matmul(graph, x, y, nullptr, target, {.alpha = call.alpha, .beta = call.beta, .in_place = true});
  });
}

}  // namespace flagstone::flash
