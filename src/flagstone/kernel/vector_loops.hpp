#pragma once
// The loops of verbs.hpp, compiled once per instruction set: loops_avx512.cpp, loops_avx2.cpp, loops_baseline.cpp
// include this with their own flags. It therefore uses no header with inline functions: the linker would keep one copy
// of those for the whole program, perhaps the one that this processor cannot run. Semantics are NumPy's.
#include "flagstone/kernel/vector_math.hpp"

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
inline float abs_(float a) { return __builtin_fabsf(a); }
inline double abs_(double a) { return __builtin_fabs(a); }
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

// ---- loops --------------------------------------------------------------------------------------------------------

template <Verb verb, class T>
void loop_one(const LoopCall& call) {
  using Out = decltype(one<verb>(T{}));
  static_assert(sizeof(Out) <= sizeof(T), "small integers must not be promoted");
  const T* __restrict a = static_cast<const T*>(call.a);
  Out* __restrict out = static_cast<Out*>(call.out);
  for (i64 i = 0; i < call.n; ++i) out[i] = one<verb>(a[i]);
}

template <Verb verb, class T>
void loop_two(const LoopCall& call) {
  using Out = decltype(two<verb>(T{}, T{}));
  static_assert(sizeof(Out) == sizeof(T) || is_bool<Out>, "small integers must not be promoted");
  const T* __restrict a = static_cast<const T*>(call.a);
  const T* __restrict b = static_cast<const T*>(call.b);
  Out* __restrict out = static_cast<Out*>(call.out);
  for (i64 i = 0; i < call.n; ++i) out[i] = static_cast<Out>(two<verb>(a[i], b[i]));
}

template <class T>
void loop_select(const LoopCall& call) {
  const u8* __restrict which = static_cast<const u8*>(call.a);
  const T* __restrict b = static_cast<const T*>(call.b);
  const T* __restrict c = static_cast<const T*>(call.c);
  T* __restrict out = static_cast<T*>(call.out);
  for (i64 i = 0; i < call.n; ++i) out[i] = which[i] ? b[i] : c[i];
}

template <class T>
void loop_integer_power(const LoopCall& call) {
  const T *a = static_cast<const T*>(call.a), *b = static_cast<const T*>(call.b);
  T* out = static_cast<T*>(call.out);
  for (i64 i = 0; i < call.n; ++i) {
    if constexpr (is_signed_type<T>)
      if (b[i] < 0) *call.negative_power = true;
    out[i] = integer_power(a[i], b[i]);
  }
}

template <class From, class To>
void loop_cast(const LoopCall& call) {
  const From* __restrict a = static_cast<const From*>(call.a);
  To* __restrict out = static_cast<To*>(call.out);
  for (i64 i = 0; i < call.n; ++i) out[i] = cast_<To>(a[i]);
}

/// Complex functions: the C library's.
#define FLAGSTONE_COMPLEX(verb, name)                                                              \
  inline __complex__ float complex_##verb(__complex__ float z) { return __builtin_c##name##f(z); } \
  inline __complex__ double complex_##verb(__complex__ double z) { return __builtin_c##name(z); }  \
  template <class R>                                                                               \
  void loop_complex_##verb(const LoopCall& call) {                                                 \
    const Complex<R>* a = static_cast<const Complex<R>*>(call.a);                                  \
    Complex<R>* out = static_cast<Complex<R>*>(call.out);                                          \
    for (i64 i = 0; i < call.n; ++i) out[i] = ours(complex_##verb(native(a[i])));                  \
  }
