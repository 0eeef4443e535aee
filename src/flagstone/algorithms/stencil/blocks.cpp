#include "flagstone/algorithms/stencil/blocks.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {
namespace {

constexpr Index cell_bytes = 128 * KiB;  // a request that long costs a disk little more than its bytes

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

/// The smallest divisor of n that is not below `least`.
Index divisor(Index n, Index least) {
  for (Index d = std::max<Index>(1, least); d < n; ++d)
    if (n % d == 0) return d;
  return n;
}

/// Cells of scratch between supersteps: blocks are whole ones; about as long as a request wants to be.
Axes cell_of(const Problem& problem, const BlockScheme& scheme) {
  Axes cell = scheme.block;
  for (std::size_t d = 1; d < 3; ++d)
    if (cell[d] < problem.space.shape[d]) cell[d] = divisor(cell[d], problem.space.radius[d] * scheme.depth);
  const Index plane = cell[1] * cell[2] * problem.item();
  cell[0] = divisor(cell[0], std::min(cell[0], ceil_div(cell_bytes, plane)));
  return cell;
}

/// Adds accesses to all cells of `array` under `range`, periodic images too.
class Cells {
 public:
  Cells(const Problem& problem, const Axes& cell) : problem_(problem), cell_(cell) {}

  std::vector<Piece> read_under(TaskSpec& task, const Array& array, const Range3& range) const {
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
      add_cells(task, array, part, shift, pieces);
    } while (advance(at, first, last));
    return pieces;
  }

 private:
  void add_cells(TaskSpec& task, const Array& array, const Range3& part, const Axes& shift,
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
      task.accesses.push_back(read({array, problem_.box(piece.cell)}));
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
        cell_(cell_of(*problem_, scheme)),
        depths_(supersteps(problem_->steps, scheme.depth)),
        states_(graph, *problem_, depths_.size(), cell_) {}

  void run() {
    Index step = 0;
    for (std::size_t s = 0; s < depths_.size(); ++s) {
      for_each_core([&](const Range3& core) { graph_.add(task_of(s, step, core)); });
      step += depths_[s];
    }
  }

  TaskSpec task_of(std::size_t s, Index first_step, const Range3& core) const {
    auto work = std::make_shared<BlockWork>();
    work->problem = problem_, work->core = core, work->depth = depths_[s], work->first_step = first_step;
    for (std::size_t d = 0; d < 3; ++d)
      work->open[d] = problem_->space.periodic(d) && scheme_.block[d] < problem_->space.shape[d];
    TaskSpec task;
    task.name = "stencil_block";
    const Cells cells(*problem_, cell_);
    for (std::size_t state = 0; state < problem_->order(); ++state)
      work->states.push_back(
          cells.read_under(task, states_.in(s, state), state == 0 ? work->range(0) : work->coefficient_range()));
    for (const Array& array : problem_->coefficients)
      work->given.push_back(cells.read_under(task, array, work->coefficient_range()));
    add_results(s, *work, task);
    add_traces(*work, task);
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
    Axes grid, at{};
    for (std::size_t d = 0; d < 3; ++d) grid[d] = ceil_div(n[d], scheme_.block[d]);
    do {
      Range3 core;
      for (std::size_t d = 0; d < 3; ++d) {
        core.first[d] = at[d] * scheme_.block[d];
        core.last[d] = std::min(n[d], core.first[d] + scheme_.block[d]);
      }
      f(core);
    } while (advance(at, Axes{}, grid));
  }

 private:
  /// Whole cells of scratch; of a result the block itself, which covers whole chunks.
  void add_results(std::size_t s, BlockWork& work, TaskSpec& task) const {
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
        Access access = write({states_.out(s, state), problem_->box(range)});
        task.accesses.push_back(states_.is_result(s) ? once(access) : again(access));
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
  Axes cell_;
  std::vector<Index> depths_;
  States states_;
};

}  // namespace

void run_blocks(Graph& graph, std::shared_ptr<const Problem> problem, const BlockScheme& scheme) {
  graph.trust_order(true);
  Builder(graph, std::move(problem), scheme).run();
}

std::uint64_t block_bytes(const Problem& problem, const BlockScheme& scheme) {
  const Axes& n = problem.space.shape;
  const Axes cell = cell_of(problem, scheme);
  double read = 1, halo = 1, core = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto block = static_cast<double>(std::min(scheme.block[d], n[d]));
    const auto reach = static_cast<double>(problem.space.radius[d]);
    const double wide = scheme.block[d] >= n[d] ? block : block + 2 * reach * static_cast<double>(scheme.depth);
    core *= block, halo *= wide + 2 * reach;
    read *=
        std::min(static_cast<double>(n[d]), scheme.block[d] >= n[d] ? wide : wide + 2 * static_cast<double>(cell[d]));
  }
  Range3 first_cell{{0, 0, 0}, cell}, first_block{{0, 0, 0}, scheme.block};
  double cell_elements = 1, staging = 0;
  for (std::size_t d = 0; d < 3; ++d) cell_elements *= static_cast<double>(cell[d]);
  for (const auto* arrays : {&problem.from, &problem.coefficients})
    for (const Array& array : *arrays)
      staging += static_cast<double>(staging_of(problem, array, first_cell, false)) * read / cell_elements;
  for (const Array& array : problem.to) staging += static_cast<double>(staging_of(problem, array, first_block, true));
  const auto arrays = static_cast<double>(problem.order() + problem.coefficients.size());
  const auto states = static_cast<double>(problem.order());
  const auto buffers = static_cast<double>(2 + problem.coefficients.size());
  return static_cast<std::uint64_t>(staging + static_cast<double>(problem.item()) *
                                                  (read * arrays + 1.1 * halo * buffers + core * states));
}

}  // namespace flagstone::stencil
