#include "flagstone/algorithms/elementwise/fused.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "flagstone/algorithms/elementwise/pass.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/real_types.hpp"
#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::elementwise {

struct Value::State {
  Pass pass;
  std::uint64_t made = 0;  // bytes of results in new memory
};

namespace {

std::string name_text(Dtype dtype) { return std::string(name_of(dtype)); }

/// What a reduction is in the kernel's words.
struct Folding {
  kernel::Fold fold;
  kernel::Finish finish = kernel::Finish::value;
};

Folding folding_of(Reduce what) {
  using kernel::Finish, kernel::Fold;
  switch (what) {
    case Reduce::sum:
      return {Fold::sum};
    case Reduce::prod:
      return {Fold::prod};
    case Reduce::min:
      return {Fold::min};
    case Reduce::max:
      return {Fold::max};
    case Reduce::argmin:
      return {Fold::argmin, Finish::index};
    case Reduce::argmax:
      return {Fold::argmax, Finish::index};
    case Reduce::mean:
      return {Fold::sum, Finish::mean};
    case Reduce::var:
      return {Fold::var, Finish::var};
    case Reduce::std:
      return {Fold::var, Finish::std};
    case Reduce::any:
      return {Fold::any};
    default:
      return {Fold::all};
  }
}

bool is_floating(Dtype dtype) { return dtype == Dtype::float32 || dtype == Dtype::float64; }

Dtype result_of(Reduce what, Dtype dtype) {
  switch (what) {
    case Reduce::any:
    case Reduce::all:
      return Dtype::boolean;
    case Reduce::argmin:
    case Reduce::argmax:
      return Dtype::int64;
    case Reduce::mean:
    case Reduce::var:
    case Reduce::std:
      return is_floating(dtype) ? dtype : Dtype::float64;
    case Reduce::sum:
    case Reduce::prod:
      if (is_floating(dtype)) return dtype;
      return dtype >= Dtype::uint8 && dtype <= Dtype::uint64 ? Dtype::uint64 : Dtype::int64;
    default:
      return dtype;
  }
}

/// The common shape; none where they do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape common(std::max(a.size(), b.size()), 1);
  for (const Shape* shape : {&a, &b})
    for (std::size_t d = 0; d < shape->size(); ++d) {
      Index& extent = common[common.size() - shape->size() + d];
      if ((*shape)[d] == extent || (*shape)[d] == 1) continue;
      if (extent != 1) return std::nullopt;
      extent = (*shape)[d];
    }
  return common;
}

/// The bytes of a number in this dtype. ShapeError where it would be another number there.
std::vector<std::byte> bytes_of(std::complex<long double> number, Dtype dtype) {
  std::vector<std::byte> bytes(size_of(dtype));
  const auto put = [&](auto value) { std::memcpy(bytes.data(), &value, sizeof value); };
  const long double real = number.real(), imag = number.imag();
  const auto holds = [&](bool fits) {
    if (fits) return;
    throw ShapeError("Fused: " + std::to_string(real) + (imag != 0 ? " + ...i" : "") + " is no " + name_text(dtype) +
                     "; convert the value beside it (Value::as).");
  };
  const auto holds_narrow = [&](long double part) {
    holds(!std::isfinite(part) || std::isfinite(static_cast<float>(part)));
  };
  if (dtype == Dtype::float32 || dtype == Dtype::complex64) holds_narrow(real), holds_narrow(imag);
  if (dtype == Dtype::complex64) put(std::complex<float>(number));
  if (dtype == Dtype::complex128) put(std::complex<double>(number));
  if (is_complex(dtype)) return bytes;
  holds(imag == 0);
  if (dtype == Dtype::float32) put(static_cast<float>(real));
  if (dtype == Dtype::float64) put(static_cast<double>(real));
  if (is_floating(dtype)) return bytes;
  visit_real_type(dtype, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_same_v<T, Half>) {
      holds(false);
    } else if constexpr (std::is_same_v<T, Truth>) {
      holds(real == 0 || real == 1);
      put(static_cast<std::uint8_t>(real));
    } else {
      const auto least = static_cast<long double>(std::numeric_limits<T>::min());
      const long double beyond = std::ldexp(1.0L, std::numeric_limits<T>::digits);
      holds(real == std::floor(real) && real >= least && real < beyond);
      put(static_cast<T>(real));
    }
  });
  return bytes;
}

