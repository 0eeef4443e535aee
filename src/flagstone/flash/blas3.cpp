#include "flagstone/flash/blas3.hpp"

#include <optional>
#include <string>

#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/algorithms/linalg/rank_k.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::flash {
namespace {

constexpr Order turned(Order order) { return order == Order::row_major ? Order::column_major : Order::row_major; }

/// The transposed matrix, at the same place.
StoredMatrix transposed(StoredMatrix x) {
  x.order = turned(x.order);
  return x;
}

}  // namespace

Statistics trsm(Runtime& runtime, const TrsmCall& call) {
  check_extents("trsm", {{"m", call.m}, {"n", call.n}});
  const bool left = call.side == Side::left;
  const Index edge = left ? call.m : call.n;
  const StoredMatrix a("trsm", "a", call.order, call.a, edge, edge, call.dtype);
  const StoredMatrix given("trsm", "b", call.order, call.b, call.m, call.n, call.dtype);
  check_written(given, a);
  if (call.m == 0 || call.n == 0) return {};
  // X op(A) = B is op(A)ᵀ Xᵀ = Bᵀ.
  const bool turn = (call.transa != Transpose::none) == left;
  const bool conjugate = call.transa == Transpose::conjugate && is_complex(call.dtype);
  const linalg::TriangularOperand t{
      {a.matrix(), turn, conjugate}, (call.uplo == Uplo::lower) != turn, call.diagonal == Diagonal::unit};
  const Array x = (left ? given : transposed(given)).matrix();
  return runtime.run(
      [&](Graph& graph) { linalg::substitute(graph, "trsm", {t}, {x}, x, nullptr, std::nullopt, call.alpha); });
}

Statistics rank_k(Runtime& runtime, const RankKCall& call) {
  check_extents(call.who, {{"n", call.n}, {"k", call.k}});
  const bool plain = call.trans == Transpose::none;
  const StoredMatrix a(call.who, "a", call.order, call.a, plain ? call.n : call.k, plain ? call.k : call.n, call.dtype);
  const StoredMatrix c(call.who, "c", call.order, call.c, call.n, call.n, call.dtype);
  if (!plain && is_complex(call.dtype) && call.hermitian != (call.trans == Transpose::conjugate))
    throw ShapeError(std::string(call.who) + ": trans is not the one of this product; none or " +
                     (call.hermitian ? "conjugate" : "plain") + " is needed.");
  check_written(c, a);
  if (call.n == 0) return {};
  // The upper triangle of C is the lower one of Cᵀ = alpha conj(A) Aᵀ + beta Cᵀ.
  const bool upper = call.uplo == Uplo::upper;
  const Array target = (upper ? transposed(c) : c).matrix();
  const bool conjugate = is_complex(call.dtype) && upper == plain;  // Aᴴ A is the product of Aᴴ and its adjoint
  return runtime.run([&](Graph& graph) {
    const linalg::RankKOptions options{.alpha = call.k == 0 ? 0.0 : call.alpha,
                                       .beta = call.beta,
                                       .hermitian = call.hermitian,
                                       .half = linalg::Half::lower,
                                       .in_place = true};
    const linalg::Operand x = call.k == 0 ? linalg::Operand{graph.allocate({call.n, 1}, call.dtype)}
                                          : linalg::Operand{a.matrix(), !plain, conjugate};
    linalg::rank_k(graph, x, nullptr, nullptr, target, options);
  });
}

}  // namespace flagstone::flash
