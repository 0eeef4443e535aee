#include "flagstone/algorithms/centres/block_pass.hpp"

#include <algorithm>
#include <bit>

#include "flagstone/algorithms/kernels/dense.hpp"

namespace flagstone::centres {

using namespace cluster;

double partial_sums(const Graph& graph, Index panels) {
  return static_cast<double>(graph.workers() + std::bit_width(static_cast<std::uint64_t>(panels)));
}

BlockPass::BlockPass(Graph& graph, const PointsInput& x, const Source& source, const CentreBlocks& centres,
                     const BlockArrays& to)
    : graph_(graph),
      source_(source),
      centres_(centres),
      to_(to),
      tasks_(make_tasks(graph, x, centres, to)),
      sizes_(sizes()),
      order_(choose_order(sizes_)) {}

BlockSizes BlockPass::sizes() const {
  const auto values = static_cast<double>(centres_.step() * centres_.d()), rows = static_cast<double>(source_.rows);
  BlockSizes sizes{.panels = source_.panels, .blocks = centres_.count(), .sums = static_cast<bool>(to_.sums)};
  sizes.points = tasks_->point_bytes();
  sizes.state = 8.0 * state_width * rows;
  sizes.panel = tasks_->panel_bytes() + 8.0 * state_width * static_cast<double>(source_.step);
  sizes.block = 12 * values;
  sizes.sums_block = 8 * values * (1 + partial_sums(graph_, source_.panels));
  const double passing =
      2 * sizes.block + static_cast<double>(graph_.workers()) * (sizes.panel + tasks_->scratch_bytes());
  sizes.room = share_of_room * static_cast<double>(graph_.budget()) - passing;
  return sizes;
}

bool BlockPass::crowded() const {
  if (!sizes_.sums || order_.fused == sizes_.blocks) return false;
  const double exact = 8 * static_cast<double>(centres_.k() * centres_.d());
  const double panels = static_cast<double>(graph_.workers()) * sizes_.panel;
  return static_cast<double>(order_.group) * sizes_.sums_block + exact + panels > static_cast<double>(graph_.budget());
}

void BlockPass::run(bool backwards) {
  centres_.round(graph_);
  if (to_.sums) zero_sums(0, order_.fused);
  // As in memory: there and back, so that sums of panels are added in the same order.
  const std::vector<Index> panels = order_of({.backwards = backwards}, source_.panels);
  graph_.trust_order(true);
  if (order_.points_stay)
    stream_blocks(panels);
  else
    stream_points(panels);
  for (Index from = order_.fused; to_.sums && from < centres_.count(); from += order_.group) {
    zero_sums(from, from + order_.group);
    for (const Index p : panels) sum(p, from, from + order_.group);
  }
  graph_.barrier();
  graph_.trust_order(false);
}

/// Those that are added next: zeros of others would leave memory, or not, as timing has it.
void BlockPass::zero_sums(Index from, Index end) const {
  for (Index b = from; b < std::min(end, centres_.count()); ++b) {
    TaskSpec task;
    task.name = "kmeans_zero";
    task.accesses = {flagstone::write({to_.sums, centres_.box(b)})};
    task.cost.bytes_touched = 8.0 * static_cast<double>(count(centres_.box(b).shape));
    task.calls = {call::zero(Dtype::float64, {0})};
    graph_.add(std::move(task));
  }
}

void BlockPass::sum(Index panel, Index from, Index end) const {
  for (Index b = from; b < std::min(end, centres_.count()); ++b) tasks_->add_sums(panel, b);
}

/// Panels stay, some at a time; blocks stream past them, there and back.
void BlockPass::stream_blocks(const std::vector<Index>& panels) const {
  const Index blocks = centres_.count(), all = source_.panels;
  for (Index at = 0, round = 0; at < all; at += order_.stay, ++round) {
    const std::vector<Index> stay(panels.begin() + at, panels.begin() + std::min(all, at + order_.stay));
    for (Index i = 0; i < blocks; ++i) {
      const Index b = round % 2 == 0 ? i : blocks - 1 - i;
      for (const Index p : stay) tasks_->assign(p, b, i == 0, i == blocks - 1);
      if (at + order_.stay >= all) centres_.forget_rounded(graph_, b);
    }
    for (const Index p : stay) sum(p, 0, order_.fused);
  }
}

/// Blocks stay, some at a time; panels stream past them, there and back, the last time in their order.
void BlockPass::stream_points(const std::vector<Index>& panels) const {
  const Index blocks = centres_.count(), all = source_.panels, rounds = ceil_div(blocks, order_.stay);
  for (Index round = 0; round < rounds; ++round) {
    const Index from = round * order_.stay, end = std::min(blocks, from + order_.stay);
    for (Index i = 0; i < all; ++i) {
      const Index p = panels[static_cast<std::size_t>((rounds - round) % 2 == 1 ? i : all - 1 - i)];
      for (Index b = from; b < end; ++b) tasks_->assign(p, b, b == 0, b == blocks - 1);
      if (round == rounds - 1) sum(p, 0, order_.fused);
    }
    for (Index b = from; b < end; ++b) centres_.forget_rounded(graph_, b);
  }
}

}  // namespace flagstone::centres
