#include "flagstone/algorithms/restructure/restructure.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/kernel/dense/rearrange.hpp"
#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"
#include "flagstone/runtime/scheduler/cache.hpp"
#include "flagstone/storage/scratch/scratch.hpp"

namespace flagstone::restructure {
namespace {

constexpr double enough_pieces = 512;  // in sight, small ones, to keep a disk busy

/// What one task does beside moving: conversions, block by block.
struct Conversion {
  kernel::Program program;
  int value = -1;  // of the program: what is stored
};

/// Null where elements only move.
std::shared_ptr<const Conversion> conversion(Dtype from, Dtype to, bool conjugate) {
  conjugate = conjugate && is_complex(from);
  if (from == to && !conjugate) return nullptr;
  auto made = std::make_shared<Conversion>();
  made->value = made->program.input(from);
  if (conjugate) made->value = made->program.apply(kernel::Verb::conjugate, made->value);
  if (from != to) made->value = made->program.cast(made->value, to);
  return made;
}

Box relative(const Box& part, const Box& whole) {
  Box moved = part;
  for (std::size_t d = 0; d < moved.start.size(); ++d) moved.start[d] -= whole.start[d];
  return moved;
}

/// A tile of the result and the pieces that it is made of, the task's accesses before it. One value whatever their
/// number: thin pieces come by the thousand, and a call for each would be most of what a plan holds.
class Assembly final : public CallValue {
 public:
  Assembly(std::shared_ptr<const std::vector<std::size_t>> axes, std::shared_ptr<const Conversion> conversion, Box tile,
           std::vector<Box> pieces)
      : axes_(std::move(axes)),
        conversion_(std::move(conversion)),
        tile_(std::move(tile)),
        pieces_(std::move(pieces)) {}

  void run(std::span<const Tile> t) const {
    const Tile& target = t[pieces_.size()];
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Box common = intersect(tile_, pieces_[i]);
      const Tile from = subtile(call::turned(t[i], *axes_), relative(common, pieces_[i]));
      const Tile to = subtile(target, relative(common, tile_));
      if (!conversion_) {
        kernel::rearrange(from, to);
        continue;
      }
      const kernel::StoreTarget store{conversion_->value, to};
      kernel::evaluate(conversion_->program, common.shape, {&from, 1}, {&store, 1}, {}, t.back().data);
    }
  }

 private:
  std::shared_ptr<const std::vector<std::size_t>> axes_;
  std::shared_ptr<const Conversion> conversion_;  // null: elements as they are
  Box tile_;
  std::vector<Box> pieces_;
};

void run_assembly(const Call& call, std::span<const Tile> tiles) { call.value_as<Assembly>().run(tiles); }

const bool entered = host_kernels().enter(Kernel::assemble, run_assembly);

/// Adds the tasks of one pass.
class Builder {
 public:
  /// `finished`: of the result, which may lie a pass further on. `mine`: of what this pass writes.
  Builder(Graph& graph, const Source& source, const Array& to, const Pass& pass, bool conjugate,
          FinishedTiles& finished, FinishedTiles& mine)
      : graph_(graph),
        finished_(finished),
        mine_(mine),
        source_(source),
        to_(to),
        pass_(pass),
        lie_(lie_of(source)),
        conversion_(conversion(source.array.dtype(), to.dtype(), conjugate)),
        axes_(std::make_shared<const std::vector<std::size_t>>(source.axes)) {}

