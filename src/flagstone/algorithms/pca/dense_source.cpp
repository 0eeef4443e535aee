// A dense array: tall panels give XᵀX, wide ones XXᵀ, and the first pass finds means, variance and bad values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/operator/dense_operator.hpp"
#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/pca/source.hpp"
#include "flagstone/algorithms/spectral/basis.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/lapack.hpp"

namespace flagstone::spectral {
namespace {

double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }
Tile tile_of(const Array& array) {
  return {array.store().memory(), array.dtype(), array.shape(), array.store().memory_strides(), 0};
}

class DenseSource : public Source {
 public:
  DenseSource(const Array& x, bool transpose, bool center) : panels_(x, transpose) {
    rows = panels_.rows(), cols = panels_.cols(), side = panels_.side;
    mean.assign(cols, 0.0);
    centring_.center = center;
  }

  void gram_multiply(Graph& graph, const Array& v, const Array& y) override {
    const bool first = begin_first(graph);
    dense_gram_multiply(graph, panels_, centring_, v, y, nullptr, first ? &moments_ : nullptr);
    graph.barrier();
    if (!first) return;
    end_first(graph);
    if (!graph.planning() && panels_.tall && centring_.center) take_out(rows, offset_, v, y);
    recentre(graph);
  }

  void gram_matrix(Graph& graph, const Array& g) override {
    begin_first(graph);
    dense_gram_matrix(graph, panels_, centring_, g, &moments_);
    end_first(graph);
    if (!graph.planning() && panels_.tall && centring_.center) {
      double* to = numbers(g);
      for (Index i = 0; i < side; ++i)
        for (Index j = 0; j <= i; ++j) to[i * side + j] -= static_cast<double>(rows) * offset_[i] * offset_[j];
    }
    recentre(graph);
  }

  void list_parts(Graph& graph, StateParts& parts) override {
    seen_ = seen_ || parts.loading();
    if (!seen_) return;
    parts.values("mean", mean);
    parts.value("squares", squares);
    if (!parts.loading()) return;
    if (panels_.tall && centring_.center) centring_.shift = graph.allocate({1, cols}, Dtype::float64);
    recentre(graph);
  }

 protected:
  Array in_precision(Graph& graph, const LastPass& pass) const {
    if (pass.precision == Dtype::float64) return pass.vectors;
    const Array narrow = graph.allocate(pass.vectors.shape(), pass.precision);
    if (!graph.planning()) kernel::convert(tile_of(pass.vectors), nullptr, tile_of(narrow));
    return narrow;
  }

  DensePanels panels_;
  Centring centring_;

 private:
  /// The first pass subtracts the mean of the first panel; what it is off by comes out of the pass itself.
  bool begin_first(Graph& graph) {
    if (seen_) return false;
    seen_ = true;
    moments_ = {graph.allocate({1, cols}, Dtype::float64),
                graph.allocate({1, panels_.tall ? cols : 1}, Dtype::float64)};
    if (panels_.tall && centring_.center) {
      centring_.shift = graph.allocate({1, cols}, Dtype::float64);
      first_panel_means(graph, panels_, *centring_.shift);
    }
    return true;
  }
  void end_first(Graph& graph) {
    if (graph.planning()) return;
    const double* sums = numbers(moments_.sums);
    const double* seen = numbers(moments_.squares);
    const double total = std::accumulate(seen, seen + moments_.squares.shape()[1], 0.0);
    if (!std::isfinite(total)) {
      find_bad_value(graph, panels_);
      throw NumericalError("pca: the squares of X overflow float64; scale X down first.");
    }
    squares = total;
    // Constant columns have no squares either; what underflowed is small itself.
    if (total < least_squares) {
      const double largest = largest_magnitude(graph, panels_);
      if (largest > 0 && largest * largest < least_squares)
        throw NumericalError("pca: the squares of X underflow float64; scale X up first.");
    }
    if (!panels_.tall) {
      std::copy(sums, sums + cols, mean.begin());
      return;
    }
    if (!centring_.center) return;
    const double* shift = numbers(*centring_.shift);
    offset_.resize(cols);
    for (Index j = 0; j < cols; ++j) {
      offset_[j] = sums[j] / static_cast<double>(rows);
      mean[j] = shift[j] + offset_[j];
      squares -= static_cast<double>(rows) * offset_[j] * offset_[j];
    }
    squares = std::max(0.0, squares);
  }
  void recentre(Graph& graph) {
    moments_ = {};
    if (!graph.planning() && centring_.shift) std::copy(mean.begin(), mean.end(), numbers(*centring_.shift));
  }

  Moments moments_;
  std::vector<double> offset_;
  bool seen_ = false;
};

class TallSource final : public DenseSource {
 public:
  using DenseSource::DenseSource;

