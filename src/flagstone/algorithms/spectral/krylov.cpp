#include "flagstone/algorithms/spectral/krylov.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "flagstone/algorithms/operator/random_block.hpp"
#include "flagstone/algorithms/spectral/basis.hpp"
#include "flagstone/algorithms/spectral/error_bound.hpp"
#include "flagstone/algorithms/spectral/ritz.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/lapack.hpp"

namespace flagstone::spectral {
namespace {

// Rounding of float32 products as seen in H, relative to its largest eigenvalue: 2e-8 was measured on 100,000 rows.
constexpr double noise_float32 = 0x1p-24 * 0.5;

double* numbers(const Array& array) { return reinterpret_cast<double*>(array.store().memory()); }

class BlockKrylov {
 public:
  BlockKrylov(Graph& graph, const Operator& op, const KrylovOptions& options)
      : graph_(graph),
        op_(op),
        o_(options),
        n_(op.n),
        b_(std::min(options.block, op.n)),
        basis_(graph, n_, b_, krylov_blocks(options.block, n_, options.steps)),
        small_(graph.charge(krylov_small_bytes(options.block, n_, options.steps))),
        w_(graph.allocate({n_, b_}, Dtype::float64)),
        dtype_(options.dtype) {
    if (dtype_ == Dtype::float32) x32_ = graph.allocate({n_, b_}, Dtype::float32);
  }

  /// As many applications as are expected.
  KrylovResult plan() {
    for (int step = 1; step <= o_.steps; ++step) {
      op_.apply(graph_, dtype_ == Dtype::float32 ? x32_ : basis_.array(0), w_);
      graph_.barrier();
      graph_.host_work("krylov", krylov_work(n_, b_, step));
    }
    result_.applications = o_.steps;
    result_.vectors = graph_.allocate({n_, o_.k}, Dtype::float64);
    return std::move(result_);
  }
  /// All that an application starts from.
  void list_parts(StateParts& parts) {
    parts.value("applications", result_.applications);
    parts.value("dtype", dtype_);
    if (dtype_ != Dtype::float32) x32_ = Array();
    basis_.list_parts(parts);
    parts.values("projected", h_);
    bound_.list_parts(parts);
  }
  int applications() const { return result_.applications; }

  void start() {
    Normal normal(o_.seed);
    double* w = numbers(w_);
    for (Index i = 0; i < n_ * b_; ++i) w[i] = normal();
    width_ = b_;
    orthonormalise();
    basis_.append(w, width_);
  }

  /// W := G V_last, W contiguous n x width. A narrow block is applied with zeros beside it: it is rare, and takes no
  /// memory that was not planned.
  void apply() {
    width_ = basis_.last_width();
    multiply(basis_.last());
    if (dtype_ == Dtype::float32 && basis_.blocks() == 1 && !suits_float32(numbers(w_))) {
      dtype_ = Dtype::float64, x32_ = Array();
      multiply(basis_.last());
    }
    double* w = numbers(w_);
    for (Index i = 1; i < n_ && width_ < b_; ++i) std::copy_n(w + i * b_, width_, w + i * width_);
    graph_.host_work("krylov", krylov_work(n_, b_, basis_.blocks()));
  }
  void multiply(Array x) {
    if (dtype_ == Dtype::float32) {
      kernel::convert(whole_tile(x), nullptr, whole_tile(x32_));
      x = x32_;
    }
    std::memset(numbers(w_), 0, w_.nbytes());
    op_.apply(graph_, x, w_);
    graph_.barrier();
    ++result_.applications;
  }
  /// Units of X may be such that its squares are beyond float32.
  bool suits_float32(const double* w) const {
    double largest = 0;
    for (Index i = 0; i < n_ * b_; ++i) {
      if (!std::isfinite(w[i])) return false;
      largest = std::max(largest, std::abs(w[i]));
    }
    return in_range_of_float32(largest);
  }
  static Tile whole_tile(const Array& array) {
    return {array.store().memory(), array.dtype(), array.shape(), array.store().memory_strides(), 0};
  }

  /// H gains the columns QᵀG V_last; W becomes its part outside the basis, R W's triangular factor.
  void project() {
    const Index p = basis_.columns();
    double* w = numbers(w_);
    std::vector<double> c(static_cast<std::size_t>(p * width_)), again(c.size());
    basis_.project(w, width_, c.data());
    basis_.subtract(c.data(), width_, w);
    basis_.project(w, width_, again.data());
    basis_.subtract(again.data(), width_, w);
    for (std::size_t i = 0; i < c.size(); ++i) c[i] += again[i];
    h_ = bordered(h_, p, width_, c);
    orthonormalise();
  }

  /// W := V with W = V R.
  void orthonormalise() {
    r_.assign(static_cast<std::size_t>(width_ * width_), 0.0);
    require_factored(kernel::qr(n_, width_, numbers(w_), r_.data()));
  }

  /// Rayleigh-Ritz; true when every wanted value is known to tol.
  bool solve() {
    const Index p = basis_.columns(), k = std::min(o_.k, p);
    ritz_.solve(h_, p, r_, width_, p >= n_);
    const double largest = std::max(ritz_.value(0), 0.0);
    if (largest == 0 || p >= n_) return bound_.exact(), true;
    const double floor = largest * (dtype_ == Dtype::float32 ? 0x1p-26 : 0x1p-50);
    const double worst_residual = bound_.update(ritz_, k, b_, basis_.blocks());
    // Below the floor nothing but rounding is left. One block has no values beyond it to measure a gap against.
    return worst_residual <= floor || (p > b_ && bound_.estimate() <= o_.tol);
  }

