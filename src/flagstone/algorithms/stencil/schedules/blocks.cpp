#include "flagstone/algorithms/stencil/schedules/blocks.hpp"
#include "flagstone/algorithms/stencil/field/field_stage.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/field/observers.hpp"
#include "flagstone/algorithms/stencil/field/socket_counts.hpp"
#include "flagstone/algorithms/stencil/field/states.hpp"
#include "flagstone/algorithms/stencil/field/work.hpp"
#include "flagstone/algorithms/stencil/schedules/block_step.hpp"
#include "flagstone/algorithms/stencil/schedules/staged.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {
namespace {

constexpr double request_bytes = 64 * KiB;  // a request costs a disk about as much as so many bytes

/// What one task does.
struct BlockWork final : StencilWork {
  void run(std::span<const Tile> tiles) const override;

  std::shared_ptr<const Problem> problem;
  Range3 core;
  Index depth = 0, first_step = 0, rows = 0;
  int socket = -1;  // whose workers do it
  double updates = 0;
  CacheBlocks cache;
  std::array<bool, 3> open{};                     // periodic axes that are cut: the halo is the field itself
  std::vector<std::vector<Piece>> states, given;  // of each state, of each coefficient
  std::vector<std::uint32_t> results;             // of each state, its cells
  std::vector<Range3> result_cells;
  struct Trace {
    std::uint32_t access = 0;
    Axes point{};
    std::size_t field = 0;
  };
  std::vector<Trace> traces;
  Observed observed;
  std::uint32_t scratch = 0;

