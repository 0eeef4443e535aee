#include "flagstone/algorithms/labels/counts.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::labels {
namespace {

struct Counting final : CallValue {
  std::unique_ptr<RowReader> from;
  TreeShape shape;                                      // of nodes
  std::shared_ptr<const std::vector<TreeOrder>> trees;  // null: labels are counted
  Index labels = 0;
};

void add(double* to, std::size_t place, const JoinedRow& row) {
  to[3 * place] += 1, to[3 * place + 1] += static_cast<double>(row.values);
  to[3 * place + 2] += static_cast<double>(row.keys);
}

void count_row_nodes(const Counting& value, const JoinedRow& row, std::vector<std::int32_t>& found, double* to) {
  for (std::size_t t = 0; t < value.trees->size(); ++t) {
    found.clear();
    for (Index k = 0; k < row.keys; ++k)
      found.push_back((*value.trees)[t].leaf_of[static_cast<std::size_t>(row.labels[k])]);
    std::sort(found.begin(), found.end());
    for (Index level = value.shape.depth; level >= 0; --level) {
      found.erase(std::unique(found.begin(), found.end()), found.end());
      for (std::int32_t& node : found) {
        add(to, node_place(value.shape, static_cast<Index>(t), level, node), row);
        node >>= 1;
      }
    }
  }
}

void run_counting(const Call& call, std::span<const Tile> tiles) {
  const auto& value = call.value_as<Counting>();
  auto* to = tiles[tiles.size() - 2].as<double>();
  std::vector<std::int32_t> found;
  value.from->each(tiles, tiles.back().data, [&](const JoinedRow& row) {
    if (value.trees) return count_row_nodes(value, row, found, to);
    for (Index k = 0; k < row.keys; ++k) add(to, static_cast<std::size_t>(row.labels[k]), row);
    add(to, static_cast<std::size_t>(value.labels), row);
  });
}

const bool entered = host_kernels().enter(Kernel::count_labels, run_counting);

std::vector<Tally> counted(Graph& graph, const Examples& examples, Index places, const Counting& about) {
  const Array sums = graph.allocate({1, 3 * places}, Dtype::float64);
  const JoinedPanels panels(examples);
  for (std::size_t p = 0; p < panels.pieces(); ++p) {
    TaskSpec task;
    task.name = "count_labels";
    auto value = std::make_shared<Counting>();
    value->shape = about.shape, value->trees = about.trees, value->labels = about.labels;
    value->from = panels.piece(p);
    value->from->access(task.accesses);
    task.accesses.push_back(reduce({sums, whole(sums.shape())}));
    task.accesses.push_back(scratch(value->from->scratch_bytes()));
    task.cost = value->from->cost();
    task.calls = {Call(Kernel::count_labels, Dtype::float64, {TilePart{0}})};
    task.calls[0].value = value;
    graph.add(std::move(task));
  }
  graph.barrier();
  if (graph.planning()) return {};
  std::vector<Tally> made(static_cast<std::size_t>(places));
  std::memcpy(made.data(), sums.store().memory(), made.size() * sizeof(Tally));
  return made;
}

Tally all_of(const Examples& examples) {
  return {static_cast<double>(examples.rows()), static_cast<double>(examples.x.matrix.nnz),
          static_cast<double>(examples.y->matrix.nnz)};
}

/// As many points as so many labels have that are alike, no more than there are.
Tally share(const Tally& all, double labels, double of) {
  const double each = all.points > 0 ? all.keys / all.points : 0;  // labels of a point
  const double part = std::min(1.0, of > 0 ? labels / of * each : 0);
  return {all.points * part, all.values * part, all.keys * part};
}

}  // namespace

std::shared_ptr<const std::vector<TreeOrder>> tree_orders(const TreeShape& shape,
                                                          std::span<const std::int32_t> label_at) {
  const auto labels = static_cast<std::size_t>(shape.labels);
  auto made = std::make_shared<std::vector<TreeOrder>>(label_at.size() / labels);
  for (std::size_t t = 0; t < made->size(); ++t) {
    TreeOrder& one = (*made)[t];
    const auto own = label_at.subspan(t * labels, labels);
    one.label_at.assign(own.begin(), own.end());
    one.leaf_of.resize(labels);
    for (Index leaf = 0; leaf < shape.nodes(shape.depth); ++leaf) {
      const auto [first, n] = shape.range(shape.depth, leaf);
      for (Index place = first; place < first + n; ++place)
        one.leaf_of[static_cast<std::size_t>(own[static_cast<std::size_t>(place)])] = static_cast<std::int32_t>(leaf);
    }
  }
  return made;
}

std::vector<Tally> count_labels(Graph& graph, const Examples& examples, Index labels) {
  Counting about;
  about.labels = labels;
  auto made = counted(graph, examples, labels + 1, about);
  if (!graph.planning()) return made;
  const Tally all = all_of(examples);
  made.assign(static_cast<std::size_t>(labels), share(all, 1, static_cast<double>(labels)));
  made.push_back(all);
  return made;
}

std::vector<Tally> count_nodes(Graph& graph, const Examples& examples, const TreeShape& shape,
                               const std::shared_ptr<const std::vector<TreeOrder>>& trees) {
  Counting about;
  about.shape = shape, about.trees = trees;
  const auto number = static_cast<Index>(trees->size());
  const Index places = number * ((Index{2} << shape.depth) - 1);
  auto made = counted(graph, examples, places, about);
  if (!graph.planning()) return made;
  const Tally all = all_of(examples);
  for (Index t = 0; t < number; ++t)
    for (Index level = 0; level <= shape.depth; ++level)
      for (Index node = 0; node < shape.nodes(level); ++node)
        made.push_back(
            share(all, static_cast<double>(shape.range(level, node).second), static_cast<double>(shape.labels)));
  return made;
}

}  // namespace flagstone::labels
