#include "flagstone/cuda/strided.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "flagstone/base/grid.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/cuda/numbers.cuh"

namespace flagstone::cuda {
namespace {

constexpr unsigned side = 32;        // of what is turned at once in shared memory
constexpr unsigned most_blocks = 65535;

/// Two dimensions of a pair of tiles, the first the one along which `to` is densest. `swapped`: it is the rows.
struct Plane {
  Index n = 1, m = 1;
  Index from_n = 0, from_m = 0, to_n = 0, to_m = 0;  // bytes
  bool swapped = false;
};

template <class F>
__device__ void visit(const F& f, const Plane& p, Index x, Index y, typename F::From value, std::byte* to) {
  f(value, reinterpret_cast<typename F::To*>(to + x * p.to_n + y * p.to_m), p.swapped ? x : y, p.swapped ? y : x);
}

template <class F>
__global__ void straight(const std::byte* from, std::byte* to, Plane p, F f) {
  for (Index y = blockIdx.y * Index{blockDim.y} + threadIdx.y; y < p.m; y += Index{gridDim.y} * blockDim.y)
    for (Index x = blockIdx.x * Index{blockDim.x} + threadIdx.x; x < p.n; x += Index{gridDim.x} * blockDim.x)
      visit(f, p, x, y, *reinterpret_cast<const typename F::From*>(from + x * p.from_n + y * p.from_m), to);
}

/// Where `from` is densest along the other dimension: both sides in runs, turned in shared memory.
template <class F>
__global__ void turning(const std::byte* from, std::byte* to, Plane p, F f) {
  using From = typename F::From;
  __shared__ __align__(16) unsigned char memory[side * (side + 1) * sizeof(From)];
  From* const square = reinterpret_cast<From*>(memory);
  for (Index y0 = Index{blockIdx.y} * side; y0 < p.m; y0 += Index{gridDim.y} * side)
    for (Index x0 = Index{blockIdx.x} * side; x0 < p.n; x0 += Index{gridDim.x} * side) {
      for (unsigned i = threadIdx.y; i < side; i += blockDim.y)
        if (x0 + i < p.n && y0 + threadIdx.x < p.m)
          square[i * (side + 1) + threadIdx.x] = *reinterpret_cast<const From*>(
              from + (x0 + i) * p.from_n + (y0 + threadIdx.x) * p.from_m);
      __syncthreads();
      for (unsigned i = threadIdx.y; i < side; i += blockDim.y)
        if (x0 + threadIdx.x < p.n && y0 + i < p.m)
          visit(f, p, x0 + threadIdx.x, y0 + i, square[threadIdx.x * (side + 1) + i], to);
      __syncthreads();
    }
}

unsigned blocks(Index extent, unsigned each) {
  return static_cast<unsigned>(std::min<Index>(ceil_div(extent, each), most_blocks));
}

template <class F>
void launch(cudaStream_t stream, const std::byte* from, std::byte* to, const Plane& p, const F& f) {
  if (p.n == 0 || p.m == 0) return;
  if (p.n > 1 && p.m > 1 && p.from_m != 0 && std::abs(p.from_m) < std::abs(p.from_n)) {
    turning<<<dim3(blocks(p.n, side), blocks(p.m, side)), dim3(side, 8), 0, stream>>>(from, to, p, f);
  } else {
    const unsigned width = static_cast<unsigned>(std::min<Index>(256, (p.n + 31) / 32 * 32)), height = 256 / width;
    straight<<<dim3(blocks(p.n, width), blocks(p.m, height)), dim3(width, height), 0, stream>>>(from, to, p, f);
  }
  launched();
}

struct Dimension {
  Index extent, from, to;
};

/// Elements of two tiles of one shape that meet: as few dimensions as they have together, the densest of `to` first.
std::vector<Dimension> merged(const Tile& from, const Tile& to) {
  std::vector<Dimension> all;
  for (std::size_t d = 0; d < to.shape.size(); ++d)
    if (to.shape[d] != 1) all.push_back({to.shape[d], from.strides[d], to.strides[d]});
  std::stable_sort(all.begin(), all.end(), [](const Dimension& x, const Dimension& y) { return x.to < y.to; });
  std::vector<Dimension> few;
  for (const Dimension& d : all)
    if (!few.empty() && d.to == few.back().to * few.back().extent && d.from == few.back().from * few.back().extent)
      few.back().extent *= d.extent;
    else
      few.push_back(d);
  while (few.size() < 2) few.push_back({1, 0, 0});
  return few;
}

/// f of each pair of elements, in any number of dimensions; f does not ask where they lie.
template <class F>
void each(cudaStream_t stream, const Tile& from, const Tile& to, const F& f) {
  if (count(to.shape) == 0) return;
  const std::vector<Dimension> d = merged(from, to);
  const Plane plane{d[0].extent, d[1].extent, d[0].from, d[1].from, d[0].to, d[1].to};
  Shape outer, at;
  for (std::size_t i = 2; i < d.size(); ++i) outer.push_back(d[i].extent);
  at.assign(outer.size(), 0);
  do {
    Index from_at = 0, to_at = 0;
    for (std::size_t i = 0; i < at.size(); ++i) from_at += at[i] * d[i + 2].from, to_at += at[i] * d[i + 2].to;
    launch(stream, from.data + from_at, to.data + to_at, plane, f);
  } while (!outer.empty() && advance(at, outer));
}

/// f of each pair of elements of two matrices, with their row and column.
template <class F>
void each_of_matrix(cudaStream_t stream, const Tile& from, const Tile& to, const F& f) {
  const std::size_t fast = to.strides[1] <= to.strides[0] || to.shape[0] == 1 ? 1 : 0, slow = 1 - fast;
  launch(stream, from.data, to.data,
         Plane{to.shape[fast], to.shape[slow], from.strides[fast], from.strides[slow], to.strides[fast],
               to.strides[slow], fast == 0},
         f);
}

struct alignas(16) Sixteen {
  std::uint64_t low, high;
};

template <class T>
struct Fill {
  using From = T;
  using To = T;
  T value;
  __device__ void operator()(From, To* to, Index, Index) const { *to = value; }
};

template <class T>
struct Copy {
  using From = T;
  using To = T;
  __device__ void operator()(From from, To* to, Index, Index) const { *to = from; }
};

template <class T>
struct ConjugatedCopy {
  using From = T;
  using To = T;
  __device__ void operator()(From from, To* to, Index, Index) const { *to = conjugated(from); }
};

template <class T>
struct Add {
  using From = T;
  using To = T;
  __device__ void operator()(From from, To* to, Index, Index) const { *to = *to + from; }
};

template <class T>
struct Subtract {
  using From = T;
  using To = T;
  __device__ void operator()(From from, To* to, Index, Index) const { *to = *to - from; }
};

template <class T>
struct CopyUpper {
  using From = T;
  using To = T;
  __device__ void operator()(From from, To* to, Index i, Index j) const {
    if (i <= j) *to = from;
  }
};

template <class T>
struct Scale {
  using From = T;
  using To = T;
  T beta;
  __device__ void operator()(From from, To* to, Index, Index) const { *to = is_zero(beta) ? T{} : from * beta; }
};

template <class S, class T>
struct Convert {
  using From = S;
  using To = T;
  __device__ void operator()(From from, To* to, Index, Index) const {
    if constexpr (std::is_same_v<S, Half>)
      *to = static_cast<T>(__half2float(__ushort_as_half(from.bits)));
    else if constexpr (std::is_same_v<S, Truth>)
      *to = static_cast<T>(from.byte != 0);
    else
      *to = static_cast<T>(from);
  }
};

template <class T>
struct Take {
  using From = T;
  using To = T;
  kernel::Part part;
  bool conjugate;
  double shift;
  bool by_rows;
  Index rows, cols;
  Found* bad;
  __device__ void operator()(From from, To* to, Index i, Index j) const {
    using kernel::Part;
    const bool taken = part == Part::all || (part == Part::upper ? i <= j : i >= j);
    T value = conjugate ? conjugated(from) : from;
    if (i == j)
      value = part == Part::unit_lower ? real_number<T>(1) : value + real_number<T>(shift);
    if (!taken) value = T{};
    *to = value;
    if (bad != nullptr && !finite(value))
      atomicMin(bad, static_cast<Found>(by_rows ? i * cols + j : j * rows + i));
  }
};

template <class T>
struct Identity {
  using From = T;
  using To = T;
  Index row;
  __device__ void operator()(From, To* to, Index i, Index j) const { *to = real_number<T>(i + row == j ? 1 : 0); }
};

template <class T>
__global__ void mirror_kernel(std::byte* data, Index n, Index row, Index col, bool conjugate) {
  const auto at = [=](Index i, Index j) { return reinterpret_cast<T*>(data + i * row + j * col); };
  for (Index i = blockIdx.y * Index{blockDim.y} + threadIdx.y; i < n; i += Index{gridDim.y} * blockDim.y)
    for (Index j = blockIdx.x * Index{blockDim.x} + threadIdx.x; j <= i && j < n; j += Index{gridDim.x} * blockDim.x) {
      const T value = *at(i, j);
      if (i == j) {
        if (conjugate) *at(i, i) = real_number<T>(real(value));
      } else {
        *at(j, i) = conjugate ? conjugated(value) : value;
      }
    }
}

/// The one-byte-, two-byte-, ... type of an element that is only moved.
template <class F>
void with_bytes(std::size_t item, F&& f) {
  switch (item) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    case 8:
      return f(std::uint64_t{});
    default:
      return f(Sixteen{});
  }
}

}  // namespace

