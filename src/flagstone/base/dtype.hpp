#pragma once
// Element types are run-time values; templates stop at the kernel (rule 3).
#include <complex>
#include <cstdint>
#include <string>
#include <string_view>

namespace flagstone {

using Index = std::int64_t;  // every extent, offset in elements and count: 64 bits everywhere

enum class Dtype : std::uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  float32,
  float64,
  complex64,
  complex128,
};

/// Bytes of one element.
std::size_t size_of(Dtype dtype) noexcept;
/// NumPy's and Zarr's name: "float32", "bool", ...
std::string_view name_of(Dtype dtype) noexcept;
/// The inverse of name_of; throws FormatError for a name that is not in the list.
Dtype dtype_from_name(std::string_view name);
bool is_complex(Dtype dtype) noexcept;
bool is_integer(Dtype dtype) noexcept;  // bool counts as one
/// float32 -> float32, complex64 -> float32, complex128 -> float64, ...
Dtype real_part_of(Dtype dtype) noexcept;

/// Calls f(T{}) with the C++ type of a dtype that BLAS computes in.
template <class F>
decltype(auto) visit_blas_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::float32:
      return f(float{});
    case Dtype::complex64:
      return f(std::complex<float>{});
    case Dtype::complex128:
      return f(std::complex<double>{});
    default:
      return f(double{});
  }
}

}  // namespace flagstone
