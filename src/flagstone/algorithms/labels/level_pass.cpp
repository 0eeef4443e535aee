#include "flagstone/algorithms/labels/level_pass.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/sparse/panels.hpp"

namespace flagstone::labels {
namespace {

constexpr double seconds_a_look = 1.2e-9, seconds_a_row = 1.5e-9;

std::size_t room(std::size_t n, std::size_t item) { return align_up(n * item, 64); }

void run_pass(const Call& call, std::span<const Tile> tiles) { call.value_as<LevelPass>().run(tiles); }
const bool entered = host_kernels().enter(Kernel::label_level, run_pass);

}  // namespace

/// The parts of a task's scratch.
struct LevelPass::Memory {
  Memory(const LevelPass& pass, std::byte* from) {
    const auto take = [&](std::size_t n, std::size_t item) {
      const std::size_t at = std::exchange(bytes, bytes + room(n, item));
      return from ? from + at : nullptr;  // null: sizes alone
    };
    const auto rows = static_cast<std::size_t>(pass.points.rows());
    const std::size_t chunks = pass.weights.block().chunks.size();
    block = take(pass.weights.scratch_bytes(), 1);
    reader = take(pass.points.scratch_bytes(), 1);
    scales = reinterpret_cast<float*>(take(rows, 4));
    table = reinterpret_cast<std::uint32_t*>(take(static_cast<std::size_t>(pass.model->features) + 1, 4));
    ends = reinterpret_cast<std::uint32_t*>(take(static_cast<std::size_t>(pass.weights.block().most_rows) + 1, 4));
    starts = reinterpret_cast<std::size_t*>(take(chunks + 2, 8));
    pairs = reinterpret_cast<Pair*>(take(pass.most_pairs(), sizeof(Pair)));
    products = reinterpret_cast<float*>(take(kernel::most_children + 1, 4));
  }
  std::byte *block, *reader;
  float* scales;
  std::uint32_t *table, *ends;
  std::size_t* starts;
  Pair* pairs;
  float* products;
  std::size_t bytes = 0;
};

LevelPass::LevelPass(std::shared_ptr<const Model> of, const sparse::CsrOperand& x, const CsrPanelRange& batch,
                     const Block& block)
    : model(std::move(of)), points(x, batch, Dtype::float32, true), weights(*model, block), unit(model->unit) {}

std::size_t LevelPass::most_pairs() const {
  // A point has a node of a tree once; at level 0 only the first slot is one.
  const Index slots = starts ? model->trees : this->slots();
  return static_cast<std::size_t>(points.rows() * slots * weights.block().most_parts);
}

std::size_t LevelPass::scratch_bytes() const { return Memory(*this, nullptr).bytes; }

void LevelPass::access(std::vector<Access>& accesses) {
  points.access(accesses);
  weights.access(accesses);
}

/// Pairs by chunk: a counting sort.
void LevelPass::find_pairs(const Memory& at, Index rows, const kernel::Reached* in) const {
  const std::vector<Chunk>& chunks = weights.block().chunks;
  const auto each = [&](auto&& use) {
    for (Index i = 0; i < rows; ++i)
      for (Index slot = 0; slot < slots(); slot += starts ? beam : 1) {
        const std::int32_t node = starts ? 0 : in[i * slots() + slot].node;
        const Index tree = slot / beam;
        if (node < 0) continue;
        auto found = std::ranges::lower_bound(chunks, std::tuple(tree, Index{node}), {},
                                              [](const Chunk& c) { return std::tuple(c.tree, c.node); });
        for (; found != chunks.end() && found->tree == tree && found->node == node; ++found)
          use(static_cast<std::size_t>(found - chunks.begin()),
              Pair{static_cast<std::uint32_t>(i), static_cast<std::uint16_t>(slot)});
      }
  };
  std::fill_n(at.starts, chunks.size() + 2, std::size_t{0});
  each([&](std::size_t c, const Pair&) { ++at.starts[c + 2]; });
  std::partial_sum(at.starts, at.starts + chunks.size() + 2, at.starts);
  each([&](std::size_t c, const Pair& pair) { at.pairs[at.starts[c + 1]++] = pair; });
}

template <class Column>
void LevelPass::score_pairs(const Memory& at, const kernel::CsrRows& rows, std::span<const Tile> tiles) const {
  const auto* reached = this->reached(tiles);
  const Tile& to = tiles[static_cast<std::size_t>(out)];
  const auto* columns = reinterpret_cast<const Column*>(rows.columns);
  const auto* values = reinterpret_cast<const float*>(rows.values);
  const std::vector<Chunk>& chunks = weights.block().chunks;
  kernel::ChunkTable table(at.table, at.ends);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (at.starts[c] == at.starts[c + 1]) continue;
    const kernel::ChunkView view = weights.chunk(c);
    open(view);
    if (multiplies()) table.load(view);
    for (std::size_t p = at.starts[c]; p < at.starts[c + 1]; ++p) {
      const Pair pair = at.pairs[p];
      const Index first = rows.pointers[pair.row] - rows.pointers[0];
      if (multiplies())
        table.products(columns + first, values + first, rows.pointers[pair.row + 1] - rows.pointers[pair.row],
                       at.scales[pair.row], model->features, at.products);
      meet({chunks[c], view, pair, reached, at.products}, to);
    }
    if (multiplies()) table.clear();
  }
}

