// A CSR matrix: G = XᵀX over the columns, whatever the shape, because rows stream.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/pca/source.hpp"
#include "flagstone/algorithms/pca/sparse_statistics.hpp"
#include "flagstone/algorithms/sparse/panel_reader.hpp"
#include "flagstone/algorithms/spectral/basis.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::spectral {
namespace {

double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }

class SparseSource final : public Source {
 public:
  SparseSource(Graph& graph, const sparse::CsrOperand& x, bool center, bool ahead) : x_(x), center_(center) {
    rows = x.matrix.rows, cols = x.matrix.cols, side = cols;
    mean.assign(cols, 0.0);
    if (center) shift_ = graph.allocate({1, cols}, Dtype::float64);
    if (const std::optional<CsrStatistics> known = sparse::known_statistics(x))
      take(graph, *known);
    else if (ahead)
      take(graph, stream_statistics(graph, x));
  }

  /// Where nobody knows the means the first product subtracts those of the first panel; it finds the others, and what
  /// it is off by comes out of it (`Centring` of a dense matrix). Where that cancels it is made again.
  void gram_multiply(Graph& graph, const Array& v, const Array& y) override {
    if (known_) {
      sparse::gram_multiply(graph, x_, v, shift(), y);
      graph.barrier();
      return;
    }
    if (center_) first_panel_means(graph);
    const Array moments = graph.allocate({2, cols}, Dtype::float64);
    const Charge vectors = graph.charge(8 * 3 * static_cast<std::uint64_t>(cols));  // what is found, and the offset
    sparse::gram_multiply(graph, x_, v, shift(), y, moments);
    graph.barrier();
    std::vector<double> offset = mean;
    take(graph, found_in(graph, moments));
    if (graph.planning() || !center_) return;
    for (Index j = 0; j < cols; ++j) offset[j] = mean[j] - offset[j];
    constexpr double most = 8;  // times what stays: three bits are lost
    if (cancellation(rows, offset, squares) <= most) return take_out(rows, offset, v, y);
    std::memset(y.store().memory(), 0, y.nbytes());
    gram_multiply(graph, v, y);
  }

  void list_parts(Graph& graph, StateParts& parts) override {
    if (!parts.loading() && !known_) return;
    parts.values("mean", mean);
    parts.value("squares", squares);
    if (!parts.loading()) return;
    known_ = true;
    if (center_ && !graph.planning()) std::copy(mean.begin(), mean.end(), numbers(shift_));
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

  void first_panel_means(Graph& graph) {
    const CsrStatistics first = stream_statistics(graph, x_, 1);
    check_finite(first);
    if (graph.planning() || x_.panels.empty()) return;
    const auto height = static_cast<double>(sparse::PanelReader(x_, x_.panels[0], Dtype::float64, false).rows());
    for (Index j = 0; j < cols; ++j) mean[j] = first.column_sums[j] / height;
    std::copy(mean.begin(), mean.end(), numbers(shift_));
  }
  CsrStatistics found_in(Graph& graph, const Array& moments) const {
    CsrStatistics found;
    if (graph.planning()) return found;
    const double* sums = numbers(moments);
    found.column_sums.assign(sums, sums + cols);
    found.column_squares.assign(sums + cols, sums + 2 * cols);
    found.sum_squares = std::accumulate(sums + cols, sums + 2 * cols, 0.0);
    // Where a value is not finite, its place is asked for; finite ones may overflow in squares alone.
    return std::isfinite(found.sum_squares) ? found : stream_statistics(graph, x_);
  }
  void take(Graph& graph, const CsrStatistics& statistics) {
    known_ = true;
    check_finite(statistics);
    if (graph.planning()) return;
    check_squares(statistics);
    const auto m = static_cast<double>(rows);
    squares = statistics.sum_squares;
    if (!center_) return;
    squares = 0;
    for (Index j = 0; j < cols; ++j) {
      mean[j] = statistics.column_sums[j] / m;
      squares += std::max(0.0, statistics.column_squares[j] - m * mean[j] * mean[j]);
    }
    std::copy(mean.begin(), mean.end(), numbers(shift_));
  }

  const sparse::CsrOperand& x_;
  bool center_, known_ = false;
  Array shift_;
};

}  // namespace

std::unique_ptr<Source> make_sparse_source(Graph& graph, const sparse::CsrOperand& x, bool center, bool ahead) {
  return std::make_unique<SparseSource>(graph, x, center, ahead);
}

}  // namespace flagstone::spectral
