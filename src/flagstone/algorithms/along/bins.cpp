#include "flagstone/algorithms/along/bins.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "flagstone/algorithms/along/work.hpp"
#include "flagstone/algorithms/elementwise/tile.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::along {
namespace {

constexpr std::uint64_t most_bytes = 32 * MiB;  // of counts that are filled side by side

struct Count final : Work {
  void run(std::span<const Tile> tiles) const override {
    auto* const to = tiles[counts].as<std::int64_t>();
    if (first) std::memset(to, 0, tiles[counts].bytes);
    if (bins)
      kernel::count_bins(*bins, values.of(tiles), to);
    else
      kernel::count_integers(values.of(tiles), to);
  }
  std::shared_ptr<const kernel::Bins> bins;
  Visited values;
  std::uint32_t counts = 0;
  bool first = false;
};

struct AddUp final : Work {
  void run(std::span<const Tile> tiles) const override {
    const auto* const from = tiles[0].as<const std::int64_t>();
    auto* const to = tiles[1].as<std::int64_t>();
    for (Index i = 0; i < n; ++i) to[i] = first ? from[i] : to[i] + from[i];
  }
  Index n = 0;
  bool first = false;
};

struct Place final : Work {
  void run(std::span<const Tile> tiles) const override { kernel::bin_index(*bins, values.of(tiles), tiles[out]); }
  std::shared_ptr<const kernel::Bins> bins;
  Visited values;
  std::uint32_t out = 0;
};

const bool entered =
    host_kernels().enter(Kernel::bin_count, run_work) && host_kernels().enter(Kernel::bin_index, run_work);

}  // namespace

void count_bins(Graph& graph, elementwise::Pass pass, std::shared_ptr<const kernel::Bins> bins, const Array& out,
                elementwise::Scheme& scheme) {
  pass.tile = elementwise::choose_tile(pass);
  const Index n = count(out.shape());
  const auto fits = static_cast<Index>(most_bytes / (8 * static_cast<std::uint64_t>(std::max<Index>(n, 1))));
  const Index slots = std::clamp<Index>(fits, 1, graph.workers());  // whole numbers: any order gives the same
  const Array counts = graph.temporary({slots * n}, Dtype::int64, {n});
  const auto slot = [&](Index s) { return Region{counts, {{s * n}, {n}}}; };
  Index turn = 0;
  pass.visit.extends = 8 * static_cast<std::uint64_t>(n);
  pass.visit.extend = [&](const Box& box, std::span<const elementwise::VisitedValue> values, TaskSpec& task) {
    auto work = std::make_shared<Count>();
    work->bins = bins, work->values = {values[0], box}, work->first = turn < slots;
    const Region mine = slot(turn++ % slots);
    work->counts = add_access(task, again(work->first ? write(mine) : update(mine)));
    const auto elements = static_cast<double>(count(box.shape));
    task.name = "bin_count";
    task.cost.bytes_touched += 24 * elements;
    task.calls.push_back(call_of<Count>(Kernel::bin_count, values[0].dtype, std::move(work)));
  };
  elementwise::run(graph, pass, scheme);
  for (Index s = 0; s < std::min(slots, turn); ++s) {
    auto work = std::make_shared<AddUp>();
    work->n = n, work->first = s == 0;
    const Region to{out, whole(out.shape())};
    graph.add({.name = "bin_count",
               .accesses = {last(read(slot(s))), s == 0 ? write(to) : update(to)},
               .cost = {.bytes_touched = 24.0 * static_cast<double>(n)},
               .calls = {call_of<AddUp>(Kernel::bin_count, Dtype::int64, std::move(work))}});
  }
}

void bin_index(Graph& graph, elementwise::Pass pass, std::shared_ptr<const kernel::Bins> bins, const Array& out,
               elementwise::Scheme& scheme) {
  pass.tile = tile_with(pass, out);
  const double steps = std::log2(static_cast<double>(bins->edges.size() + bins->whole.size()) + 2);
  pass.visit.extends = static_cast<std::uint64_t>(count(pass.tile)) * size_of(out.dtype());
  pass.visit.extend = [&](const Box& box, std::span<const elementwise::VisitedValue> values, TaskSpec& task) {
    auto work = std::make_shared<Place>();
    work->bins = bins, work->values = {values[0], box};
    work->out = add_access(task, once(write({out, box})));
    task.name = "bin_index";
    task.cost.bytes_touched += (8 + 16 * steps) * static_cast<double>(count(box.shape));
    task.calls.push_back(call_of<Place>(Kernel::bin_index, values[0].dtype, std::move(work)));
  };
  elementwise::run(graph, pass, scheme);
}

}  // namespace flagstone::along
