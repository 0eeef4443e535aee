// Products of small tiles, many in one launch.
#include <algorithm>

#include "flagstone/cuda/numbers.cuh"
#include "flagstone/cuda/strided.hpp"

namespace flagstone::cuda {
namespace {

constexpr int edge = 64, depth = 8, share = 4;  // of C a block, of k at once, of C a thread in each direction
constexpr int threads = (edge / share) * (edge / share);

struct Products {
  SmallProduct each[most_in_launch];
};
static_assert(sizeof(Products) <= 3584, "a launch has 4 KiB of arguments");

template <class T>
__global__ void __launch_bounds__(threads) products_kernel(const __grid_constant__ Products products, int m, int n, int k, bool conjugate_a,
                                                           bool conjugate_b, T alpha, T beta) {
  __shared__ __align__(16) unsigned char a_memory[depth * (edge + 1) * sizeof(T)];
  __shared__ __align__(16) unsigned char b_memory[depth * (edge + 1) * sizeof(T)];
  T *const a_part = reinterpret_cast<T*>(a_memory), *const b_part = reinterpret_cast<T*>(b_memory);
  const SmallProduct& p = products.each[blockIdx.z];
  const T *const a = reinterpret_cast<const T*>(p.a), *const b = reinterpret_cast<const T*>(p.b);
  T* const c = reinterpret_cast<T*>(p.c);
  const int row0 = static_cast<int>(blockIdx.y) * edge, col0 = static_cast<int>(blockIdx.x) * edge;
  const int thread = static_cast<int>(threadIdx.x), x = thread % (edge / share), y = thread / (edge / share);
  T sum[share][share] = {};
  for (int k0 = 0; k0 < k; k0 += depth) {
    for (int e = thread; e < edge * depth; e += threads) {
      // Neighbouring threads read what lies together.
      const int ai = p.a_row <= p.a_col ? e % edge : e / depth, ak = p.a_row <= p.a_col ? e / edge : e % depth;
      T value{};
      if (row0 + ai < m && k0 + ak < k) value = a[(row0 + ai) * p.a_row + (k0 + ak) * p.a_col];
      a_part[ak * (edge + 1) + ai] = conjugate_a ? conjugated(value) : value;
      const int bj = p.b_col <= p.b_row ? e % edge : e / depth, bk = p.b_col <= p.b_row ? e / edge : e % depth;
      value = T{};
      if (col0 + bj < n && k0 + bk < k) value = b[(k0 + bk) * p.b_row + (col0 + bj) * p.b_col];
      b_part[bk * (edge + 1) + bj] = conjugate_b ? conjugated(value) : value;
    }
    __syncthreads();
    for (int d = 0; d < depth; ++d) {
      T left[share], right[share];
      for (int i = 0; i < share; ++i) left[i] = a_part[d * (edge + 1) + y + i * (edge / share)];
      for (int j = 0; j < share; ++j) right[j] = b_part[d * (edge + 1) + x + j * (edge / share)];
#pragma unroll
      for (int i = 0; i < share; ++i)
#pragma unroll
        for (int j = 0; j < share; ++j) sum[i][j] = sum[i][j] + left[i] * right[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < share; ++i)
    for (int j = 0; j < share; ++j) {
      const int row = row0 + y + i * (edge / share), col = col0 + x + j * (edge / share);
      if (row >= m || col >= n) continue;
      T* const at = c + row * p.c_row + col * p.c_col;
      *at = is_zero(beta) ? alpha * sum[i][j] : alpha * sum[i][j] + beta * *at;
    }
}

}  // namespace

void small_products(cudaStream_t stream, const ProductForm& form, std::span<const SmallProduct> products) {
  with_number(form.dtype, [&]<class T>(T) {
    for (std::size_t first = 0; first < products.size(); first += most_in_launch) {
      const std::size_t n = std::min(most_in_launch, products.size() - first);
      Products some{};
      std::copy_n(products.begin() + static_cast<std::ptrdiff_t>(first), n, some.each);
      const dim3 grid(static_cast<unsigned>(ceil_div(form.n, edge)), static_cast<unsigned>(ceil_div(form.m, edge)),
                      static_cast<unsigned>(n));
      products_kernel<T><<<grid, threads, 0, stream>>>(some, static_cast<int>(form.m), static_cast<int>(form.n),
                                                       static_cast<int>(form.k), form.conjugate_a, form.conjugate_b,
                                                       number<T>(form.alpha), number<T>(form.beta));
      launched();
    }
  });
}

}  // namespace flagstone::cuda
