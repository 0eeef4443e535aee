#include "flagstone/algorithms/stencil/skewed/bands.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "flagstone/algorithms/stencil/schedules/block_step.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::stencil {
namespace {

/// Bands of the buffers that a task names, and which of its accesses they are.
class Named {
 public:
  void enter(std::size_t part, std::size_t band, std::size_t access) {
    accesses_[{part, band}] = static_cast<std::uint32_t>(access);
  }
  bool has(std::size_t part, std::size_t band) const { return accesses_.contains({part, band}); }
  kernel::Points points(const BandTile& tile, std::span<const Tile> tiles, std::size_t part, std::size_t band) const {
    const Axes& radius = tile.problem->space.radius;
    return {tiles[accesses_.at({part, band})].data,
            {tile.bands[band].first, tile.held.first[1] - radius[1], tile.held.first[2] - radius[2]},
            {tile.plane, tile.pitch, tile.problem->item()}};
  }

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> accesses_;
};

/// Planes are filled one by one: what lies beyond axis 0 is looked up.
kernel::Space flat(const Problem& problem) {
  kernel::Space space = problem.space;
  space.radius[0] = 0;
  return space;
}

Range3 of_band(const BandTile& tile, std::size_t band, Range3 range) {
  range.first[0] = std::max(range.first[0], tile.bands[band].first);
  range.last[0] = std::min(range.last[0], tile.bands[band].last);
  return range;
}

/// Range `computed`, and what the step reads around it: clipped to the tile.
Range3 around(const BandTile& tile, const Range3& computed) {
  return kernel::intersect(kernel::grown(computed, tile.problem->space.radius), tile.held);
}

struct LoadWork final : StencilWork {
  std::shared_ptr<const BandTile> tile;
  std::size_t band = 0;
  std::vector<std::vector<Piece>> pieces;  // of each part
  Named named;

  void run(std::span<const Tile> tiles) const override {
    const Problem& problem = *tile->problem;
    const kernel::Space space = flat(problem);
    const Range3 range = of_band(*tile, band, tile->held);
    for (std::size_t part = 0; part < pieces.size(); ++part) {
      const kernel::Points to = named.points(*tile, tiles, part, band);
      gather(problem, pieces[part], tiles, to, range);
      if (part > 1) continue;
      for (Index z = range.first[0]; z < range.last[0]; ++z) {
        Range3 plane = range;
        plane.first[0] = z, plane.last[0] = z + 1;
        kernel::fill_ghosts(space, to, plane, tile->open);
      }
    }
  }
};

struct StepWork final : StencilWork {
  std::shared_ptr<const BandTile> tile;
  std::size_t band = 0;
  Index step = 0;
  Named named;
  std::uint32_t scratch = 0;
  std::vector<std::pair<std::uint32_t, Axes>> traces;
  Observed observed;

  /// What of the field it computes: images beyond periodic edges are others' too.
  Range3 shown() const {
    return kernel::intersect(of_band(*tile, band, tile->at_step(step)), tile->problem->space.whole());
  }
  /// The plane that a plane beyond an edge is seen as; low or high: one of a fixed value.
  kernel::GhostSource source(Index plane) const {
    const kernel::Space& space = tile->problem->space;
    if (tile->open[0] || (plane >= 0 && plane < space.shape[0])) return {kernel::GhostSource::inside, plane};
    return kernel::ghost_source(space, 0, plane);
  }

