#include "flagstone/algorithms/stencil/skewed/skewed.hpp"

#include <algorithm>

#include "flagstone/algorithms/stencil/skewed/bands.hpp"
#include "flagstone/algorithms/stencil/skewed/working_arrays.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

/// Copies what cells hold to a box: a cell beyond a periodic edge, part of a result.
struct CopyWork final : StencilWork {
  std::shared_ptr<const Problem> problem;
  std::vector<Piece> from;
  Piece to;
  void run(std::span<const Tile> tiles) const override {
    gather(*problem, from, tiles, points_of(*problem, to, tiles), to.cell);
  }
};

/// Extents of buffers and bands, at most.
Bands::Extents extents_of(const Problem& problem, const SkewedScheme& scheme) {
  Axes longest;
  for (std::size_t d = 0; d < 3; ++d) {
    const Index n = problem.space.shape[d], reach = problem.space.radius[d] * (scheme.depth + 1);
    const Index wide = problem.space.periodic(d) ? n + 2 * problem.space.radius[d] * scheme.depth : n;
    longest[d] = scheme.block[d] >= n ? n : std::min(wide, scheme.block[d] + reach);
  }
  Bands::Extents extents{.sets = problem.overlap ? 2 : 1, .rows = longest[1], .columns = longest[2]};
  extents.planes = std::min(scheme.planes, longest[0]);
  extents.bands = ceil_div(longest[0], extents.planes) + (problem.window ? 4 : 0);  // ends of sleeves cut more
  const Index block = scheme.block[0], reach = problem.space.radius[0];
  if (block >= problem.space.shape[0]) return extents;
  // Bands end where boxes of any tile do: counted on a tile in the middle; edges may cut more.
  extents.seam = std::max<Index>(1, std::min(reach, extents.planes));
  const Supersteps supersteps(problem.left(), scheme.depth);
  const Index deepest = supersteps[0], lag = reach * deepest;
  std::vector<Index> back{deepest, deepest - 1, 0, -1}, ends;
  if (supersteps[supersteps.number() - 1] < deepest) back.push_back(std::max<Index>(0, deepest - 2));
  for (Index k = -ceil_div(lag, block) - 1; k <= ceil_div(lag, block) + 2; ++k)
    for (const Index steps : back)
      if (const Index at = k * block - reach * steps; at >= -lag && at <= block + reach) ends.push_back(at);
  std::sort(ends.begin(), ends.end());
  extents.bands = problem.space.periodic(0) || problem.window ? 4 : 1;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    const Index length = ends[i] - ends[i - 1];
    if (length > extents.seam) extents.bands += ceil_div(length, extents.planes);
    if (length > 0 && length <= extents.seam) ++extents.seams;
  }
  return extents;
}

class Builder {
 public:
  Builder(Graph& graph, std::shared_ptr<const Problem> problem, const SkewedScheme& scheme, const Axes& unit)
      : graph_(graph),
        problem_(std::move(problem)),
        scheme_(scheme),
        unit_(unit),
        supersteps_(problem_->left(), scheme.depth),
        skews_(*problem_, scheme, supersteps_[0], supersteps_[supersteps_.number() - 1], unit),
        pair_(graph, *problem_, 2, cuts(), scheme.held),
        bands_(graph, problem_, extents_of(*problem_, scheme)) {}

  Skewed run() {
    Index step = problem_->first;
    for (Index s = 0; s < supersteps_.number(); ++s) {
      depth_ = supersteps_[s], first_ = s == 0, last_ = s + 1 == supersteps_.number();
      if (!first_) begin_superstep();
      Axes tiles, at{};
      for (std::size_t d = 0; d < 3; ++d) tiles[d] = skews_.tiles(d, depth_);
      bands_.begin(step, depth_, tiles[0] * tiles[1] * tiles[2]);
      do {
        add_tile(at, step);
      } while (advance(at, Axes{}, tiles));
      step += depth_, base_ = (base_ + static_cast<std::size_t>(depth_)) & 1;
      if (bands_.ends()) {
        if (!last_) finish();
        break;
      }
    }
    return {counts_, step};
  }

 private:
  std::array<std::vector<Index>, 3> cuts() const {
    std::vector<Index> depths{supersteps_[0], supersteps_[supersteps_.number() - 1]};
    if (depths[0] == depths[1]) depths.pop_back();
    return {skews_.cuts(0, depths, scheme_.planes), skews_.cuts(1, depths, problem_->space.shape[1]),
            skews_.cuts(2, depths, problem_->space.shape[2])};
  }

  /// Which array of the pair holds P[parity].
  std::size_t array(std::size_t parity) const { return (parity + base_) & 1; }