FLAGSTONE_COMPLEX(arccos, acos)
FLAGSTONE_COMPLEX(arccosh, acosh)
FLAGSTONE_COMPLEX(arcsin, asin)
FLAGSTONE_COMPLEX(arcsinh, asinh)
FLAGSTONE_COMPLEX(arctan, atan)
FLAGSTONE_COMPLEX(arctanh, atanh)
FLAGSTONE_COMPLEX(cos, cos)
FLAGSTONE_COMPLEX(cosh, cosh)
FLAGSTONE_COMPLEX(exp, exp)
FLAGSTONE_COMPLEX(log, log)
FLAGSTONE_COMPLEX(sin, sin)
FLAGSTONE_COMPLEX(sinh, sinh)
FLAGSTONE_COMPLEX(sqrt, sqrt)
FLAGSTONE_COMPLEX(tan, tan)
FLAGSTONE_COMPLEX(tanh, tanh)
#undef FLAGSTONE_COMPLEX

/// What C has no complex function for. expm1 and log1p keep their accuracy near 0: e^x cos y - 1 = expm1(x) cos y -
/// 2 sin(y/2)^2, and |1 + z|^2 - 1 = x (2 + x) + y^2.
template <Verb verb>
__complex__ double composed(__complex__ double z) {
  const double x = __real__ z, y = __imag__ z;
  Complex<double> result;
  if constexpr (verb == Verb::exp2) {
    return complex_exp(native(Complex<double>{x * __builtin_log(2.0), y * __builtin_log(2.0)}));
  } else if constexpr (verb == Verb::expm1) {
    const double half = __builtin_sin(y / 2);
    result = {__builtin_expm1(x) * __builtin_cos(y) - 2 * half * half, __builtin_exp(x) * __builtin_sin(y)};
  } else if constexpr (verb == Verb::log1p) {
    const long double a = x, b = y;  // x (2 + x) + y^2 cancels on the circle around -1
    const double size = abs_(x) < 0.5 && abs_(y) < 0.5 ? static_cast<double>(__builtin_log1pl(a * (2 + a) + b * b) / 2)
                                                       : __builtin_log(__builtin_hypot(1 + x, y));
    result = {size, __builtin_atan2(y, 1 + x)};
  } else {
    const double unit = 1 / __builtin_log(verb == Verb::log2 ? 2.0 : 10.0);
    const Complex<double> log = ours(complex_log(z));
    result = {log.re * unit, log.im * unit};
  }
  return native(result);
}

template <Verb verb, class R>
void loop_composed(const LoopCall& call) {
  const Complex<R>* a = static_cast<const Complex<R>*>(call.a);
  Complex<R>* out = static_cast<Complex<R>*>(call.out);
  for (i64 i = 0; i < call.n; ++i) {
    const Complex<double> result = ours(composed<verb>(native(Complex<double>{a[i].re, a[i].im})));
    out[i] = {static_cast<R>(result.re), static_cast<R>(result.im)};
  }
}

template <class R>
void loop_complex_power(const LoopCall& call) {
  const Complex<R>*a = static_cast<const Complex<R>*>(call.a), *b = static_cast<const Complex<R>*>(call.b);
  Complex<R>* out = static_cast<Complex<R>*>(call.out);
  for (i64 i = 0; i < call.n; ++i) {
    if (b[i].re == 0 && b[i].im == 0) {
      out[i] = {1, 0};
    } else if (a[i].re == 0 && a[i].im == 0) {  // as NumPy: zero, or undefined
      const R value = b[i].re > 0 ? R(0) : R(__builtin_nan(""));
      out[i] = {value, value};
    } else if (b[i].im == 0 && b[i].re == floor_(b[i].re) &&
               abs_(b[i].re) < 100) {  // by squaring: exact where it can be
      Complex<R> result{1, 0}, factor = a[i];
      for (auto left = static_cast<u64>(abs_(b[i].re)); left; left >>= 1, factor = multiply_(factor, factor))
        if (left & 1) result = multiply_(result, factor);
      out[i] = b[i].re < 0 ? divide_(Complex<R>{1, 0}, result) : result;
    } else if constexpr (sizeof(R) == 4) {
      out[i] = ours(__builtin_cpowf(native(a[i]), native(b[i])));
    } else {
      out[i] = ours(__builtin_cpow(native(a[i]), native(b[i])));
    }
  }
}

