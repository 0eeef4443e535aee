#pragma once
// What one instruction of an expression does, and the loops behind it. Nothing here but plain declarations: the
// instruction sets' translation units include it (see vector_loops.hpp).
#include <cstdint>

namespace flagstone::kernel {

enum class Verb : std::uint8_t {
  // one operand
  absolute,
  arccos,
  arccosh,
  arcsin,
  arcsinh,
  arctan,
  arctanh,
  cbrt,
  ceil,
  conjugate,
  cos,
  cosh,
  exp,
  exp2,
  expm1,
  floor,
  imag,
  invert,
  isfinite,
  isinf,
  isnan,
  log,
  log10,
  log1p,
  log2,
  negative,
  real,
  reciprocal,
  rint,
  sign,
  signbit,
  sin,
  sinh,
  sqrt,
  square,
  tan,
  tanh,
  trunc,
  // two operands of one dtype
  add,
  arctan2,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  copysign,
  divide,
  equal,
  floor_divide,
  fmax,
  fmin,
  fmod,
  hypot,
  left_shift,
  less,
  less_equal,
  maximum,
  minimum,
  multiply,
  not_equal,
  power,
  remainder,
  right_shift,
  subtract,
  // three: a boolean, then two of one dtype
  select,
};

/// One block of contiguous elements. `out` is none of the operands.
struct LoopCall {
  const void *a, *b, *c;
  void* out;
  std::int64_t n;
  bool* negative_power;  // set where an integer was raised to a negative power
};
using Loop = void (*)(const LoopCall&);

/// How values become one: what an accumulator holds, word by word (each 8 bytes, `stride` words apart).
enum class Fold : std::uint8_t {
  sum,     // floating: high and low part; integers: one
  prod,    // one
  min,     // one, NaN stays
  max,     // one, NaN stays
  argmin,  // value, index; the first of equals, NaN before all
  argmax,  // value, index
  var,     // count, mean, sum of squared differences from it
  any,     // one
  all,     // one
  norm,    // level, high and low part of the sum of squares over it (norm_level.hpp)
};

/// Folds n contiguous values. each: value i into accumulator i; run: all into one. Word w of accumulator i is at
/// words[w * stride + i]. index: of the first value, `step` from one to the next (argmin, argmax).
struct FoldCall {
  const void* x;
  std::int64_t n;
  void* words;
  std::int64_t stride;
  std::int64_t index, step;
};
using FoldLoop = void (*)(const FoldCall&);

/// The loops of one instruction set; dtypes as the numbers of base/dtype.hpp. Null where there is none.
struct LoopTable {
  Loop (*loop)(Verb verb, int dtype);
  Loop (*cast)(int from, int to);
  FoldLoop (*fold_each)(Fold fold, int dtype);
  FoldLoop (*fold_run)(Fold fold, int dtype);
};
extern const LoopTable loops_avx512, loops_avx2, loops_baseline;

}  // namespace flagstone::kernel
