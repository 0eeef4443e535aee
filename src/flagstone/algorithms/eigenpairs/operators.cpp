#include "flagstone/algorithms/eigenpairs/operators.hpp"

#include <algorithm>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/spectral/panel_basis.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::spectral {
namespace {

constexpr Index tile_side = 1024;               // 8 MiB of float64
constexpr std::uint64_t strip_bytes = 8 * MiB;  // rows that are read together

/// The tasks of one application of a dense matrix.
class DenseProduct {
 public:
  DenseProduct(Graph& graph, const Array& a, const Array& x, const Array& y)
      : graph_(graph), a_(a), x_(again_as(x)), y_(again_as(y)), n_(a.shape()[0]) {}

  /// Tiles on and below the diagonal, by diagonals: neighbours touch different rows of Y, so that workers do not wait
  /// for each other. Each Y_i takes its sums in that order.
  void triangle(Index side) {
    const Index tiles = ceil_div(n_, side);
    for (Index d = 0; d < tiles; ++d)
      for (Index j = 0; j + d < tiles; ++j) {
        const Box rows = rows_of(j + d, side), cols = rows_of(j, side);
        TaskSpec task = begin({{rows.start[0], cols.start[0]}, {rows.shape[0], cols.shape[0]}});
        multiply(task, {0}, cols, rows);
        if (d > 0) multiply(task, {0, true, true}, rows, cols);
        graph_.add(std::move(task));
      }
  }

  /// Whole rows of A; `tall`: whole columns, whose adjoint they are.
  void strips(Index height, bool tall) {
    for (Index i = 0; i < ceil_div(n_, height); ++i) {
      const Box rows = rows_of(i, height);
      const Shape across{rows.start[0], 0}, extent{rows.shape[0], n_};
      TaskSpec task = begin(tall ? Box{{0, across[0]}, {n_, extent[0]}} : Box{across, extent});
      multiply(task, {0, tall, tall}, {{0, 0}, x_.shape()}, rows);
      graph_.add(std::move(task));
    }
  }

 private:
  Box rows_of(Index i, Index height) const {
    return {{i * height, 0}, {std::min(height, n_ - i * height), x_.shape()[1]}};
  }
  TaskSpec begin(const Box& box) const {
    TaskSpec task;
    task.name = "hemm";
    task.accesses = {read({a_, box})};
    task.cost.float64 = true;
    return task;
  }
  /// Y[to] += op(A tile) X[from].
  void multiply(TaskSpec& task, TilePart a, const Box& from, const Box& to) const {
    const auto places = static_cast<std::uint32_t>(task.accesses.size());
    task.accesses.push_back(read({x_, from}));
    task.accesses.push_back(update({y_, to}));
    Call& call = task.calls.emplace_back(call::gemm(a_.dtype(), 1.0, std::move(a), {places}, 1.0, {places + 1}));
    call.flops = (is_complex(a_.dtype()) ? 8.0 : 2.0) * static_cast<double>(from.shape[0]) *
                 static_cast<double>(count(to.shape));
    task.cost.flops += call.flops;
  }

  Graph& graph_;
  const Array& a_;
  const Array x_, y_;
  const Index n_;
};

}  // namespace

Operator sparse_operator(const sparse::CsrOperand& a) {
  return {a.matrix.rows, [a](Graph& graph, const Array& x, const Array& y) {
            if (a.matrix.triangle)
              sparse::symmetric_multiply(graph, a, again_as(x), again_as(y));
            else
              sparse::multiply(graph, a, again_as(x), nullptr, again_as(y));
            graph.barrier();
          }};
}

Operator dense_operator(const Array& a) {
  return {a.shape()[0], [a](Graph& graph, const Array& x, const Array& y) {
            const Index n = a.shape()[0], rows = a.chunks()[0], cols = a.chunks()[1];
            DenseProduct product(graph, a, x, y);
            if (rows == cols && rows < n) {
              product.triangle(rows * std::max<Index>(1, tile_side / rows));
            } else {
              const auto fit = static_cast<Index>(strip_bytes / (static_cast<std::uint64_t>(n) * size_of(a.dtype())));
              const bool tall = cols < rows;
              const Index short_side = tall ? cols : rows, unit = short_side < n ? short_side : 1;
              product.strips(std::min(n, unit * std::max<Index>(1, fit / unit)), tall);
            }
            graph.barrier();
          }};
}

Operator gram_operator(const sparse::CsrOperand& a) {
  return {a.matrix.cols,
          [a](Graph& graph, const Array& x, const Array& y) {
            sparse::gram_multiply(graph, a, again_as(x), nullptr, again_as(y));
            graph.barrier();
          },
          true};
}

sparse::CsrOperand conjugated(sparse::CsrOperand a) {
  if (!is_complex(a.matrix.value_dtype())) return a;
  sparse::Transform transform = a.transform ? *a.transform : sparse::Transform{};
  transform.steps.push_back({sparse::Transform::Step::Kind::conjugate, {}});
  a.transform = std::make_shared<const sparse::Transform>(std::move(transform));
  return a;
}

Operator outer_operator(const sparse::CsrOperand& a) {
  return {a.matrix.rows,
          [a, turned = conjugated(a)](Graph& graph, const Array& x, const Array& y) {
            const Array between = graph.allocate({a.matrix.cols, x.shape()[1]}, x.dtype());
            sparse::multiply_transposed(graph, turned, again_as(x), nullptr, between);
            graph.barrier();
            sparse::multiply(graph, a, again_as(between), nullptr, again_as(y));
            graph.barrier();
          },
          true};
}

Operator gram_operator(const DensePanels& panels) {
  return {panels.side,
          [panels](Graph& graph, const Array& x, const Array& y) {
            dense_gram_multiply(graph, panels, {}, again_as(x), again_as(y), nullptr, nullptr);
            graph.barrier();
          },
          true};
}

Operator called_operator(Index n, Applied apply) {
  return {n, [apply = std::move(apply)](Graph& graph, const Array& x, const Array& y) {
            if (!graph.planning()) apply(x, y);
          }};
}

}  // namespace flagstone::spectral
