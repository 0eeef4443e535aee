#include "flagstone/algorithms/spectral/krylov.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "flagstone/algorithms/operator/random_block.hpp"
#include "flagstone/algorithms/spectral/basis.hpp"
#include "flagstone/algorithms/spectral/ritz.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/lapack.hpp"

namespace flagstone::spectral {
namespace {

// Blocks beyond the expected ones, before the basis has to be compressed: spectra flatter than the model are common.
constexpr int spare_blocks = 3;
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
        basis_(graph, n_, b_, most_blocks(options, op.n)),
        small_(graph.charge(small_bytes(options, op.n))),
        w_(graph.allocate({n_, b_}, Dtype::float64)),
        dtype_(options.dtype) {
    if (dtype_ == Dtype::float32) x32_ = graph.allocate({n_, b_}, Dtype::float32);
  }

  KrylovResult run() {
    if (graph_.planning()) return plan();
    if (!restore()) start();
    for (;;) {
      apply();
      project();
      const bool done = check();
      if (too_small_for_float32(done)) {
        restart_in_float64();
        offer();
        continue;
      }
      if (done) break;
      if (result_.applications >= krylov_most_steps) give_up();
      if (!extend()) break;
      offer();
    }
    return finish();
  }

  static int most_blocks(const KrylovOptions& o, Index n) {
    const auto block = std::max<Index>(1, std::min(o.block, n));
    return static_cast<int>(std::min<Index>(std::max(3, o.steps + spare_blocks), ceil_div(n, block) + 1));
  }
  static std::uint64_t small_bytes(const KrylovOptions& o, Index n) {
    const auto p = static_cast<std::uint64_t>(std::min(n, o.block) * most_blocks(o, n));
    const auto b = static_cast<std::uint64_t>(std::min(n, o.block));
    return 8 * (4 * p * p + 3 * p * b) + kernel::symmetric_eigen_bytes(static_cast<Index>(p));
  }

 private:
  KrylovResult plan() {
    for (int step = 1; step <= o_.steps; ++step) {
      op_.apply(graph_, dtype_ == Dtype::float32 ? x32_ : basis_.array(0), w_);
      graph_.barrier();
      graph_.host_work("krylov", work(step));
    }
    result_.applications = o_.steps;
    result_.vectors = graph_.allocate({n_, o_.k}, Dtype::float64);
    return std::move(result_);
  }
  Cost work(int blocks) const {
    const auto b = static_cast<double>(b_), n = static_cast<double>(n_), p = b * blocks;
    Cost cost;
    // Small factorizations reach half of gemm's rate.
    cost.flops = 16 * n * b * p + 16 * n * b * b + 16 * p * p * p;
    cost.float64 = true;
    return cost;
  }

  /// All that a step starts from.
  struct Saved {
    std::int64_t applications = 0, blocks = 0, dtype = 0;
    double bound = 0, estimate = 0;
  };
  void offer() {
    if (!o_.checkpoint || !o_.checkpoint->due()) return;
    const Saved saved{result_.applications, basis_.blocks(), static_cast<std::int64_t>(dtype_), bound_before_,
                      result_.estimate};
    std::vector<Index> widths;
    for (int i = 0; i < basis_.blocks(); ++i) widths.push_back(basis_.width(i));
    std::vector<Checkpoint::Part> parts{Checkpoint::part("krylov", &saved, 1),
                                        Checkpoint::part("widths", widths.data(), widths.size()),
                                        Checkpoint::part("projected", h_.data(), h_.size()),
                                        Checkpoint::part("before", before_.data(), before_.size())};
    for (int i = 0; i < basis_.blocks(); ++i)
      parts.push_back(
          Checkpoint::part("block" + std::to_string(i), numbers(basis_.array(i)), count(basis_.array(i).shape())));
    if (o_.beside) o_.beside(parts);
    o_.checkpoint->save(std::min(0.95, static_cast<double>(result_.applications) / (o_.steps + 1)), parts);
  }
  bool restore() {
    if (!o_.checkpoint || !o_.checkpoint->has("krylov")) return false;
    const Checkpoint& from = *o_.checkpoint;
    Saved saved;
    from.load("krylov", &saved, sizeof saved);
    result_.applications = static_cast<int>(saved.applications);
    result_.estimate = saved.estimate, bound_before_ = saved.bound;
    dtype_ = static_cast<Dtype>(saved.dtype);
    if (dtype_ != Dtype::float32) x32_ = Array();
    for (const Index width : from.load<Index>("widths")) {
      if (basis_.full()) throw FormatError("resume: the saved basis has more blocks than this one; start again.");
      basis_.restore(width);
      const Array& block = basis_.last();
      from.load("block" + std::to_string(basis_.blocks() - 1), numbers(block), block.nbytes());
    }
    h_ = from.load<double>("projected");
    before_ = from.load<double>("before");
    return true;
  }

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
    graph_.host_work("krylov", work(basis_.blocks()));
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
    const Index p = basis_.columns(), old = p - width_;
    double* w = numbers(w_);
    std::vector<double> c(static_cast<std::size_t>(p * width_)), again(c.size());
    basis_.project(w, width_, c.data());
    basis_.subtract(c.data(), width_, w);
    basis_.project(w, width_, again.data());
    basis_.subtract(again.data(), width_, w);
    std::vector<double> h(static_cast<std::size_t>(p * p), 0.0);
    for (Index i = 0; i < old; ++i) std::copy_n(h_.data() + i * old, old, h.data() + i * p);
    for (Index i = 0; i < p; ++i)
      for (Index j = 0; j < width_; ++j) {
        const double value = c[i * width_ + j] + again[i * width_ + j];
        h[i * p + old + j] = value;
        if (i < old) h[(old + j) * p + i] = value;
      }
    for (Index i = old; i < p; ++i)  // the last diagonal block is symmetric but for rounding
      for (Index j = old; j < i; ++j) h[i * p + j] = h[j * p + i] = 0.5 * (h[i * p + j] + h[j * p + i]);
    h_ = std::move(h);
    orthonormalise();
  }

