#include "flagstone/kernel/elementwise/expression.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::kernel {
namespace {

constexpr Index block_bytes = 8192;  // of one value: an expression of a few values stays in 48 KiB of first-level cache

/// The widest instruction set that this processor runs.
const LoopTable& loops() {
  static const LoopTable& chosen = []() -> const LoopTable& {
#ifdef FLAGSTONE_WIDE_KERNELS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
      return loops_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return loops_avx2;
#endif
    return loops_baseline;
  }();
  return chosen;
}

constexpr std::array verb_names = {
    "absolute",    "arccos",     "arccosh",     "arcsin",     "arcsinh",     "arctan",     "arctanh",      "cbrt",
    "ceil",        "conjugate",  "cos",         "cosh",       "exp",         "exp2",       "expm1",        "floor",
    "imag",        "invert",     "isfinite",    "isinf",      "isnan",       "log",        "log10",        "log1p",
    "log2",        "negative",   "real",        "reciprocal", "rint",        "sign",       "signbit",      "sin",
    "sinh",        "sqrt",       "square",      "tan",        "tanh",        "trunc",      "add",          "arctan2",
    "bitwise_and", "bitwise_or", "bitwise_xor", "copysign",   "divide",      "equal",      "floor_divide", "fmax",
    "fmin",        "fmod",       "hypot",       "left_shift", "less",        "less_equal", "maximum",      "minimum",
    "multiply",    "not_equal",  "power",       "remainder",  "right_shift", "subtract",   "select"};
static_assert(verb_names.size() == static_cast<std::size_t>(Verb::select) + 1);
constexpr std::array fold_names = {"sum", "prod", "min", "max", "argmin", "argmax", "var", "any", "all", "norm"};
static_assert(fold_names.size() == static_cast<std::size_t>(Fold::norm) + 1);
static_assert(static_cast<int>(Dtype::boolean) == 0 && static_cast<int>(Dtype::uint64) == 8 &&
              static_cast<int>(Dtype::complex128) == 13);  // what the loops' tables count on

template <std::size_t n>
std::size_t place_of(const std::array<const char*, n>& names, std::string_view name, const char* what) {
  for (std::size_t i = 0; i < n; ++i)
    if (names[i] == name) return i;
  throw ShapeError("expression: there is no " + std::string(what) + " '" + std::string(name) + "'.");
}

Dtype result_of(Verb verb, Dtype operand) {
  switch (verb) {
    case Verb::equal:
    case Verb::not_equal:
    case Verb::less:
    case Verb::less_equal:
    case Verb::isfinite:
    case Verb::isinf:
    case Verb::isnan:
    case Verb::signbit:
      return Dtype::boolean;
    case Verb::absolute:
    case Verb::real:
    case Verb::imag:
      return is_complex(operand) ? real_part_of(operand) : operand;
    default:
      return operand;
  }
}

}  // namespace

Verb verb_from_name(std::string_view name) { return static_cast<Verb>(place_of(verb_names, name, "operation")); }
Fold fold_from_name(std::string_view name) { return static_cast<Fold>(place_of(fold_names, name, "reduction")); }

void map_values(Verb verb, Dtype dtype, const std::byte* from, Index n, std::byte* to) {
  const Loop loop =
      verb < Verb::add && result_of(verb, dtype) == dtype ? loops().loop(verb, static_cast<int>(dtype)) : nullptr;
  if (!loop)
    throw ShapeError(std::string(verb_names[static_cast<std::size_t>(verb)]) + ": values of " +
                     std::string(name_of(dtype)) + " are not mapped by it.");
  bool unused = false;
  loop({from, nullptr, nullptr, to, n, &unused});
}

int Program::input(Dtype dtype) {
  values_.push_back({.dtype = dtype, .input = inputs_++});
  return static_cast<int>(values_.size()) - 1;
}

Dtype Program::input_dtype(int input) const {
  return std::find_if(values_.begin(), values_.end(), [&](const Value& value) { return value.input == input; })->dtype;
}

int Program::constant(Dtype dtype, const void* value) {
  std::memcpy(&constants_.emplace_back(), value, size_of(dtype));
  values_.push_back({.dtype = dtype, .constant = static_cast<int>(constants_.size()) - 1});
  return static_cast<int>(values_.size()) - 1;
}