  /// What step t of the superstep computes; 0: what is loaded.
  Range3 range(Index t) const { return grown_core(depth - t); }
  Range3 grown_core(Index steps) const {
    Axes by = problem->space.radius;
    for (Index& each : by) each *= steps;
    return grown_by(by);
  }
  Range3 grown_by(const Axes& by) const {
    Range3 grown = core;
    for (std::size_t d = 0; d < 3; ++d) {
      if (core.extent(d) == problem->space.shape[d]) continue;
      grown.first[d] -= by[d], grown.last[d] += by[d];
      if (open[d]) continue;
      grown.first[d] = std::max<Index>(0, grown.first[d]);
      grown.last[d] = std::min(problem->space.shape[d], grown.last[d]);
    }
    return grown;
  }
  /// Buffers beside those of the states.
  std::size_t others() const { return cache.depth > 0 || problem->fields() ? problem->order() : 2 - problem->order(); }
  /// A field buffer holds the largest range with ghosts around; rows begin on cache lines.
  Range3 buffer_range() const { return kernel::grown(range(0), problem->space.radius); }
  Range3 coefficient_range() const { return grown_core(problem->behind(depth)); }
};

std::uint64_t scratch_bytes(const BlockWork& work) {
  const Problem& problem = *work.problem;
  const std::uint64_t own =
      work.cache.depth > 0 ? nested_bytes(problem, work.cache, work.open, work.range(0)) : problem.kernel_scratch();
  return (problem.order() + work.others()) * BlockBuffer{work.buffer_range(), problem.item()}.bytes() +
         work.given.size() * BlockBuffer{work.coefficient_range(), problem.item()}.bytes() + own;
}

void hear(const BlockWork& work, const BlockWork::Trace& trace, std::span<const Tile> tiles, Index step,
          const kernel::Points& made) {
  std::memcpy(tiles[trace.access].data + (step - 1) * tiles[trace.access].strides[1],
              made.at(trace.point[0], trace.point[1], trace.point[2]), work.problem->space.item);
}

/// What a step leaves: sources, and what observers and receivers get of points that are this block's.
void after_step(const BlockWork& work, std::span<const Tile> tiles, Index step, std::span<const kernel::Points> before,
                std::span<const kernel::Points> made, const Range3& computed, const Range3& own) {
  for (std::size_t field = 0; field < made.size(); ++field)
    inject(*work.problem, work.first_step + step, made[field], computed, field);
  work.observed.see(work.first_step + step, before, made, kernel::intersect(own, work.core), tiles);
  for (const BlockWork::Trace& trace : work.traces) {
    if (kernel::intersect(own, point_range(trace.point)).empty()) continue;
    hear(work, trace, tiles, step, made[trace.field]);
  }
}

void run_block(const BlockWork& work, std::span<const Tile> tiles) {
  const Problem& problem = *work.problem;
  std::byte* memory = tiles[work.scratch].data;
  const auto taken = [&](std::uint64_t bytes) { return std::exchange(memory, memory + bytes); };
  const BlockBuffer buffer{work.buffer_range(), problem.item()}, other{work.coefficient_range(), problem.item()};
  // Of order 1 the second is where the first step goes; cache blocks read a pair while they write another.
  std::vector<kernel::Points> now, then;
  for (std::size_t i = 0; i < problem.order(); ++i) now.push_back(buffer.points(taken(buffer.bytes())));
  for (std::size_t i = 0; i < work.others(); ++i) then.push_back(buffer.points(taken(buffer.bytes())));
  gather(problem, work.states[0], tiles, now[0], work.range(0));
  for (std::size_t i = 1; i < problem.order(); ++i)
    gather(problem, work.states[i], tiles, now[i], work.coefficient_range());
  std::vector<kernel::Points> coefficients;
  for (const std::vector<Piece>& pieces : work.given) {
    coefficients.push_back(other.points(taken(other.bytes())));
    gather(problem, pieces, tiles, coefficients.back(), work.coefficient_range());
  }
  const auto after = [&](Index t, std::span<const kernel::Points> before, std::span<const kernel::Points> made,
                         const Range3& computed,
                         const Range3& own) { after_step(work, tiles, t, before, made, computed, own); };
  const auto grown = [&](const Axes& by) { return work.grown_by(by); };
  if (work.cache.depth > 0 && work.depth > 0) {
    run_nested({problem, work.cache, work.first_step, work.depth, work.open, grown, after, coefficients}, now, then,
               memory);
  } else if (problem.fields()) {
    const auto shown = [&](Index t, std::span<const kernel::Points> before, std::span<const kernel::Points> made,
                           const Range3& computed) { after(t, before, made, computed, work.core); };
    run_stages({problem, work.first_step, work.depth, work.open, grown, shown, coefficients}, now, then, memory);
  } else {
    now.insert(now.end(), then.begin(), then.end());
    kernel::Space space = problem.space;
    for (Index t = 1; t <= work.depth; ++t) {
      space.step = work.first_step + t - 1;
      kernel::fill_ghosts(space, now[0], work.range(t - 1), work.open);
      step_on(problem, block_fields(now[0], now[1], now[1], coefficients), work.range(t), work.rows, memory);
      after(t, {now.data(), 1}, {&now[1], 1}, work.range(t), work.core);
      std::swap(now[0], now[1]);
    }
  }
  for (std::size_t state = 0; state < problem.order(); ++state)
    for (std::size_t i = 0; i < work.result_cells.size(); ++i)
      kernel::copy_points(now[state], points_of(problem, tiles[work.results[state] + i], work.result_cells[i]),
                          work.result_cells[i], problem.space.item);
}

/// Its buffers have no page yet where it has a socket: the worker that gathers the field into them touches them first.
void BlockWork::run(std::span<const Tile> tiles) const {
  const int touched = ::sched_getcpu();
  run_block(*this, tiles);
  if (socket >= 0 && problem->placed) problem->placed->add(socket, updates, touched, ::sched_getcpu());
}

/// The divisor g of a block's extent for which a disk reads it soonest: with a halo of whole g on both sides, in
/// requests of g times `bytes`. Cost: the square root of the extent.
Index best_divisor(Index extent, Index halo, double bytes) {
  Index best = extent;
  double least = 0;
  const auto consider = [&](Index g) {
    const double read = static_cast<double>(extent) + 2.0 * static_cast<double>(ceil_div(halo, g) * g);
    const double cost = read * (1 + request_bytes / (static_cast<double>(g) * bytes));
    if (least == 0 || cost < least) best = g, least = cost;
  };
  for (Index g = 1; g <= extent / g; ++g)
    if (extent % g == 0) consider(extent / g), consider(g);
  return best;
}

class Builder {
 public:
  Builder(Graph& graph, std::shared_ptr<const Problem> problem, const BlockScheme& scheme)
      : graph_(graph),
        problem_(std::move(problem)),
        scheme_(scheme),
        cell_(block_cell(*problem_, scheme)),
        depths_(problem_->left(), scheme.depth),
        states_(graph, problem_, depths_.number(), cell_, scheme.held),
        observers_(graph, problem_) {
    for (std::size_t d = 0; d < 3; ++d) grid_[d] = ceil_div(problem_->core(d).length(), scheme_.block[d]);
    // Along the slowest axis a block each, which share their halos; the same block of every superstep.
    const auto sockets = static_cast<Index>(graph.sockets().size());
    if (sockets > 1 && grid_[first_axis(*problem_)] >= sockets) sockets_ = sockets;
    if (sockets_ > 1 && problem_->placed) problem_->placed->begin(graph.sockets());
  }