// ---- tables
// -----------------------------------------------------------------------------------------------------------

#define FLAGSTONE_ONE(verb, supported) \
  case Verb::verb:                     \
    if constexpr (supported)           \
      return &loop_one<Verb::verb, T>; \
    else                               \
      return nullptr;
#define FLAGSTONE_TWO(verb, supported) \
  case Verb::verb:                     \
    if constexpr (supported)           \
      return &loop_two<Verb::verb, T>; \
    else                               \
      return nullptr;
#define FLAGSTONE_FLOATING(verb)           \
  case Verb::verb:                         \
    if constexpr (is_same<T, float>)       \
      return &Math_##verb::f32;            \
    else if constexpr (is_same<T, double>) \
      return &Math_##verb::f64;            \
    else                                   \
      return nullptr;
#define FLAGSTONE_ANALYTIC(verb)                           \
  case Verb::verb:                                         \
    if constexpr (is_same<T, float>)                       \
      return &Math_##verb::f32;                            \
    else if constexpr (is_same<T, double>)                 \
      return &Math_##verb::f64;                            \
    else if constexpr (is_complex_type<T>)                 \
      return &loop_complex_##verb<typename Part<T>::type>; \
    else                                                   \
      return nullptr;

#define FLAGSTONE_COMPOSED(verb)                                 \
  case Verb::verb:                                               \
    if constexpr (is_same<T, float>)                             \
      return &Math_##verb::f32;                                  \
    else if constexpr (is_same<T, double>)                       \
      return &Math_##verb::f64;                                  \
    else if constexpr (is_complex_type<T>)                       \
      return &loop_composed<Verb::verb, typename Part<T>::type>; \
    else                                                         \
      return nullptr;

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

