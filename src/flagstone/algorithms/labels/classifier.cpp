#include "flagstone/algorithms/labels/classifier.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flagstone/base/bytes.hpp"

namespace flagstone::labels {
namespace {

constexpr double column_bytes = 32e6;  // of dense weights and of what is stored of them, in one task

/// A node's points, with features counted from 0 among those that occur.
struct NodeMemory {
  NodeMemory(const NodeTraining& node, std::byte* from) {
    const auto take = [&](Index n, std::size_t item) {
      const std::size_t at = std::exchange(bytes, bytes + align_up(static_cast<std::size_t>(n) * item, 64));
      return from ? from + at : nullptr;  // null: sizes alone
    };
    const Index rows = node.own.rows, values = node.own.values;
    pointers = reinterpret_cast<Index*>(take(rows + 1, 8));
    columns = reinterpret_cast<std::uint32_t*>(take(values, 4));
    numbers = reinterpret_cast<float*>(take(values, 4));
    chosen = reinterpret_cast<Index*>(take(rows, 8));
    table = reinterpret_cast<std::uint32_t*>(take(node.features, 4));
    features = reinterpret_cast<std::uint32_t*>(take(node.locals(), 4));
    belongs = reinterpret_cast<bool*>(take(rows * node.part.children, 1));
    positive = reinterpret_cast<bool*>(take(rows, 1));
    alpha = reinterpret_cast<double*>(take(rows, 8));
    weights = reinterpret_cast<double*>(take(node.locals() * node.part.children, 8));
    solver = take(static_cast<Index>(kernel::svm_bytes(rows)), 1);
  }
  std::size_t bytes = 0;
  Index *pointers, *chosen;
  std::uint32_t *columns, *table, *features;
  float* numbers;
  bool *belongs, *positive;
  double *alpha, *weights;
  std::byte* solver;
};

/// Copies the node's points; returns how many features occur.
Index gather(const NodeTraining& node, const BucketView& view, const Membership& members, const NodeMemory& at,
             Index& rows) {
  Index values = 0;
  rows = 0, at.pointers[0] = 0;
  std::fill_n(at.table, node.features, std::uint32_t{0});
  for (Index i = 0; i < view.rows; ++i) {
    const std::int32_t* labels = view.keys + view.key_pointers[i];
    const Index n = view.key_pointers[i + 1] - view.key_pointers[i];
    if (!members.holds(labels, n)) continue;
    members.children(labels, n, at.belongs + rows * node.part.children);
    for (Index p = view.points.pointers[i]; p < view.points.pointers[i + 1]; ++p) {
      at.columns[values] = view.points.columns[p], at.numbers[values++] = view.points.values[p];
      at.table[view.points.columns[p]] = 1;
    }
    at.pointers[++rows] = values;
  }
  Index locals = 0;
  for (Index f = 0; f < node.features; ++f)
    if (at.table[f])
      at.features[locals] = static_cast<std::uint32_t>(f), at.table[f] = static_cast<std::uint32_t>(locals++);
  for (Index p = 0; p < values; ++p) at.columns[p] = at.table[at.columns[p]];
  return locals;
}

void run_training(const Call& call, std::span<const Tile> tiles) { call.value_as<NodeTask>().run(tiles); }

const bool entered = host_kernels().enter(Kernel::train_node, run_training);

}  // namespace

void NodeTraining::run(std::span<const Tile> tiles) const {
  const NodeTraining& node = *this;
  const BucketView view = bucket_view(tiles[0], node.bucket);
  const NodeMemory at(node, tiles.back().data);
  const Membership members(node.shape, (*node.trees)[static_cast<std::size_t>(node.part.tree)], node.part);
  Index rows = 0;
  const Index locals = gather(node, view, members, at, rows);
  const kernel::SparsePoints points{rows, at.pointers, at.columns, at.numbers};
  std::fill_n(at.weights, (locals + 1) * node.part.children, 0.0);
  for (Index c = 0; c < node.part.children; ++c) {
    for (Index i = 0; i < rows; ++i) at.positive[i] = at.belongs[i * node.part.children + c];
    std::fill_n(at.alpha, rows, 0.0);
    kernel::SvmOptions svm = node.svm;
    svm.seed = column_seed(node.svm.seed, node.part, c);
    kernel::train_svm(points, locals, at.positive, svm, at.weights + c * (locals + 1), at.alpha, at.solver);
  }
  at.features[locals] = static_cast<std::uint32_t>(node.features);  // the bias
  kernel::ChunkTarget to = node.kept.size.target(tiles[1].data);
  kernel::encode_chunk(at.features, locals + 1, at.weights, node.part.children, node.kept.threshold, to);
  EncodedSize::note(tiles[1].data, to);
}

bool Membership::holds(const std::int32_t* labels, Index n) const {
  const Index shift = shape_.depth - part_.level;
  for (Index k = 0; k < n; ++k)
    if (order_.leaf_of[static_cast<std::size_t>(labels[k])] >> shift == part_.node) return true;
  return false;
}

void Membership::children(const std::int32_t* labels, Index n, bool* belongs) const {
  std::fill_n(belongs, part_.children, false);
  if (part_.leaf) {  // few labels have few points: looked for one by one
    for (Index c = 0; c < part_.children; ++c) {
      const std::int32_t label = order_.label_at[static_cast<std::size_t>(part_.first + c)];
      belongs[c] = std::find(labels, labels + n, label) != labels + n;
    }
    return;
  }
  const Index shift = shape_.depth - part_.level - 1;
  for (Index k = 0; k < n; ++k) {
    const Index child = (order_.leaf_of[static_cast<std::size_t>(labels[k])] >> shift) - part_.first;
    if (child >= 0 && child < part_.children) belongs[child] = true;
  }
}

std::size_t NodeTraining::scratch_bytes() const { return NodeMemory(*this, nullptr).bytes; }

EncodedSize encoded_size(Index locals, Index features, Index children, bool small) {
  return {kernel::most_rows(locals, features + 1), locals * children, children, small};
}

Index children_at_a_time(Index locals) {
  const double fit = column_bytes / (17 * static_cast<double>(locals));
  return std::clamp<Index>(static_cast<Index>(fit), 1, kernel::most_children);
}

std::uint64_t column_seed(std::uint64_t seed, const NodePart& part, Index child) {
  const auto place = static_cast<std::uint64_t>(part.first + child) << 1 | (part.leaf ? 1U : 0U);
  return seed_of(seed ^ 0x5356'4D00U, static_cast<std::uint64_t>(part.tree), static_cast<std::uint64_t>(part.level),
                 place);
}

}  // namespace flagstone::labels