  Index run() {
    Index step = problem_->first;
    for (Index s = 0; s < depths_.number(); ++s) {
      states_.begin(s);
      observers_.begin(step, depths_[s], grid_[0] * grid_[1] * grid_[2], scheme_.block);
      for_each_core([&](const Range3& core) {
        graph_.add(task_of(s, step, core));
        observers_.added();
        // As many blocks as there are workers, and what they made, before the next ones are read.
        if (!problem_->overlap && ++added_ % graph_.workers() == 0) graph_.drain();
      });
      step += depths_[s];
      if (observers_.ends()) {
        states_.finish(s, scheme_.block);
        break;
      }
      states_.end(s, step);
    }
    return step;
  }

 private:
  TaskSpec task_of(Index s, Index first_step, const Range3& core) {
    auto work = std::make_shared<BlockWork>();
    work->problem = problem_, work->core = core, work->depth = depths_[s], work->first_step = first_step;
    work->rows = scheme_.rows, work->cache = scheme_.cache;
    for (std::size_t d = 0; d < 3; ++d)
      work->open[d] = problem_->space.periodic(d) && scheme_.block[d] < problem_->space.shape[d];
    TaskSpec task;
    task.name = "stencil_block";
    for (std::size_t state = 0; state < problem_->order(); ++state) {
      const Axes cell = states_.reads_turn(s) ? cell_ : cell_of(*problem_, problem_->from[state], cell_);
      work->states.push_back(Cells(*problem_, cell)
                                 .read_under(task, state == 0 ? work->range(0) : work->coefficient_range(),
                                             [&](const Range3& range) { return states_.in(s, state, range); }));
    }
    for (const Array& array : problem_->coefficients)
      work->given.push_back(Cells(*problem_, cell_of(*problem_, array, cell_))
                                .read_under(task, work->coefficient_range(), [&](const Range3& range) {
                                  return Region{array, problem_->box(range)};
                                }));
    add_results(s, *work, task);
    add_traces(*work, task);
    work->observed = observers_.task(task, [&](Index) { return core; });
    work->scratch = static_cast<std::uint32_t>(task.accesses.size());
    task.accesses.push_back(scratch(scratch_bytes(*work)));
    const double updates = work->updates = count_updates(*work);
    task.cost.flops = updates * problem_->flops();
    // Cache blocks read memory once for several steps.
    const auto steps = static_cast<double>(std::max<Index>(1, std::min(work->cache.depth, work->depth)));
    task.cost.bytes_touched = updates * static_cast<double>(problem_->item()) * 3 / steps;
    task.socket = work->socket = socket_of(core);
    task.cost.float64 = problem_->dtype == Dtype::float64 || problem_->dtype == Dtype::complex128;
    task.calls.push_back(call_of(*problem_, std::move(work), task.cost.flops));
    return task;
  }

  static double count_updates(const BlockWork& work) {
    if (work.cache.depth > 0)
      return nested_updates(*work.problem, work.cache, work.depth, work.open, [&](Index t) { return work.range(t); });
    double updates = 0;
    for (Index t = 1; t <= work.depth; ++t) updates += static_cast<double>(work.range(t).count());
    return updates;
  }

  int socket_of(const Range3& core) const {
    const std::size_t d = first_axis(*problem_);
    if (sockets_ == 1) return -1;
    return static_cast<int>((core.first[d] - problem_->core(d).first) / scheme_.block[d] % sockets_);
  }

  Range3 core_at(const Axes& at) const {
    Range3 core;
    for (std::size_t d = 0; d < 3; ++d) {
      const Interval all = problem_->core(d);
      core.first[d] = all.first + at[d] * scheme_.block[d];
      core.last[d] = std::min(all.last, core.first[d] + scheme_.block[d]);
    }
    return core;
  }

  /// In C order; of several sockets a block of each in turn, so that all have work within what is in sight.
  template <class F>
  void for_each_core(F&& f) const {
    const std::size_t first = first_axis(*problem_);
    Axes group{}, at{}, grid = grid_;  // places of a group of blocks, one for each socket
    grid[first] = ceil_div(grid_[first], sockets_);
    do {
      at = group;
      for (Index i = group[first] * sockets_; i < std::min(grid_[first], (group[first] + 1) * sockets_); ++i)
        at[first] = i, f(core_at(at));
    } while (advance(group, Axes{}, grid));
  }

  /// Whole cells of scratch; of a result the block itself, which covers whole chunks.
  void add_results(Index s, BlockWork& work, TaskSpec& task) const {
    for (std::size_t state = 0; state < problem_->order(); ++state) {
      work.results.push_back(static_cast<std::uint32_t>(task.accesses.size()));
      const auto add = [&](const Range3& range) {
        task.accesses.push_back(once(write(states_.out(s, state, range))));
        if (state == 0) work.result_cells.push_back(range);
      };
      if (states_.is_result(s))
        add(work.core);
      else
        each_box(*problem_, work.core, cell_, add);
    }
  }