  void begin_superstep() {
    for (std::size_t parity = 0; parity < 2; ++parity) {
      const bool start = parity == 0 || problem_->order() == 2;
      pair_.for_each_cell(pair_.extents(), [&](const Range3& cell, std::size_t number) {
        Holds& holds = pair_.holds(array(parity), number);
        const bool outside = kernel::intersect(cell, problem_->space.whole()).empty();
        if (holds != Holds::nothing) holds = start && !outside ? Holds::start : Holds::stale;
      });
    }
    if (std::ranges::any_of(skews_.open(), [](bool open) { return open; })) extend();
  }

  /// Cells beyond periodic edges take what the superstep begins with from the other side.
  void extend() {
    for (std::size_t parity = 0; parity < problem_->order(); ++parity)
      pair_.for_each_cell(domain(0), [&](const Range3& cell, std::size_t number) {
        if (kernel::intersect(cell, problem_->space.whole()).empty()) copy_images(array(parity), cell, number);
      });
  }

  void copy_images(std::size_t array, const Range3& cell, std::size_t number) {
    copy_cells(array, cell, {0, cell, {}, true}, write(pair_.region(array, number, cell)));
    if (!pair_.in_memory(cell)) counts_.written += static_cast<double>(cell.count());
    pair_.holds(array, number) = Holds::start;
  }

  /// What the pair holds of a range, images beyond periodic edges too, to where an access says.
  void copy_cells(std::size_t array, const Range3& range, Piece to, Access access) {
    auto work = std::make_shared<CopyWork>();
    work->problem = problem_;
    TaskSpec task;
    task.name = "stencil_copy";
    for_each_image(*problem_, range, [&](const Range3& part, const Axes& shift) {
      pair_.for_each_cell(pair_.around(part), [&](const Range3& from, std::size_t which) {
        work->from.push_back({static_cast<std::uint32_t>(task.accesses.size()), from, shift, true});
        task.accesses.push_back(read(pair_.region(array, which, from)));
        if (!pair_.in_memory(from)) counts_.read += static_cast<double>(from.count());
      });
    });
    to.access = static_cast<std::uint32_t>(task.accesses.size());
    work->to = to;
    task.accesses.push_back(std::move(access));
    task.cost.bytes_touched = 2 * static_cast<double>(range.count() * problem_->item());
    task.calls.push_back(call_of(*problem_, std::move(work), 0));
    graph_.add(std::move(task));
  }

  /// The loop ends before its last superstep: what this one left goes into the results.
  void finish() {
    const Axes& n = problem_->space.shape;
    const Index planes = ceil_div(scheme_.planes, unit_[0]) * unit_[0];
    for (std::size_t state = 0; state < problem_->order(); ++state)
      for (Index z = 0; z < n[0]; z += planes) {
        Range3 range = problem_->space.whole();
        range.first[0] = z, range.last[0] = std::min(n[0], z + planes);
        copy_cells(array(state), range, {0, range, {}}, once(write({problem_->to[state], problem_->box(range)})));
        counts_.written += static_cast<double>(range.count());
      }
  }

  Range3 domain(Index step) const {
    Range3 all;
    for (std::size_t d = 0; d < 3; ++d) {
      const Interval along = skews_.domain(d, depth_, step);
      all.first[d] = along.first, all.last[d] = along.last;
    }
    return all;
  }

  template <class IntervalOf>
  static Range3 range_of(const IntervalOf& interval) {
    Range3 range;
    for (std::size_t d = 0; d < 3; ++d) {
      const Interval along = interval(d);
      range.first[d] = along.first, range.last[d] = along.last;
    }
    return range;
  }

  void add_tile(const Axes& at, Index first_step) {
    auto tile = std::make_shared<BandTile>();
    tile->problem = problem_, tile->first_step = first_step, tile->depth = depth_, tile->rows = scheme_.rows;
    tile->open = skews_.open();
    tile->held = range_of([&](std::size_t d) { return skews_.read(d, at[d], depth_); });
    for (Index t = 1; t <= depth_; ++t)
      tile->computed.push_back(range_of([&](std::size_t d) { return skews_.computed(d, at[d], depth_, t); }));
    for (const Interval& band : pair_.intervals(0, {tile->held.first[0], tile->held.last[0]}))
      tile->bands.push_back(band);
    bands_.place(*tile);
    for (std::size_t band = 0; band < tile->bands.size(); ++band) load(at, tile, band);
    if (!problem_->overlap) graph_.barrier();
    for (Index t = 1; t <= depth_; ++t) {
      counts_.updates += static_cast<double>(tile->at_step(t).count());
      for (std::size_t band = 0; band < tile->bands.size(); ++band) bands_.step(tile, band, t);
    }
    if (!problem_->overlap) graph_.barrier();
    keep(at, tile);
    if (last_) give(tile);
    if (!problem_->overlap) graph_.drain();
  }