  void run(std::span<const Tile> tiles) const override {
    const Problem& problem = *tile->problem;
    const kernel::Space space = flat(problem);
    const Range3 range = of_band(*tile, band, tile->at_step(step));
    const std::size_t to_part = static_cast<std::size_t>(step & 1), from_part = 1 - to_part;
    const kernel::Points to = named.points(*tile, tiles, to_part, band);
    std::byte* memory = tiles[scratch].data;
    std::byte* const fixed[2] = {memory, memory + tile->plane};
    memory += align_up(static_cast<std::uint64_t>(2 * tile->plane), 64);
    bool made[2] = {};
    const Index reach = problem.space.radius[0];
    std::vector<const std::byte*> planes(static_cast<std::size_t>(2 * reach + 1));
    std::vector<kernel::Points> given;
    for (std::size_t c = 0; c < problem.coefficients.size(); ++c)
      given.push_back(named.points(*tile, tiles, 2 + c, band));
    const auto neighbour = [&](Index plane, Index y, Index x) -> const std::byte* {
      const kernel::GhostSource found = source(plane);
      if (found.kind == kernel::GhostSource::inside)
        return named.points(*tile, tiles, from_part, tile->band_of(found.at)).at(found.at, y, x);
      const int high = found.kind == kernel::GhostSource::high ? 1 : 0;
      kernel::Points points{fixed[high], {plane, to.first[1], to.first[2]}, to.strides};
      if (!std::exchange(made[high], true)) {
        Range3 all = tile->held;
        all.first[0] = plane, all.last[0] = plane + 1;
        kernel::fill_side(problem.space, 0, high == 1, points, all);
        kernel::fill_ghosts(space, points, all, tile->open);
      }
      return points.at(plane, y, x);
    };
    step_on(problem, {neighbour, tile->pitch, to, to, given}, range, tile->rows, memory);
    inject(problem, tile->first_step + step, to, range);
    observed.see(tile->first_step + step, named.points(*tile, tiles, from_part, band), to, shown(), tiles);
    for (const auto& [access, point] : traces)
      std::memcpy(tiles[access].data, to.at(point[0], point[1], point[2]), problem.space.item);
    if (step == tile->depth) return;
    const Range3 next = around(*tile, tile->at_step(step + 1));  // what that reads
    if (next.empty()) return;
    for (Index z = range.first[0]; z < range.last[0]; ++z) {
      Range3 plane = next;
      plane.first[0] = z, plane.last[0] = z + 1;
      kernel::fill_ghosts(space, to, plane, tile->open);
    }
  }
};

struct StoreWork final : StencilWork {
  std::shared_ptr<const BandTile> tile;
  std::vector<Bands::Target> targets;
  Named named;

  void run(std::span<const Tile> tiles) const override {
    const Problem& problem = *tile->problem;
    for (const Bands::Target& target : targets)
      for (std::size_t band = 0; band < tile->bands.size(); ++band) {
        const Range3 part = of_band(*tile, band, target.piece.cell);
        if (!part.empty())
          kernel::copy_points(named.points(*tile, tiles, target.part, band), points_of(problem, target.piece, tiles),
                              part, problem.space.item);
      }
  }
};

}  // namespace

std::size_t BandTile::band_of(Index plane) const {
  const auto after = std::upper_bound(bands.begin(), bands.end(), plane,
                                      [](Index at, const Interval& band) { return at < band.last; });
  return static_cast<std::size_t>(after - bands.begin());
}

namespace {

BlockBuffer plane_buffer(const Problem& problem, const Bands::Extents& extents) {
  const Axes& radius = problem.space.radius;
  return {{{0, 0, 0}, {1, extents.rows + 2 * radius[1], extents.columns + 2 * radius[2]}}, problem.item()};
}

}  // namespace

Bands::Bands(Graph& graph, std::shared_ptr<const Problem> problem, const Extents& extents)
    : graph_(graph), shared_(std::move(problem)), problem_(*shared_), extents_(extents), observers_(graph, shared_) {
  const BlockBuffer one = plane_buffer(problem_, extents);
  pitch_ = one.pitch(), plane_ = static_cast<Index>(one.bytes());
  const Index buffers = extents.sets * (2 + static_cast<Index>(problem_.coefficients.size()));
  memory_ = graph.allocate({buffers * extents.bands, extents.planes * plane_}, Dtype::uint8);
  if (extents.seams > 0) seams_ = graph.allocate({buffers * extents.seams, extents.seam * plane_}, Dtype::uint8);
}

void Bands::begin(Index first_step, Index depth, Index tiles) {
  const Index tasks = tiles * depth * (extents_.bands + extents_.seams);
  observers_.begin(first_step, depth, tasks, {extents_.planes, extents_.rows, extents_.columns});
}

void Bands::place(BandTile& tile) {
  tile.pitch = pitch_, tile.plane = plane_, tile.set = placed_++ % extents_.sets;
  Index bands = 0, seams = 0;
  for (const Interval& band : tile.bands) {
    const bool seam = band.length() <= extents_.seam && seams < extents_.seams;
    tile.places.emplace_back(seam, seam ? seams++ : bands++);
  }
  if (bands > extents_.bands) throw Error("stencil: a tile has more bands than buffers; please report this.");
}

Region Bands::region(const BandTile& tile, std::size_t part, std::size_t band) const {
  const Index buffer = tile.set * static_cast<Index>(tile.parts()) + static_cast<Index>(part);
  const auto [seam, at] = tile.places[band];
  if (seam) return {seams_, {{buffer * extents_.seams + at, 0}, {1, extents_.seam * plane_}}};
  return {memory_, {{buffer * extents_.bands + at, 0}, {1, extents_.planes * plane_}}};
}

