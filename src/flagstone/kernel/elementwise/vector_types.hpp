#pragma once
// Element types of the loops, what they are, half precision and conversions. Included once per instruction set, so no
// header with inline functions: the linker would keep one copy of those for the whole program, perhaps the one that
// this processor cannot run.
#include <cstdint>

namespace flagstone::kernel {
namespace {

using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum class Bool : u8 {};
struct Half {
  u16 bits;
};
template <class R>
struct Complex {
  R re, im;
};

template <class T>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;
template <class T>
inline constexpr bool is_complex_type = false;
template <class R>
inline constexpr bool is_complex_type<Complex<R>> = true;
template <class T>
inline constexpr bool is_bool = false;
template <>
inline constexpr bool is_bool<Bool> = true;
template <class T>
inline constexpr bool is_half = false;
template <>
inline constexpr bool is_half<Half> = true;
template <class T>
inline constexpr bool is_int = !is_float<T> && !is_complex_type<T> && !is_bool<T> && !is_half<T>;
template <class T>
inline constexpr bool is_signed_type = is_float<T>;
template <>
inline constexpr bool is_signed_type<i8> = true;
template <>
inline constexpr bool is_signed_type<i16> = true;
template <>
inline constexpr bool is_signed_type<i32> = true;
template <>
inline constexpr bool is_signed_type<i64> = true;
template <class T>
struct Part {
  using type = T;
};
template <class R>
struct Part<Complex<R>> {
  using type = R;
};

/// Integers wrap: their arithmetic is done without a sign, in 32 bits or more.
template <class T>
struct Wrapping {
  using type = u32;
};
template <>
struct Wrapping<i64> {
  using type = u64;
};
template <>
struct Wrapping<u64> {
  using type = u64;
};
template <class T>
using Wrap = typename Wrapping<T>::type;

inline float abs_(float a) { return __builtin_fabsf(a); }
inline double abs_(double a) { return __builtin_fabs(a); }

// ---- half precision -------------------------------------------------------------------------------------------------

inline float to_float(Half h) {
  const u32 sign = (h.bits & 0x8000u) << 16, exponent = (h.bits >> 10) & 0x1f, mantissa = h.bits & 0x3ff;
  const u32 wide = exponent == 31 ? 255 : exponent + 112;
  const u32 normal = sign | wide << 23 | mantissa << 13;
  const float small = static_cast<float>(static_cast<i32>(mantissa)) * 0x1p-24f;  // zero and subnormals
  float value;
  __builtin_memcpy(&value, &normal, sizeof value);
  return exponent == 0 ? (sign ? -small : small) : value;
}

/// To nearest, ties to even.
inline Half to_half(float f) {
  u32 bits;
  __builtin_memcpy(&bits, &f, sizeof bits);
  const u32 sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return {static_cast<u16>(sign | 0x7e00 | (bits >> 13 & 0x3ff))};
  if (bits >= 0x47800000) return {static_cast<u16>(sign | 0x7c00)};  // 65536 and more
  if (bits < 0x38800000) {                                           // below 2^-14: the last place of 0.5 is 2^-24
    float shifted;
    __builtin_memcpy(&shifted, &bits, sizeof shifted);
    shifted += 0.5f;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    return {static_cast<u16>(sign | (bits - 0x3f000000))};
  }
  bits += 0xfff + (bits >> 13 & 1);
  return {static_cast<u16>(sign | (bits - 0x38000000) >> 13)};
}

/// Through float32 rounded to odd, so that rounding happens once.
inline Half to_half(double d) {
  float f = static_cast<float>(d);
  if (d == d && static_cast<double>(f) != d) {
    u32 bits;
    __builtin_memcpy(&bits, &f, sizeof bits);
    if (abs_(static_cast<double>(f)) > abs_(d)) --bits;
    bits |= 1;
    __builtin_memcpy(&f, &bits, sizeof f);
  }
  return to_half(f);
}

template <class To, class From>
To cast_(From x) {
  if constexpr (is_complex_type<To>) {
    using R = typename Part<To>::type;
    if constexpr (is_complex_type<From>)
      return {static_cast<R>(x.re), static_cast<R>(x.im)};
    else
      return {cast_<R>(x), R(0)};
  } else if constexpr (is_bool<To>) {
    if constexpr (is_complex_type<From>)
      return Bool(x.re != 0 || x.im != 0);
    else if constexpr (is_half<From>)
      return Bool((x.bits & 0x7fff) != 0);
    else
      return Bool(static_cast<u8>(static_cast<From>(x) != From(0)));
  } else if constexpr (is_complex_type<From>) {
    return cast_<To>(x.re);
  } else if constexpr (is_half<From>) {
    if constexpr (is_half<To>)
      return x;
    else
      return cast_<To>(to_float(x));
  } else if constexpr (is_half<To>) {
    if constexpr (sizeof(From) == 8 && is_float<From>)
      return to_half(x);
    else
      return to_half(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace
}  // namespace flagstone::kernel
