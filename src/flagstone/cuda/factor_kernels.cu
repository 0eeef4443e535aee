// Small kernels of factorizations.
#include <algorithm>

#include "flagstone/cuda/numbers.cuh"
#include "flagstone/cuda/strided.hpp"

namespace flagstone::cuda {
namespace {

constexpr unsigned threads = 256;
unsigned blocks_of(Index n) { return static_cast<unsigned>(std::clamp<Index>(ceil_div(n, threads), 1, 1024)); }

template <class T>
__global__ void find_bad_pivot_kernel(const std::byte* data, Index n, Index step, Found* bad) {
  for (Index i = blockIdx.x * Index{blockDim.x} + threadIdx.x; i < n; i += Index{gridDim.x} * blockDim.x) {
    const T pivot = *reinterpret_cast<const T*>(data + i * step);
    if (is_zero(pivot) || !finite(pivot)) atomicMin(bad, static_cast<Found>(2 * i + (is_zero(pivot) ? 0 : 1)));
  }
}

template <class T>
__global__ void find_minor_kernel(const std::byte* data, Index n, Index step, const int* info, Found* minor) {
  const Index sure = *info > 0 ? *info - 1 : n;
  if (*info > 0 && blockIdx.x == 0 && threadIdx.x == 0) atomicMin(minor, static_cast<Found>(*info - 1));
  for (Index i = blockIdx.x * Index{blockDim.x} + threadIdx.x; i < sure; i += Index{gridDim.x} * blockDim.x) {
    const auto pivot = real(*reinterpret_cast<const T*>(data + i * step));
    if (!(pivot > 0) || !isfinite(pivot)) atomicMin(minor, static_cast<Found>(i));
  }
}

__global__ void number_pivots_kernel(const std::int64_t* chosen, Index row, std::byte* pivots, Index n, Index step) {
  for (Index i = blockIdx.x * Index{blockDim.x} + threadIdx.x; i < n; i += Index{gridDim.x} * blockDim.x)
    *reinterpret_cast<std::int64_t*>(pivots + i * step) = chosen[i] - 1 + row;
}

struct Rows {
  std::byte* data;
  Index row, col;
};

/// A thread has a column, in which exchanges follow one another; neighbours have neighbouring columns.
template <class T>
__global__ void swap_rows_kernel(Rows upper, Index above, Rows lower, Index width, Index first, Index origin,
                                 const std::byte* pivots, Index step, Index n, bool backwards) {
  const Index j = blockIdx.x * Index{blockDim.x} + threadIdx.x;
  if (j >= width) return;
  const auto at = [&](Index r) {
    const Rows& part = r < above ? upper : lower;
    return reinterpret_cast<T*>(part.data + (r < above ? r : r - above) * part.row + j * part.col);
  };
  for (Index s = 0; s < n; ++s) {
    const Index i = backwards ? n - 1 - s : s;
    const Index one = first + i - origin, other = *reinterpret_cast<const std::int64_t*>(pivots + i * step) - origin;
    if (one == other) continue;
    const T x = *at(one);
    *at(one) = *at(other);
    *at(other) = x;
  }
}

/// One block; column after column, a thread for each row of T.
template <class T>
__global__ void reflector_triangle_kernel(const T* g, Index ldg, const T* tau, T* t, Index ldt, int n) {
  for (int j = 0; j < n; ++j) {
    for (int i = threadIdx.x; i <= j; i += blockDim.x) {
      if (i == j) {
        t[j + j * ldt] = tau[j];
        continue;
      }
      T sum{};
      for (int k = i; k < j; ++k) sum = sum + t[i + k * ldt] * g[k + j * ldg];
      t[i + j * ldt] = T{} - tau[j] * sum;
    }
    __syncthreads();
  }
}

struct alignas(16) Sixteen {
  std::uint64_t low, high;
};

}  // namespace

bool has_kernels() {
  cudaFuncAttributes found{};
  const bool there = cudaFuncGetAttributes(&found, number_pivots_kernel) == cudaSuccess;
  if (!there) (void)cudaGetLastError();
  return there;
}

void find_bad_pivot(cudaStream_t stream, const Tile& vector, Found* bad) {
  const Index n = vector.shape[0];
  if (n == 0) return;
  with_number(vector.dtype, [&]<class T>(T) {
    find_bad_pivot_kernel<T><<<blocks_of(n), threads, 0, stream>>>(vector.data, n, vector.strides[0], bad);
  });
  launched();
}

void find_minor(cudaStream_t stream, const Tile& diagonal, const int* info, Found* minor) {
  const Index n = diagonal.shape[0];
  with_number(diagonal.dtype, [&]<class T>(T) {
    find_minor_kernel<T><<<blocks_of(n), threads, 0, stream>>>(diagonal.data, n, diagonal.strides[0], info, minor);
  });
  launched();
}

void number_pivots(cudaStream_t stream, const std::int64_t* chosen, Index row, const Tile& pivots) {
  const Index n = count(pivots.shape);
  if (n == 0) return;
  number_pivots_kernel<<<blocks_of(n), threads, 0, stream>>>(chosen, row, pivots.data, n, sizeof(std::int64_t));
  launched();
}

void swap_rows(cudaStream_t stream, const Tile& upper, const Tile& lower, Index origin, Index first,
               const Tile& pivots, bool backwards) {
  const Index width = lower.shape[1], n = count(pivots.shape);
  if (width == 0 || n == 0) return;
  const Rows above{upper.data, upper.strides[0], upper.strides[1]}, below{lower.data, lower.strides[0], lower.strides[1]};
  const auto run = [&]<class T>(T) {
    swap_rows_kernel<T><<<static_cast<unsigned>(ceil_div(width, 64)), 64, 0, stream>>>(
        above, upper.shape[0], below, width, first, origin, pivots.data, sizeof(std::int64_t), n, backwards);
  };
  switch (size_of(lower.dtype)) {
    case 4:
      run(std::uint32_t{});
      break;
    case 8:
      run(std::uint64_t{});
      break;
    default:
      run(Sixteen{});
  }
  launched();
}

void reflector_triangle(cudaStream_t stream, const Tile& g, const std::byte* tau, const Tile& t) {
  const int n = static_cast<int>(t.shape[1]);
  if (n == 0) return;
  with_number(t.dtype, [&]<class T>(T) {
    reflector_triangle_kernel<T><<<1, std::min(1024, (n + 31) / 32 * 32), 0, stream>>>(
        reinterpret_cast<const T*>(g.data), g.strides[1] / static_cast<Index>(sizeof(T)),
        reinterpret_cast<const T*>(tau), reinterpret_cast<T*>(t.data), t.strides[1] / static_cast<Index>(sizeof(T)), n);
  });
  launched();
}

}  // namespace flagstone::cuda
