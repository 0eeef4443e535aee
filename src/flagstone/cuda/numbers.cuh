#pragma once
// Numbers of kernels: a complex one of two reals, and what host code says of dtypes.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <complex>
#include <cstdint>

#include "flagstone/base/dtype.hpp"
#include "flagstone/cuda/status.hpp"

namespace flagstone::cuda {

template <class R>
struct alignas(2 * sizeof(R)) Complex {
  R re, im;
};

template <class T>
struct RealOf {
  using type = T;
};
template <class R>
struct RealOf<Complex<R>> {
  using type = R;
};
template <class T>
inline constexpr bool complex_type = !std::is_same_v<typename RealOf<T>::type, T>;

template <class R>
__device__ Complex<R> operator+(Complex<R> x, Complex<R> y) {
  return {x.re + y.re, x.im + y.im};
}
template <class R>
__device__ Complex<R> operator-(Complex<R> x, Complex<R> y) {
  return {x.re - y.re, x.im - y.im};
}
template <class R>
__device__ Complex<R> operator*(Complex<R> x, Complex<R> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <class T>
__device__ T conjugated(T x) {
  if constexpr (complex_type<T>) x.im = -x.im;
  return x;
}
template <class T>
__device__ T real_number(double x) {
  if constexpr (complex_type<T>)
    return {static_cast<typename RealOf<T>::type>(x), 0};
  else
    return static_cast<T>(x);
}
template <class T>
__device__ bool is_zero(T x) {
  if constexpr (complex_type<T>)
    return x.re == 0 && x.im == 0;
  else
    return x == T{};
}
template <class T>
__device__ bool finite(T x) {
  if constexpr (complex_type<T>)
    return isfinite(x.re) && isfinite(x.im);
  else
    return isfinite(x);
}
template <class T>
__device__ auto real(T x) {
  if constexpr (complex_type<T>)
    return x.re;
  else
    return x;
}

template <class T>
T number(std::complex<double> x) {
  if constexpr (complex_type<T>)
    return {static_cast<typename RealOf<T>::type>(x.real()), static_cast<typename RealOf<T>::type>(x.imag())};
  else
    return static_cast<T>(x.real());
}

/// f(T{}) with the device's type of a dtype that BLAS computes in.
template <class F>
void with_number(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::float32:
      return f(float{});
    case Dtype::complex64:
      return f(Complex<float>{});
    case Dtype::complex128:
      return f(Complex<double>{});
    default:
      return f(double{});
  }
}

/// After a launch: what it was refused for.
inline void launched() { check(cudaGetLastError(), "a kernel"); }

}  // namespace flagstone::cuda
