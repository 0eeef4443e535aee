#include "flagstone/algorithms/labels/trees.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/algorithms/labels/wide_nodes.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/labels/halves.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::labels {
namespace {

constexpr double planned_rounds = 10;

/// A subtree that one task splits.
struct Subtree {
  Index tree = 0, level = 0, node = 0;
};

struct Splitting final : CallValue {
  TreeShape shape;
  Subtree root;
  BucketSize size;
  Index features = 0;
  std::uint64_t seed = 0;

  std::size_t centre_bytes() const { return align_up(static_cast<std::size_t>(features) * 8, 64); }
  /// Two centres, and what the kernel holds for each label.
  std::size_t scratch_bytes() const { return 2 * centre_bytes() + static_cast<std::size_t>(size.rows) * 64; }
};

void run_splitting(const Call& call, std::span<const Tile> tiles) {
  const auto& value = call.value_as<Splitting>();
  const BucketView view = bucket_view(tiles[0], value.size);
  auto* order = tiles[1].as<std::int32_t>();
  auto* left = reinterpret_cast<double*>(tiles[2].data);
  auto* right = left + value.centre_bytes() / 8;
  const Index begin = value.shape.range(value.root.level, value.root.node).first;
  std::iota(order, order + view.rows, 0);
  for (Index level = value.root.level; level < value.shape.depth; ++level) {
    const Index below = level - value.root.level;
    for (Index node = value.root.node << below; node < (value.root.node + 1) << below; ++node) {
      const auto [first, n] = value.shape.range(level, node);
      const auto tree = static_cast<std::uint64_t>(value.root.tree);
      kernel::split_in_halves(
          view.points, value.features, order + (first - begin), n,
          seed_of(value.seed, tree, static_cast<std::uint64_t>(level), static_cast<std::uint64_t>(node)), left, right);
    }
  }
  for (Index i = 0; i < view.rows; ++i) order[i] = view.keys[order[i]];
}

const bool entered = host_kernels().enter(Kernel::split_labels, run_splitting);

class Growing {
 public:
  Growing(Graph& graph, const Centroids& centroids, const TreeShape& shape, Index features, Index trees,
          std::uint64_t seed, Index small)
      : graph_(graph),
        centroids_(centroids),
        shape_(shape),
        features_(features),
        seed_(seed),
        small_(small),
        orders_(graph.allocate({trees * shape.labels}, Dtype::int32)) {
    if (graph.planning()) order_.resize(static_cast<std::size_t>(shape.labels));
  }

  void grow(Index trees) {
    for (Index t = 0; t < trees; ++t) {
      if (!graph_.planning()) std::iota(order(t), order(t) + shape_.labels, 0);
      frontier(t);
    }
    split_subtrees();
    graph_.barrier();
  }

  std::shared_ptr<const std::vector<TreeOrder>> orders(Index trees) {
    if (!graph_.planning()) return tree_orders(shape_, elements_of<std::int32_t>(orders_));
    std::vector<std::int32_t> as_they_are;
    for (Index t = 0; t < trees; ++t) as_they_are.insert(as_they_are.end(), order(t), order(t) + shape_.labels);
    return tree_orders(shape_, as_they_are);
  }

 private:
  std::int32_t* order(Index tree) {
    if (graph_.planning()) {
      std::iota(order_.begin(), order_.end(), 0);
      return order_.data();
    }
    return elements_of<std::int32_t>(orders_).data() + tree * shape_.labels;
  }
  Index values(Index tree, Index level, Index node) {
    const auto [first, n] = shape_.range(level, node);
    Index sum = 0;
    for (Index p = first; p < first + n; ++p) sum += centroids_.most_values[static_cast<std::size_t>(order(tree)[p])];
    return sum;
  }

