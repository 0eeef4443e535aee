#pragma once
// The loops of verbs.hpp and their tables, compiled once per instruction set: loops_avx512.cpp, loops_avx2.cpp,
// loops_baseline.cpp include this with their own flags (see vector_types.hpp for what that forbids).
#include "flagstone/kernel/elementwise/vector_complex.hpp"
#include "flagstone/kernel/elementwise/vector_math.hpp"

namespace flagstone::kernel {
namespace {

// ---- loops --------------------------------------------------------------------------------------------------------

/// Complex elements of which every instruction set's loops take whole vectors. Compilers multiply complex vectors with
/// fused instructions whatever they are told, and what is left over without: what is left over is computed as part of
/// a whole vector, or bits would depend on where an element stands.
constexpr i64 complex_lanes = 32;

template <Verb verb, class T, class Out>
__attribute__((noinline)) void run_one(const T* __restrict a, Out* __restrict out, i64 n) {
  for (i64 i = 0; i < n; ++i) out[i] = one<verb>(a[i]);
}

template <Verb verb, class T, class Out>
__attribute__((noinline)) void run_two(const T* __restrict a, const T* __restrict b, Out* __restrict out, i64 n) {
  for (i64 i = 0; i < n; ++i) out[i] = static_cast<Out>(two<verb>(a[i], b[i]));
}

template <Verb verb, class T>
void loop_one(const LoopCall& call) {
  using Out = decltype(one<verb>(T{}));
  static_assert(sizeof(Out) <= sizeof(T), "small integers must not be promoted");
  const T* a = static_cast<const T*>(call.a);
  Out* out = static_cast<Out*>(call.out);
  if constexpr (is_complex_type<T>) {
    const i64 whole = call.n / complex_lanes * complex_lanes, rest = call.n - whole;
    run_one<verb>(a, out, whole);
    if (rest == 0) return;
    T tail[complex_lanes] = {};
    Out results[complex_lanes];
    __builtin_memcpy(tail, a + whole, static_cast<u64>(rest) * sizeof(T));
    run_one<verb>(tail, results, complex_lanes);
    __builtin_memcpy(out + whole, results, static_cast<u64>(rest) * sizeof(Out));
  } else {
    run_one<verb>(a, out, call.n);
  }
}

template <Verb verb, class T>
void loop_two(const LoopCall& call) {
  using Out = decltype(two<verb>(T{}, T{}));
  static_assert(sizeof(Out) == sizeof(T) || is_bool<Out>, "small integers must not be promoted");
  const T *a = static_cast<const T*>(call.a), *b = static_cast<const T*>(call.b);
  Out* out = static_cast<Out*>(call.out);
  if constexpr (is_complex_type<T>) {
    const i64 whole = call.n / complex_lanes * complex_lanes, rest = call.n - whole;
    run_two<verb>(a, b, out, whole);
    if (rest == 0) return;
    T left[complex_lanes] = {}, right[complex_lanes] = {};
    Out results[complex_lanes];
    __builtin_memcpy(left, a + whole, static_cast<u64>(rest) * sizeof(T));
    __builtin_memcpy(right, b + whole, static_cast<u64>(rest) * sizeof(T));
    run_two<verb>(left, right, results, complex_lanes);
    __builtin_memcpy(out + whole, results, static_cast<u64>(rest) * sizeof(Out));
  } else {
    run_two<verb>(a, b, out, call.n);
  }
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
