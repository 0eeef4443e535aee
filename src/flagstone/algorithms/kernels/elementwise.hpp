#pragma once
// Calls of the element-wise kernels: a fused expression is part of the value.
#include <memory>
#include <vector>

#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/runtime/graph/call.hpp"

namespace flagstone::call {

/// A program over tiles of one task, and where its values go.
struct Evaluation : CallValue {
  /// A part of another access, and where it goes.
  struct Piece {
    std::uint32_t access = 0;
    Box part;
    Shape to;
  };
  /// A part of a tile with its dimensions in another order (empty: as they are); extents of 1 are broadcast.
  struct Input {
    std::uint32_t access = 0;
    Box part;  // empty: all of it
    std::vector<std::size_t> axes;
    /// Where it comes in pieces: `access` is scratch, in which they are put together as a tile first.
    std::vector<Piece> pieces;
    Tile together;  // its dtype, shape and strides; memory where the scratch begins
  };
  struct Output {
    std::uint32_t access = 0;
    int value = -1;
    Box part;              // empty: all of it
    bool scratch = false;  // elements in C order in a scratch access
  };
  /// The words of the target are the tile's; what nothing folded is stands there first.
  struct Folded {
    std::uint32_t access = 0;
    kernel::FoldTarget target;
  };

  std::shared_ptr<const kernel::Program> program;
  Shape shape;  // of the box
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Folded> folds;
  std::uint32_t scratch = 0;  // the access with kernel::evaluate_scratch bytes
};

/// Cost: verbs flops an element; every tile once through memory.
Call evaluate(std::shared_ptr<const Evaluation> evaluation);
/// The tile of an output, as it is when the call has run.
Tile output_tile(const Evaluation& evaluation, const Evaluation::Output& output, std::span<const Tile> tiles);

/// to := to joined with from: accumulators of `results` results of a fold over values of `dtype`.
Call join(kernel::Fold fold, Dtype dtype, Index results, std::uint32_t from, std::uint32_t to);
/// to := what the accumulators stand for.
Call finish(const kernel::FinishOptions& options, Index results, std::uint32_t accumulators, std::uint32_t to);

}  // namespace flagstone::call