void fill(cudaStream_t stream, const Tile& to, const void* value) {
  with_bytes(size_of(to.dtype), [&]<class T>(T) {
    Fill<T> f;
    std::memcpy(&f.value, value, sizeof(T));
    each(stream, to, to, f);
  });
}

void copy(cudaStream_t stream, const Tile& from, const Tile& to, bool conjugate) {
  if (conjugate && is_complex(to.dtype))
    return with_number(to.dtype, [&]<class T>(T) { each(stream, from, to, ConjugatedCopy<T>{}); });
  with_bytes(size_of(to.dtype), [&]<class T>(T) { each(stream, from, to, Copy<T>{}); });
}

void add(cudaStream_t stream, const Tile& from, const Tile& to) {
  with_number(to.dtype, [&]<class T>(T) { each(stream, from, to, Add<T>{}); });
}

void subtract(cudaStream_t stream, const Tile& from, const Tile& to) {
  with_number(to.dtype, [&]<class T>(T) { each(stream, from, to, Subtract<T>{}); });
}

void copy_upper(cudaStream_t stream, const Tile& from, const Tile& to) {
  with_number(to.dtype, [&]<class T>(T) { each_of_matrix(stream, from, to, CopyUpper<T>{}); });
}

void scale(cudaStream_t stream, std::complex<double> beta, const Tile& c) {
  with_number(c.dtype, [&]<class T>(T) { each(stream, c, c, Scale<T>{number<T>(beta)}); });
}

