#pragma once
// A task's work as values: which kernel, on which parts of the task's tiles, with which scalars. What is a value can be
// counted, planned, traced and given to another machine; what is a closure can only be called.
#include <array>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "flagstone/base/semiring.hpp"
#include "flagstone/base/shape.hpp"

namespace flagstone {

/// What a call runs. The verbs of elementwise expressions are kernel::Verb: a whole expression is one `evaluate`.
enum class Kernel : std::uint8_t {
  zero,          // to := 0
  fill,          // to := alpha
  copy,          // to := from
  copy_lower,    // the lower triangle of to := that of from
  add,           // to := to + from
  scale,         // C := beta C
  gemm,          // C := alpha op(A) op(B) + beta C
  convert,       // to := from, as another real dtype
  mirror,        // to := fromᵀ or fromᴴ; a triangle of a square tile := the other one
  take,          // to := op(from) or a triangle of it, its diagonal shifted; finite or an error
  herk,          // a triangle of C := alpha op(A) op(A)ᴴ + beta C
  trsm,          // B := alpha op(A)⁻¹ B or alpha B op(A)⁻¹, A triangular
  potrf,         // a triangle of A := its Cholesky factor
  getrf,         // a panel := its factors L and U; pivots
  laswp,         // rows of a panel exchanged
  geqrt,         // A := R and the reflectors that made it
  tpqrt,         // [R; B] := the new R and the reflectors that made it
  gemqrt,        // C := Q C or its adjoint's, with what geqrt left
  tpmqrt,        // [A; B] := Q [A; B] or its adjoint's, with what tpqrt left
  identity,      // to := rows of the identity matrix
  assemble,      // to := pieces of another array, their dimensions in another order, or converted
  evaluate,      // a fused expression: its values stored and folded
  join,          // accumulators of a fold := joined with others
  finish,        // to := what accumulators of a fold stand for
  scan,          // to := running sums or products along an axis, on from a carry
  difference,    // to := neighbours less one another along an axis
  group_fold,    // accumulators of groups := rows of these labels folded in
  group_join,    // accumulators of groups := joined with others
  rank_count,    // counts := keys of each lane by some of their bits
  rank_choose,   // of each lane, which bins of its counts hold what is looked for
  rank_collect,  // keys := those that lie in these bins
  rank_select,   // to := what is looked for, of lanes that lie whole in a tile or were collected
  bin_count,     // counts := elements by the bin that they lie in
  bin_index,     // to := the bin of each element
  generate,      // to := random numbers, each a function of its place
  csr_multiply,
  csr_multiply_transposed,
  csr_pack,           // vectors := part of X as the products take it, padded
  csr_finish,         // Y := alpha T + beta Y
  csr_gram,           // both of them, while a row is in the nearest cache
  csr_gram_matrix,    // rows of G := G + AᵀA
  csr_unpack,         // values, columns and pointers := those of a panel, unpacked
  csr_rows_multiply,  // of such rows: T := A X
  csr_rows_multiply_transposed,
  csr_rows_gram,            // both of them, or of a triangle
  csr_fold,                 // to := stored values of each row or column, folded
  csr_fold_join,            // to := folds joined with others
  csr_semiring,             // T := A X over a semiring
  csr_semiring_transposed,  // Y := Y + Aᵀ T over it
  csr_semiring_start,       // to := what adds nothing
  csr_semiring_join,        // to := to + from
  csr_statistics,           // sums and squares of columns added up; the first value that is not finite
  center,                   // a panel of X, converted and less its means; its moments
  center_gram,              // Y := Y + G V of such a panel, converted piece by piece
  assign_points,            // of each point of a panel the nearest centre; sums of the points of each
  draw_points,              // of each point the nearest candidate; points drawn in proportion to its distance
  merge_draws,              // what was drawn, joined with others
  draw_nearest,             // points drawn in proportion to their distance from what a round found nearest
  take_points,              // candidates := points that were drawn
  take_nearest,             // of each query the nearest points so far
  take_within,              // of each query the points within a radius
  point_distances,          // to := distances of points from centres
  round_centres,            // a block of centres, rounded about their mean
  assign_to_block,          // of each point of a panel the nearest centre so far
  sum_of_block,             // of each centre of a block the sum of its points
  stencil_block,            // a block of a field, some steps on
  stencil_copy,             // part of a field := pieces of another
  stencil_strip,            // rows of some planes of a field at each level of a superstep
  fill_buckets,             // rows := those that have a label of a bucket, brought together
  count_labels,             // points and values of each label, or of each node of trees
  label_centroids,          // of each label the sum of its points, at unit length
  split_labels,             // a tree of labels := balanced halves, level by level
  wide_halves,              // scores of labels from two centres, or their sums
  train_node,               // classifiers of one node := by dual coordinate descent
  sweep_points,             // one sweep of it over a panel
  encode_node,              // weights as a model stores them
  label_level,              // beams of a batch := through some nodes of a level
  best_labels,              // labels := those with the largest scores
  count_frequencies,        // of each word, how many documents have it how often
  project_rest,             // of each document the square of what lies beside a subspace
  count_words,              // of each word, how many documents of each cluster have it
  gather_clusters,          // frequencies of documents, brought together by their cluster
  collect_words,            // frequencies of words, side by side for each cluster
  score_documents,          // of each topic, the largest sums of its catchwords in a document
  sum_documents,            // sums of the documents of each topic
  expect_topics,            // counts of words by topics, as weights of documents explain them
  infer_topics,             // of each document its weights of topics
  complete_documents,       // how well one half of a document tells the other
  count_pairs,              // how many documents have two words of a topic
};
inline constexpr std::size_t kernel_count = static_cast<std::size_t>(Kernel::count_pairs) + 1;
std::string_view name_of(Kernel kernel) noexcept;

/// A part of one of the task's tiles, and how the kernel takes it.
struct TilePart {
  std::uint32_t access = 0;  // which of the task's accesses
  bool transpose = false, conjugate = false;
  Box part;  // counted from the tile's first element; empty: all of it
};

/// What a kernel takes beside parts and scalars: the expression of a pass, the order of dimensions. Shared by the tasks
/// of one operation, changed by none.
struct CallValue {
  CallValue() = default;
  virtual ~CallValue() = default;
};

/// One kernel call. About 300 bytes; a task without calls holds an empty vector of them, a task with one allocates
/// once, as a closure would.
struct Call {
  static constexpr std::size_t most_operands = 4;