  /// Cells of the pair that hold what is needed; of the operands what no tile has written yet.
  void load(const Axes& at, const std::shared_ptr<const BandTile>& tile, std::size_t band) {
    TaskSpec task;
    std::vector<std::vector<Piece>> pieces(tile->parts());
    Range3 range = tile->held;
    range.first[0] = tile->bands[band].first, range.last[0] = tile->bands[band].last;
    for (std::size_t parity = 0; parity < 2; ++parity)
      pair_.for_each_cell(range, [&](const Range3& cell, std::size_t number) {
        const Holds holds = pair_.holds(array(parity), number);
        const bool start = parity == 0 || problem_->order() == 2;
        if (holds == Holds::nothing && first_ && start)
          read_operand(task, problem_->from[parity], cell, pieces[parity], counts_.read);
        else if (holds == Holds::start || (holds == Holds::stale && !last_) ||
                 (holds == Holds::fresh && (!last_ || needs(at, parity, cell))))
          read_cell(task, array(parity), cell, number, pieces[parity]);
      });
    const Range3 written = range_of([&](std::size_t d) { return skews_.written(d, at[d], depth_); });
    for (std::size_t c = 0; c < problem_->coefficients.size(); ++c)
      if (const Range3 part = kernel::intersect(range, written); !part.empty())
        read_operand(task, problem_->coefficients[c], part, pieces[2 + c], counts_.given);
    bands_.load(tile, band, std::move(task), std::move(pieces));
  }

  void read_cell(TaskSpec& task, std::size_t array, const Range3& cell, std::size_t number,
                 std::vector<Piece>& pieces) {
    pieces.push_back({static_cast<std::uint32_t>(task.accesses.size()), cell, {}, true});
    task.accesses.push_back(read(pair_.region(array, number, cell)));
    if (!pair_.in_memory(cell)) counts_.read += static_cast<double>(cell.count());
  }

  void read_operand(TaskSpec& task, const Array& array, const Range3& range, std::vector<Piece>& pieces,
                    double& count) {
    const auto region = [&](const Range3& box) { return Region{array, problem_->box(box)}; };
    // As it is asked for, or by stored units that are read whole.
    Axes cell = cell_of(*problem_, array, {});
    // Of a mesh the operand is written by others in this run: boxes and images of them are the same or disjoint.
    if (cell == Axes{} && problem_->window && std::ranges::any_of(skews_.open(), [](bool open) { return open; }))
      for (std::size_t d = 0; d < 3; ++d)
        cell[d] = std::min(problem_->space.shape[d], d == 0 ? scheme_.planes : scheme_.block[d]);
    if (cell == Axes{})
      for_each_image(*problem_, range, [&](const Range3& part, const Axes& shift) {
        pieces.push_back({static_cast<std::uint32_t>(task.accesses.size()), part, shift});
        task.accesses.push_back(read(region(part)));
      });
    else
      for (const Piece& piece : Cells(*problem_, cell).read_under(task, range, region)) pieces.push_back(piece);
    count += static_cast<double>(range.count());
  }

  /// Whether a tile of the last superstep still needs a cell that an earlier one has written: of the array whose last
  /// step is the result a step less far back.
  bool needs(const Axes& at, std::size_t parity, const Range3& cell) const {
    for (std::size_t d = 0; d < 3; ++d)
      if (skews_.cut(d) && cell.first[d] < skews_.begin(d, at[d]) - need(parity, d)) return false;
    return true;
  }
  Index need(std::size_t parity, std::size_t d) const {
    const bool result = parity == static_cast<std::size_t>(depth_ & 1);
    return problem_->space.radius[d] * (result ? depth_ - 1 : depth_);
  }
  /// Whether any later tile does.
  bool needed_later(const Axes& at, std::size_t parity, const Range3& cell) const {
    for (std::size_t d = 0; d < 3; ++d)
      if (at[d] + 1 < skews_.tiles(d, depth_) && cell.first[d] >= skews_.begin(d, at[d] + 1) - need(parity, d))
        return true;
    return false;
  }