  /// W := V with W = V R.
  void orthonormalise() {
    r_.assign(static_cast<std::size_t>(width_ * width_), 0.0);
    require_factored(kernel::qr(n_, width_, numbers(w_), r_.data()));
  }

  /// Rayleigh-Ritz; true when every wanted value is known to tol.
  bool check() {
    const Index p = basis_.columns(), k = std::min(o_.k, p);
    ritz_.solve(h_, p, r_, width_, p >= n_);
    const double largest = std::max(ritz_.value(0), 0.0), first = std::sqrt(largest);
    if (largest == 0 || p >= n_) return result_.estimate = 0, true;
    const double floor = largest * (dtype_ == Dtype::float32 ? 0x1p-26 : 0x1p-50);
    const double next = ritz_.value(std::min(b_, p - 1));
    double bound = 0, worst_residual = 0, gain = 0;
    for (Index j = 0; j < k; ++j) {
      const double theta = std::max(ritz_.value(j), 0.0), residual = ritz_.residual(j), gap = theta - next;
      const double change = gap > residual ? residual * (residual / gap) : residual;
      bound = std::max(bound, (std::sqrt(theta + change) - std::sqrt(theta)) / first);
      worst_residual = std::max(worst_residual, residual);
      if (j < static_cast<Index>(before_.size())) gain = std::max(gain, (std::sqrt(theta) - before_[j]) / first);
    }
    result_.estimate = bound * safety(gain);
    bound_before_ = bound;
    before_.resize(k);
    for (Index j = 0; j < k; ++j) before_[j] = std::sqrt(std::max(ritz_.value(j), 0.0));
    // Below the floor nothing but rounding is left. One block has no values beyond it to measure a gap against.
    return worst_residual <= floor || (p > b_ && result_.estimate <= o_.tol);
  }
  /// The bound takes theta_(b+1) for the largest eigenvalue outside the basis. With two blocks that is still far too
  /// low (the bound was met by 1/2 at worst over the spectra of krylov_test and of real data); with three it holds.
  /// From four on, what the last application gained tells how much of the bound before it was true; that share only
  /// falls.
  double safety(double gain) const {
    if (basis_.blocks() <= 2) return 3;
    if (basis_.blocks() == 3 || !(bound_before_ > 0)) return 1.25;
    return std::clamp(1.5 * gain / bound_before_, 0.3, 1.25);
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
    if (width_ == 0) return result_.estimate = 0, false;
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
    rotate(u, old, keep);
    width_ = keep;
    for (int round = 0; round < 2 && keep > 0; ++round) {
      std::vector<double> c(static_cast<std::size_t>(basis_.columns() * keep));
      basis_.project(numbers(w_), keep, c.data());
      basis_.subtract(c.data(), keep, numbers(w_));
      orthonormalise();
    }
  }
  /// W := W u[:, :keep], rows from n x old to n x keep in place.
  void rotate(const std::vector<double>& u, Index old, Index keep) {
    double* w = numbers(w_);
    std::vector<double> row(old);
    for (Index i = 0; i < n_; ++i) {
      std::copy_n(w + i * old, old, row.data());
      for (Index j = 0; j < keep; ++j) {
        double sum = 0;
        for (Index l = 0; l < old; ++l) sum += row[l] * u[l * old + j];
        w[i * keep + j] = sum;
      }
    }
  }
  KrylovResult finish() {
    const Index p = basis_.columns(), k = std::min(o_.k, p);
    result_.vectors = graph_.allocate({n_, o_.k}, Dtype::float64);
    const std::vector<double> y = ritz_.columns(k);
    basis_.combine(y.data(), k, numbers(result_.vectors));
    for (Index j = 0; j < k; ++j) result_.values.push_back(std::max(ritz_.value(j), 0.0));
    result_.dtype = dtype_;
    return std::move(result_);
  }
  [[noreturn]] void give_up() const {
    char text[32];
    std::snprintf(text, sizeof text, "%.1e", result_.estimate);
    throw ConvergenceError("pca: after " + std::to_string(result_.applications) +
                           " passes the singular values are known to " + text +
                           " of the largest, which is above tol; raise tol, or use method='gram'.");
  }

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
  std::vector<double> before_;  // the wanted values one application ago
  double bound_before_ = 0;
  KrylovResult result_;
};

}  // namespace

std::uint64_t krylov_bytes(Index k, Index block, Index n, int steps, Dtype dtype) {
  KrylovOptions o;
  o.block = block, o.steps = steps;
  const auto vectors = static_cast<std::uint64_t>(BlockKrylov::most_blocks(o, n) + 1);
  return static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(block) * (8 * vectors + size_of(dtype)) +
         static_cast<std::uint64_t>(8 * n * k) + BlockKrylov::small_bytes(o, n);
}

KrylovResult block_krylov(Graph& graph, const Operator& op, const KrylovOptions& options) {
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  return BlockKrylov(graph, op, options).run();
}

}  // namespace flagstone::spectral