void Bands::load(const std::shared_ptr<const BandTile>& tile, std::size_t band, TaskSpec task,
                 std::vector<std::vector<Piece>> pieces) {
  // Operands come in whole units, which lie over cells that an earlier tile has changed too: cells go over them.
  for (std::vector<Piece>& each : pieces)
    std::ranges::stable_partition(each, [](const Piece& piece) { return !piece.dense; });
  auto work = std::make_shared<LoadWork>();
  work->tile = tile, work->band = band, work->pieces = std::move(pieces);
  for (std::size_t part = 0; part < tile->parts(); ++part) {
    work->named.enter(part, band, task.accesses.size());
    task.accesses.push_back(write(region(*tile, part, band)));
  }
  task.name = "stencil_load", task.priority = 1;  // frees tiles
  task.cost.bytes_touched = static_cast<double>(of_band(*tile, band, tile->held).count() * problem_.item()) *
                            static_cast<double>(tile->parts()) * 2;
  task.calls.push_back(call_of(problem_, std::move(work), 0));
  graph_.add(std::move(task));
}

void Bands::step(const std::shared_ptr<const BandTile>& tile, std::size_t band, Index step) {
  const Range3 range = of_band(*tile, band, tile->at_step(step));
  if (range.empty()) return;
  auto work = std::make_shared<StepWork>();
  work->tile = tile, work->band = band, work->step = step;
  TaskSpec task;
  task.name = "stencil_step";
  const auto name = [&](std::size_t part, std::size_t of, Access (*how)(Region)) {
    if (work->named.has(part, of)) return;
    work->named.enter(part, of, task.accesses.size());
    task.accesses.push_back(how(region(*tile, part, of)));
  };
  const std::size_t to = static_cast<std::size_t>(step & 1);
  name(to, band, update);
  const Index reach = problem_.space.radius[0];
  for (Index plane = range.first[0] - reach; plane < range.last[0] + reach; ++plane) {
    const kernel::GhostSource source = work->source(plane);
    if (source.kind == kernel::GhostSource::inside) name(1 - to, tile->band_of(source.at), read);
  }
  for (std::size_t part = 2; part < tile->parts(); ++part) name(part, band, read);
  add_traces(*tile, task, range, step, work->traces);
  work->observed = observers_.task(task, [&](Index t) { return t == step ? work->shown() : Range3{}; });
  work->scratch = static_cast<std::uint32_t>(task.accesses.size());
  task.accesses.push_back(scratch(align_up(static_cast<std::uint64_t>(2 * tile->plane), 64) +
                                  align_up(problem_.kernel->scratch_bytes(), 64)));
  const auto updates = static_cast<double>(range.count());
  task.cost.flops = updates * problem_.kernel->flops();
  task.cost.bytes_touched = updates * static_cast<double>(problem_.item()) * 3;
  task.cost.float64 = problem_.dtype == Dtype::float64 || problem_.dtype == Dtype::complex128;
  task.calls.push_back(call_of(problem_, std::move(work), task.cost.flops));
  graph_.add(std::move(task));
  observers_.added();
}

void Bands::add_traces(const BandTile& tile, TaskSpec& task, const Range3& range, Index step,
                       std::vector<std::pair<std::uint32_t, Axes>>& traces) const {
  for (std::size_t r = 0; r < problem_.receivers.size(); ++r) {
    const Axes& point = problem_.receivers[r];
    if (kernel::intersect(range, point_range(point)).empty()) continue;
    traces.emplace_back(static_cast<std::uint32_t>(task.accesses.size()), point);
    task.accesses.push_back(write({problem_.traces, {{problem_.row_of(r), tile.first_step + step - 1}, {1, 1}}}));
  }
}

void Bands::store(const std::shared_ptr<const BandTile>& tile, TaskSpec task, std::vector<Target> targets) {
  auto work = std::make_shared<StoreWork>();
  work->tile = tile;
  double touched = 0;
  for (const Target& target : targets) {
    touched += static_cast<double>(target.piece.cell.count() * problem_.item()) * 2;
    for (std::size_t band = 0; band < tile->bands.size(); ++band) {
      if (of_band(*tile, band, target.piece.cell).empty() || work->named.has(target.part, band)) continue;
      work->named.enter(target.part, band, task.accesses.size());
      task.accesses.push_back(read(region(*tile, target.part, band)));
    }
  }
  work->targets = std::move(targets);
  task.name = "stencil_store", task.priority = 1;
  task.cost.bytes_touched = touched;
  task.calls.push_back(call_of(problem_, std::move(work), 0));
  graph_.add(std::move(task));
}

std::uint64_t bands_bytes(const Problem& problem, const Bands::Extents& extents) {
  const Index planes = extents.bands * extents.planes + extents.seams * extents.seam;
  return static_cast<std::uint64_t>(extents.sets * planes) * (2 + problem.coefficients.size()) *
         plane_buffer(problem, extents).bytes();
}

}  // namespace flagstone::stencil