  void finish(Graph& graph, LastPass& pass, const Array& scores) override {
    const Index k = pass.vectors.shape()[1];
    if (!graph.planning()) {
      double* v = numbers(pass.vectors);
      for (Index j = 0; j < k; ++j) {
        const double sign = sign_of_component(cols, [&](Index i) { return v[i * k + j]; });
        for (Index i = 0; i < cols; ++i) v[i * k + j] *= sign;
      }
    }
    const Array v = in_precision(graph, pass);
    const Array z = graph.allocate({cols, k}, Dtype::float64);
    dense_gram_multiply(graph, panels_, centring_, v, z, &scores, nullptr);
    graph.barrier();
    if (!graph.planning()) measure_right(pass, numbers(z), cols, pass.precision == Dtype::float32 ? 1e-6 : 1e-13);
  }
};

class WideSource final : public DenseSource {
 public:
  using DenseSource::DenseSource;

  /// The vectors are u: T = Xᵀu is σ v, and X T is what u is checked against, because T / ‖T‖ satisfies the other
  /// residual by construction.
  void finish(Graph& graph, LastPass& pass, const Array& scores) override {
    const Index k = pass.vectors.shape()[1];
    const Array u = in_precision(graph, pass);
    const Array z = graph.allocate({rows, k}, Dtype::float64);
    const Array t = graph.allocate({cols, k}, Dtype::float64);
    dense_gram_multiply(graph, panels_, centring_, u, z, &t, nullptr);
    graph.barrier();
    const Array scaled = graph.allocate({rows, k}, Dtype::float64);
    if (!graph.planning()) measure_left(pass, numbers(z), numbers(t), numbers(scaled));
    const Index step = scores.chunks()[0];
    for (Index i = 0; i < rows; i += step) {
      const Box box{{i, 0}, {std::min(step, rows - i), k}};
      TaskSpec task;
      task.name = "scores";
      task.accesses = {read({scaled, box}), write({scores, box})};
      task.cost.bytes_touched = 12.0 * static_cast<double>(count(box.shape));
      task.calls = {call::convert(scores.dtype(), {0}, {1})};
      graph.add(std::move(task));
    }
    graph.barrier();
  }

 private:
  void measure_left(LastPass& pass, const double* z, double* t, double* scaled) const {
    const Index k = pass.vectors.shape()[1];
    const double rounding = pass.precision == Dtype::float32 ? 1e-6 : 1e-13;
    const double* u = numbers(pass.vectors);
    std::vector<double> length(k, 0.0);
    for (Index i = 0; i < cols; ++i)
      for (Index j = 0; j < k; ++j) length[j] += t[i * k + j] * t[i * k + j];
    for (Index j = 0; j < k; ++j) {
      length[j] = std::sqrt(length[j]);
      if (pass.measure) pass.sigma[j] = length[j];
      if (j > 0) pass.sigma[j] = std::min(pass.sigma[j], pass.sigma[j - 1]);
    }
    Index known = 0;  // components that are more than rounding
    while (known < k && pass.sigma[known] > rounding * pass.sigma[0]) ++known;
    for (Index i = 0; i < cols; ++i)
      for (Index j = 0; j < known; ++j) t[i * k + j] /= length[j];
    complete(t, k, known);
    pass.components.resize(static_cast<std::size_t>(k * cols));
    pass.residual.assign(k, 0.0);
    for (Index j = 0; j < k; ++j) {
      const double sign = sign_of_component(cols, [&](Index i) { return t[i * k + j]; });
      for (Index i = 0; i < cols; ++i) pass.components[j * cols + i] = sign * t[i * k + j];
      const double sigma = pass.sigma[j];
      for (Index i = 0; i < rows; ++i) {
        scaled[i * k + j] = sign * sigma * u[i * k + j];
        const double difference = j < known ? z[i * k + j] / sigma - sigma * u[i * k + j] : 0.0;
        pass.residual[j] += difference * difference;
      }
      pass.residual[j] = j < known ? std::sqrt(pass.residual[j]) : sigma;
    }
  }
  /// Where σ is 0 any unit vector orthogonal to the others is a component.
  void complete(double* t, Index k, Index known) const {
    std::mt19937_64 engine(1);
    for (Index j = known; j < k; ++j) {
      for (Index i = 0; i < cols; ++i) t[i * k + j] = static_cast<double>(engine() >> 11) * 0x1p-53 - 0.5;
      for (int round = 0; round < 3; ++round) {
        std::vector<double> c(j, 0.0);
        for (Index i = 0; i < cols; ++i)
          for (Index l = 0; l < j; ++l) c[l] += t[i * k + l] * t[i * k + j];
        double length = 0;
        for (Index i = 0; i < cols; ++i) {
          for (Index l = 0; l < j; ++l) t[i * k + j] -= c[l] * t[i * k + l];
          length += t[i * k + j] * t[i * k + j];
        }
        for (Index i = 0; i < cols; ++i) t[i * k + j] /= std::sqrt(length);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Source> make_dense_source(const Array& x, bool transpose, bool center) {
  if (DensePanels(x, transpose).tall) return std::make_unique<TallSource>(x, transpose, center);
  return std::make_unique<WideSource>(x, transpose, center);
}

}  // namespace flagstone::spectral