int Program::cast(int a, Dtype to) {
  if (dtype(a) == to) return a;
  return add_step(loops().cast(static_cast<int>(dtype(a)), static_cast<int>(to)), to, a, -1, -1);
}

int Program::apply(Verb verb, int a, int b, int c) {
  const int needed = verb == Verb::select ? 3 : verb >= Verb::add ? 2 : 1;
  const int operand = verb == Verb::select ? b : a;
  const Dtype kind = dtype(operand);
  const bool conform = (needed < 2 || dtype(needed == 3 ? c : b) == kind) && (needed < 3 || dtype(a) == Dtype::boolean);
  const Loop loop = conform ? loops().loop(verb, static_cast<int>(kind)) : nullptr;
  if (!loop)
    throw ShapeError(std::string(verb_names[static_cast<std::size_t>(verb)]) + ": not defined for " +
                     std::string(name_of(kind)) + "; convert with astype first.");
  return add_step(loop, result_of(verb, kind), a, needed > 1 ? b : -1, needed > 2 ? c : -1);
}

int Program::add_step(Loop loop, Dtype dtype, int a, int b, int c) {
  const int out = static_cast<int>(values_.size());
  values_.push_back({.dtype = dtype, .step = static_cast<int>(steps_.size())});
  steps_.push_back({loop, a, b, c, out});
  return out;
}

namespace {

/// Something that is walked over: where element (0, ..., 0) is, and what a step along each dimension adds.
struct Walker {
  Index at = 0;
  Shape steps;
};

/// Joins dimensions along which every walker steps evenly, and leaves out those of one element. The dimension along
/// which `lead` moves least comes last, so that rows run along memory.
void coalesce(Shape& shape, std::vector<Walker>& walkers, std::size_t lead) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) order.push_back(d);
  if (lead < walkers.size()) {
    const Shape& steps = walkers[lead].steps;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return std::abs(steps[a]) > std::abs(steps[b]); });
  }
  Shape joined;
  std::vector<Shape> steps(walkers.size());
  for (std::size_t d : order) {
    bool even = !joined.empty();
    for (std::size_t w = 0; even && w < walkers.size(); ++w) even = steps[w].back() == walkers[w].steps[d] * shape[d];
    for (std::size_t w = 0; w < walkers.size(); ++w)
      if (even)
        steps[w].back() = walkers[w].steps[d];
      else
        steps[w].push_back(walkers[w].steps[d]);
    if (even)
      joined.back() *= shape[d];
    else
      joined.push_back(shape[d]);
  }
  for (std::size_t w = 0; w < walkers.size(); ++w) walkers[w].steps = std::move(steps[w]);
  shape = std::move(joined);
}

/// Copies `rows` rows of `cols` elements that lie anywhere into dense memory, or back.
template <class T, bool gather>
void move_rows(std::byte* far, Index row_step, Index step, Index rows, Index cols, std::byte* dense) {
  T* near = reinterpret_cast<T*>(dense);
  for (Index r = 0; r < rows; ++r, far += row_step, near += cols) {
    if (step == static_cast<Index>(sizeof(T))) {
      gather ? std::memcpy(near, far, static_cast<std::size_t>(cols) * sizeof(T))
             : std::memcpy(far, near, static_cast<std::size_t>(cols) * sizeof(T));
    } else if (gather && step == 0) {
      T value;
      std::memcpy(&value, far, sizeof(T));
      std::fill(near, near + cols, value);
    } else {
      for (Index i = 0; i < cols; ++i)
        gather ? std::memcpy(near + i, far + i * step, sizeof(T)) : std::memcpy(far + i * step, near + i, sizeof(T));
    }
  }
}

template <bool gather>
void move_block(Dtype dtype, std::byte* far, Index row_step, Index step, Index rows, Index cols, std::byte* dense) {
  switch (size_of(dtype)) {
    case 1:
      return move_rows<std::uint8_t, gather>(far, row_step, step, rows, cols, dense);
    case 2:
      return move_rows<std::uint16_t, gather>(far, row_step, step, rows, cols, dense);
    case 4:
      return move_rows<std::uint32_t, gather>(far, row_step, step, rows, cols, dense);
    case 8:
      return move_rows<std::uint64_t, gather>(far, row_step, step, rows, cols, dense);
    default:
      return move_rows<std::complex<double>, gather>(far, row_step, step, rows, cols, dense);
  }
}

