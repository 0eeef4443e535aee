#pragma once
// Mode::reduce: each task adds into a private tile; the tiles are merged pairwise in a fixed tree over program order.
#include <functional>
#include <unordered_map>
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone {

/// Rewrites the reduce accesses of one graph into writes of private tiles and merge tasks. The tree is a binary
/// counter: two partial sums of equal weight merge at once, so it depends on the order of the tasks alone and at most
/// log2(tasks) partial sums wait.
class Reduction {
 public:
  using AddTask = std::function<void(TaskSpec)>;
  /// Of `graph`, which makes the private tiles and to which `add` adds.
  Reduction(Graph& graph, AddTask add) : graph_(graph), add_(std::move(add)) {}

  /// Before `task` is added: finishes sums that it reads or changes; replaces its reduce accesses by private tiles,
  /// which the body finds zeroed. Returns what to call after it was added (starts merges), or nothing.
  std::function<void()> prepare(TaskSpec& task);
  /// Finishes every open sum: before a barrier and at the end.
  void finish();

 private:
  struct Partial {
    Region tile;
    int level;
  };
  struct Sum {
    Region target;
    std::vector<Partial> partials;  // levels strictly decrease
  };
  void finish(Sum& sum);
  void merge_equal(Sum& sum);
  void add_into(const Region& from, Access to);

  Graph& graph_;
  AddTask add_;
  std::vector<Sum> sums_;
};

}  // namespace flagstone
