#include "flagstone/flash/gemm.hpp"

#include <algorithm>

#include "flagstone/algorithms/linalg/matmul.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::flash {
namespace {

/// A copy in a nameless file of the scratch directory. Cost: one read and one write of `x`.
StoredMatrix copied(Runtime& runtime, const StoredMatrix& x) {
  const std::uint64_t line = static_cast<std::uint64_t>(x.length) * x.item();
  StoredMatrix copy = x;
  copy.leading = x.length;
  copy.place = {FlashFile::temporary(runtime.scratch("gemm"), line * static_cast<std::uint64_t>(x.lines)), 0, nullptr};
  const Array from = x.lines_as_rows(), to = copy.lines_as_rows();
  const Index step = static_cast<Index>(std::max<std::uint64_t>(1, 2 * MiB / line));
  runtime.run([&](Graph& graph) {
    graph.trust_order(true);
    for (Index i = 0; i < x.lines; i += step) {
      const Box box{{i, 0}, {std::min(step, x.lines - i), x.length}};
      TaskSpec task;
      task.name = "copy";
      task.accesses = {read({from, box}), write({to, box})};
      task.calls = {call::copy(from.dtype(), {0}, {1})};
      graph.add(std::move(task));
    }
  });
  return copy;
}

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
