#pragma once
// Loops of functions of complex numbers. Included once per instruction set (vector_types.hpp).
#include "flagstone/kernel/elementwise/vector_values.hpp"

namespace flagstone::kernel {
namespace {

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

}  // namespace
}  // namespace flagstone::kernel
