#pragma once
// The one place that includes CBLAS and LAPACKE: the wheel's library carries a prefix on every symbol, a system's does
// not. Everything else says blas::dgemm, blas::dsyevd, ...
#include <complex>

#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <cblas.h>
#include <lapacke.h>
#undef I  // <complex.h> of C leaks it

#ifdef FLAGSTONE_BLAS_PREFIX
#define FLAGSTONE_PASTE_(a, b) a##b
#define FLAGSTONE_PASTE(a, b) FLAGSTONE_PASTE_(a, b)
#define FLAGSTONE_SYMBOL(name) FLAGSTONE_PASTE(FLAGSTONE_BLAS_PREFIX, name)
#else
#define FLAGSTONE_SYMBOL(name) name
#endif

extern "C" {
// OpenBLAS only; weak, so that any other BLAS links too.
void FLAGSTONE_SYMBOL(openblas_set_num_threads)(int) __attribute__((weak));
int FLAGSTONE_SYMBOL(openblas_get_num_threads)(void) __attribute__((weak));
}

namespace flagstone::blas {

inline constexpr auto* sgemm = &FLAGSTONE_SYMBOL(cblas_sgemm);
inline constexpr auto* dgemm = &FLAGSTONE_SYMBOL(cblas_dgemm);
inline constexpr auto* cgemm = &FLAGSTONE_SYMBOL(cblas_cgemm);
inline constexpr auto* zgemm = &FLAGSTONE_SYMBOL(cblas_zgemm);
inline constexpr auto* ssyrk = &FLAGSTONE_SYMBOL(cblas_ssyrk);
inline constexpr auto* dsyrk = &FLAGSTONE_SYMBOL(cblas_dsyrk);
inline constexpr auto* dsymm = &FLAGSTONE_SYMBOL(cblas_dsymm);
inline constexpr auto* cherk = &FLAGSTONE_SYMBOL(cblas_cherk);
inline constexpr auto* zherk = &FLAGSTONE_SYMBOL(cblas_zherk);
inline constexpr auto* strsm = &FLAGSTONE_SYMBOL(cblas_strsm);
inline constexpr auto* dtrsm = &FLAGSTONE_SYMBOL(cblas_dtrsm);
inline constexpr auto* ctrsm = &FLAGSTONE_SYMBOL(cblas_ctrsm);
inline constexpr auto* ztrsm = &FLAGSTONE_SYMBOL(cblas_ztrsm);
inline constexpr auto* strmm = &FLAGSTONE_SYMBOL(cblas_strmm);
inline constexpr auto* dtrmm = &FLAGSTONE_SYMBOL(cblas_dtrmm);
inline constexpr auto* ctrmm = &FLAGSTONE_SYMBOL(cblas_ctrmm);
inline constexpr auto* ztrmm = &FLAGSTONE_SYMBOL(cblas_ztrmm);
inline constexpr auto* dnrm2 = &FLAGSTONE_SYMBOL(cblas_dnrm2);

// The plain ones allocate their workspace; the _work ones take it, so that it can be charged to a limit.
inline constexpr auto* dsyevd = &FLAGSTONE_SYMBOL(LAPACKE_dsyevd);
inline constexpr auto* dsyevd_work = &FLAGSTONE_SYMBOL(LAPACKE_dsyevd_work);
inline constexpr auto* zheevd_work = &FLAGSTONE_SYMBOL(LAPACKE_zheevd_work);
inline constexpr auto* dsyevr = &FLAGSTONE_SYMBOL(LAPACKE_dsyevr);
inline constexpr auto* dsyevr_work = &FLAGSTONE_SYMBOL(LAPACKE_dsyevr_work);
inline constexpr auto* dgeqrf = &FLAGSTONE_SYMBOL(LAPACKE_dgeqrf);
inline constexpr auto* dgeqrf_work = &FLAGSTONE_SYMBOL(LAPACKE_dgeqrf_work);
inline constexpr auto* dorgqr = &FLAGSTONE_SYMBOL(LAPACKE_dorgqr);
inline constexpr auto* dorgqr_work = &FLAGSTONE_SYMBOL(LAPACKE_dorgqr_work);
inline constexpr auto* dgelqf_work = &FLAGSTONE_SYMBOL(LAPACKE_dgelqf_work);
inline constexpr auto* dorglq_work = &FLAGSTONE_SYMBOL(LAPACKE_dorglq_work);
inline constexpr auto* dgesdd = &FLAGSTONE_SYMBOL(LAPACKE_dgesdd);
inline constexpr auto* dgesdd_work = &FLAGSTONE_SYMBOL(LAPACKE_dgesdd_work);
inline constexpr auto* dpotrf = &FLAGSTONE_SYMBOL(LAPACKE_dpotrf);
inline constexpr auto* spotrf_work = &FLAGSTONE_SYMBOL(LAPACKE_spotrf_work);
inline constexpr auto* dpotrf_work = &FLAGSTONE_SYMBOL(LAPACKE_dpotrf_work);
inline constexpr auto* cpotrf_work = &FLAGSTONE_SYMBOL(LAPACKE_cpotrf_work);
inline constexpr auto* zpotrf_work = &FLAGSTONE_SYMBOL(LAPACKE_zpotrf_work);
inline constexpr auto* sgeqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_sgeqrt_work);
inline constexpr auto* dgeqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_dgeqrt_work);
inline constexpr auto* cgeqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_cgeqrt_work);
inline constexpr auto* zgeqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_zgeqrt_work);
inline constexpr auto* stpqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_stpqrt_work);
inline constexpr auto* dtpqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_dtpqrt_work);
inline constexpr auto* ctpqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_ctpqrt_work);
inline constexpr auto* ztpqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_ztpqrt_work);
inline constexpr auto* stpmqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_stpmqrt_work);
inline constexpr auto* dtpmqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_dtpmqrt_work);
inline constexpr auto* ctpmqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_ctpmqrt_work);
inline constexpr auto* ztpmqrt_work = &FLAGSTONE_SYMBOL(LAPACKE_ztpmqrt_work);

/// 0 where the library has no such switch.
inline int threads() {
  return &FLAGSTONE_SYMBOL(openblas_get_num_threads) ? FLAGSTONE_SYMBOL(openblas_get_num_threads)() : 0;
}
inline void set_threads(int n) {
  if (&FLAGSTONE_SYMBOL(openblas_set_num_threads)) FLAGSTONE_SYMBOL(openblas_set_num_threads)(n);
}

}  // namespace flagstone::blas

#undef FLAGSTONE_SYMBOL
#undef FLAGSTONE_PASTE
#undef FLAGSTONE_PASTE_
