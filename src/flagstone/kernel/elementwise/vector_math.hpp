#pragma once
// exp, log1p, sin, ... of arrays: glibc's vector library (libmvec), one call for each register's worth of values. Its
// functions are within 4 ulp and handle NaN, infinities and subnormals lane by lane, so a value's result does not
// depend on its neighbours; the last, shorter group is padded, so not on its place either. Without libmvec
// (FLAGSTONE_LIBMVEC not defined): the C library's scalar functions. Included by vector_loops.hpp only, with
// FLAGSTONE_VECTOR_BYTES set to 16, 32 or 64. Macros, because each name stands for a symbol.
#include <cstdint>

#include "flagstone/kernel/elementwise/verbs.hpp"

namespace flagstone::kernel {

#ifdef FLAGSTONE_LIBMVEC
typedef float VectorF __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
typedef double VectorD __attribute__((vector_size(FLAGSTONE_VECTOR_BYTES)));
#if FLAGSTONE_VECTOR_BYTES == 64
#define FLAGSTONE_NAME_F(kind, name) _ZGVeN16##kind##_##name##f
#define FLAGSTONE_NAME_D(kind, name) _ZGVeN8##kind##_##name
#elif FLAGSTONE_VECTOR_BYTES == 32
#define FLAGSTONE_NAME_F(kind, name) _ZGVdN8##kind##_##name##f
#define FLAGSTONE_NAME_D(kind, name) _ZGVdN4##kind##_##name
#else
#define FLAGSTONE_NAME_F(kind, name) _ZGVbN4##kind##_##name##f
#define FLAGSTONE_NAME_D(kind, name) _ZGVbN2##kind##_##name
#endif

#define FLAGSTONE_DECLARE(name)               \
  VectorF FLAGSTONE_NAME_F(v, name)(VectorF); \
  VectorD FLAGSTONE_NAME_D(v, name)(VectorD);
#define FLAGSTONE_DECLARE_TWO(name)                     \
  VectorF FLAGSTONE_NAME_F(vv, name)(VectorF, VectorF); \
  VectorD FLAGSTONE_NAME_D(vv, name)(VectorD, VectorD);
extern "C" {
FLAGSTONE_DECLARE(acos)
FLAGSTONE_DECLARE(acosh)
FLAGSTONE_DECLARE(asin)
FLAGSTONE_DECLARE(asinh)
FLAGSTONE_DECLARE(atan)
FLAGSTONE_DECLARE(atanh)
FLAGSTONE_DECLARE(cbrt)
FLAGSTONE_DECLARE(cos)
FLAGSTONE_DECLARE(cosh)
FLAGSTONE_DECLARE(exp)
FLAGSTONE_DECLARE(exp2)
FLAGSTONE_DECLARE(expm1)
FLAGSTONE_DECLARE(log)
FLAGSTONE_DECLARE(log10)
FLAGSTONE_DECLARE(log1p)
FLAGSTONE_DECLARE(log2)
FLAGSTONE_DECLARE(sin)
FLAGSTONE_DECLARE(sinh)
FLAGSTONE_DECLARE(tan)
FLAGSTONE_DECLARE(tanh)
FLAGSTONE_DECLARE_TWO(atan2)
FLAGSTONE_DECLARE_TWO(hypot)
FLAGSTONE_DECLARE_TWO(pow)
}
#undef FLAGSTONE_DECLARE
#undef FLAGSTONE_DECLARE_TWO
#endif

namespace {

#ifdef FLAGSTONE_LIBMVEC
/// f over n values of `inputs` arrays, in groups of a register.
template <class T, class V, class F>
void in_groups(const LoopCall& call, F f) {
  constexpr std::int64_t lanes = sizeof(V) / sizeof(T);
  const T *a = static_cast<const T*>(call.a), *b = static_cast<const T*>(call.b ? call.b : call.a);
  T* out = static_cast<T*>(call.out);
  std::int64_t i = 0;
  V x, y;
  for (; i + lanes <= call.n; i += lanes) {
    __builtin_memcpy(&x, a + i, sizeof x);
    __builtin_memcpy(&y, b + i, sizeof y);
    const V result = f(x, y);
    __builtin_memcpy(out + i, &result, sizeof result);
  }
  if (i == call.n) return;
  T one[lanes], two[lanes], results[lanes];
  for (std::int64_t j = 0; j < lanes; ++j) {
    const std::int64_t from = i + j < call.n ? i + j : call.n - 1;
    one[j] = a[from], two[j] = b[from];
  }
  __builtin_memcpy(&x, one, sizeof x);
  __builtin_memcpy(&y, two, sizeof y);
  const V result = f(x, y);
  __builtin_memcpy(results, &result, sizeof result);
  for (std::int64_t j = 0; i + j < call.n; ++j) out[i + j] = results[j];
}

#define FLAGSTONE_UNARY(verb, name)                                                                      \
  struct Math_##verb {                                                                                   \
    static void f32(const LoopCall& call) {                                                              \
      in_groups<float, VectorF>(call, [](VectorF x, VectorF) { return FLAGSTONE_NAME_F(v, name)(x); });  \
    }                                                                                                    \
    static void f64(const LoopCall& call) {                                                              \
      in_groups<double, VectorD>(call, [](VectorD x, VectorD) { return FLAGSTONE_NAME_D(v, name)(x); }); \
    }                                                                                                    \
  };
#define FLAGSTONE_BINARY(verb, name)                                                                           \
  struct Math_##verb {                                                                                         \
    static void f32(const LoopCall& call) {                                                                    \
      in_groups<float, VectorF>(call, [](VectorF x, VectorF y) { return FLAGSTONE_NAME_F(vv, name)(x, y); });  \
    }                                                                                                          \
    static void f64(const LoopCall& call) {                                                                    \
      in_groups<double, VectorD>(call, [](VectorD x, VectorD y) { return FLAGSTONE_NAME_D(vv, name)(x, y); }); \
    }                                                                                                          \
  };