void LevelPass::begin(std::span<const Tile> tiles) const {
  const Tile& to = tiles[static_cast<std::size_t>(out)];
  if (!leaf) std::fill_n(to.as<kernel::Reached>(), points.rows() * slots(), kernel::Reached{});
}

void LevelPass::meet(const Meeting& met, const Tile& to) const {
  const Chunk& chunk = met.chunk;
  const Index place = met.pair.row * slots() + met.pair.slot;
  const float parent = met.reached ? met.reached[place].score : 0;
  if (leaf) {
    const Index begin = model->leaves[static_cast<std::size_t>(chunk.tree)][static_cast<std::size_t>(chunk.node)].first;
    float* scores = to.as<float>() + place * model->most_leaf + (chunk.first - begin);
    for (Index j = 0; j < chunk.children; ++j) scores[j] = descent.child(parent, met.products[j]);
    return;
  }
  auto* best = to.as<kernel::Reached>() + met.pair.row * slots() + chunk.tree * beam;
  for (Index j = 0; j < chunk.children; ++j)
    kernel::enter(best, beam, {static_cast<std::int32_t>(chunk.first + j), descent.child(parent, met.products[j])});
}

void LevelPass::score(const Memory& at, const kernel::CsrRows& rows, std::span<const Tile> tiles) const {
  if (rows.column_dtype == Dtype::uint16)
    score_pairs<std::uint16_t>(at, rows, tiles);
  else if (rows.column_dtype == Dtype::uint32)
    score_pairs<std::uint32_t>(at, rows, tiles);
  else
    score_pairs<std::uint64_t>(at, rows, tiles);
}

void LevelPass::run(std::span<const Tile> tiles) const {
  const Memory at(*this, tiles.back().data);
  if (begins) begin(tiles);
  weights.load(tiles, at.block);
  std::fill_n(at.table, model->features + 1, std::uint32_t{0});
  points.stream(tiles, at.reader, [&](Index first, const kernel::CsrRows& rows) {
    for (Index i = 0; i < rows.rows; ++i) at.scales[i] = row_scale(rows, i, unit, points.row() + first + i, who);
    const std::size_t chunks = weights.block().chunks.size();
    do {
      find_pairs(at, rows.rows, reached(tiles));
      score(at, rows, tiles);
    } while (goes_on() && at.starts[chunks] > 0);
  });
}

std::vector<CsrPanelRange> batches_of(const Graph& graph, const CsrMatrix& points, Index rows) {
  constexpr std::size_t most = 16;
  std::vector<CsrPanelRange> batches = panels_of(points, rows);
  if (!graph.planning() || graph.budget() > 0 || batches.size() <= most) return batches;
  std::ranges::stable_sort(batches, std::greater<>(), [](const CsrPanelRange& b) { return b.last - b.first; });
  batches.resize(most);
  std::ranges::sort(batches, {}, &CsrPanelRange::row);
  return batches;
}

void add_level_pass(Graph& graph, const std::shared_ptr<LevelPass>& pass, const Array& in, const Array& out,
                    double pairs_share) {
  TaskSpec task;
  task.name = "label_level";
  pass->access(task.accesses);
  if (in) {
    pass->in = static_cast<int>(task.accesses.size());
    task.accesses.push_back(again(read({in, whole(in.shape())})));
  }
  pass->out = static_cast<int>(task.accesses.size());
  const Region to{out, whole(out.shape())};
  task.accesses.push_back(again(pass->begins ? write(to) : update(to)));
  task.accesses.push_back(scratch(pass->scratch_bytes()));
  const Block& block = pass->weights.block();
  const auto rows = static_cast<double>(pass->points.rows()), values = static_cast<double>(pass->points.nnz());
  const double looks = values * static_cast<double>(pass->starts ? pass->model->trees : pass->slots()) * pairs_share;
  const double entries = block.rows > 0 ? static_cast<double>(block.entries) / static_cast<double>(block.rows) : 0;
  const double seconds = seconds_a_look * looks * (1 + entries) + seconds_a_row * static_cast<double>(block.rows) * 2 +
                         pass->points.convert_seconds() + 20e-9 * rows;
  task.cost = seconds_of(seconds, 2 * looks * entries, pass->points.decoded_bytes() + pass->weights.decoded_bytes());
  task.calls = {Call(Kernel::label_level, Dtype::float32, {TilePart{0}})};
  task.calls[0].flops = task.cost.flops;
  task.calls[0].value = pass;
  graph.add(std::move(task));
}

}  // namespace flagstone::labels