  /// Writes the tile's cells of the pair, band by band; in the end only those that a later tile needs.
  void keep(const Axes& at, const std::shared_ptr<const BandTile>& tile) {
    const Range3 written = range_of([&](std::size_t d) { return skews_.written(d, at[d], depth_); });
    for (const Interval& band : tile->bands) {
      Range3 range = written;
      range.first[0] = std::max(range.first[0], band.first), range.last[0] = std::min(range.last[0], band.last);
      if (range.empty()) continue;
      TaskSpec task;
      std::vector<Bands::Target> targets;
      for (std::size_t parity = 0; parity < 2; ++parity)
        pair_.for_each_cell(range, [&](const Range3& cell, std::size_t number) {
          Holds& holds = pair_.holds(array(parity), number);
          holds = last_ && !needed_later(at, parity, cell) ? Holds::dropped : Holds::fresh;
          if (holds == Holds::dropped) return;
          targets.push_back({parity, {static_cast<std::uint32_t>(task.accesses.size()), cell, {}, true}});
          task.accesses.push_back(write(pair_.region(array(parity), number, cell)));
          if (!pair_.in_memory(cell)) counts_.written += static_cast<double>(cell.count());
        });
      if (!targets.empty()) bands_.store(tile, std::move(task), std::move(targets));
    }
  }

  /// Writes the results, whole chunks at a time: what the tile computes at the last step.
  void give(const std::shared_ptr<const BandTile>& tile) {
    Range3 all = depth_ > 0 ? tile->at_step(depth_) : problem_->space.whole();
    if (all.empty()) return;
    const Index planes = ceil_div(scheme_.planes, unit_[0]) * unit_[0];
    const Range3 whole = all;
    for (Index z = whole.first[0]; z < whole.last[0]; z += planes) {
      all.first[0] = z, all.last[0] = std::min(whole.last[0], z + planes);
      TaskSpec task;
      std::vector<Bands::Target> targets;
      for (std::size_t state = 0; state < problem_->order(); ++state) {
        const auto parity = static_cast<std::size_t>(depth_ + static_cast<Index>(state)) & 1;
        targets.push_back({parity, {static_cast<std::uint32_t>(task.accesses.size()), all, {}}});
        task.accesses.push_back(once(write({problem_->to[state], problem_->box(all)})));
        counts_.written += static_cast<double>(all.count());
      }
      bands_.store(tile, std::move(task), std::move(targets));
    }
  }

  Graph& graph_;
  std::shared_ptr<const Problem> problem_;
  SkewedScheme scheme_;
  Axes unit_;
  Supersteps supersteps_;
  Skews skews_;
  WorkingArrays pair_;
  Bands bands_;
  Counts counts_;
  Index depth_ = 1;
  bool first_ = true, last_ = true;
  std::size_t base_ = 0;
};

}  // namespace

Skewed run_skewed(Graph& graph, std::shared_ptr<const Problem> problem, const SkewedScheme& scheme, const Axes& unit) {
  graph.trust_order(true);
  return Builder(graph, std::move(problem), scheme, unit).run();
}

std::uint64_t skewed_bytes(const Problem& problem, const SkewedScheme& scheme, const Axes& unit, int workers) {
  const Bands::Extents extents = extents_of(problem, scheme);
  const auto item = static_cast<std::uint64_t>(problem.item());
  // Under way: cells of some bands, what is written of them, results by whole chunks.
  const auto plane = static_cast<std::uint64_t>(extents.rows * extents.columns) * item;
  const auto band = plane * static_cast<std::uint64_t>(extents.planes);
  const auto batches = static_cast<std::uint64_t>(workers) + 2;
  const std::uint64_t parts = 2 + problem.coefficients.size();
  const auto result = plane * static_cast<std::uint64_t>(ceil_div(extents.planes, unit[0]) * unit[0]);
  std::uint64_t staging = 0;
  Range3 first{{0, 0, 0}, scheme.block};
  first.last[0] = std::min(first.last[0], ceil_div(extents.planes, unit[0]) * unit[0]);
  for (const Array& array : problem.to) staging += staging_of(problem, array, first, true);
  for (const auto* arrays : {&problem.from, &problem.coefficients})
    for (const Array& array : *arrays) {
      Axes cell = cell_of(problem, array, {extents.planes, extents.rows, extents.columns});
      for (std::size_t d = 0; d < 3; ++d) cell[d] = std::min(cell[d], problem.space.shape[d]);
      staging += staging_of(problem, array, {{0, 0, 0}, cell}, false);
    }
  return bands_bytes(problem, extents) + batches * (band * parts + result * problem.order() + staging) +
         static_cast<std::uint64_t>(workers) *
             (2 * align_up(static_cast<std::uint64_t>((extents.rows + 64) * (extents.columns + 64)) * item) +
              align_up(problem.kernel->scratch_bytes(), 64));
}

std::uint64_t pair_bytes(const Problem& problem) {
  const Range3 all = problem.space.whole();
  return 2 * static_cast<std::uint64_t>(all.count() / all.extent(first_axis(problem)) * problem.item());
}

}  // namespace flagstone::stencil
