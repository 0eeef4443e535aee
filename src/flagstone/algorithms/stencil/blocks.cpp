#include "flagstone/algorithms/stencil/blocks.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flagstone/algorithms/stencil/observers.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {
namespace {

constexpr double request_bytes = 64 * KiB;  // a request costs a disk about as much as so many bytes

/// A cell of an array on disk, and where its elements lie in the block's own space (a periodic image is shifted).
struct Piece {
  std::uint32_t access = 0;
  Range3 cell;
  Axes shift{};
};

/// What one task does.
struct BlockWork final : CallValue {
  std::shared_ptr<const Problem> problem;
  Range3 core;
  Index depth = 0, first_step = 0;
  std::array<bool, 3> open{};                     // periodic axes that are cut: the halo is the field itself
  std::vector<std::vector<Piece>> states, given;  // of each state, of each coefficient
  std::vector<std::uint32_t> results;             // of each state, its cells
  std::vector<Range3> result_cells;
  struct Trace {
    std::uint32_t access = 0;
    Axes point{};
  };
  std::vector<Trace> traces;
  Observed observed;
  std::uint32_t scratch = 0;

  /// What step t of the superstep computes; 0: what is loaded.
  Range3 range(Index t) const { return grown_core(depth - t); }
  Range3 grown_core(Index by) const {
    Range3 grown = core;
    for (std::size_t d = 0; d < 3; ++d) {
      if (core.extent(d) == problem->space.shape[d]) continue;
      grown.first[d] -= by * problem->space.radius[d], grown.last[d] += by * problem->space.radius[d];
      if (open[d]) continue;
      grown.first[d] = std::max<Index>(0, grown.first[d]);
      grown.last[d] = std::min(problem->space.shape[d], grown.last[d]);
    }
    return grown;
  }
  /// A field buffer holds the largest range with ghosts around; rows begin on cache lines.
  Range3 buffer_range() const { return kernel::grown(range(0), problem->space.radius); }
  Range3 coefficient_range() const { return grown_core(std::max<Index>(0, depth - 1)); }
};

struct Buffer {
  Range3 range;
  Index item = 1;
  Index pitch() const {
    return static_cast<Index>(align_up(static_cast<std::uint64_t>(range.extent(2) * item), 64)) + 64;
  }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(range.extent(0) * range.extent(1) * pitch()); }
  kernel::Points points(std::byte* data) const {
    return {data, range.first, {range.extent(1) * pitch(), pitch(), item}};
  }
};

std::uint64_t scratch_bytes(const BlockWork& work) {
  const Problem& problem = *work.problem;
  return 2 * Buffer{work.buffer_range(), problem.item()}.bytes() +
         work.given.size() * Buffer{work.coefficient_range(), problem.item()}.bytes() +
         align_up(problem.kernel->scratch_bytes(), 64);
}

void gather(const BlockWork& work, const std::vector<Piece>& pieces, std::span<const Tile> tiles,
            const kernel::Points& to, const Range3& range) {
  for (const Piece& piece : pieces) {
    Range3 there = piece.cell;
    for (std::size_t d = 0; d < 3; ++d) there.first[d] += piece.shift[d], there.last[d] += piece.shift[d];
    kernel::copy_points(points_of(*work.problem, tiles[piece.access], piece.cell, piece.shift), to,
                        kernel::intersect(there, range), work.problem->space.item);
  }
}

/// One step: to := kernel(from) on `range`.
void step_on(const BlockWork& work, const kernel::Points& from, const kernel::Points& to, const kernel::Points& before,
             std::span<const kernel::Points> coefficients, const Range3& range, std::byte* scratch) {
  const Problem& problem = *work.problem;
  const Index reach = problem.space.radius[0];
  std::vector<const std::byte*> planes(static_cast<std::size_t>(2 * reach + 1));
  std::vector<kernel::CoefficientRows> rows(coefficients.size());
  kernel::PlaneCall call;
  call.rows = range.extent(1), call.columns = range.extent(2);
  call.pitch = from.strides[1], call.to_pitch = to.strides[1], call.before_pitch = before.strides[1];
  call.planes = planes.data(), call.coefficients = rows;
  const Index y = range.first[1], x = range.first[2];
  for (Index z = range.first[0]; z < range.last[0]; ++z) {
    for (Index dz = -reach; dz <= reach; ++dz) planes[static_cast<std::size_t>(dz + reach)] = from.at(z + dz, y, x);
    for (std::size_t c = 0; c < rows.size(); ++c)
      rows[c] = {coefficients[c].at(z, y, x), coefficients[c].strides[1], coefficients[c].strides[2]};
    call.to = to.at(z, y, x), call.before = before.at(z, y, x);
    problem.kernel->run(call, scratch);
  }
}

