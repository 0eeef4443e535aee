#pragma once
// Eigenpairs of a symmetric or Hermitian operator that is a function of the caller's.
#include <complex>
#include <functional>
#include <string>
#include <vector>

#include "flagstone/flash/flash_ptr.hpp"
#include "flagstone/flash/matrix_argument.hpp"

namespace flagstone::flash {

struct EigshOptions {
  std::string which = "LM";  // largest magnitude; "LA", "SA": largest, smallest; "BE": both ends in turn
  double tol = 1e-6;         // ‖A v - λ v‖ must be at most tol max(|λ|, eps^⅔ ‖A‖)
  Index block = 0, ncv = 0;  // vectors of one application, columns of the basis; 0: chosen from n and k
  int applications = 0;      // at most; 0: 1000
  std::uint64_t seed = 0;
  bool verify = true;  // where the block is narrower than k: look for copies of a value that were missed
};

struct Eigenpairs {
  std::vector<double> values, residuals;  // in the order of `which`; residuals as measured by k / block products more
  int applications = 0;
  bool converged = false, verified = false;  // not converged: what was reached
  Statistics did;
};

struct EigshCall {
  Index n = 0, k = 0;
  Dtype dtype = Dtype::float64;
  std::function<void(const std::byte* x, std::byte* y, Index columns)> apply;
  Place vectors;
  EigshOptions options;
};

/// The function behind eigsh().
Eigenpairs eigsh(Runtime& runtime, const EigshCall& call);

/// vectors[0, n k) := eigenvectors of A in the columns of a matrix in rows, k apart. apply(x, y, b) sets y := A x; x
/// and y are n x b, in rows, in memory. It is called between tasks, on one thread, has a third of the limit for itself,
/// and its exception arrives as it is. T: double, or std::complex<double>. `vectors`: flash_ptr<T> or T*. ShapeError
/// where k, block or ncv are out of range or A is seen not to be Hermitian; BudgetError before anything is computed.
/// The basis of 2 to 2.5 k columns goes to the runtime's scratch where it does not fit. Not atomic, as gemm.
template <class T, class Vectors, class Apply>
requires(std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>) Eigenpairs
    eigsh(Runtime& runtime, Index n, Index k, Apply apply, const Vectors& vectors, const EigshOptions& options = {}) {
  static_assert(detail::PointerTo<Vectors, T> && detail::WritablePointer<Vectors>);
  const auto applied = [apply = std::move(apply)](const std::byte* x, std::byte* y, Index columns) {
    apply(reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y), columns);
  };
  return eigsh(runtime, {n, k, dtype_of<T>(), applied, Place::of(vectors), options});
}

}  // namespace flagstone::flash
