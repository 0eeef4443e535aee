#pragma once
// One task's worth of dense arithmetic on tiles: BLAS verbs, any dtype, row- or column-major tiles, padded strides.
#include <complex>

#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// op(tile): transposed and/or conjugated. Conjugation without transposition works too (BLAS has no such op).
struct Op {
  bool transpose = false, conjugate = false;
};

/// Bytes of scratch that gemm needs for these (a conjugated copy where BLAS cannot conjugate in place; else 0).
std::size_t gemm_scratch(const Tile& a, Op op_a, const Tile& b, Op op_b, const Tile& c);
/// C := alpha op(A) op(B) + beta C. All three have one dtype (float32, float64, complex64, complex128) and one unit
/// stride. beta == 0 overwrites C, whatever it held (NaN too). Empty dimensions are legal (k == 0 scales C).
void gemm(std::complex<double> alpha, const Tile& a, Op op_a, const Tile& b, Op op_b, std::complex<double> beta,
          const Tile& c, std::byte* scratch);
/// C += A Aᵀ or Aᵀ A (real), lower triangle.
void syrk(double alpha, const Tile& a, bool transpose, double beta, const Tile& c);
/// to := convert(from) - shift (shift: one value per column, float64, may be null). Any real dtype to float32/float64.
void convert(const Tile& from, const double* shift, const Tile& to);

/// Threads that each BLAS call may use, for the whole process (workers run single-threaded BLAS by default).
void set_blas_threads(int threads);
int blas_threads();

/// BLAS takes `threads` in each call while this lives. Several may live at once (two runtimes, a probe beside a run):
/// the last one to go puts back what was before the first, so that no run computes with another's number and other
/// bits.
class BlasThreads {
 public:
  explicit BlasThreads(int threads);
  ~BlasThreads();
  BlasThreads(const BlasThreads&) = delete;
};

}  // namespace flagstone::kernel