  void add_traces(BlockWork& work, TaskSpec& task) const {
    if (work.depth == 0) return;
    for (std::size_t r = 0; r < problem_->receivers.size(); ++r) {
      const Axes& point = problem_->receivers[r];
      if (kernel::intersect(work.core, point_range(point)).empty()) continue;
      work.traces.push_back({static_cast<std::uint32_t>(task.accesses.size()), point, problem_->receiver_fields[r]});
      task.accesses.push_back(write({problem_->traces, {{problem_->row_of(r), work.first_step}, {1, work.depth}}}));
    }
  }

  Graph& graph_;
  std::shared_ptr<const Problem> problem_;
  BlockScheme scheme_;
  Axes cell_, grid_{};
  Supersteps depths_;
  int added_ = 0;
  Index sockets_ = 1;  // that blocks are placed on
  States states_;
  Observers observers_;
};

}  // namespace

Index run_blocks(Graph& graph, std::shared_ptr<const Problem> problem, const BlockScheme& scheme) {
  graph.trust_order(true);
  return Builder(graph, std::move(problem), scheme).run();
}

Axes block_cell(const Problem& problem, const BlockScheme& scheme) {
  Axes cell = scheme.block;
  for (std::size_t d = 3; d-- > 0;) {
    auto bytes = static_cast<double>(problem.item());  // of a request, along the other axes
    for (std::size_t e = 0; e < 3; ++e)
      if (e != d) bytes *= static_cast<double>(cell[e]);
    const bool cut = scheme.block[d] < problem.space.shape[d];
    if (cut || d == first_axis(problem))
      cell[d] = best_divisor(scheme.block[d], cut ? problem.space.radius[d] * scheme.depth : 0, bytes);
  }
  return cell;
}

std::uint64_t block_bytes(const Problem& problem, const BlockScheme& scheme) {
  const Axes &n = problem.space.shape, cell = block_cell(problem, scheme);
  // Of what is read in cells: along each axis as many as a block with its halo can touch.
  const auto read = [&](const Array& array, const Axes& cells, Index steps) {
    double each = 1, number = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      const Index halo = scheme.block[d] >= n[d] ? 0 : problem.space.radius[d] * steps;
      const bool aligned = scheme.block[d] % cells[d] == 0, wraps = problem.space.periodic(d) && halo > 0;
      const Index touched = ceil_div(scheme.block[d], cells[d]) + 2 * ceil_div(halo, cells[d]) + (aligned ? 0 : 1);
      number *= static_cast<double>(wraps ? touched : std::min(ceil_div(n[d], cells[d]), touched));
      each *= static_cast<double>(cells[d]);
    }
    Range3 first{{0, 0, 0}, cells};
    return number *
           (each * static_cast<double>(problem.item()) + static_cast<double>(staging_of(problem, array, first, false)));
  };
  double bytes = 0, halo = 1, core = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto block = static_cast<double>(scheme.block[d]), reach = static_cast<double>(problem.space.radius[d]);
    core *= block;
    halo *= block + 2 * reach * (scheme.block[d] >= n[d] ? 1 : static_cast<double>(scheme.depth + 1));
  }
  for (std::size_t state = 0; state < problem.order(); ++state) {
    const Array& from = problem.from[state];
    bytes += read(from, cell_of(problem, from, cell), state == 0 ? scheme.depth : problem.behind(scheme.depth));
  }
  for (const Array& array : problem.coefficients)
    bytes += read(array, cell_of(problem, array, cell), problem.behind(scheme.depth));
  for (const Array& array : problem.to)
    bytes += static_cast<double>(staging_of(problem, array, {{0, 0, 0}, scheme.block}, true));
  bytes += static_cast<double>(snapshot_bytes(problem.snapshots, problem.space.item));
  const auto states = static_cast<double>(problem.order());
  const bool nested = scheme.cache.depth > 0;
  const auto buffers =
      static_cast<double>((nested || problem.fields() ? 2 * problem.order() : 2) + problem.coefficients.size());
  Range3 loaded{{0, 0, 0}, scheme.block};
  std::array<bool, 3> open{};
  for (std::size_t d = 0; d < 3; ++d) {
    if (scheme.block[d] < n[d]) loaded.last[d] += 2 * problem.space.radius[d] * scheme.depth;
    open[d] = scheme.block[d] < n[d];
  }
  if (nested) bytes += static_cast<double>(nested_bytes(problem, scheme.cache, open, loaded));
  return static_cast<std::uint64_t>(bytes +
                                    static_cast<double>(problem.item()) * (1.1 * halo * buffers + core * states));
}

}  // namespace flagstone::stencil
