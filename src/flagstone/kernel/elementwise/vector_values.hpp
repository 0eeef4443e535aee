#pragma once
// Verbs as functions of single values; semantics are NumPy's. Included once per instruction set (vector_types.hpp).
#include "flagstone/kernel/elementwise/vector_types.hpp"
#include "flagstone/kernel/elementwise/verbs.hpp"

namespace flagstone::kernel {
namespace {

// ---- functions of single values --------------------------------------------------------------------------------

inline float fmod_(float a, float b) { return __builtin_fmodf(a, b); }
inline double fmod_(double a, double b) { return __builtin_fmod(a, b); }
inline float floor_(float a) { return __builtin_floorf(a); }
inline double floor_(double a) { return __builtin_floor(a); }
inline float ceil_(float a) { return __builtin_ceilf(a); }
inline double ceil_(double a) { return __builtin_ceil(a); }
inline float trunc_(float a) { return __builtin_truncf(a); }
inline double trunc_(double a) { return __builtin_trunc(a); }
inline float rint_(float a) { return __builtin_rintf(a); }
inline double rint_(double a) { return __builtin_rint(a); }
inline float sqrt_(float a) { return __builtin_sqrtf(a); }
inline double sqrt_(double a) { return __builtin_sqrt(a); }
inline float copysign_(float a, float b) { return __builtin_copysignf(a, b); }
inline double copysign_(double a, double b) { return __builtin_copysign(a, b); }
inline float hypot_(float a, float b) { return __builtin_hypotf(a, b); }
inline double hypot_(double a, double b) { return __builtin_hypot(a, b); }

template <class T>
T remainder_(T a, T b) {
  if constexpr (is_float<T>) {
    T mod = fmod_(a, b);
    if (b == 0) return mod;
    if (mod != 0) return (b < 0) != (mod < 0) ? mod + b : mod;
    return copysign_(T(0), b);
  } else if constexpr (is_signed_type<T>) {
    if (b == 0 || b == T(-1)) return 0;
    const T mod = static_cast<T>(a % b);
    return mod != 0 && (mod < 0) != (b < 0) ? static_cast<T>(mod + b) : mod;
  } else {
    return b == 0 ? T(0) : static_cast<T>(a % b);
  }
}

template <class T>
T floor_divide_(T a, T b) {
  if constexpr (is_float<T>) {
    if (b == 0) return a / b;
    T mod = fmod_(a, b), quotient = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) quotient -= T(1);
    if (quotient == 0) return copysign_(T(0), a / b);
    const T down = floor_(quotient);
    return quotient - down > T(0.5) ? down + T(1) : down;
  } else if constexpr (is_signed_type<T>) {
    if (b == 0) return 0;
    if (b == T(-1)) return static_cast<T>(Wrap<T>(0) - static_cast<Wrap<T>>(a));
    const T quotient = static_cast<T>(a / b);
    return static_cast<T>(a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient);
  } else {
    return b == 0 ? T(0) : static_cast<T>(a / b);
  }
}

template <class T>
T integer_power(T base, T exponent) {
  Wrap<T> result = 1, factor = static_cast<Wrap<T>>(base);
  for (auto left = static_cast<u64>(exponent); left; left >>= 1, factor *= factor)
    if (left & 1) result *= factor;
  return static_cast<T>(result);
}

/// Smith's division (1962), as NumPy: no overflow in between.
template <class R>
Complex<R> divide_(Complex<R> a, Complex<R> b) {
  const R re = abs_(b.re), im = abs_(b.im);
  if (re >= im) {
    if (re == 0 && im == 0) return {a.re / re, a.im / re};
    const R ratio = b.im / b.re, scale = R(1) / (b.re + b.im * ratio);
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const R ratio = b.re / b.im, scale = R(1) / (b.im + b.re * ratio);
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

template <class R>
Complex<R> multiply_(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

inline __complex__ float native(Complex<float> z) {
  __complex__ float both;
  __real__ both = z.re, __imag__ both = z.im;
  return both;
}
inline __complex__ double native(Complex<double> z) {
  __complex__ double both;
  __real__ both = z.re, __imag__ both = z.im;
  return both;
}
inline Complex<float> ours(__complex__ float z) { return {__real__ z, __imag__ z}; }
inline Complex<double> ours(__complex__ double z) { return {__real__ z, __imag__ z}; }

// ---- verbs as functions of values ---------------------------------------------------------------------------------

template <Verb verb, class T>
auto one(T x) {
  using R = typename Part<T>::type;
  if constexpr (verb == Verb::absolute) {
    if constexpr (is_complex_type<T>)
      return hypot_(x.re, x.im);
    else if constexpr (is_float<T>)
      return abs_(x);
    else if constexpr (is_signed_type<T>)
      return static_cast<T>(x < 0 ? Wrap<T>(0) - static_cast<Wrap<T>>(x) : static_cast<Wrap<T>>(x));
    else
      return x;
  } else if constexpr (verb == Verb::negative) {
    if constexpr (is_complex_type<T>)
      return T{-x.re, -x.im};
    else if constexpr (is_float<T>)
      return -x;
    else
      return static_cast<T>(Wrap<T>(0) - static_cast<Wrap<T>>(x));
  } else if constexpr (verb == Verb::square) {
    if constexpr (is_complex_type<T>)
      return multiply_(x, x);
    else if constexpr (is_float<T>)
      return x * x;
    else
      return static_cast<T>(static_cast<Wrap<T>>(x) * static_cast<Wrap<T>>(x));
  } else if constexpr (verb == Verb::reciprocal) {
    if constexpr (is_complex_type<T>)
      return divide_(T{1, 0}, x);
    else if constexpr (is_float<T>)
      return T(1) / x;
    else
      return x == 0 ? T(0) : static_cast<T>(T(1) / x);
  } else if constexpr (verb == Verb::sign) {
    if constexpr (is_complex_type<T>) {  // NumPy 2: z / |z|
      const R size = hypot_(x.re, x.im);
      if (size == 0) return T{0, 0};
      if (size == __builtin_inf()) {  // along an axis only
        const bool re = abs_(x.re) == __builtin_inf(), im = abs_(x.im) == __builtin_inf();
        const R nan = __builtin_nan("");
        if (re && im) return T{nan, nan};
        return re ? T{copysign_(R(1), x.re), R(0)} : T{R(0), copysign_(R(1), x.im)};
      }
      return T{x.re / size, x.im / size};
    } else if constexpr (is_float<T>) {
      return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x;
    } else if constexpr (is_signed_type<T>) {
      return static_cast<T>((x > 0) - (x < 0));
    } else {
      return static_cast<T>(x > 0);
    }
  } else if constexpr (verb == Verb::real) {
    if constexpr (is_complex_type<T>)
      return x.re;
    else
      return x;
  } else if constexpr (verb == Verb::imag) {
    if constexpr (is_complex_type<T>)
      return x.im;
    else
      return T(0);
  } else if constexpr (verb == Verb::conjugate) {
    if constexpr (is_complex_type<T>)
      return T{x.re, -x.im};
    else
      return x;
  } else if constexpr (verb == Verb::sqrt) {
    return sqrt_(x);
  } else if constexpr (verb == Verb::floor) {
    return floor_(x);
  } else if constexpr (verb == Verb::ceil) {
    return ceil_(x);
  } else if constexpr (verb == Verb::trunc) {
    return trunc_(x);
  } else if constexpr (verb == Verb::rint) {
    if constexpr (is_complex_type<T>)
      return T{rint_(x.re), rint_(x.im)};
    else
      return rint_(x);
  } else if constexpr (verb == Verb::isnan) {
    if constexpr (is_complex_type<T>)
      return Bool(x.re != x.re || x.im != x.im);
    else if constexpr (is_float<T>)
      return Bool(x != x);
    else
      return Bool(0);
  } else if constexpr (verb == Verb::isinf) {
    if constexpr (is_complex_type<T>)
      return Bool(abs_(x.re) == __builtin_inf() || abs_(x.im) == __builtin_inf());
    else if constexpr (is_float<T>)
      return Bool(abs_(x) == T(__builtin_inf()));
    else
      return Bool(0);
  } else if constexpr (verb == Verb::isfinite) {
    if constexpr (is_complex_type<T>)
      return Bool(x.re - x.re == 0 && x.im - x.im == 0);
    else if constexpr (is_float<T>)
      return Bool(x - x == 0);
    else
      return Bool(1);
  } else if constexpr (verb == Verb::signbit) {
    return Bool(copysign_(T(1), x) < 0);
  } else {
    static_assert(verb == Verb::invert);
    if constexpr (is_bool<T>)
      return Bool(static_cast<u8>(x) ^ 1);
    else
      return static_cast<T>(~x);
  }
}

template <Verb verb, class T>
auto two(T a, T b) {
  using W = Wrap<T>;
  if constexpr (verb == Verb::add) {
    if constexpr (is_bool<T>)
      return Bool(static_cast<u8>(a) | static_cast<u8>(b));
    else if constexpr (is_complex_type<T>)
      return T{a.re + b.re, a.im + b.im};
    else if constexpr (is_float<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  } else if constexpr (verb == Verb::subtract) {
    if constexpr (is_complex_type<T>)
      return T{a.re - b.re, a.im - b.im};
    else if constexpr (is_float<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<W>(a) - static_cast<W>(b));
  } else if constexpr (verb == Verb::multiply) {
    if constexpr (is_bool<T>)
      return Bool(static_cast<u8>(a) & static_cast<u8>(b));
    else if constexpr (is_complex_type<T>)
      return multiply_(a, b);
    else if constexpr (is_float<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  } else if constexpr (verb == Verb::divide) {
    if constexpr (is_complex_type<T>)
      return divide_(a, b);
    else
      return a / b;
  } else if constexpr (verb == Verb::floor_divide) {
    return floor_divide_(a, b);
  } else if constexpr (verb == Verb::remainder) {
    return remainder_(a, b);
  } else if constexpr (verb == Verb::fmod) {
    if constexpr (is_float<T>)
      return fmod_(a, b);
    else if constexpr (is_signed_type<T>)
      return b == 0 || b == T(-1) ? T(0) : static_cast<T>(a % b);
    else
      return b == 0 ? T(0) : static_cast<T>(a % b);
  } else if constexpr (verb == Verb::minimum) {
    if constexpr (is_float<T>)
      return a <= b || a != a ? a : b;
    else
      return b < a ? b : a;
  } else if constexpr (verb == Verb::maximum) {
    if constexpr (is_float<T>)
      return a >= b || a != a ? a : b;
    else
      return a < b ? b : a;
  } else if constexpr (verb == Verb::fmin) {
    if constexpr (is_float<T>)
      return a <= b || b != b ? a : b;
    else
      return b < a ? b : a;
  } else if constexpr (verb == Verb::fmax) {
    if constexpr (is_float<T>)
      return a >= b || b != b ? a : b;
    else
      return a < b ? b : a;
  } else if constexpr (verb == Verb::copysign) {
    return copysign_(a, b);
  } else if constexpr (verb == Verb::bitwise_and) {
    return static_cast<T>(static_cast<W>(a) & static_cast<W>(b));
  } else if constexpr (verb == Verb::bitwise_or) {
    return static_cast<T>(static_cast<W>(a) | static_cast<W>(b));
  } else if constexpr (verb == Verb::bitwise_xor) {
    return static_cast<T>(static_cast<W>(a) ^ static_cast<W>(b));
  } else if constexpr (verb == Verb::left_shift) {
    const bool far = static_cast<u64>(b) >= 8 * sizeof(T);  // a negative count too
    return far ? T(0) : static_cast<T>(static_cast<W>(a) << static_cast<W>(b));
  } else if constexpr (verb == Verb::right_shift) {
    const bool far = static_cast<u64>(b) >= 8 * sizeof(T);
    if constexpr (is_signed_type<T>)
      return static_cast<T>(a >> (far ? static_cast<T>(8 * sizeof(T) - 1) : b));
    else
      return far ? T(0) : static_cast<T>(a >> b);
  } else if constexpr (verb == Verb::equal) {
    if constexpr (is_complex_type<T>)
      return Bool(a.re == b.re && a.im == b.im);
    else
      return Bool(a == b);
  } else if constexpr (verb == Verb::not_equal) {
    if constexpr (is_complex_type<T>)
      return Bool(a.re != b.re || a.im != b.im);
    else
      return Bool(a != b);
  } else if constexpr (verb == Verb::less) {
    return Bool(a < b);
  } else {
    static_assert(verb == Verb::less_equal);
    return Bool(a <= b);
  }
}

}  // namespace
}  // namespace flagstone::kernel
