#pragma once
// Kernels of our own: elements of strided tiles, one by one. All go onto the stream and return; data lie on the device.
#include <cuda_runtime_api.h>

#include <complex>
#include <cstdint>
#include <span>

#include "flagstone/base/shape.hpp"
#include "flagstone/kernel/factor/triangle.hpp"

namespace flagstone::cuda {

/// What a kernel that looks for something found: the least place, none as long as it is untouched (all bits set).
using Found = unsigned long long;
inline constexpr Found nothing_found = ~Found{0};

/// Whether they were compiled for the device that is chosen.
bool has_kernels();

/// Every element := the size_of(dtype) bytes at `value` (host).
void fill(cudaStream_t stream, const Tile& to, const void* value);
/// Of one dtype and shape, any strides.
void copy(cudaStream_t stream, const Tile& from, const Tile& to, bool conjugate = false);
/// to := to + from.
void add(cudaStream_t stream, const Tile& from, const Tile& to);
/// to := to - from.
void subtract(cudaStream_t stream, const Tile& from, const Tile& to);
/// The upper triangle of a matrix, its diagonal with it; nothing else of `to` is touched.
void copy_upper(cudaStream_t stream, const Tile& from, const Tile& to);
/// C := beta C; beta == 0 overwrites it.
void scale(cudaStream_t stream, std::complex<double> beta, const Tile& c);
/// Any real dtype to float32 or float64.
void convert(cudaStream_t stream, const Tile& from, const Tile& to);
/// to := from or a triangle of it, `shift` added to its diagonal. `bad`: the first element of what was taken that is
/// NaN or Inf, counted along columns (`by_rows`: along rows).
void take(cudaStream_t stream, kernel::Part part, const Tile& from, bool conjugate, double shift, const Tile& to,
          bool by_rows, Found* bad);
/// The strict upper triangle of a square tile := the lower one; conjugated, its diagonal becomes real.
void mirror_within(cudaStream_t stream, const Tile& tile, bool conjugate);
/// to(i, j) := 1 where i + row == j, else 0.
void set_identity(cudaStream_t stream, Index row, const Tile& to);

/// bad: twice the place of the first element of the vector that is zero; one more of one that is NaN or Inf.
void find_bad_pivot(cudaStream_t stream, const Tile& vector, Found* bad);
/// minor: the order, less one, of the first leading minor that is not positive: what `info` says, or the first pivot
/// before it that is not positive and finite.
void find_minor(cudaStream_t stream, const Tile& diagonal, const int* info, Found* minor);
/// pivots[i] := chosen[i] - 1 + row.
void number_pivots(cudaStream_t stream, const std::int64_t* chosen, Index row, const Tile& pivots);
/// As kernel::laswp; the pivots lie on the device.
void swap_rows(cudaStream_t stream, const Tile& upper, const Tile& lower, Index origin, Index first, const Tile& pivots,
               bool backwards);
/// T (n x n, upper) of n <= 1024 reflectors from their products G = VᴴV, whose strict upper triangle is read, and tau:
/// T(0:j, j) = -tau_j T(0:j, 0:j) G(0:j, j). G and T by columns.
void reflector_triangle(cudaStream_t stream, const Tile& g, const std::byte* tau, const Tile& t);

/// C := alpha op(A) op(B) + beta C of one dtype, any strides, in one launch of our own kernel for up to
/// most_in_launch products of equal extents: bits of one do not depend on its companions.
struct SmallProduct {
  const std::byte *a, *b;
  std::byte* c;
  Index a_row, a_col, b_row, b_col, c_row, c_col;  // elements
};
inline constexpr std::size_t most_in_launch = 48;  // 72 bytes each, in the 4 KiB of a launch's arguments
struct ProductForm {
  Dtype dtype;
  Index m, n, k;
  bool conjugate_a, conjugate_b;
  std::complex<double> alpha, beta;
};
void small_products(cudaStream_t stream, const ProductForm& form, std::span<const SmallProduct> products);

}  // namespace flagstone::cuda