/// What a pass writes it neither reads nor writes a second time: tiles of the two would meet in any order.
void refuse_met_again(const Pass& pass, const Array& to) {
  for (const Operand& operand : pass.operands)
    if (operand.array.id() == to.id())
      throw ShapeError("Fused: a result was given an array that the pass reads; store into another one.");
  const auto taken = [&](const Array& other) {
    if (other.id() == to.id())
      throw ShapeError("Fused: an array was given that the pass stores into twice; give each result its own.");
  };
  for (const Store& store : pass.stores) taken(store.array);
  for (const Reduction& reduction : pass.reductions) taken(reduction.out);
}

}  // namespace

Dtype Value::dtype() const { return state_->pass.program.dtype(number_); }

Value Value::as(Dtype dtype) const {
  return dtype == this->dtype() ? *this : Value(state_, state_->pass.program.cast(number_, dtype));
}

const Value& Term::known(const Term& a, const Term& b) {
  if (!a.value_ && !b.value_) throw ShapeError("Fused: two numbers were given; one side must be a value of a pass.");
  return a.value_ ? *a.value_ : *b.value_;
}

int Term::in(const Value& beside) const {
  if (!value_) {
    const Dtype dtype = beside.dtype();
    return beside.state_->pass.program.constant(dtype, bytes_of(number_, dtype).data());
  }
  if (value_->state_ != beside.state_)
    throw ShapeError("Fused: values of two passes meet in one expression; read all arrays by one of them.");
  if (value_->dtype() != beside.dtype())
    throw ShapeError("Fused: " + name_text(beside.dtype()) + " and " + name_text(value_->dtype()) +
                     " meet in one expression; convert one of them (Value::as).");
  return value_->number_;
}

Value apply(Verb verb, const Term& a) {
  const Value& value = Term::known(a, a);
  return Value(value.state_, value.state_->pass.program.apply(verb, value.number_));
}

Value apply(Verb verb, const Term& a, const Term& b) {
  const Value& value = Term::known(a, b);
  const int first = a.in(value), second = b.in(value);
  return Value(value.state_, value.state_->pass.program.apply(verb, first, second));
}

Value select(const Value& condition, const Term& then, const Term& otherwise) {
  const Value& value = Term::known(then, otherwise);
  if (condition.state_ != value.state_)
    throw ShapeError("Fused: values of two passes meet in one expression; read all arrays by one of them.");
  const int first = then.in(value), second = otherwise.in(value);
  return Value(value.state_, value.state_->pass.program.apply(Verb::select, condition.number_, first, second));
}

Fused::Fused() : state_(std::make_shared<Value::State>()) {}

const Shape& Fused::shape() const { return state_->pass.shape; }

Value Fused::read(const Array& array, bool transpose) {
  Pass& pass = state_->pass;
  Shape shape = array.shape();
  if (transpose) std::reverse(shape.begin(), shape.end());
  const auto common = broadcast(pass.shape, shape);
  if (!common)
    throw ShapeError("Fused: an array of " + to_string(shape) + " was given and the others are " +
                     to_string(pass.shape) + "; they must broadcast.");
  if (!pass.reductions.empty() && *common != pass.shape)
    throw ShapeError("Fused: an array of " + to_string(shape) + " was given after a reduction over " +
                     to_string(pass.shape) + "; read all arrays first.");
  const auto same = [&](const Array& to) {
    if (to.id() == array.id())
      throw ShapeError("Fused: read was given an array that the pass stores into; read it in another pass.");
  };
  for (const Store& store : pass.stores) same(store.array);
  for (const Reduction& reduction : pass.reductions) same(reduction.out);
  pass.shape = *common;
  pass.start.assign(pass.shape.size(), 0);
  pass.operands.push_back({array, transpose});
  return Value(state_, pass.program.input(array.dtype()));
}

