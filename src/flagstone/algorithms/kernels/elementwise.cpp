#include "flagstone/algorithms/kernels/elementwise.hpp"

#include <utility>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/kernel/dense/rearrange.hpp"

namespace flagstone::call {
namespace {

/// The input as the program sees it, put together where it comes in pieces: strides of 0 where it is broadcast, and in
/// dimensions that it has not.
Tile input_tile(const Evaluation::Input& input, const Shape& shape, std::span<const Tile> tiles) {
  Tile tile = tiles[input.access];
  if (!input.pieces.empty()) {
    std::byte* const memory = tile.data;
    tile = input.together;
    tile.data = memory;
    for (const Evaluation::Piece& piece : input.pieces)
      kernel::rearrange(subtile(tiles[piece.access], piece.part), subtile(tile, {piece.to, piece.part.shape}));
  }
  const Tile own = turned(input.part.shape.empty() ? tile : subtile(tile, input.part), input.axes);
  Tile view = own;
  view.shape = shape;
  view.strides.assign(shape.size(), 0);
  const std::size_t missing = shape.size() - own.shape.size();
  for (std::size_t d = 0; d < own.shape.size(); ++d)
    if (own.shape[d] != 1) view.strides[missing + d] = own.strides[d];
  return view;
}

void run_evaluate(const Call& call, std::span<const Tile> tiles) {
  const auto& evaluation = call.value_as<Evaluation>();
  std::vector<Tile> inputs;
  std::vector<kernel::StoreTarget> stores;
  std::vector<kernel::FoldTarget> folds;
  for (const auto& input : evaluation.inputs) inputs.push_back(input_tile(input, evaluation.shape, tiles));
  for (const auto& output : evaluation.outputs)
    stores.push_back({output.value, output_tile(evaluation, output, tiles)});
  for (const auto& folded : evaluation.folds) {
    kernel::FoldTarget& target = folds.emplace_back(folded.target);
    target.words = tiles[folded.access].data;
    kernel::fold_nothing(target.fold, evaluation.program->dtype(target.value), target.results, target.words);
  }
  kernel::evaluate(*evaluation.program, evaluation.shape, inputs, stores, folds, tiles[evaluation.scratch].data);
}

struct Accumulators : CallValue {
  kernel::FinishOptions options;
  Index results = 1;
};

Call over_accumulators(Kernel kernel, const kernel::FinishOptions& options, Index results, std::uint32_t from,
                       std::uint32_t to) {
  Call made(kernel, options.dtype, {TilePart{from}, TilePart{to}});
  auto accumulators = std::make_shared<Accumulators>();
  accumulators->options = options, accumulators->results = results;
  made.value = std::move(accumulators);
  return made;
}

void run_join(const Call& call, std::span<const Tile> tiles) {
  const auto& accumulators = call.value_as<Accumulators>();
  kernel::join_accumulators(accumulators.options.fold, call.dtype, accumulators.results,
                            tiles[call.operands()[0].access].data, tiles[call.operands()[1].access].data);
}

void run_finish(const Call& call, std::span<const Tile> tiles) {
  const auto& accumulators = call.value_as<Accumulators>();
  kernel::finish_accumulators(accumulators.options, accumulators.results, tiles[call.operands()[0].access].data,
                              tiles[call.operands()[1].access]);
}

const bool entered = host_kernels().enter(Kernel::evaluate, run_evaluate) &&
                     host_kernels().enter(Kernel::join, run_join) && host_kernels().enter(Kernel::finish, run_finish);

}  // namespace

Tile output_tile(const Evaluation& evaluation, const Evaluation::Output& output, std::span<const Tile> tiles) {
  const Tile& tile = tiles[output.access];
  if (!output.scratch) return output.part.shape.empty() ? tile : subtile(tile, output.part);
  const Dtype dtype = evaluation.program->dtype(output.value);
  const std::size_t item = size_of(dtype);
  return {tile.data, dtype, evaluation.shape, c_strides(evaluation.shape, item),
          static_cast<std::size_t>(count(evaluation.shape)) * item};
}

Call evaluate(std::shared_ptr<const Evaluation> evaluation) {
  const int value = evaluation->outputs.empty() ? evaluation->folds.empty() ? -1 : evaluation->folds[0].target.value
                                                : evaluation->outputs[0].value;
  Call made(Kernel::evaluate, value < 0 ? Dtype::float64 : evaluation->program->dtype(value), {});
  made.value = std::move(evaluation);
  return made;
}

Call join(kernel::Fold fold, Dtype dtype, Index results, std::uint32_t from, std::uint32_t to) {
  kernel::FinishOptions options;
  options.fold = fold, options.dtype = dtype;
  return over_accumulators(Kernel::join, options, results, from, to);
}

Call finish(const kernel::FinishOptions& options, Index results, std::uint32_t accumulators, std::uint32_t to) {
  return over_accumulators(Kernel::finish, options, results, accumulators, to);
}

}  // namespace flagstone::call