  /// Splits wide nodes by passes, and notes the subtrees below them that are small.
  void frontier(Index tree) {
    std::vector<Index> wide{0};
    for (Index level = 0; !wide.empty(); ++level) {
      std::vector<Index> split, below;
      for (const Index node : wide) {
        if (level == shape_.depth) continue;  // a leaf: its order does not matter
        if (values(tree, level, node) <= small_)
          subtrees_.push_back({tree, level, node});
        else
          split.push_back(node);
      }
      if (!split.empty()) split_wide(graph_, centroids_, shape_, features_, {tree, level, seed_}, split, order(tree));
      for (const Index node : split) below.push_back(2 * node), below.push_back(2 * node + 1);
      wide = std::move(below);
    }
  }

  BucketSize size_of(const Subtree& one) {
    const Index n = shape_.range(one.level, one.node).second;
    return {n, values(one.tree, one.level, one.node), n};
  }

  void split_subtrees() {
    const bool one_piece = centroids_.rows.pieces() == 1;
    for (std::size_t first = 0; first < subtrees_.size();) {
      if (one_piece && subtrees_[first].level == 0) {  // all labels, as they lie
        add(subtrees_[first], centroids_.rows.bucket(0), centroids_.rows.size(0), false);
        ++first;
        continue;
      }
      std::vector<BucketSize> sizes;
      for (std::size_t s = first; s < subtrees_.size(); ++s) sizes.push_back(size_of(subtrees_[s]));
      sizes.resize(at_a_time(graph_, sizes));
      auto maps = std::make_shared<BucketMaps>();
      for (std::size_t b = 0; b < sizes.size(); ++b) {
        const Subtree& one = subtrees_[first + b];
        if (b == 0 || one.tree != subtrees_[first + b - 1].tree)
          maps->emplace_back(static_cast<std::size_t>(shape_.labels), -1);
        const auto [place, n] = shape_.range(one.level, one.node);
        for (Index p = place; p < place + n; ++p)
          maps->back()[static_cast<std::size_t>(order(one.tree)[p])] = static_cast<std::int32_t>(b);
      }
      const auto buckets = fill_buckets(graph_, centroids_.rows, sizes, maps, "train_labels");
      for (std::size_t b = 0; b < sizes.size(); ++b) add(subtrees_[first + b], buckets[b], sizes[b], true);
      graph_.barrier();  // the orders change only when nobody looks at them
      first += sizes.size();
    }
  }

  void add(const Subtree& one, const Array& bucket, const BucketSize& size, bool done) {
    auto value = std::make_shared<Splitting>();
    value->shape = shape_, value->root = one, value->size = size, value->features = features_, value->seed = seed_;
    const auto [first, n] = shape_.range(one.level, one.node);
    TaskSpec task;
    task.name = "split_labels";
    const Access rows = read({bucket, whole(bucket.shape())});
    task.accesses = {done ? last(rows) : again(rows), write({orders_, {{one.tree * shape_.labels + first}, {n}}}),
                     scratch(value->scratch_bytes())};
    const auto levels = static_cast<double>(shape_.depth - one.level);
    const double nodes = static_cast<double>(Index{1} << (shape_.depth - one.level));
    const double seconds = planned_rounds * (levels * value_seconds * static_cast<double>(size.values) +
                                             nodes * 2e-9 * static_cast<double>(features_));
    task.cost = seconds_of(seconds, 4 * planned_rounds * levels * static_cast<double>(size.values));
    task.calls = {Call(Kernel::split_labels, Dtype::float64, {TilePart{0}})};
    task.calls[0].flops = task.cost.flops;
    task.calls[0].value = value;
    graph_.add(std::move(task));
  }

  Graph& graph_;
  const Centroids& centroids_;
  TreeShape shape_;
  Index features_;
  std::uint64_t seed_;
  Index small_;
  Array orders_;  // of all trees, in memory
  std::vector<std::int32_t> order_;
  std::vector<Subtree> subtrees_;
};

}  // namespace

std::shared_ptr<const std::vector<TreeOrder>> grow_trees(Graph& graph, const Centroids& centroids,
                                                         const TreeShape& shape, Index features, Index trees,
                                                         std::uint64_t seed, Index small) {
  Growing growing(graph, centroids, shape, features, trees, seed, small);
  growing.grow(trees);
  return growing.orders(trees);
}

}  // namespace flagstone::labels
