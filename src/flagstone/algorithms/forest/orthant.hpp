#pragma once
// Few-weight minimisation where each value of the function costs a read: orthant-wise limited-memory quasi-Newton.
#include <cstddef>
#include <span>

#include "flagstone/base/shape.hpp"

namespace flagstone::forest {

/// min ‖w‖₁ + f(w) by OWL-QN (Andrew and Gao 2007), five pairs of history: told f and its gradient where trial()
/// stands, it moves trial(). One column of a batch: others do not matter to it.
class Orthant {
 public:
  static constexpr Index pairs = 5, vectors = 2 * pairs + 4;
  /// `numbers`: vectors · n float64, `trial`: n; both outlive it. Begins at 0.
  Orthant(std::span<double> numbers, std::span<double> trial, double eps, Index most);

  bool done() const { return done_; }
  /// f and its gradient at trial(). When done, trial() is the best point.
  void told(double f, const double* gradient);

 private:
  double* vector(Index which) const { return numbers_.data() + static_cast<std::size_t>(which) * trial_.size(); }
  double* step(Index pair) const { return vector(4 + 2 * pair); }
  double* change(Index pair) const { return vector(5 + 2 * pair); }
  void accept(double f, const double* gradient);
  void aim();
  void place();

  std::span<double> numbers_, trial_;
  double eps_, f_ = 0, first_ = 0, length_ = 1, curvature_[pairs] = {};
  Index most_, told_ = 0, held_ = 0, newest_ = -1;
  bool done_ = false;
};

}  // namespace flagstone::forest
