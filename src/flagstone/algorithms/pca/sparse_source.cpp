// A CSR matrix: G = XᵀX over the columns, whatever the shape, because rows stream.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/pca/source.hpp"
#include "flagstone/algorithms/pca/sparse_statistics.hpp"
#include "flagstone/algorithms/spectral/basis.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::spectral {
namespace {

double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }

class SparseSource final : public Source {
 public:
  SparseSource(Graph& graph, const sparse::CsrOperand& x, bool center) : x_(x), center_(center) {
    rows = x.matrix.rows, cols = x.matrix.cols, side = cols;
    mean.assign(cols, 0.0);
    if (center) shift_ = graph.allocate({1, cols}, Dtype::float64);
    std::optional<CsrStatistics> statistics = sparse::known_statistics(x);
    if (!statistics) statistics = stream_statistics(graph, x);
    check_finite(*statistics);
    if (graph.planning()) return;
    check_squares(*statistics);
    const auto m = static_cast<double>(rows);
    squares = statistics->sum_squares;
    if (!center) return;
    squares = 0;
    for (Index j = 0; j < cols; ++j) {
      mean[j] = statistics->column_sums[j] / m;
      squares += std::max(0.0, statistics->column_squares[j] - m * mean[j] * mean[j]);
    }
    std::copy(mean.begin(), mean.end(), numbers(shift_));
  }

  void gram_multiply(Graph& graph, const Array& v, const Array& y) override {
    sparse::gram_multiply(graph, x_, v, shift(), y);
    graph.barrier();
  }

  void gram_matrix(Graph& graph, const Array& g) override {
    sparse::gram_matrix(graph, x_, g);
    graph.barrier();
    if (graph.planning() || !center_) return;
    double* to = numbers(g);
    for (Index i = 0; i < cols; ++i) {
      const double factor = static_cast<double>(rows) * mean[i];
      for (Index j = 0; j <= i; ++j) to[i * cols + j] -= factor * mean[j];
    }
  }

  void finish(Graph& graph, LastPass& pass, const Array& scores) override {
    const auto k = pass.vectors.shape()[1];
    if (!graph.planning()) fix_signs(pass, k);
    Array v = pass.vectors;
    if (pass.precision == Dtype::float32) {
      v = graph.allocate({cols, k}, Dtype::float32);
      if (!graph.planning()) {
        const Tile to{v.store().memory(), v.dtype(), v.shape(), v.store().memory_strides(), 0};
        kernel::convert(matrix(numbers(pass.vectors), cols, k), nullptr, to);
      }
    }
    const Array z = graph.allocate({cols, k}, Dtype::float64);
    sparse::multiply_and_project(graph, x_, v, shift(), scores, z);
    graph.barrier();
    if (!graph.planning()) measure_right(pass, numbers(z), cols, pass.precision == Dtype::float32 ? 1e-6 : 1e-13);
  }

 private:
  const Array* shift() const { return center_ ? &shift_ : nullptr; }
  void fix_signs(LastPass& pass, Index k) const {
    double* v = numbers(pass.vectors);
    for (Index j = 0; j < k; ++j) {
      const double sign = sign_of_component(cols, [&](Index i) { return v[i * k + j]; });
      for (Index i = 0; i < cols; ++i) v[i * k + j] *= sign;
    }
  }

  const sparse::CsrOperand& x_;
  bool center_;
  Array shift_;
};

}  // namespace

std::unique_ptr<Source> make_sparse_source(Graph& graph, const sparse::CsrOperand& x, bool center) {
  return std::make_unique<SparseSource>(graph, x, center);
}

}  // namespace flagstone::spectral
