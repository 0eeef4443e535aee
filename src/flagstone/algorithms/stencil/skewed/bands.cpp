#include "flagstone/algorithms/stencil/skewed/bands.hpp"

#include <algorithm>

#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/schedules/block_step.hpp"
#include "flagstone/algorithms/stencil/skewed/band_step.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::stencil {
namespace {

struct LoadWork final : StencilWork {
  std::shared_ptr<const BandTile> tile;
  std::size_t band = 0;
  std::vector<std::vector<Piece>> pieces;  // of each part
  Named named;

  void run(std::span<const Tile> tiles) const override {
    const Problem& problem = *tile->problem;
    for (std::size_t part = 0; part < pieces.size(); ++part) {
      const kernel::Points to = named.points(*tile, tiles, part, band);
      gather(problem, pieces[part], tiles, to, tile->of_band(band, tile->held));
      if (part >= tile->slots->number()) continue;
      if (!problem.edges_change()) {
        fill(to, tile->flat(0), tile->held);
        continue;
      }
      // What an earlier tile left is of another step for each level that reads it, and lies before what later ones
      // read: so these come first.
      for (Index level = tile->levels; level > 0; --level)
        if (tile->slots->after(tile->slots->field(part), level - 1) == part)
          fill(to, tile->flat(level - 1), tile->around(level));
    }
  }

  /// Ghosts around the band's part of a range.
  void fill(const kernel::Points& to, const kernel::Space& space, const Range3& all) const {
    Range3 plane = all;
    const Range3 range = tile->of_band(band, all);
    for (Index z = range.first[0]; z < range.last[0]; ++z) {
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
        const Range3 part = tile->of_band(band, target.piece.cell);
        if (!part.empty())
          kernel::copy_points(named.points(*tile, tiles, target.part, band), points_of(problem, target.piece, tiles),
                              part, problem.space.item);
      }
  }
};

BlockBuffer plane_buffer(const Problem& problem, const Slots& slots, const Bands::Extents& extents) {
  const Axes& radius = slots.versions().radius();
  return {{{0, 0, 0}, {1, extents.rows + 2 * radius[1], extents.columns + 2 * radius[2]}}, problem.item()};
}

}  // namespace

Bands::Bands(Graph& graph, std::shared_ptr<const Problem> problem, const Extents& extents)
    : graph_(graph),
      shared_(std::move(problem)),
      problem_(*shared_),
      slots_(std::make_shared<Slots>(problem_)),
      extents_(extents),
      observers_(graph, shared_) {
  const BlockBuffer one = plane_buffer(problem_, *slots_, extents);
  pitch_ = one.pitch(), plane_ = static_cast<Index>(one.bytes());
  const Index buffers = extents.sets * static_cast<Index>(slots_->number() + problem_.coefficients.size());
  memory_ = graph.allocate({buffers * extents.bands, extents.planes * plane_}, Dtype::uint8);
  if (extents.seams > 0) seams_ = graph.allocate({buffers * extents.seams, extents.seam * plane_}, Dtype::uint8);
}

void Bands::begin(Index first_step, Index depth, Index tiles) {
  const Index tasks = tiles * depth * (extents_.bands + extents_.seams);
  observers_.begin(first_step, depth, tasks, {extents_.planes, extents_.rows, extents_.columns});
}

void Bands::place(BandTile& tile) {
  tile.slots = slots_, tile.pitch = pitch_, tile.plane = plane_, tile.set = placed_++ % extents_.sets;
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
  task.cost.bytes_touched = static_cast<double>(tile->of_band(band, tile->held).count() * problem_.item()) *
                            static_cast<double>(tile->parts()) * 2;
  task.calls.push_back(call_of(problem_, std::move(work), 0));
  graph_.add(std::move(task));
}

void Bands::step(const std::shared_ptr<const BandTile>& tile, std::size_t band, Index level) {
  const Range3 range = tile->of_band(band, tile->at_level(level));
  if (range.empty()) return;
  auto work = std::make_shared<BandStep>();
  work->tile = tile, work->band = band, work->level = level;
  TaskSpec task;
  task.name = "stencil_step";
  const auto name = [&](std::size_t part, std::size_t of, Access (*how)(Region)) {
    if (work->named.has(part, of)) return;
    work->named.enter(part, of, task.accesses.size());
    task.accesses.push_back(how(region(*tile, part, of)));
  };
  const Versions& versions = slots_->versions();
  for (const std::size_t field : versions.replaced(level)) name(slots_->after(field, level), band, update);
  for (std::size_t field = 0; field < versions.fields(); ++field) {
    for (Index plane = range.first[0] - work->reach(); plane < range.last[0] + work->reach(); ++plane) {
      const kernel::GhostSource source = tile->source(plane);
      if (source.kind == kernel::GhostSource::inside)
        name(slots_->after(field, level - 1), tile->band_of(source.at), read);
    }
    if (work->ends_step() && !problem_.reductions.empty())
      name(slots_->after(field, level - versions.stages()), band, read);
  }
  for (std::size_t part = slots_->number(); part < tile->parts(); ++part) name(part, band, read);
  if (work->ends_step()) {
    add_traces(task, *work);
    const Index step = level / versions.stages();
    work->observed = observers_.task(task, [&](Index t) { return t == step ? work->shown() : Range3{}; });
  }
  work->scratch = static_cast<std::uint32_t>(task.accesses.size());
  task.accesses.push_back(scratch(BandStep::scratch_bytes(problem_, static_cast<std::uint64_t>(tile->plane))));
  const auto updates = static_cast<double>(range.count());
  task.cost.flops = updates * work->flops();
  task.cost.bytes_touched = updates * static_cast<double>(problem_.item()) * 3;
  task.cost.float64 = problem_.dtype == Dtype::float64 || problem_.dtype == Dtype::complex128;
  task.calls.push_back(call_of(problem_, std::move(work), task.cost.flops));
  graph_.add(std::move(task));
  observers_.added();
}

void Bands::add_traces(TaskSpec& task, BandStep& work) const {
  const Range3 range = work.range();
  for (std::size_t r = 0; r < problem_.receivers.size(); ++r) {
    const Axes& point = problem_.receivers[r];
    if (kernel::intersect(range, point_range(point)).empty()) continue;
    work.traces.push_back({static_cast<std::uint32_t>(task.accesses.size()), point, problem_.receiver_fields[r]});
    task.accesses.push_back(
        write({problem_.traces, {{problem_.row_of(r), work.tile->steps_at(work.level) - 1}, {1, 1}}}));
  }
}

void Bands::store(const std::shared_ptr<const BandTile>& tile, TaskSpec task, std::vector<Target> targets) {
  auto work = std::make_shared<StoreWork>();
  work->tile = tile;
  double touched = 0;
  for (const Target& target : targets) {
    touched += static_cast<double>(target.piece.cell.count() * problem_.item()) * 2;
    for (std::size_t band = 0; band < tile->bands.size(); ++band) {
      if (tile->of_band(band, target.piece.cell).empty() || work->named.has(target.part, band)) continue;
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
  const Slots slots(problem);
  return static_cast<std::uint64_t>(extents.sets * planes) * (slots.number() + problem.coefficients.size()) *
         plane_buffer(problem, slots, extents).bytes();
}

}  // namespace flagstone::stencil
