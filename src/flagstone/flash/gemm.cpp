#include "flagstone/flash/gemm.hpp"

#include <utility>

#include "flagstone/algorithms/linalg/matmul.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::flash {
namespace {

/// As if lines were rows.
linalg::Operand operand(const StoredMatrix& x, Transpose op) {
  return {x.lines_as_rows(), op != Transpose::none, op == Transpose::conjugate && is_complex(x.dtype)};
}

}  // namespace

Statistics gemm(Runtime& runtime, const GemmCall& call) {
  check_extents("gemm", {{"m", call.m}, {"n", call.n}, {"k", call.k}});
  const auto stored = [&](const char* name, const MatrixArgument& x, Transpose op, Index rows, Index cols) {
    if (op != Transpose::none) std::swap(rows, cols);
    return StoredMatrix("gemm", name, call.order, x, rows, cols, call.dtype);
  };
  StoredMatrix a = stored("a", call.a, call.transa, call.m, call.k);
  StoredMatrix b = stored("b", call.b, call.transb, call.k, call.n);
  const StoredMatrix c = stored("c", call.c, Transpose::none, call.m, call.n);
  if (call.m == 0 || call.n == 0) return {};
  c.check_writable();
  const Array target = c.lines_as_rows();
  if (overlap(a, c)) a = copied(runtime, a);
  if (overlap(b, c)) b = copied(runtime, b);
  // In columns: C' = op(B)' op(A)' with everything stored in rows.
  linalg::Operand left = operand(a, call.transa), right = operand(b, call.transb);
  if (call.order == Order::column_major) std::swap(left, right);
  return runtime.run([&](Graph& graph) {
    linalg::matmul(graph, left, right, nullptr, target, {.alpha = call.alpha, .beta = call.beta, .in_place = true});
  });
}

}  // namespace flagstone::flash
