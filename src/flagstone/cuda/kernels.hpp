#pragma once
// The kernels that this device has, as functions of a work.
#include "flagstone/cuda/work.hpp"

namespace flagstone::cuda {

using Function = void (*)(Work& work);
/// Looks at what the kernel found, throws what the host's kernel would.
using Verdict = void (*)(const Call& call, std::span<const Tile> tiles, Found found);

struct Entry {
  Function run = nullptr;
  Verdict verdict = nullptr;
  explicit operator bool() const { return run != nullptr; }
};
/// Empty where there is none.
Entry find(const Call& call) noexcept;

// blas3.cpp
void run_gemm(Work& work);
void run_scale(Work& work);
void run_herk(Work& work);
void run_trsm(Work& work);
void trsm_verdict(const Call& call, std::span<const Tile> tiles, Found found);
/// Equal small products of several works (one of a call each) in few launches; false: they are not small.
bool run_small_products(std::span<const Call* const> calls, std::span<const std::span<const Tile>> tiles,
                        cudaStream_t stream);
/// C := alpha op(A) op(B) + beta C of matrices as BLAS sees them, for kernels that are made of products.
struct Factors {
  cublasOperation_t a, b;
};
void multiply(const Libraries& with, Factors op, std::complex<double> alpha, const Tile& a, const Tile& b,
              std::complex<double> beta, const Tile& c);

// factor.cpp
void run_potrf(Work& work);
void potrf_verdict(const Call& call, std::span<const Tile> tiles, Found found);
void run_getrf(Work& work);
void run_laswp(Work& work);

// qr.cpp
void run_geqrt(Work& work);
void run_tpqrt(Work& work);
void run_gemqrt(Work& work);
void run_tpmqrt(Work& work);

// sparse.cpp
/// Not of symmetric ones, nor with moments of columns.
bool has_sparse_product(const Call& call);
void run_sparse_product(Work& work);

}  // namespace flagstone::cuda