  void run() {
    if (count(to_.shape()) == 0) return;
    graph_.trust_order(true);
    const double tiles = tiles_of(pass_.box, pass_.tile, to_.shape()), pieces = static_cast<double>(pass_.pieces);
    // The next box's pieces are needed again; beyond it as much as keeps a disk busy. No further: a graph would know
    // 10 MiB of 4,096 tiny tiles, 25 of 36 tiles of 1,024 pieces each.
    const double beyond = enough_pieces / std::max(1.0, pieces / tiles);
    graph_.look_ahead(static_cast<std::size_t>(std::min(2 * tiles + 1 + beyond, 1e6)), true);
    // Less than a page is in the reserve; of small pieces that are held the runtime charges it.
    const std::size_t piece = static_cast<std::size_t>(count(pass_.piece)) * size_of(source_.array.dtype());
    const std::uint64_t with_tiles = pass_.pieces * (charged(piece) - piece), known = known_bytes(tiles, pieces);
    if (known >= with_tiles + page_bytes) known_ = graph_.charge(align_down(known - with_tiles));
    for_each_box(whole(to_.shape()), pass_.box, pass_.loops, [this](const Box& box) { add_box(box); });
  }

 private:
  void add_box(const Box& box) {
    const Pieces pieces(lie_, pass_.piece, pass_.parts, box);
    std::vector<std::size_t> order(box.start.size());
    std::iota(order.begin(), order.end(), 0);
    for_each_box(box, pass_.tile, order, [&](const Box& tile) {
      if (!finished_.holds(tile) && !mine_.holds(tile)) add_tile(tile, pieces.over(tile));
    });
    mine_.finish(box);
    finished_.offer();
  }

  void add_tile(const Box& tile, std::vector<Box> pieces) {
    TaskSpec task;
    task.name = "restructure";
    for (const Box& piece : pieces) task.accesses.push_back(read({source_.array, own(source_, piece)}));
    task.accesses.push_back(write({to_, tile}));
    if (conversion_) task.accesses.push_back(scratch(kernel::evaluate_scratch(conversion_->program)));
    const auto elements = static_cast<double>(count(tile.shape));
    task.cost.bytes_touched = elements * static_cast<double>(size_of(to_.dtype()) + lie_.item);
    if (lie_.packed) task.cost.bytes_decoded = elements * static_cast<double>(lie_.item);
    Call call(Kernel::assemble, to_.dtype(), {{static_cast<std::uint32_t>(pieces.size())}});
    call.value = std::make_shared<Assembly>(axes_, conversion_, tile, std::move(pieces));
    task.calls.push_back(std::move(call));
    graph_.add(std::move(task));
  }

  Graph& graph_;
  FinishedTiles& finished_;
  FinishedTiles& mine_;
  const Source& source_;
  const Array& to_;
  const Pass& pass_;
  const Lie lie_;
  const std::shared_ptr<const Conversion> conversion_;
  const std::shared_ptr<const std::vector<std::size_t>> axes_;
  Charge known_;  // what the graph knows of the tasks in sight
};

/// The tile that must be written at once: a chunk; of a flat file a slab that is contiguous.
Target target_of(const Array& to) {
  Source plain{to, std::vector<std::size_t>(to.ndim())};
  std::iota(plain.axes.begin(), plain.axes.end(), 0);
  Target target{to.shape(), to.chunks(), size_of(to.dtype())};
  for (std::size_t d = 0; d < to.ndim(); ++d) target.tile[d] = std::max<Index>(1, target.tile[d]);
  if (to.in_memory() || is_flat(to)) {
    target.tile = slab(target.tile, lie_of(plain), 4 * MiB);
    target.groups = false;
  } else if (count(to.shape()) > 0) {
    Box first{Shape(to.ndim(), 0), to.chunks()};
    for (std::size_t d = 0; d < to.ndim(); ++d) first.shape[d] = std::min(first.shape[d], to.shape()[d]);
    target.staging = to.store().write_staging(first);
  }
  return target;
}

/// The narrower of the two lies between the passes; the conversion happens where it is made.
Dtype between_dtype(const Job& job) {
  const bool early = size_of(job.to.dtype()) < size_of(job.source.array.dtype());
  return early ? job.to.dtype() : job.source.array.dtype();
}

}  // namespace

