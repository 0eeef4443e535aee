// One warp a row of A, or a column.
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>

#include "flagstone/cuda/numbers.cuh"
#include "flagstone/cuda/sparse.hpp"
#include "flagstone/cuda/strided.hpp"

namespace flagstone::cuda {
namespace {

constexpr unsigned threads = 256, lanes = 32, all_lanes = 0xffffffff;

unsigned blocks_of_warps(Index warps) {
  return static_cast<unsigned>(std::clamp<Index>(ceil_div(warps, threads / lanes), 1, Index{1} << 20));
}
unsigned blocks_of_threads(Index n) {
  return static_cast<unsigned>(std::clamp<Index>(ceil_div(n, threads), 1, Index{1} << 16));
}

template <class T>
__device__ T from_lane(T value, int lane) {
  if constexpr (complex_type<T>)
    return {__shfl_sync(all_lanes, value.re, lane), __shfl_sync(all_lanes, value.im, lane)};
  else
    return __shfl_sync(all_lanes, value, lane);
}

/// sum += v x, of the columns that this lane has: every lanes-th one.
template <class T, int per>
__device__ void add_row(T (&sum)[per], T v, const T* __restrict__ x, int left) {
#pragma unroll
  for (int i = 0; i < per; ++i)
    if (i * static_cast<int>(lanes) < left) sum[i] = sum[i] + v * x[i * lanes];
}

/// For each of up to 32 values that the lanes hold: its place (a row of X or T) and itself.
template <class T, class Place, int per>
__device__ void add_rows(T (&sum)[per], T v, Place place, int count, const T* __restrict__ x, Index ld, int left) {
  if (count == lanes) {
#pragma unroll 8
    for (int k = 0; k < static_cast<int>(lanes); ++k)
      add_row(sum, from_lane(v, k), x + static_cast<Index>(from_lane(place, k)) * ld, left);
  } else {
    for (int k = 0; k < count; ++k)
      add_row(sum, from_lane(v, k), x + static_cast<Index>(from_lane(place, k)) * ld, left);
  }
}

template <class Column>
using Shuffled = std::conditional_t<sizeof(Column) == 8, unsigned long long, unsigned>;

template <class T, class Column, int per>
__global__ void __launch_bounds__(threads)
    multiply_kernel(const std::int64_t* __restrict__ pointers, const T* __restrict__ values,
                    const Column* __restrict__ columns, Index rows, const T* __restrict__ x, Index ldx,
                    const double* __restrict__ shift, bool accumulate, T* __restrict__ t, Index ldt, int width) {
  const int lane = static_cast<int>(threadIdx.x % lanes);
  const int first = static_cast<int>(blockIdx.y) * per * static_cast<int>(lanes) + lane, left = width - first;
  const Index warps = Index{gridDim.x} * (threads / lanes);
  for (Index row = (blockIdx.x * Index{threads} + threadIdx.x) / lanes; row < rows; row += warps) {
    T* const to = t + row * ldt + first;
    T sum[per] = {};
#pragma unroll
    for (int i = 0; i < per; ++i)
      if (i * static_cast<int>(lanes) < left) {
        if (accumulate) sum[i] = to[i * lanes];
        if (shift) sum[i] = real_number<T>(-shift[first + i * lanes]);
      }
    const Index end = pointers[row + 1];
    for (Index p = pointers[row]; p < end; p += lanes) {
      const bool mine = p + lane < end;
      const auto column = static_cast<Shuffled<Column>>(mine ? columns[p + lane] : Column{});
      const T value = mine ? values[p + lane] : T{};
      add_rows(sum, value, column, static_cast<int>(min(Index{lanes}, end - p)), x + first, ldx, left);
    }
#pragma unroll
    for (int i = 0; i < per; ++i)
      if (i * static_cast<int>(lanes) < left) to[i * lanes] = sum[i];
  }
}

/// f(std::integral_constant<int, columns of a lane>{}).
template <class F>
void with_width(Index width, F&& f) {
  if (width <= 32) return f(std::integral_constant<int, 1>{});
  if (width <= 64) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 4>{});
}

template <class F>
void with_columns(Dtype dtype, F&& f) {
  if (dtype == Dtype::uint16) return f(std::uint16_t{});
  if (dtype == Dtype::uint32) return f(std::uint32_t{});
  f(std::uint64_t{});
}

template <class T>
Index leading(const Tile& tile) {
  return tile.strides[0] / static_cast<Index>(sizeof(T));
}

constexpr unsigned across = 32;

/// A block has 32 columns and as many stretches of rows, joined in order.
template <class T>
__global__ void sums_kernel(const double* __restrict__ mu, const T* __restrict__ x, Index rows, Index ld, int width,
                            double* __restrict__ s) {
  __shared__ double sums[across][across + 1];
  const int col = static_cast<int>(blockIdx.x * across + threadIdx.x);
  double sum = 0;
  for (Index row = threadIdx.y; col < width && row < rows; row += across)
    sum += (mu ? mu[row] : 1.0) * static_cast<double>(x[row * ld + col]);
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= width) return;
  for (unsigned i = 1; i < across; ++i) sum += sums[i][threadIdx.x];
  s[col] = sum;
}