#else
#define FLAGSTONE_UNARY(verb, name)                                                 \
  struct Math_##verb {                                                              \
    static void f32(const LoopCall& call) {                                         \
      const float* x = static_cast<const float*>(call.a);                           \
      float* out = static_cast<float*>(call.out);                                   \
      for (std::int64_t i = 0; i < call.n; ++i) out[i] = __builtin_##name##f(x[i]); \
    }                                                                               \
    static void f64(const LoopCall& call) {                                         \
      const double* x = static_cast<const double*>(call.a);                         \
      double* out = static_cast<double*>(call.out);                                 \
      for (std::int64_t i = 0; i < call.n; ++i) out[i] = __builtin_##name(x[i]);    \
    }                                                                               \
  };
#define FLAGSTONE_BINARY(verb, name)                                                                 \
  struct Math_##verb {                                                                               \
    static void f32(const LoopCall& call) {                                                          \
      const float *x = static_cast<const float*>(call.a), *y = static_cast<const float*>(call.b);    \
      float* out = static_cast<float*>(call.out);                                                    \
      for (std::int64_t i = 0; i < call.n; ++i) out[i] = __builtin_##name##f(x[i], y[i]);            \
    }                                                                                                \
    static void f64(const LoopCall& call) {                                                          \
      const double *x = static_cast<const double*>(call.a), *y = static_cast<const double*>(call.b); \
      double* out = static_cast<double*>(call.out);                                                  \
      for (std::int64_t i = 0; i < call.n; ++i) out[i] = __builtin_##name(x[i], y[i]);               \
    }                                                                                                \
  };
#endif

FLAGSTONE_UNARY(arccos, acos)
FLAGSTONE_UNARY(arccosh, acosh)
FLAGSTONE_UNARY(arcsin, asin)
FLAGSTONE_UNARY(arcsinh, asinh)
FLAGSTONE_UNARY(arctan, atan)
FLAGSTONE_UNARY(arctanh, atanh)
FLAGSTONE_UNARY(cbrt, cbrt)
FLAGSTONE_UNARY(cos, cos)
FLAGSTONE_UNARY(cosh, cosh)
FLAGSTONE_UNARY(exp, exp)
FLAGSTONE_UNARY(exp2, exp2)
FLAGSTONE_UNARY(expm1, expm1)
FLAGSTONE_UNARY(log, log)
FLAGSTONE_UNARY(log10, log10)
FLAGSTONE_UNARY(log1p, log1p)
FLAGSTONE_UNARY(log2, log2)
FLAGSTONE_UNARY(sin, sin)
FLAGSTONE_UNARY(sinh, sinh)
FLAGSTONE_UNARY(tan, tan)
FLAGSTONE_UNARY(tanh, tanh)
FLAGSTONE_BINARY(arctan2, atan2)
FLAGSTONE_BINARY(hypot, hypot)
FLAGSTONE_BINARY(power, pow)
#undef FLAGSTONE_UNARY
#undef FLAGSTONE_BINARY

}  // namespace
}  // namespace flagstone::kernel
