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
constexpr Index most_tables = 8;                // of sums, whatever the workers

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

template <class T>
struct AddUp final : Work {
  void run(std::span<const Tile> tiles) const override {
    const auto* const from = tiles[0].as<const T>();
    auto* const to = tiles[1].as<T>();
    for (Index i = 0; i < n; ++i) to[i] = first ? from[i] : to[i] + from[i];
  }
  Index n = 0;
  bool first = false;
};

struct Weigh final : Work {
  void run(std::span<const Tile> tiles) const override {
    auto* const to = tiles[sums].as<double>();
    if (first) std::memset(to, 0, tiles[sums].bytes);
    kernel::weigh_bins(bins.get(), values.of(tiles), weights.of(tiles), to);
  }
  std::shared_ptr<const kernel::Bins> bins;
  Visited values, weights;
  std::uint32_t sums = 0;
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

namespace {

/// Tables of n numbers that boxes are dealt out to in turn, each first written, then updated.
template <class T>
class Tables {
 public:
  Tables(Graph& graph, Dtype dtype, Index n, Index most)
      : n_(n),
        slots_(std::clamp<Index>(
            static_cast<Index>(most_bytes / (8 * static_cast<std::uint64_t>(std::max<Index>(n, 1)))), 1, most)),
        tables_(graph.temporary({slots_ * n}, dtype, {n})) {}
  /// The access of the next box, and whether it is the first of its table.
  std::pair<Access, bool> next() {
    const bool first = turn_ < slots_;
    const Region mine = slot(turn_++ % slots_);
    return {again(first ? write(mine) : update(mine)), first};
  }
  void add_up(Graph& graph, const Array& out) const {
    for (Index s = 0; s < std::min(slots_, turn_); ++s) {
      auto work = std::make_shared<AddUp<T>>();
      work->n = n_, work->first = s == 0;
      const Region to{out, whole(out.shape())};
      graph.add({.name = "bin_count",
                 .accesses = {last(read(slot(s))), s == 0 ? write(to) : update(to)},
                 .cost = {.bytes_touched = 24.0 * static_cast<double>(n_)},
                 .calls = {call_of<AddUp<T>>(Kernel::bin_count, Dtype::int64, std::move(work))}});
    }
  }

 private:
  Region slot(Index s) const { return Region{tables_, {{s * n_}, {n_}}}; }
  Index n_, slots_;
  Array tables_;
  Index turn_ = 0;
};

}  // namespace

void count_bins(Graph& graph, elementwise::Pass pass, std::shared_ptr<const kernel::Bins> bins, const Array& out,
                elementwise::Scheme& scheme) {
  pass.tile = elementwise::choose_tile(pass);
  const Index n = count(out.shape());
  Tables<std::int64_t> tables(graph, Dtype::int64, n, graph.workers());  // whole numbers: any order gives the same
  pass.visit.extends = 8 * static_cast<std::uint64_t>(n);
  pass.visit.extend = [&](const Box& box, std::span<const elementwise::VisitedValue> values, TaskSpec& task) {
    auto work = std::make_shared<Count>();
    auto [mine, first] = tables.next();
    work->bins = bins, work->values = {values[0], box}, work->first = first;
    work->counts = add_access(task, std::move(mine));
    task.name = "bin_count";
    task.cost.bytes_touched += 24 * static_cast<double>(count(box.shape));
    task.calls.push_back(call_of<Count>(Kernel::bin_count, values[0].dtype, std::move(work)));
  };
  elementwise::run(graph, pass, scheme);
  tables.add_up(graph, out);
}

void weigh_bins(Graph& graph, elementwise::Pass pass, std::shared_ptr<const kernel::Bins> bins, const Array& out,
                elementwise::Scheme& scheme) {
  pass.tile = elementwise::choose_tile(pass);
  const Index n = count(out.shape());
  Tables<double> tables(graph, Dtype::float64, n, most_tables);
  pass.visit.extends = 8 * static_cast<std::uint64_t>(n);
  pass.visit.extend = [&](const Box& box, std::span<const elementwise::VisitedValue> values, TaskSpec& task) {
    auto work = std::make_shared<Weigh>();
    auto [mine, first] = tables.next();
    work->bins = bins, work->values = {values[0], box}, work->weights = {values[1], box}, work->first = first;
    work->sums = add_access(task, std::move(mine));
    task.name = "bin_weigh";
    task.cost.bytes_touched += 48 * static_cast<double>(count(box.shape));
    task.calls.push_back(call_of<Weigh>(Kernel::bin_count, values[0].dtype, std::move(work)));
  };
  elementwise::run(graph, pass, scheme);
  tables.add_up(graph, out);
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