/// What is beyond the last value counts as of a column behind all others.
template <class Column>
__global__ void keys_kernel(const std::int64_t* __restrict__ pointers, Index rows, const Column* __restrict__ columns,
                            Index most, std::uint32_t cols, std::uint32_t* __restrict__ keys,
                            std::uint32_t* __restrict__ places) {
  const Index count = pointers[rows];
  for (Index i = blockIdx.x * Index{blockDim.x} + threadIdx.x; i < most; i += Index{gridDim.x} * blockDim.x) {
    keys[i] = i < count ? static_cast<std::uint32_t>(columns[i]) : cols;
    places[i] = static_cast<std::uint32_t>(i);
  }
}

__global__ void rows_kernel(const std::int64_t* __restrict__ pointers, Index rows, std::uint32_t* __restrict__ of) {
  const Index warps = Index{gridDim.x} * (threads / lanes);
  for (Index row = (blockIdx.x * Index{threads} + threadIdx.x) / lanes; row < rows; row += warps)
    for (Index p = pointers[row] + threadIdx.x % lanes; p < pointers[row + 1]; p += lanes)
      of[p] = static_cast<std::uint32_t>(row);
}

/// starts[c]: the first sorted value of a column not before c.
__global__ void starts_kernel(const std::uint32_t* __restrict__ sorted, Index most, std::uint32_t cols,
                              std::uint32_t* __restrict__ starts) {
  for (Index i = blockIdx.x * Index{blockDim.x} + threadIdx.x; i <= most; i += Index{gridDim.x} * blockDim.x) {
    const Index from = i == 0 ? 0 : Index{sorted[i - 1]} + 1, to = i == most ? cols : Index{sorted[i]};
    for (Index c = from; c <= to; ++c) starts[c] = static_cast<std::uint32_t>(i);
  }
}

template <class T>
struct WideOf {
  using type = std::conditional_t<complex_type<T>, Complex<double>, double>;
};

template <class T>
__device__ typename WideOf<T>::type wide(T x) {
  if constexpr (complex_type<T>)
    return {static_cast<double>(x.re), static_cast<double>(x.im)};
  else
    return static_cast<double>(x);
}

struct Sorted {
  const std::uint32_t *order, *rows, *starts;
};

template <class T, int per>
__global__ void __launch_bounds__(threads)
    add_kernel(Sorted by, const T* __restrict__ values, Index cols, const T* __restrict__ t, Index ldt, bool conjugate,
               const double* __restrict__ mu, const double* __restrict__ sums,
               typename WideOf<T>::type* __restrict__ z, Index ldz, int width) {
  const int lane = static_cast<int>(threadIdx.x % lanes);
  const int first = static_cast<int>(blockIdx.y) * per * static_cast<int>(lanes) + lane, left = width - first;
  const Index warps = Index{gridDim.x} * (threads / lanes);
  for (Index col = (blockIdx.x * Index{threads} + threadIdx.x) / lanes; col < cols; col += warps) {
    T sum[per] = {};
    const Index end = by.starts[col + 1];
    for (Index i = by.starts[col]; i < end; i += lanes) {
      const bool mine = i + lane < end;
      const std::uint32_t at = mine ? by.order[i + lane] : 0;
      const unsigned row = mine ? by.rows[at] : 0;
      T value = mine ? values[at] : T{};
      if (conjugate) value = conjugated(value);
      add_rows(sum, value, row, static_cast<int>(min(Index{lanes}, end - i)), t + first, ldt, left);
    }
#pragma unroll
    for (int i = 0; i < per; ++i)
      if (i * static_cast<int>(lanes) < left) {
        auto& to = z[col * ldz + first + i * lanes];
        to = to + wide(sum[i]);
        if (mu) to = to - real_number<typename WideOf<T>::type>(mu[col] * sums[first + i * lanes]);
      }
  }
}

}  // namespace

