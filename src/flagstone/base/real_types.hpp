#pragma once
// From a run-time dtype to the C++ type of its elements: the one switch.
#include <bit>
#include <cstdint>
#include <string>

#include "flagstone/base/dtype.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {

/// IEEE 754 binary16 as its bits; every value is exact in float32.
struct Half {
  std::uint16_t bits;
  operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
    if (exponent == 0) {  // zero and subnormals: mantissa 2^-24
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -magnitude : magnitude;
    }
    const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
  }
};

/// A boolean as it is stored. Every byte but 0 is true, as NumPy has it: masks are saved as 0 and 255 too.
struct Truth {
  std::uint8_t byte;
  operator std::uint8_t() const { return byte != 0; }
};

/// Calls f(T{}) with the C++ type of a real dtype. ShapeError for a complex one.
template <class F>
decltype(auto) visit_real_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::boolean:
      return f(Truth{});
    case Dtype::int8:
      return f(std::int8_t{});
    case Dtype::int16:
      return f(std::int16_t{});
    case Dtype::int32:
      return f(std::int32_t{});
    case Dtype::int64:
      return f(std::int64_t{});
    case Dtype::uint8:
      return f(std::uint8_t{});
    case Dtype::uint16:
      return f(std::uint16_t{});
    case Dtype::uint32:
      return f(std::uint32_t{});
    case Dtype::uint64:
      return f(std::uint64_t{});
    case Dtype::float16:
      return f(Half{});
    case Dtype::float32:
      return f(float{});
    case Dtype::float64:
      return f(double{});
    default:
      throw ShapeError("convert: " + std::string(name_of(dtype)) + " was given; a real dtype is needed.");
  }
}

}  // namespace flagstone
