#pragma once
// A fused element-wise expression: a program of one verb after another over blocks of a few KiB that stay in the cache,
// and reductions of its values. One look at every input, one write of every output, whatever the number of verbs.
#include <complex>
#include <span>
#include <string_view>
#include <vector>

#include "flagstone/base/shape.hpp"
#include "flagstone/kernel/elementwise/verbs.hpp"

namespace flagstone::kernel {

/// The verb of this name; ShapeError for a name that there is none of.
Verb verb_from_name(std::string_view name);
Fold fold_from_name(std::string_view name);

/// to[i] := verb(from[i]), for a verb of one operand that keeps the dtype. The two do not overlap.
void map_values(Verb verb, Dtype dtype, const std::byte* from, Index n, std::byte* to);

/// Values are numbered in the order in which they are made: inputs, constants, results of instructions. A value has a
/// dtype; operands of one instruction have the same (select: a boolean first). Immutable once it is used.
class Program {
 public:
  /// The next tile that evaluate() is given.
  int input(Dtype dtype);
  /// The size_of(dtype) bytes at `value`, everywhere.
  int constant(Dtype dtype, const void* value);
  int cast(int a, Dtype dtype);
  /// Unused operands are -1. ShapeError where the verb does not take these dtypes.
  int apply(Verb verb, int a, int b = -1, int c = -1);
  Dtype dtype(int value) const { return values_.at(static_cast<std::size_t>(value)).dtype; }
  int inputs() const { return inputs_; }
  Dtype input_dtype(int input) const;
  int values() const { return static_cast<int>(values_.size()); }
  /// Verbs for one element: what a plan counts as flops.
  int verbs() const { return static_cast<int>(steps_.size()); }

 private:
  friend class Evaluation;
  struct Value {
    Dtype dtype;
    int input = -1;     // number of the tile
    int constant = -1;  // place in constants_
    int step = -1;      // place in steps_
  };
  struct Step {
    Loop loop;
    int a, b, c, out;
  };
  int add_step(Loop loop, Dtype dtype, int a, int b, int c);

  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<std::complex<double>> constants_;  // 16 bytes each, reinterpreted
  int inputs_ = 0;
};

/// Words of an accumulator of a reduction (8 bytes each) for one result.
int accumulator_words(Fold fold, Dtype dtype);
/// Accumulators of a reduction as evaluate() folds into them: word w of the result at offset k (strides in results, 0
/// along reduced dimensions) is words[w * results + k].
struct FoldTarget {
  Fold fold = Fold::sum;
  int value = -1;
  std::byte* words = nullptr;
  Index results = 1;
  Shape strides;
  /// argmin, argmax: the index of element (0, ..., 0), and what a step along each dimension adds to it.
  Index first = 0;
  Shape steps;
};
/// What nothing folded is: 0, 1, the largest value, ...
void fold_nothing(Fold fold, Dtype dtype, Index results, std::byte* words);
/// to := to folded with from, in this order.
void join_accumulators(Fold fold, Dtype dtype, Index results, const std::byte* from, std::byte* to);

/// What a finished reduction is, from its accumulator.
enum class Finish : std::uint8_t { value, index, mean, var, std };
struct FinishOptions {
  Fold fold = Fold::sum;
  Finish finish = Finish::value;
  Dtype dtype = Dtype::float64;  // of what was folded
  double count = 1, ddof = 0;
};
/// Element k of `to` (in C order) := result k. `to` is float32, float64, int64, uint64, boolean, or the folded dtype.
void finish_accumulators(const FinishOptions& options, Index results, const std::byte* words, const Tile& to);

/// The tile `tile` stores `value`.
struct StoreTarget {
  int value = -1;
  Tile tile;
};

std::size_t evaluate_scratch(const Program& program);
/// Runs the program over every element of `shape`. Inputs and outputs have the shape; strides may be 0 (broadcast).
/// Outputs overlap no input. `scratch`: evaluate_scratch bytes, aligned to a cache line.
void evaluate(const Program& program, const Shape& shape, std::span<const Tile> inputs,
              std::span<const StoreTarget> stores, std::span<const FoldTarget> folds, std::byte* scratch);

}  // namespace flagstone::kernel
