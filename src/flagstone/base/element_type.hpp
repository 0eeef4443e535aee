#pragma once
// From a C++ type to the dtype of its elements, and tiles over a program's own memory.
#include <complex>
#include <type_traits>

#include "flagstone/base/shape.hpp"

namespace flagstone {

/// The run-time dtype of a C++ element type.
template <class T>
constexpr Dtype dtype_of() {
  using E = std::remove_const_t<T>;
  if constexpr (std::is_same_v<E, bool>)
    return Dtype::boolean;
  else if constexpr (std::is_same_v<E, float>)
    return Dtype::float32;
  else if constexpr (std::is_same_v<E, double>)
    return Dtype::float64;
  else if constexpr (std::is_same_v<E, std::complex<float>>)
    return Dtype::complex64;
  else if constexpr (std::is_same_v<E, std::complex<double>>)
    return Dtype::complex128;
  else {
    static_assert(std::is_integral_v<E>, "elements are bool, integers, float, double or std::complex of those");
    constexpr Dtype with_sign[] = {Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64};
    constexpr Dtype without[] = {Dtype::uint8, Dtype::uint16, Dtype::uint32, Dtype::uint64};
    constexpr int log2 = sizeof(E) == 1 ? 0 : sizeof(E) == 2 ? 1 : sizeof(E) == 4 ? 2 : 3;
    return std::is_signed_v<E> ? with_sign[log2] : without[log2];
  }
}

/// A program's own elements, in C order. A tile of const elements may only be read.
template <class T>
Tile tile_of(T* data, const Shape& shape) {
  auto* bytes = reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(data));
  return {bytes, dtype_of<T>(), shape, c_strides(shape, sizeof(T)), static_cast<std::size_t>(count(shape)) * sizeof(T)};
}

}  // namespace flagstone