void run_block(const Call& call, std::span<const Tile> tiles) {
  const auto& work = call.value_as<BlockWork>();
  const Problem& problem = *work.problem;
  std::byte* memory = tiles[work.scratch].data;
  const auto taken = [&](std::uint64_t bytes) { return std::exchange(memory, memory + bytes); };
  const Buffer buffer{work.buffer_range(), problem.item()}, other{work.coefficient_range(), problem.item()};
  kernel::Points now = buffer.points(taken(buffer.bytes())), next = buffer.points(taken(buffer.bytes()));
  gather(work, work.states[0], tiles, now, work.range(0));
  if (problem.order() == 2) gather(work, work.states[1], tiles, next, work.coefficient_range());
  std::vector<kernel::Points> coefficients;
  for (const std::vector<Piece>& pieces : work.given) {
    coefficients.push_back(other.points(taken(other.bytes())));
    gather(work, pieces, tiles, coefficients.back(), work.coefficient_range());
  }
  for (Index t = 1; t <= work.depth; ++t) {
    const Range3 range = work.range(t);
    kernel::fill_ghosts(problem.space, now, work.range(t - 1), work.open);
    step_on(work, now, next, next, coefficients, range, memory);
    inject(problem, work.first_step + t, next, range);
    work.observed.see(work.first_step + t, now, next, work.core, tiles);
    for (const BlockWork::Trace& trace : work.traces)
      std::memcpy(tiles[trace.access].data + (t - 1) * tiles[trace.access].strides[1],
                  next.at(trace.point[0], trace.point[1], trace.point[2]), problem.space.item);
    std::swap(now, next);
  }
  for (std::size_t state = 0; state < problem.order(); ++state)
    for (std::size_t i = 0; i < work.result_cells.size(); ++i)
      kernel::copy_points(state == 0 ? now : next,
                          points_of(problem, tiles[work.results[state] + i], work.result_cells[i]),
                          work.result_cells[i], problem.space.item);
}

const bool entered = host_kernels().enter(Kernel::stencil_block, run_block);

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

/// Extents of the boxes by which an operand is read: stored chunks where a part of one costs all of it.
Axes cell_of(const Problem& problem, const Array& array, const Axes& cell) {
  if (array.in_memory() || array.store().unpack_bytes() == 0) return cell;
  Axes chunk = problem.extents(array.chunks());
  for (std::size_t d = 0; d < 3; ++d) chunk[d] = std::clamp<Index>(chunk[d], 1, problem.space.shape[d]);
  return chunk;
}

/// Adds accesses to all cells under a range, periodic images too.
class Cells {
 public:
  Cells(const Problem& problem, const Axes& cell) : problem_(problem), cell_(cell) {}

  /// `region`: what a range of the field is of the array that is read.
  template <class RegionOf>
  std::vector<Piece> read_under(TaskSpec& task, const Range3& range, const RegionOf& region) const {
    std::vector<Piece> pieces;
    Axes first, last, at;
    const auto image = [&](std::size_t d, Index index) {
      const Index n = problem_.space.shape[d];
      return index >= 0 ? index / n : -((-index + n - 1) / n);
    };
    for (std::size_t d = 0; d < 3; ++d) first[d] = image(d, range.first[d]), last[d] = image(d, range.last[d] - 1) + 1;
    at = first;
    do {
      Axes shift;
      Range3 part = problem_.space.whole();
      for (std::size_t d = 0; d < 3; ++d) {
        shift[d] = at[d] * problem_.space.shape[d];
        part.first[d] = std::max(part.first[d], range.first[d] - shift[d]);
        part.last[d] = std::min(part.last[d], range.last[d] - shift[d]);
      }
      add_cells(task, region, part, shift, pieces);
    } while (advance(at, first, last));
    return pieces;
  }

 private:
  template <class RegionOf>
  void add_cells(TaskSpec& task, const RegionOf& region, const Range3& part, const Axes& shift,
                 std::vector<Piece>& pieces) const {
    Axes first, last;
    for (std::size_t d = 0; d < 3; ++d) first[d] = part.first[d] / cell_[d], last[d] = ceil_div(part.last[d], cell_[d]);
    Axes at = first;
    do {
      Piece piece{static_cast<std::uint32_t>(task.accesses.size()), {}, shift};
      for (std::size_t d = 0; d < 3; ++d) {
        piece.cell.first[d] = at[d] * cell_[d];
        piece.cell.last[d] = std::min(problem_.space.shape[d], piece.cell.first[d] + cell_[d]);
      }
      task.accesses.push_back(read(region(piece.cell)));
      pieces.push_back(piece);
    } while (advance(at, first, last));
  }

  const Problem& problem_;
  Axes cell_;
};

