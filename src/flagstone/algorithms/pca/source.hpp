#pragma once
// The matrix whose principal components are wanted, as the methods see it: XᵀX (or XXᵀ) and the last pass.
#include <memory>
#include <vector>

#include "flagstone/algorithms/pca/pca.hpp"
#include "flagstone/algorithms/spectral/krylov_schur.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::spectral {

/// Below it a sum of squares has lost digits, or everything, to underflow.
inline constexpr double least_squares = 1e-280;

/// What the last pass needs and leaves.
struct LastPass {
  Array vectors;              // side x k float64, in memory: the eigenvectors that were found; changed (signs)
  std::vector<double> sigma;  // k: in, square roots of the eigenvalues; out, what the pass itself measured if better
  Dtype precision = Dtype::float64;  // of the products
  bool measure = false;  // take sigma from the pass: ‖X v‖ is exact to rounding where sqrt(eigenvalue) is not
  std::vector<double> residual;    // out
  std::vector<double> components;  // out: k x n
};

/// X, centred when asked for, in one of three orientations. Implementations run their own barriers: what a call
/// returns is complete.
class Source {
 public:
  virtual ~Source() = default;
  Index rows = 0, cols = 0;
  /// G is side x side: XᵀX, or XXᵀ (a wide dense X).
  Index side = 0;
  /// Set by the constructor or by the first pass: means of the columns (zero when not centred) and the sum of squares
  /// of the centred matrix.
  std::vector<double> mean;
  double squares = 0;

  /// Y += G V (V side x b float32 or float64, Y float64): one read of X, 4 b flops a value.
  virtual void gram_multiply(Graph& graph, const Array& v, const Array& y) = 0;
  /// G := XᵀX, lower triangle.
  virtual void gram_matrix(Graph& graph, const Array& g) = 0;
  /// What a first pass has found; a later process's source starts from it.
  virtual void list_parts(Graph&, StateParts&) {}
  /// Scores X V, components, signs, residuals: one read of X.
  virtual void finish(Graph& graph, LastPass& pass, const Array& scores) = 0;
};

/// `ahead`: statistics that nobody knows are a pass of their own; else the first product finds them.
std::unique_ptr<Source> make_sparse_source(Graph& graph, const sparse::CsrOperand& x, bool center, bool ahead);
std::unique_ptr<Source> make_dense_source(const Array& x, bool transpose, bool center);

/// Precision of the products: float32 where it keeps every bit of the values and its sums are good to a third of tol.
Dtype product_dtype(const PcaInput& x, const PcaOptions& options);
/// Block Krylov-Schur on G of `side` columns: a residual of tol λ bounds the error of σ by tol σ.
SchurOptions schur_of(const PcaOptions& options, Index side);
/// Squares that centring takes away ÷ those that stay: eps times this is what XᵀX - m mean meanᵀ loses.
double cancellation(Index rows, const std::vector<double>& means, double centred_squares);

/// Y -= m d dᵀ V, d = mean - shift: (X - 1 meanᵀ)ᵀ(X - 1 meanᵀ) = (X - 1 shiftᵀ)ᵀ(X - 1 shiftᵀ) - m d dᵀ. In memory.
void take_out(Index rows, const std::vector<double>& d, const Array& v, const Array& y);

/// In the sense of scikit-learn's full solver: the entry of largest magnitude of every component is positive.
/// `at(i)`: entry i of n.
template <class At>
double sign_of_component(Index n, At&& at) {
  double best = 0, magnitude = -1;
  for (Index i = 0; i < n; ++i) {
    const double value = at(i), size = value < 0 ? -value : value;
    if (size > magnitude) magnitude = size, best = value;
  }
  return best < 0 ? -1.0 : 1.0;
}

/// Tall and sparse: z = Xᵀ(X v) per column gives sigma (when measured), and ‖z/σ − σ v‖, the residual of u = X v / σ.
/// A sigma that rounding alone explains has no u: its residual is sigma itself.
void measure_right(LastPass& pass, const double* z, Index n, double rounding);

}  // namespace flagstone::spectral