void convert(cudaStream_t stream, const Tile& from, const Tile& to) {
  visit_real_type(from.dtype, [&]<class S>(S) {
    if (to.dtype == Dtype::float32)
      each(stream, from, to, Convert<S, float>{});
    else
      each(stream, from, to, Convert<S, double>{});
  });
}

void take(cudaStream_t stream, kernel::Part part, const Tile& from, bool conjugate, double shift, const Tile& to,
          bool by_rows, Found* bad) {
  with_number(to.dtype, [&]<class T>(T) {
    each_of_matrix(stream, from, to, Take<T>{part, conjugate, shift, by_rows, to.shape[0], to.shape[1], bad});
  });
}

void mirror_within(cudaStream_t stream, const Tile& tile, bool conjugate) {
  const Index n = tile.shape[0];
  if (n == 0) return;
  with_number(tile.dtype, [&]<class T>(T) {
    mirror_kernel<T><<<dim3(blocks(n, 32), blocks(n, 8)), dim3(32, 8), 0, stream>>>(
        tile.data, n, tile.strides[0], tile.strides[1], conjugate && complex_type<T>);
  });
  launched();
}

void set_identity(cudaStream_t stream, Index row, const Tile& to) {
  with_number(to.dtype, [&]<class T>(T) { each_of_matrix(stream, to, to, Identity<T>{row}); });
}

}  // namespace flagstone::cuda