void sparse_multiply(cudaStream_t stream, const SparseRows& a, const Tile& x, const double* s, bool accumulate,
                     const Tile& t) {
  const Index width = x.shape[1];
  if (width == 0) return;
  with_number(a.dtype, [&]<class T>(T) {
    with_columns(a.column_dtype, [&]<class Column>(Column) {
      with_width(width, [&]<int per>(std::integral_constant<int, per>) {
        const dim3 grid(blocks_of_warps(a.rows), static_cast<unsigned>(ceil_div(width, Index{per * lanes})));
        multiply_kernel<T, Column, per><<<grid, threads, 0, stream>>>(
            a.pointers, reinterpret_cast<const T*>(a.values), reinterpret_cast<const Column*>(a.columns), a.rows,
            x.as<const T>(), leading<T>(x), s, accumulate, t.as<T>(), leading<T>(t), static_cast<int>(width));
        launched();
      });
    });
  });
}

void sums_of_columns(cudaStream_t stream, const double* mu, const Tile& x, double* s) {
  const Index width = x.shape[1];
  if (width == 0) return;
  const auto sum = [&]<class T>(T) {
    sums_kernel<T><<<static_cast<unsigned>(ceil_div(width, Index{across})), dim3(across, across), 0, stream>>>(
        mu, x.as<const T>(), x.shape[0], leading<T>(x), static_cast<int>(width), s);
    launched();
  };
  if (x.dtype == Dtype::float32)
    sum(float{});
  else
    sum(double{});
}

namespace {

int bits_of(Index cols) { return std::bit_width(static_cast<std::uint64_t>(cols)); }

}  // namespace

ByColumns::ByColumns(Workspace& space, const SparseRows& a) {
  const auto words = [&](Index n) {
    return reinterpret_cast<std::uint32_t*>(space.take(static_cast<std::size_t>(n) * sizeof(std::uint32_t)));
  };
  keys_ = words(a.most), sorted_ = words(a.most), places_ = words(a.most), order_ = words(a.most);
  rows_ = words(a.most), starts_ = words(a.cols + 1);
  check(cub::DeviceRadixSort::SortPairs(nullptr, sorting_bytes_, keys_, sorted_, places_, order_, a.most, 0,
                                        bits_of(a.cols)),
        "a kernel");
  sorting_ = space.take(sorting_bytes_);
}

void ByColumns::sort(cudaStream_t stream, const SparseRows& a) const {
  const auto cols = static_cast<std::uint32_t>(a.cols);
  with_columns(a.column_dtype, [&]<class Column>(Column) {
    keys_kernel<Column><<<blocks_of_threads(a.most), threads, 0, stream>>>(
        a.pointers, a.rows, reinterpret_cast<const Column*>(a.columns), a.most, cols, keys_, places_);
    launched();
  });
  rows_kernel<<<blocks_of_warps(a.rows), threads, 0, stream>>>(a.pointers, a.rows, rows_);
  launched();
  std::size_t bytes = sorting_bytes_;
  check(cub::DeviceRadixSort::SortPairs(sorting_, bytes, keys_, sorted_, places_, order_, a.most, 0, bits_of(a.cols),
                                        stream),
        "a kernel");
  starts_kernel<<<blocks_of_threads(a.most + 1), threads, 0, stream>>>(sorted_, a.most, cols, starts_);
  launched();
}

void ByColumns::add(cudaStream_t stream, const SparseRows& a, const Tile& t, bool conjugate, const double* mu,
                    const double* sums, const Tile& z) const {
  const Index width = t.shape[1];
  if (width == 0) return;
  with_number(a.dtype, [&]<class T>(T) {
    using Wide = typename WideOf<T>::type;
    with_width(width, [&]<int per>(std::integral_constant<int, per>) {
      const dim3 grid(blocks_of_warps(a.cols), static_cast<unsigned>(ceil_div(width, Index{per * lanes})));
      add_kernel<T, per><<<grid, threads, 0, stream>>>({order_, rows_, starts_}, reinterpret_cast<const T*>(a.values),
                                                       a.cols, t.as<const T>(), leading<T>(t), conjugate, mu, sums,
                                                       z.as<Wide>(), leading<Wide>(z), static_cast<int>(width));
      launched();
    });
  });
}

}  // namespace flagstone::cuda