void Fused::store(const Value& value, const Array& to) {
  Pass& pass = state_->pass;
  if (value.state_ != state_) throw ShapeError("Fused: store was given a value of another pass.");
  if (to.dtype() != value.dtype())
    throw ShapeError("Fused: store was given " + name_text(value.dtype()) + " and the array holds " +
                     name_text(to.dtype()) + "; convert the value (Value::as).");
  refuse_met_again(pass, to);
  pass.stores.push_back({value.number_, to});
}

namespace {

/// Which dimensions are reduced.
std::vector<bool> reduced_of(const ReduceOptions& options, std::size_t ndim) {
  std::vector<bool> reduced(ndim, !options.axes);
  for (const std::size_t axis : options.axes.value_or(std::vector<std::size_t>())) {
    if (axis >= ndim || reduced[axis])
      throw ShapeError("Fused: axis " + std::to_string(axis) + " of a reduction; name each of the " +
                       std::to_string(ndim) + " dimensions once at most, counted from 0.");
    reduced[axis] = true;
  }
  return reduced;
}

Shape kept_of(const Shape& shape, const std::vector<bool>& reduced, bool keepdims) {
  Shape kept;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (!reduced[d] || keepdims) kept.push_back(reduced[d] ? 1 : shape[d]);
  return kept;
}

}  // namespace

Array Fused::reduce(Reduce what, const Value& given, const ReduceOptions& options) {
  Pass& pass = state_->pass;
  if (given.state_ != state_) throw ShapeError("Fused: reduce was given a value of another pass.");
  Value value = given;
  if (what == Reduce::any || what == Reduce::all) value = value.as(Dtype::boolean);
  const bool averages = what == Reduce::mean || what == Reduce::var || what == Reduce::std;
  if (averages && is_integer(value.dtype())) value = value.as(Dtype::float64);
  if (is_complex(value.dtype()) || value.dtype() == Dtype::float16)
    throw ShapeError("Fused: reduce was given " + name_text(value.dtype()) + "; " +
                     (is_complex(value.dtype()) ? "reduce its real and imaginary parts (Verb::real, Verb::imag)."
                                                : "convert it to float32 first (Value::as)."));
  const std::vector<bool> reduced = reduced_of(options, pass.shape.size());
  const Shape kept = kept_of(pass.shape, reduced, options.keepdims);
  const bool chooses = what == Reduce::min || what == Reduce::max || what == Reduce::argmin || what == Reduce::argmax;
  if (chooses && count(pass.shape) == 0 && count(kept) != 0)
    throw ShapeError("Fused: " + to_string(pass.shape) + " has no elements to choose from; give at least one.");
  const Dtype dtype = result_of(what, value.dtype());
  Array to = options.to;
  if (to) {
    refuse_met_again(pass, to);
  } else {
    to = memory_array(kept, dtype);
    state_->made += to.nbytes();
  }
  const bool wider = dtype == Dtype::float32 && to.dtype() == Dtype::float64;
  if (to.shape() != kept || (to.dtype() != dtype && !wider))
    throw ShapeError("Fused: the result of the reduction is " + to_string(kept) + " of " + name_text(dtype) +
                     " and the array for it " + to_string(to.shape()) + " of " + name_text(to.dtype()) +
                     "; they must agree.");
  const Folding folding = folding_of(what);
  pass.reductions.push_back({value.number_, folding.fold, folding.finish, options.ddof, reduced, to, options.keepdims});
  return to;
}

void Fused::operator()(Graph& graph) const {
  if (state_->pass.operands.empty()) throw ShapeError("Fused: no array was given; read at least one.");
  const Pass& pass = state_->pass;
  if (state_->made == 0) return run(graph, pass);
  const Charge results = graph.charge(state_->made);
  run(graph, pass);
  graph.barrier();
}

}  // namespace flagstone::elementwise