template <class T>
Loop loop_of(Verb verb) {
  constexpr bool number = !is_bool<T>, real_number = number && !is_complex_type<T>, floating = is_float<T>,
                 integer = is_int<T>;
  switch (verb) {
    FLAGSTONE_ONE(absolute, true)
    FLAGSTONE_ONE(ceil, floating)
    FLAGSTONE_ONE(conjugate, number)
    FLAGSTONE_ONE(floor, floating)
    FLAGSTONE_ONE(imag, number)
    FLAGSTONE_ONE(invert, integer || is_bool<T>)
    FLAGSTONE_ONE(isfinite, true)
    FLAGSTONE_ONE(isinf, true)
    FLAGSTONE_ONE(isnan, true)
    FLAGSTONE_ONE(negative, number)
    FLAGSTONE_ONE(real, number)
    FLAGSTONE_ONE(reciprocal, number)
    FLAGSTONE_ONE(rint, number && !integer)
    FLAGSTONE_ONE(sign, number)
    FLAGSTONE_ONE(signbit, floating)
    FLAGSTONE_ONE(square, number)
    FLAGSTONE_ONE(trunc, floating)
    case Verb::sqrt:
      if constexpr (is_complex_type<T>)
        return &loop_complex_sqrt<typename Part<T>::type>;
      else if constexpr (floating)
        return &loop_one<Verb::sqrt, T>;
      else
        return nullptr;
      FLAGSTONE_ANALYTIC(arccos)
      FLAGSTONE_ANALYTIC(arccosh)
      FLAGSTONE_ANALYTIC(arcsin)
      FLAGSTONE_ANALYTIC(arcsinh)
      FLAGSTONE_ANALYTIC(arctan)
      FLAGSTONE_ANALYTIC(arctanh)
      FLAGSTONE_ANALYTIC(cos)
      FLAGSTONE_ANALYTIC(cosh)
      FLAGSTONE_ANALYTIC(exp)
      FLAGSTONE_ANALYTIC(log)
      FLAGSTONE_ANALYTIC(sin)
      FLAGSTONE_ANALYTIC(sinh)
      FLAGSTONE_ANALYTIC(tan)
      FLAGSTONE_ANALYTIC(tanh)
      FLAGSTONE_FLOATING(cbrt)
      FLAGSTONE_COMPOSED(exp2)
      FLAGSTONE_COMPOSED(expm1)
      FLAGSTONE_COMPOSED(log10)
      FLAGSTONE_COMPOSED(log1p)
      FLAGSTONE_COMPOSED(log2)
      FLAGSTONE_FLOATING(arctan2)
      FLAGSTONE_FLOATING(hypot)
      FLAGSTONE_TWO(add, true)
      FLAGSTONE_TWO(bitwise_and, integer || is_bool<T>)
      FLAGSTONE_TWO(bitwise_or, integer || is_bool<T>)
      FLAGSTONE_TWO(bitwise_xor, integer || is_bool<T>)
      FLAGSTONE_TWO(copysign, floating)
      FLAGSTONE_TWO(divide, floating || is_complex_type<T>)
      FLAGSTONE_TWO(equal, true)
      FLAGSTONE_TWO(floor_divide, real_number)
      FLAGSTONE_TWO(fmax, real_number || is_bool<T>)
      FLAGSTONE_TWO(fmin, real_number || is_bool<T>)
      FLAGSTONE_TWO(fmod, real_number)
      FLAGSTONE_TWO(left_shift, integer)
      FLAGSTONE_TWO(less, real_number || is_bool<T>)
      FLAGSTONE_TWO(less_equal, real_number || is_bool<T>)
      FLAGSTONE_TWO(maximum, real_number || is_bool<T>)
      FLAGSTONE_TWO(minimum, real_number || is_bool<T>)
      FLAGSTONE_TWO(multiply, true)
      FLAGSTONE_TWO(not_equal, true)
      FLAGSTONE_TWO(remainder, real_number)
      FLAGSTONE_TWO(right_shift, integer)
      FLAGSTONE_TWO(subtract, number)
    case Verb::power:
      if constexpr (is_same<T, float>)
        return &Math_power::f32;
      else if constexpr (is_same<T, double>)
        return &Math_power::f64;
      else if constexpr (is_complex_type<T>)
        return &loop_complex_power<typename Part<T>::type>;
      else if constexpr (integer)
        return &loop_integer_power<T>;
      else
        return nullptr;
    case Verb::select:
      return &loop_select<T>;
  }
  return nullptr;
}
#undef FLAGSTONE_ONE
#undef FLAGSTONE_TWO
#undef FLAGSTONE_FLOATING
#undef FLAGSTONE_ANALYTIC
#undef FLAGSTONE_COMPOSED

/// Calls f with the type of dtype number `dtype` (base/dtype.hpp).
template <class F>
auto visit(int dtype, F f) {
  switch (dtype) {
    case 0:
      return f(Bool{});
    case 1:
      return f(i8{});
    case 2:
      return f(i16{});
    case 3:
      return f(i32{});
    case 4:
      return f(i64{});
    case 5:
      return f(u8{});
    case 6:
      return f(u16{});
    case 7:
      return f(u32{});
    case 8:
      return f(u64{});
    case 9:
      return f(Half{});
    case 10:
      return f(float{});
    case 11:
      return f(double{});
    case 12:
      return f(Complex<float>{});
    default:
      return f(Complex<double>{});
  }
}

Loop find_loop(Verb verb, int dtype) {
  return visit(dtype, [verb](auto sample) -> Loop {
    using T = decltype(sample);
    if constexpr (is_half<T>)
      return verb == Verb::select ? &loop_select<T> : nullptr;  // arithmetic is done in float32
    else
      return loop_of<T>(verb);
  });
}

Loop find_cast(int from, int to) {
  return visit(from,
               [to](auto a) { return visit(to, [](auto b) -> Loop { return &loop_cast<decltype(a), decltype(b)>; }); });
}

}  // namespace
}  // namespace flagstone::kernel