/// Booleans as the loops count on them. Every byte but 0 is true, as NumPy has it: masks are saved as 0 and 255 too.
void make_zero_or_one(const std::byte* from, Index n, std::byte* to) {
  for (Index i = 0; i < n; ++i) to[i] = std::byte{from[i] != std::byte{}};
}

}  // namespace

/// One evaluation: the walk over the elements, and where each value of the program lies meanwhile.
class Evaluation {
 public:
  Evaluation(const Program& program, const Shape& shape, std::span<const Tile> inputs,
             std::span<const StoreTarget> stores, std::span<const FoldTarget> folds, std::byte* scratch)
      : program_(program), shape_(shape), stores_(stores), folds_(folds) {
    for (const Tile& tile : inputs) walkers_.push_back({reinterpret_cast<Index>(tile.data), tile.strides});
    for (const StoreTarget& store : stores)
      walkers_.push_back({reinterpret_cast<Index>(store.tile.data), store.tile.strides});
    for (const FoldTarget& fold : folds) walkers_.push_back({0, fold.strides});
    for (const FoldTarget& fold : folds)
      walkers_.push_back({fold.first, fold.steps.empty() ? Shape(shape.size(), 0) : fold.steps});
    coalesce(shape_, walkers_, lead(inputs));
    lay_out(scratch);
  }

  static Index block_of(const Program& program) {
    std::size_t widest = 1;
    for (const auto& value : program.values_) widest = std::max(widest, size_of(value.dtype));
    return block_bytes / static_cast<Index>(widest);
  }

  void run() {
    if (count(shape_) == 0) return;
    const std::size_t dims = shape_.size();
    const Index cols = dims > 0 ? shape_[dims - 1] : 1, rows = dims > 1 ? shape_[dims - 2] : 1;
    const Index wide = std::min(cols, block_), high = std::max<Index>(1, std::min(rows, block_ / wide));
    Shape at(dims > 2 ? dims - 2 : 0, 0);
    do {
      for (Index r = 0; r < rows; r += high)
        for (Index c = 0; c < cols; c += wide) one_block(at, r, c, std::min(high, rows - r), std::min(wide, cols - c));
    } while (advance(at, shape_));
  }

 private:
  /// The walker whose memory order is followed: the first output, else the largest input that is not broadcast.
  std::size_t lead(std::span<const Tile> inputs) const {
    if (!stores_.empty()) return inputs.size();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (std::none_of(inputs[i].strides.begin(), inputs[i].strides.end(), [](Index s) { return s == 0; })) return i;
    return inputs.empty() ? walkers_.size() : 0;
  }

  void lay_out(std::byte* scratch) {
    block_ = block_of(program_);
    places_.resize(program_.values_.size());
    for (std::size_t v = 0; v < places_.size(); ++v) {
      places_[v] = scratch + v * block_bytes;
      const auto& value = program_.values_[v];
      if (value.constant < 0) continue;
      move_block<true>(value.dtype,
                       const_cast<std::byte*>(reinterpret_cast<const std::byte*>(&program_.constants_[value.constant])),
                       0, 0, 1, block_, places_[v]);
    }
    now_ = places_;
  }

  Index step(std::size_t walker, std::size_t from_last) const {
    const Shape& steps = walkers_[walker].steps;
    return steps.size() > from_last ? steps[steps.size() - 1 - from_last] : 0;
  }
  Index offset(std::size_t walker, const Shape& at, Index r, Index c) const {
    Index place = walkers_[walker].at + r * step(walker, 1) + c * step(walker, 0);
    for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * walkers_[walker].steps[d];
    return place;
  }
  bool dense(std::size_t walker, Dtype dtype, Index place, Index rows, Index cols) const {
    const auto item = static_cast<Index>(size_of(dtype));
    const Index alignment = is_complex(dtype) ? item / 2 : item;
    return place % alignment == 0 && (cols == 1 || step(walker, 0) == item) &&
           (rows == 1 || step(walker, 1) == cols * item);
  }

