#pragma once
// Element types of scans and differences as they add, subtract and multiply: integers modulo 2^bits, half precision in
// float32 and rounded after every operation, complex numbers by their parts; NumPy's arithmetic.
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "flagstone/base/real_types.hpp"
#include "flagstone/base/shape.hpp"

namespace flagstone::kernel {

/// To nearest, ties to even.
inline Half to_half(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return {static_cast<std::uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff))};
  if (bits >= 0x47800000) return {static_cast<std::uint16_t>(sign | 0x7c00)};  // 65536 and more
  if (bits < 0x38800000)                                                       // below 2^-14: places of 2^-24
    return {static_cast<std::uint16_t>(sign |
                                       (std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5f) - 0x3f000000))};
  bits += 0xfff + (bits >> 13 & 1);
  return {static_cast<std::uint16_t>(sign | (bits - 0x38000000) >> 13)};
}

struct Plus {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_same_v<T, Truth>)
      return {static_cast<std::uint8_t>(a || b)};
    else if constexpr (std::is_same_v<T, Half>)
      return to_half(float(a) + float(b));
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
      return a + b;
  }
};

struct Times {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_same_v<T, Truth>)
      return {static_cast<std::uint8_t>(a && b)};
    else if constexpr (std::is_same_v<T, Half>)
      return to_half(float(a) * float(b));
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  }
};

/// Of booleans: whether they differ.
struct Minus {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_same_v<T, Truth>)
      return {static_cast<std::uint8_t>(std::uint8_t(a) != std::uint8_t(b))};
    else if constexpr (std::is_same_v<T, Half>)
      return to_half(float(a) - float(b));
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
    else
      return a - b;
  }
};

/// Calls f(T{}) with the C++ type of any dtype.
template <class F>
decltype(auto) visit_element_type(Dtype dtype, F&& f) {
  if (dtype == Dtype::complex64) return f(std::complex<float>{});
  if (dtype == Dtype::complex128) return f(std::complex<double>{});
  return visit_real_type(dtype, std::forward<F>(f));
}

}  // namespace flagstone::kernel