  Call() = default;
  /// Operands in the kernel's order, what it changes last.
  Call(Kernel kernel, Dtype dtype, std::initializer_list<TilePart> parts);
  std::span<const TilePart> operands() const { return {operands_.data(), count_}; }
  template <class Value>
  const Value& value_as() const {
    return static_cast<const Value&>(*value);
  }

  Kernel kernel = Kernel::zero;
  Dtype dtype = Dtype::float64;  // of the arithmetic
  Semiring semiring = Semiring::plus_times;
  std::complex<double> alpha = 1, beta = 0;
  double flops = 0;
  std::shared_ptr<const CallValue> value;

 private:
  std::uint8_t count_ = 0;
  std::array<TilePart, most_operands> operands_;
};

/// The tile, or the part of it, that operand i of the call names.
Tile operand(const Call& call, std::size_t i, std::span<const Tile> tiles);

/// (kernel, semiring, dtype) -> function, of one memory space. Rooms that see both kernels and calls enter their
/// functions when the program starts, beside the functions that make the calls: whoever can make a call has its kernel.
class KernelTable {
 public:
  /// `tiles`: all of the task's, in the order of its accesses.
  using Function = void (*)(const Call& call, std::span<const Tile> tiles);

  /// True, so that a namespace-scope constant may call it. Error where the place is taken.
  bool enter(Kernel kernel, std::initializer_list<Dtype> dtypes, Function function);
  bool enter(Kernel kernel, Semiring semiring, std::initializer_list<Dtype> dtypes, Function function);
  /// Of every dtype.
  bool enter(Kernel kernel, Function function);
  /// Null where this space has no such kernel.
  Function find(Kernel kernel, Dtype dtype, Semiring semiring = Semiring::plus_times) const noexcept;
  /// Error where this space has no such kernel.
  void run(const Call& call, std::span<const Tile> tiles) const;

 private:
  static constexpr std::size_t dtype_count = static_cast<std::size_t>(Dtype::complex128) + 1;
  using OfDtypes = std::array<Function, dtype_count>;
  std::array<std::array<OfDtypes, semiring_count>, kernel_count> functions_{};
};

/// The host's table: it has all kernels.
KernelTable& host_kernels();

/// Calls that need no kernel room: elements as they are.
namespace call {

Call zero(Dtype dtype, TilePart to);
/// float32, float64 or complex.
Call fill(Dtype dtype, std::complex<double> value, TilePart to);
Call copy(Dtype dtype, TilePart from, TilePart to);
/// float32, float64 or complex.
Call add(Dtype dtype, TilePart from, TilePart to);

}  // namespace call

}  // namespace flagstone
