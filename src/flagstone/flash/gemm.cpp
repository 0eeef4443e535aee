#include "flagstone/flash/gemm.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "flagstone/algorithms/linalg/matmul.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::flash {
namespace {

/// One argument as it is stored, in rows.
struct Stored {
  const char* name;
  Place place;
  Index rows, cols, leading;
  Dtype dtype;

  std::uint64_t item() const { return size_of(dtype); }
  std::uint64_t begin() const {
    return place.file ? place.offset : static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place.memory));
  }
  std::uint64_t end() const {
    if (rows == 0 || cols == 0) return begin();
    return begin() + static_cast<std::uint64_t>((rows - 1) * leading + cols) * item();
  }
  std::string text() const { return std::to_string(rows) + " x " + std::to_string(cols); }
};

void check(const Stored& x, bool column_major) {
  if (x.leading < std::max<Index>(1, x.cols))
    throw ShapeError(std::string("gemm: ld") + x.name + " is " + std::to_string(x.leading) + " and a stored " +
                     (column_major ? "column" : "row") + " of " + x.name + " has " + std::to_string(x.cols) +
                     " elements; ld" + x.name + " must be at least that and 1.");
  if (!x.place.file && !x.place.memory && x.rows > 0 && x.cols > 0)
    throw ShapeError(std::string("gemm: ") + x.name + " is a null pointer and holds " + x.text() +
                     " elements; map a file or allocate it first.");
}

Array array_of(const Stored& x) {
  if (x.place.file)
    return x.place.file->array(
        {.shape = {x.rows, x.cols}, .dtype = x.dtype, .offset = x.place.offset, .leading = x.leading});
  const auto item = static_cast<Index>(x.item());
  return memory_array(x.place.memory, {x.rows, x.cols}, x.dtype, {x.leading * item, item});
}

bool same_place(const Stored& a, const Stored& b) {
  if (!a.place.file || !b.place.file) return !a.place.file && !b.place.file;
  return a.place.file->same_file(*b.place.file);
}

/// Do [begin, begin + length) of the two, modulo `period`, meet?
bool meet_modulo(std::uint64_t a, std::uint64_t a_length, std::uint64_t b, std::uint64_t b_length,
                 std::uint64_t period) {
  const std::uint64_t ahead = (b % period + period - a % period) % period;  // from a to the next b
  return ahead < a_length || period - ahead < b_length;
}

/// Do any of their bytes coincide? Exact for rows of one pitch (blocks of one matrix), else by their extents.
bool overlap(const Stored& a, const Stored& b) {
  if (!same_place(a, b) || a.begin() >= b.end() || b.begin() >= a.end()) return false;
  if (a.leading != b.leading || a.item() != b.item()) return true;
  return meet_modulo(a.begin(), static_cast<std::uint64_t>(a.cols) * a.item(), b.begin(),
                     static_cast<std::uint64_t>(b.cols) * b.item(), static_cast<std::uint64_t>(a.leading) * a.item());
}

/// A copy in a nameless file of the scratch directory. Cost: one read and one write of `x`.
Stored copied(Runtime& runtime, const Stored& x) {
  const std::uint64_t row = static_cast<std::uint64_t>(x.cols) * x.item();
  Stored copy = x;
  copy.leading = x.cols;
  copy.place = {FlashFile::temporary(runtime.scratch("gemm"), row * static_cast<std::uint64_t>(x.rows)), 0, nullptr};
  const Array from = array_of(x), to = array_of(copy);
  const Index step = static_cast<Index>(std::max<std::uint64_t>(1, 2 * MiB / row));
  runtime.run([&](Graph& graph) {
    graph.trust_order(true);
    for (Index i = 0; i < x.rows; i += step) {
      const Box box{{i, 0}, {std::min(step, x.rows - i), x.cols}};
      TaskSpec task;
      task.name = "copy";
      task.accesses = {read({from, box}), write({to, box})};
      task.calls = {call::copy(from.dtype(), {0}, {1})};
      graph.add(std::move(task));
    }
  });
  return copy;
}

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
    check(made, column_major);
    return made;
  };
  Stored a = stored("a", call.a, call.transa, call.m, call.k);
  Stored b = stored("b", call.b, call.transb, call.k, call.n);
  const Stored c = stored("c", call.c, Transpose::none, call.m, call.n);
  if (call.m == 0 || call.n == 0) return {};
  if (c.place.file && !c.place.file->writable())
    throw StorageError("gemm: C is mapped for reading; map it with update", EROFS, c.place.file->path());
  const Array target = array_of(c);
  if (overlap(a, c)) a = copied(runtime, a);
  if (overlap(b, c)) b = copied(runtime, b);
  // In columns: C' = op(B)' op(A)' with everything stored in rows.
  linalg::Operand left = operand(a, call.transa), right = operand(b, call.transb);
  if (column_major) std::swap(left, right);
  return runtime.run([&](Graph& graph) {
    linalg::matmul(graph, left, right, nullptr, target, {.alpha = call.alpha, .beta = call.beta, .in_place = true});
  });
}

}  // namespace flagstone::flash
