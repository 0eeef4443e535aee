#include "flagstone/flash/gemm.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "flagstone/algorithms/linalg/matmul.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/flash/stored_matrix.hpp"

namespace flagstone::flash {
namespace {

linalg::Operand operand(const Stored& x, Transpose op) {
  return {array_of(x), op != Transpose::none, op == Transpose::conjugate && is_complex(x.dtype)};
}

}  // namespace

Statistics gemm(Runtime& runtime, const GemmCall& call) {
  if (call.m < 0 || call.n < 0 || call.k < 0)
    throw ShapeError("gemm: m, n, k are " + std::to_string(call.m) + ", " + std::to_string(call.n) + ", " +
                     std::to_string(call.k) + "; they must not be negative.");
  const bool column_major = call.order == Order::column_major;
  const auto stored = [&](const char* name, const MatrixArgument& x, Transpose op, Index rows, Index cols) {
    if ((op != Transpose::none) != column_major) std::swap(rows, cols);  // columns are rows of the transpose
    const Stored made{name, x.place, rows, cols, x.leading, call.dtype};
    check("gemm", made, column_major);
    return made;
  };
  Stored a = stored("a", call.a, call.transa, call.m, call.k);
  Stored b = stored("b", call.b, call.transb, call.k, call.n);
  const Stored c = stored("c", call.c, Transpose::none, call.m, call.n);
  if (call.m == 0 || call.n == 0) return {};
  if (c.place.file && !c.place.file->writable())
    throw StorageError("gemm: C is mapped for reading; map it with update", EROFS, c.place.file->path());
  const Array target = array_of(c);
  if (overlap(a, c)) a = copied(runtime, "gemm", a);
  if (overlap(b, c)) b = copied(runtime, "gemm", b);
  // In columns: C' = op(B)' op(A)' with everything stored in rows.
  linalg::Operand left = operand(a, call.transa), right = operand(b, call.transb);
  if (column_major) std::swap(left, right);
  return runtime.run([&](Graph& graph) {
    linalg::matmul(graph, left, right, nullptr, target, {.alpha = call.alpha, .beta = call.beta, .in_place = true});
  });
}

}  // namespace flagstone::flash
