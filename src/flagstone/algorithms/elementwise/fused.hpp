#pragma once
// Element-wise expressions as a program writes them, stored and reduced in one pass over their arrays.
#include <complex>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flagstone/kernel/elementwise/verbs.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::elementwise {

using kernel::Verb;

class Term;

/// What one expression of a Fused pass is, element by element; a cheap handle. The operators and functions below give
/// others.
class Value {
 public:
  Dtype dtype() const;
  /// The same values in another dtype.
  Value as(Dtype dtype) const;

 private:
  friend class Fused;
  friend class Term;
  friend Value apply(Verb verb, const Term& a);
  friend Value apply(Verb verb, const Term& a, const Term& b);
  friend Value select(const Value& condition, const Term& then, const Term& otherwise);
  struct State;
  Value(std::shared_ptr<State> state, int number) : state_(std::move(state)), number_(number) {}
  std::shared_ptr<State> state_;
  int number_ = -1;
};

/// One side of an operator: a value, or a number, which takes the dtype of the value beside it.
class Term {
 public:
  Term(const Value& value) : value_(value) {}
  template <class T>
  requires(std::integral<T> || std::floating_point<T>) Term(T number) : number_(static_cast<long double>(number)) {}
  Term(std::complex<double> number) : number_(number) {}

 private:
  friend Value apply(Verb verb, const Term& a);
  friend Value apply(Verb verb, const Term& a, const Term& b);
  friend Value select(const Value& condition, const Term& then, const Term& otherwise);
  int in(const Value& beside) const;  // number of the value in the program
  static const Value& known(const Term& a, const Term& b);

  std::optional<Value> value_;
  std::complex<long double> number_;  // every integer of 64 bits as it is
};

/// Any verb of verbs.hpp. ShapeError where it is not defined for these dtypes (two values have the same: Value::as),
/// for values of two passes, and for a number that the dtype cannot hold: 2.5 among integers, 1e300 among float32.
Value apply(Verb verb, const Term& a);
Value apply(Verb verb, const Term& a, const Term& b);
/// `then` where the boolean `condition` holds.
Value select(const Value& condition, const Term& then, const Term& otherwise);

inline Value operator-(const Value& a) { return apply(Verb::negative, a); }
inline Value operator+(const Term& a, const Term& b) { return apply(Verb::add, a, b); }
inline Value operator-(const Term& a, const Term& b) { return apply(Verb::subtract, a, b); }
inline Value operator*(const Term& a, const Term& b) { return apply(Verb::multiply, a, b); }
inline Value operator/(const Term& a, const Term& b) { return apply(Verb::divide, a, b); }
inline Value operator<(const Term& a, const Term& b) { return apply(Verb::less, a, b); }
inline Value operator<=(const Term& a, const Term& b) { return apply(Verb::less_equal, a, b); }
inline Value operator>(const Term& a, const Term& b) { return apply(Verb::less, b, a); }
inline Value operator>=(const Term& a, const Term& b) { return apply(Verb::less_equal, b, a); }
inline Value operator==(const Term& a, const Term& b) { return apply(Verb::equal, a, b); }
inline Value operator!=(const Term& a, const Term& b) { return apply(Verb::not_equal, a, b); }
inline Value abs(const Value& a) { return apply(Verb::absolute, a); }
inline Value sqrt(const Value& a) { return apply(Verb::sqrt, a); }
inline Value exp(const Value& a) { return apply(Verb::exp, a); }
inline Value log(const Value& a) { return apply(Verb::log, a); }
inline Value log1p(const Value& a) { return apply(Verb::log1p, a); }
inline Value tanh(const Value& a) { return apply(Verb::tanh, a); }
inline Value pow(const Term& a, const Term& b) { return apply(Verb::power, a, b); }
inline Value maximum(const Term& a, const Term& b) { return apply(Verb::maximum, a, b); }
inline Value minimum(const Term& a, const Term& b) { return apply(Verb::minimum, a, b); }

/// What a reduction makes of the values that it takes.
enum class Reduce : std::uint8_t { sum, prod, min, max, argmin, argmax, mean, var, std, any, all };

struct ReduceOptions {
  std::optional<std::vector<std::size_t>> axes = {};  // dimensions that are reduced; none given: all
  bool keepdims = false;                              // those stay, with extent 1
  double ddof = 0;                                    // var, std: divided by the count less so much
  Array to = {};                                      // where the result goes; none: new memory
};

/// One pass over arrays: each is read once and each stored value written once, whatever the expressions are. Arrays of
/// several shapes broadcast as NumPy's do. Runtime::run(pass) executes what was added, Runtime::plan(pass) counts it.
///
///     Fused pass;
///     const Value x = pass.read(A), y = pass.read(B);
///     pass.store(sqrt(x * x + y * y), C);
///     const Array means = pass.reduce(Reduce::mean, x, {.axes = {{0}}});
///     runtime.run(pass);  // and then elements_of<double>(means)
///
/// Bits: sums are compensated; tiles, and the order in which they are added up, are a function of shapes, dtypes and
/// layouts: neither the limit nor the workers change them.
class Fused {
 public:
  Fused();
  /// `transpose`: all dimensions reversed. ShapeError where the array does not broadcast with those before it, or the
  /// pass stores into it.
  Value read(const Array& array, bool transpose = false);
  /// ShapeError where the dtypes differ, or `to` is an array that is read or another result's; when it runs, where `to`
  /// has not the shape of the pass.
  void store(const Value& value, const Array& to);
  /// Returns the result, whose dimensions are those that are not reduced. It holds float64 for mean, var and std
  /// (float32 of float32), booleans for any and all, int64 for argmin and argmax (an index in C order), 64 bits for
  /// sums and products of integers, else what the value holds. `to` may hold float64 for float32. ShapeError for
  /// complex values (reduce their real and imag verbs), float16 (as(float32) first), axes that there are not, a `to`
  /// that does not agree. The shape must be known: read all arrays first.
  Array reduce(Reduce what, const Value& value, const ReduceOptions& options = {});
  /// Of the pass: the common one of all that is read so far.
  const Shape& shape() const;
  /// Adds the tasks. Where results lie in new memory, which is charged, it waits for them.
  void operator()(Graph& graph) const;

 private:
  std::shared_ptr<Value::State> state_;
};

}  // namespace flagstone::elementwise