  bool too_small_for_float32(bool done) const {
    if (dtype_ != Dtype::float32 || (basis_.blocks() < 2 && !done)) return false;
    const double first = ritz_.value(0), kth = std::max(ritz_.value(std::min(o_.k, basis_.columns()) - 1), 0.0);
    // noise / (2 sigma_k sigma_1) > tol / 2, all relative to sigma_1
    return noise_float32 * std::sqrt(first) > o_.tol * std::sqrt(kth);
  }
  /// The products so far were rounded: only their best vectors are kept, as a better start than random ones.
  void restart_in_float64() {
    dtype_ = Dtype::float64;
    width_ = std::min(b_, basis_.columns());
    std::vector<double> y = ritz_.columns(width_);
    basis_.combine(y.data(), width_, numbers(w_));
    orthonormalise();
    basis_.clear();
    h_.clear();
    x32_ = Array();
    basis_.append(numbers(w_), width_);
  }

  /// The next block: W's directions above the noise, orthogonal to the basis to working precision. False when there
  /// are none: the basis is invariant, and it holds k vectors of every eigenspace because the first block had that
  /// many.
  bool extend() {
    drop_noise();
    if (width_ == 0) return bound_.exact(), false;
    if (basis_.full()) {
      const Index keep = std::min(2 * b_, basis_.columns());
      const std::vector<double> y = ritz_.columns(keep);
      basis_.compress(y.data(), keep);
      h_.assign(static_cast<std::size_t>(keep * keep), 0.0);
      for (Index j = 0; j < keep; ++j) h_[j * keep + j] = ritz_.value(j);
    }
    basis_.append(numbers(w_), width_);
    return true;
  }
  void drop_noise() {
    const Index old = width_;
    std::vector<double> s(old), u(static_cast<std::size_t>(old * old)), vt(u.size());
    require_factored(kernel::svd(old, r_.data(), s.data(), u.data(), vt.data()));
    const double floor = std::max(ritz_.value(0), 0.0) * (dtype_ == Dtype::float32 ? 0x1p-28 : 0x1p-52);
    Index keep = 0;
    while (keep < old && s[keep] > floor) ++keep;
    keep = std::min(keep, n_ - basis_.columns());
    if (keep == old && s[old - 1] > 1e-4 * s[0]) return;
    // Weak directions inherit the strong ones' rounding, eps s_1 / s_j: separate them and orthogonalise once more.
    rotate(numbers(w_), n_, u, old, keep);
    width_ = keep;
    for (int round = 0; round < 2 && keep > 0; ++round) {
      std::vector<double> c(static_cast<std::size_t>(basis_.columns() * keep));
      basis_.project(numbers(w_), keep, c.data());
      basis_.subtract(c.data(), keep, numbers(w_));
      orthonormalise();
    }
  }
  KrylovResult finish() {
    const Index p = basis_.columns(), k = std::min(o_.k, p);
    result_.vectors = graph_.allocate({n_, o_.k}, Dtype::float64);
    const std::vector<double> y = ritz_.columns(k);
    basis_.combine(y.data(), k, numbers(result_.vectors));
    for (Index j = 0; j < k; ++j) result_.values.push_back(std::max(ritz_.value(j), 0.0));
    result_.dtype = dtype_, result_.estimate = bound_.estimate();
    return std::move(result_);
  }
  [[noreturn]] void give_up() const {
    char text[32];
    std::snprintf(text, sizeof text, "%.1e", bound_.estimate());
    throw ConvergenceError("pca: after " + std::to_string(result_.applications) +
                           " passes the singular values are known to " + text +
                           " of the largest, which is above tol; raise tol, or use method='gram'.");
  }

 private:
  Graph& graph_;
  const Operator& op_;
  const KrylovOptions& o_;
  Index n_, b_, width_ = 0;
  Basis basis_;
  Charge small_;
  Array w_, x32_;
  Dtype dtype_;
  std::vector<double> h_, r_;  // p x p; width x width
  Ritz ritz_;
  ErrorBound bound_;
  KrylovResult result_;
};

}  // namespace

/// As the paper's algorithm 2, with the basis orthogonal from the beginning, and an end:
///   1  V_1 := orthonormal basis of b random vectors
///   2  W := G V_q                                   the one read of X
///   3  H := QᵀGQ gains QᵀW; W := (I - QQᵀ) W        twice, to working precision; V_(q+1) R := W
///   4  H y_j = theta_j y_j; done when the residuals |R y_j| bound the error of every wanted value by tol
///   5  float32 too coarse for sigma_k: from 2 again in float64, with V_1 := the best vectors so far
///   6  Q := [Q, V_(q+1)], of a full Q its best 2b vectors (thick restart); from 2 again
///   7  the wanted vectors: Q y_j
KrylovResult block_krylov(Graph& graph, const Operator& op, const KrylovOptions& options) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  BlockKrylov krylov(graph, op, options);
  if (graph.planning()) return krylov.plan();
  Stages alone(graph, nullptr);
  Stages& stages = options.stages ? *options.stages : alone;
  const Stages::Kept kept = stages.keep("krylov", [&](StateParts& parts) { krylov.list_parts(parts); });
  if (!kept.loaded()) krylov.start();  // 1
  for (;; stages.offer(std::min(0.95, static_cast<double>(krylov.applications()) / (options.steps + 1)))) {
    krylov.apply();                            // 2
    krylov.project();                          // 3
    const bool done = krylov.solve();          // 4
    if (krylov.too_small_for_float32(done)) {  // 5
      krylov.restart_in_float64();
      continue;
    }
    if (done) break;
    if (krylov.applications() >= krylov_most_steps) krylov.give_up();
    if (!krylov.extend()) break;  // 6
  }
  return krylov.finish();  // 7
}

}  // namespace flagstone::spectral