void check(const Job& job) {
  std::vector<std::size_t> sorted = job.source.axes;
  std::sort(sorted.begin(), sorted.end());
  bool fits = sorted.size() == job.source.array.ndim();
  for (std::size_t d = 0; fits && d < sorted.size(); ++d) fits = sorted[d] == d;
  if (!fits) throw ShapeError("restructure: the axes are no permutation of the array's dimensions; name each once.");
  if (seen(job.source, job.source.array.shape()) != job.to.shape())
    throw ShapeError("restructure: the result is " + to_string(job.to.shape()) + " and the source " +
                     to_string(seen(job.source, job.source.array.shape())) + "; they must agree.");
}

namespace {

/// What decides a scheme: budget and workers, as a call that goes through scratch began with them.
using Begun = std::vector<std::uint64_t>;

}  // namespace

Scheme choose(const Job& job, std::uint64_t budget, int workers) {
  check(job);
  const Lie lie = lie_of(job.source);
  const Target target = target_of(job.to);
  // The budget is never twice the same; what lies between two passes fits one scheme only. One that takes a little more
  // reads some pieces twice, which is less than to begin again.
  const auto before = Stages::begun_before<Begun>(job.checkpoint.get(), "scheme");
  if (before && budget > 0) {
    Scheme scheme = choose(lie, target, before->at(0), static_cast<int>(before->at(1)));
    if (scheme.second && scheme.needs <= budget + budget / 4) return scheme;
  }
  return choose(lie, target, budget, workers);
}

std::uint64_t scratch_bytes(const Job& job, const Scheme& scheme) {
  if (!scheme.second || count(job.to.shape()) == 0) return 0;
  Index tiles = 1;
  for (std::size_t d = 0; d < job.to.ndim(); ++d) tiles *= ceil_div(job.to.shape()[d], scheme.first.tile[d]);
  const auto tile = static_cast<std::uint64_t>(count(scheme.first.tile)) * size_of(between_dtype(job));
  return static_cast<std::uint64_t>(tiles) * align_up(tile);
}

void run(Graph& graph, const Job& job, const Scheme& scheme) {
  check(job);
  if (count(job.to.shape()) == 0) return;
  Stages stages(graph, job.checkpoint);
  FinishedTiles finished = stages.tiles(job.to, target_of(job.to).tile);
  if (!scheme.second) {
    Builder only(graph, job.source, job.to, scheme.first, job.conjugate, finished, finished);
    only.run();
    return graph.barrier();
  }
  const bool same = stages.begun_with("scheme", Begun{scheme.budget, static_cast<std::uint64_t>(scheme.workers)});
  Source between{
      stages.array_between("between", job.to.shape(), between_dtype(job), scheme.first.tile, job.scratch, !same),
      std::vector<std::size_t>(job.to.ndim())};
  std::iota(between.axes.begin(), between.axes.end(), 0);
  if (!graph.planning()) between.array.store().reserve();
  FinishedTiles first = stages.tiles(between.array, scheme.first.tile, "between");
  {
    Builder one(graph, job.source, between.array, scheme.first, job.conjugate, finished, first);
    one.run();
    graph.barrier();
  }
  Builder two(graph, between, job.to, *scheme.second, false, finished, finished);
  two.run();
  graph.barrier();
}

Scheme run(Graph& graph, const Job& job) {
  const std::uint64_t known = place_bytes(job.to);
  const Charge places = known != 0 ? graph.charge(known) : Charge();
  Scheme scheme = choose(job, graph.budget(), graph.workers());
  if (scheme.second && !graph.planning()) prepare_scratch(job.scratch.directory);
  run(graph, job, scheme);
  return scheme;
}

void run(Graph& graph, const Source& source, const Array& to, const Pass& pass) {
  Stages stages(graph, nullptr);
  FinishedTiles finished = stages.tiles(to, pass.tile);
  Builder builder(graph, source, to, pass, false, finished, finished);
  builder.run();
  graph.barrier();  // as long as what the graph knows of it is charged
}

}  // namespace flagstone::restructure