  void one_block(const Shape& at, Index r, Index c, Index rows, Index cols) {
    const Index n = rows * cols;
    std::size_t walker = 0;
    for (std::size_t v = 0; v < program_.values_.size(); ++v) {
      const auto& value = program_.values_[v];
      if (value.input < 0) continue;
      walker = static_cast<std::size_t>(value.input);
      const Index place = offset(walker, at, r, c);
      auto* from = reinterpret_cast<std::byte*>(place);
      if (dense(walker, value.dtype, place, rows, cols))
        now_[v] = from;
      else
        move_block<true>(value.dtype, from, step(walker, 1), step(walker, 0), rows, cols, now_[v] = places_[v]);
      if (value.dtype == Dtype::boolean) make_zero_or_one(now_[v], n, places_[v]), now_[v] = places_[v];
    }
    walker = static_cast<std::size_t>(program_.inputs_);
    // A result that is stored densely is computed where it goes.
    for (std::size_t s = 0; s < stores_.size(); ++s, ++walker) {
      const auto v = static_cast<std::size_t>(stores_[s].value);
      if (program_.values_[v].step < 0) continue;
      const Index place = offset(walker, at, r, c);
      now_[v] = dense(walker, program_.values_[v].dtype, place, rows, cols) ? reinterpret_cast<std::byte*>(place)
                                                                            : places_[v];
    }
    bool negative_power = false;
    const auto place_of = [&](int v) { return v < 0 ? nullptr : now_[static_cast<std::size_t>(v)]; };
    for (const auto& step : program_.steps_)
      step.loop({place_of(step.a), place_of(step.b), place_of(step.c), place_of(step.out), n, &negative_power});
    if (negative_power)
      throw ShapeError(
          "power: an integer was raised to a negative power; convert one of the two to a floating dtype first.");
    walker = static_cast<std::size_t>(program_.inputs_);
    for (std::size_t s = 0; s < stores_.size(); ++s, ++walker) {
      const auto v = static_cast<std::size_t>(stores_[s].value);
      const Index place = offset(walker, at, r, c);
      auto* to = reinterpret_cast<std::byte*>(place);
      if (now_[v] != to)
        move_block<false>(program_.values_[v].dtype, to, step(walker, 1), step(walker, 0), rows, cols, now_[v]);
    }
    for (std::size_t f = 0; f < folds_.size(); ++f)
      fold(f, walker + f, walker + folds_.size() + f, at, r, c, rows, cols);
  }

  void fold(std::size_t f, std::size_t states, std::size_t index, const Shape& at, Index r, Index c, Index rows,
            Index cols) {
    const FoldTarget& target = folds_[f];
    const Dtype dtype = program_.dtype(target.value);
    const auto item = static_cast<Index>(size_of(dtype));
    const std::byte* x = now_[static_cast<std::size_t>(target.value)];
    auto* words = reinterpret_cast<std::uint64_t*>(target.words);
    const Index move = step(states, 0);
    FoldCall call{x, cols, nullptr, target.results, 0, step(index, 0)};
    // Rows that fold into the same result and follow one another are one run.
    const bool one_run = move == 0 && rows > 1 && step(states, 1) == 0 && step(index, 1) == cols * step(index, 0);
    if (one_run) call.n = rows * cols;
    const FoldLoop run = loops().fold_run(target.fold, static_cast<int>(dtype));
    const FoldLoop each = loops().fold_each(target.fold, static_cast<int>(dtype));
    for (Index row = 0; row < (one_run ? 1 : rows); ++row, x += cols * item) {
      call.x = x;
      call.words = words + offset(states, at, r + row, c);
      call.index = offset(index, at, r + row, c);
      if (move == 0) {
        run(call);
      } else if (move == 1) {
        each(call);
      } else {  // results that lie apart (the tile is walked along another dimension than they are)
        FoldCall single = call;
        single.n = 1;
        for (Index i = 0; i < cols; ++i) {
          single.x = x + i * item;
          single.words = static_cast<std::uint64_t*>(call.words) + i * move;
          single.index = call.index + i * call.step;
          run(single);
        }
      }
    }
  }

  const Program& program_;
  Shape shape_;
  std::span<const StoreTarget> stores_;
  std::span<const FoldTarget> folds_;
  std::vector<Walker> walkers_;  // inputs, stores, states, indices
  Index block_ = 0;
  std::vector<std::byte*> places_, now_;  // of values: in scratch, and in this block
};

std::size_t evaluate_scratch(const Program& program) {
  return static_cast<std::size_t>(program.values()) * static_cast<std::size_t>(block_bytes);
}

void evaluate(const Program& program, const Shape& shape, std::span<const Tile> inputs,
              std::span<const StoreTarget> stores, std::span<const FoldTarget> folds, std::byte* scratch) {
  Evaluation(program, shape, inputs, stores, folds, scratch).run();
}

}  // namespace flagstone::kernel