class Builder {
 public:
  Builder(Graph& graph, std::shared_ptr<const Problem> problem, const BlockScheme& scheme)
      : graph_(graph),
        problem_(std::move(problem)),
        scheme_(scheme),
        cell_(block_cell(*problem_, scheme)),
        depths_(problem_->steps, scheme.depth),
        states_(graph, *problem_, depths_.number(), cell_, scheme.held),
        observers_(graph, problem_) {
    for (std::size_t d = 0; d < 3; ++d) grid_[d] = ceil_div(problem_->space.shape[d], scheme_.block[d]);
  }

  Index run() {
    Index step = 0;
    for (Index s = 0; s < depths_.number(); ++s) {
      observers_.begin(step, depths_[s], grid_[0] * grid_[1] * grid_[2], scheme_.block);
      for_each_core([&](const Range3& core) {
        graph_.add(task_of(s, step, core));
        observers_.added();
      });
      step += depths_[s];
      if (!observers_.ends()) continue;
      if (!states_.is_result(s)) copy_to_results(graph_, problem_, states_, s, cell_, scheme_.block);
      break;
    }
    return step;
  }

 private:
  TaskSpec task_of(Index s, Index first_step, const Range3& core) {
    auto work = std::make_shared<BlockWork>();
    work->problem = problem_, work->core = core, work->depth = depths_[s], work->first_step = first_step;
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
    double updates = 0;
    for (Index t = 1; t <= work->depth; ++t) updates += static_cast<double>(work->range(t).count());
    task.cost.flops = updates * problem_->kernel->flops();
    task.cost.bytes_touched = updates * static_cast<double>(problem_->item()) * 3;
    task.cost.float64 = problem_->dtype == Dtype::float64 || problem_->dtype == Dtype::complex128;
    Call call(Kernel::stencil_block, problem_->dtype, {});
    call.flops = task.cost.flops;
    call.value = std::move(work);
    task.calls.push_back(std::move(call));
    return task;
  }

  template <class F>
  void for_each_core(F&& f) const {
    const Axes& n = problem_->space.shape;
    Axes at{};
    do {
      Range3 core;
      for (std::size_t d = 0; d < 3; ++d) {
        core.first[d] = at[d] * scheme_.block[d];
        core.last[d] = std::min(n[d], core.first[d] + scheme_.block[d]);
      }
      f(core);
    } while (advance(at, Axes{}, grid_));
  }

  /// Whole cells of scratch; of a result the block itself, which covers whole chunks.
  void add_results(Index s, BlockWork& work, TaskSpec& task) const {
    Axes cell = cell_;
    if (states_.is_result(s)) cell = scheme_.block;
    for (std::size_t state = 0; state < problem_->order(); ++state) {
      work.results.push_back(static_cast<std::uint32_t>(task.accesses.size()));
      Axes first, last;
      for (std::size_t d = 0; d < 3; ++d)
        first[d] = work.core.first[d] / cell[d], last[d] = ceil_div(work.core.last[d], cell[d]);
      Axes at = first;
      do {
        Range3 range;
        for (std::size_t d = 0; d < 3; ++d) {
          range.first[d] = at[d] * cell[d];
          range.last[d] = std::min(problem_->space.shape[d], range.first[d] + cell[d]);
        }
        task.accesses.push_back(once(write(states_.out(s, state, range))));
        if (state == 0) work.result_cells.push_back(range);
      } while (advance(at, first, last));
    }
  }

  void add_traces(BlockWork& work, TaskSpec& task) const {
    if (work.depth == 0) return;
    for (std::size_t r = 0; r < problem_->receivers.size(); ++r) {
      const Axes& point = problem_->receivers[r];
      if (kernel::intersect(work.core, {point, {point[0] + 1, point[1] + 1, point[2] + 1}}).empty()) continue;
      work.traces.push_back({static_cast<std::uint32_t>(task.accesses.size()), point});
      task.accesses.push_back(write({problem_->traces, {{static_cast<Index>(r), work.first_step}, {1, work.depth}}}));
    }
  }

  Graph& graph_;
  std::shared_ptr<const Problem> problem_;
  BlockScheme scheme_;
  Axes cell_, grid_{};
  Supersteps depths_;
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
    bytes += read(from, cell_of(problem, from, cell), std::max<Index>(0, scheme.depth - static_cast<Index>(state)));
  }
  for (const Array& array : problem.coefficients)
    bytes += read(array, cell_of(problem, array, cell), std::max<Index>(0, scheme.depth - 1));
  for (const Array& array : problem.to)
    bytes += static_cast<double>(staging_of(problem, array, {{0, 0, 0}, scheme.block}, true));
  bytes += static_cast<double>(snapshot_bytes(problem.snapshots, problem.space.item));
  const auto states = static_cast<double>(problem.order());
  const auto buffers = static_cast<double>(2 + problem.coefficients.size());
  return static_cast<std::uint64_t>(bytes +
                                    static_cast<double>(problem.item()) * (1.1 * halo * buffers + core * states));
}

}  // namespace flagstone::stencil
