#include "flagstone/algorithms/stencil/skewed/skewed.hpp"

#include <algorithm>

#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/field/states.hpp"
#include "flagstone/algorithms/stencil/field/work.hpp"
#include "flagstone/algorithms/stencil/skewed/bands.hpp"
#include "flagstone/algorithms/stencil/skewed/tile_memory.hpp"
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

class Builder {
 public:
  Builder(Graph& graph, std::shared_ptr<const Problem> problem, const SkewedScheme& scheme, const Axes& unit)
      : graph_(graph),
        problem_(std::move(problem)),
        scheme_(scheme),
        unit_(unit),
        supersteps_(problem_->left(), scheme.depth),
        skews_(*problem_, scheme, supersteps_[0], supersteps_[supersteps_.number() - 1], unit),
        cuts_(cuts()),
        known_(charge_of(graph, cells_bytes(slots().number(), number_of_cells()))),
        arrays_(graph, *problem_, slots().number(), cuts_, scheme.held),
        bands_(graph, problem_, extents_of(*problem_, scheme)) {
    take_over();
  }

  Skewed run() {
    Index step = problem_->first;
    for (Index s = 0; s < supersteps_.number(); ++s) {
      const Index depth = supersteps_[s];
      levels_ = skews_.levels(depth), first_ = s == 0, last_ = s + 1 == supersteps_.number();
      if (!first_) begin_superstep();
      Axes tiles, at{};
      for (std::size_t d = 0; d < 3; ++d) tiles[d] = skews_.tiles(d, levels_);
      bands_.begin(step, depth, tiles[0] * tiles[1] * tiles[2]);
      do {
        add_tile(at, step);
      } while (advance(at, Axes{}, tiles));
      step += depth, done_ += levels_;
      if (bands_.ends()) {
        if (!last_) copy_states(problem_->to);
        break;
      }
      save(step);
    }
    return {counts_, step, arrays_.scratch()};
  }

 private:
  struct Operand {
    Array array;
    Axes cell;  // of stored units that are read whole; zeros: it is read as it is asked for
  };

  std::array<std::vector<Index>, 3> cuts() const {
    const std::vector<Index> depths = skews_.depths(supersteps_);
    return {skews_.cuts(0, depths, scheme_.planes), skews_.cuts(1, depths, problem_->space.shape[1]),
            skews_.cuts(2, depths, problem_->space.shape[2])};
  }
  Axes number_of_cells() const {
    Axes number{};
    for (std::size_t d = 0; d < 3; ++d) number[d] = static_cast<Index>(cuts_[d].size()) - 1;
    return number;
  }
  /// Less than a page is in the reserve.
  static Charge charge_of(Graph& graph, std::uint64_t bytes) {
    bytes = align_down(bytes);
    return bytes > 0 ? graph.charge(bytes) : Charge();
  }

  const Slots& slots() const { return skews_.slots(); }
  /// Which of the working arrays is a slot of this superstep.
  std::size_t array(std::size_t slot) const { return slots().of_loop(slot, done_); }

  void begin_superstep() {
    for (std::size_t slot = 0; slot < slots().number(); ++slot) {
      const bool start = slots().begins(slot).has_value();
      arrays_.for_each_cell(arrays_.extents(), [&](const Range3& cell, std::size_t number) {
        Holds& holds = arrays_.holds(array(slot), number);
        const bool outside = kernel::intersect(cell, problem_->space.whole()).empty();
        if (holds != Holds::nothing) holds = start && !outside ? Holds::start : Holds::stale;
      });
    }
    if (std::ranges::any_of(skews_.open(), [](bool open) { return open; })) extend();
  }

  /// Cells beyond periodic edges take what the superstep begins with from the other side.
  void extend() {
    for (std::size_t slot = 0; slot < slots().number(); ++slot) {
      if (!slots().begins(slot)) continue;
      arrays_.for_each_cell(domain(0), [&](const Range3& cell, std::size_t number) {
        if (kernel::intersect(cell, problem_->space.whole()).empty()) copy_images(array(slot), cell, number);
      });
    }
  }

  void copy_images(std::size_t array, const Range3& cell, std::size_t number) {
    copy_cells(array, cell, {0, cell, {}, true}, write(arrays_.region(array, number, cell)));
    if (!arrays_.in_memory(cell)) counts_.written += static_cast<double>(cell.count());
    arrays_.holds(array, number) = Holds::start;
  }

  /// What a working array holds of a range, images beyond periodic edges too, to where an access says.
  void copy_cells(std::size_t array, const Range3& range, Piece to, Access access) {
    auto work = std::make_shared<CopyWork>();
    work->problem = problem_;
    TaskSpec task;
    task.name = "stencil_copy";
    for_each_image(*problem_, range, [&](const Range3& part, const Axes& shift) {
      arrays_.for_each_cell(arrays_.around(part), [&](const Range3& from, std::size_t which) {
        work->from.push_back({static_cast<std::uint32_t>(task.accesses.size()), from, shift, true});
        task.accesses.push_back(read(arrays_.region(array, which, from)));
        if (!arrays_.in_memory(from)) counts_.read += static_cast<double>(from.count());
      });
    });
    to.access = static_cast<std::uint32_t>(task.accesses.size());
    work->to = to;
    task.accesses.push_back(std::move(access));
    task.cost.bytes_touched = 2 * static_cast<double>(range.count() * problem_->item());
    task.calls.push_back(call_of(*problem_, std::move(work), 0));
    graph_.add(std::move(task));
  }

  /// Where the first superstep finds a state: the operand, or what a dead process saved.
  void take_over() {
    const bool saved = problem_->first > 0 && problem_->checkpoint;
    const Epoch epoch = saved ? load_epoch(*problem_) : Epoch{};
    if (saved) saved_ = epoch.place;
    for (std::size_t state = 0; state < problem_->order(); ++state) {
      const Array& from = problem_->from[state];
      if (saved)
        starts_.push_back({epoch_state(*problem_, epoch.place, state, epoch.cell, true), epoch.cell});
      else
        starts_.push_back({from, cell_of(*problem_, from, {})});
    }
  }

  /// Saves an epoch, where a checkpoint is due: a copy of its own, because the next superstep changes what there is.
  void save(Index step) {
    Checkpoint* const checkpoint = problem_->checkpoint.get();
    if (!checkpoint || graph_.planning() || last_ || !graph_.agree(checkpoint->due())) return;
    const Epoch epoch{step, saved_ == 0 ? 1 : 0, piece()};
    std::vector<Array> places;
    for (std::size_t state = 0; state < problem_->order(); ++state)
      places.push_back(epoch_state(*problem_, epoch.place, state, epoch.cell, false));
    copy_states(places);
    graph_.drain();
    for (const Array& place : places) place.store().checkpoint();
    save_epoch(*problem_, epoch);
    saved_ = epoch.place;
  }

  /// Boxes in which states are copied between two supersteps: whole chunks of the results, rows of a tile.
  Axes piece() const {
    Axes piece = scheme_.block;
    piece[0] = std::min(piece[0], scheme_.planes);
    for (std::size_t d = 0; d < 3; ++d)
      piece[d] = std::min(problem_->space.shape[d], ceil_div(piece[d], unit_[d]) * unit_[d]);
    return piece;
  }

  /// What a superstep left goes to arrays, one of each state.
  void copy_states(const std::vector<Array>& to) {
    for (std::size_t state = 0; state < problem_->order(); ++state)
      each_box(*problem_, problem_->space.whole(), piece(), [&](const Range3& box) {
        copy_cells(array(slots().result(state, 0)), box, {0, box, {}}, once(write({to[state], problem_->box(box)})));
        counts_.written += static_cast<double>(box.count());
      });
  }

  Range3 domain(Index level) const {
    Range3 all;
    for (std::size_t d = 0; d < 3; ++d) {
      const Interval along = skews_.domain(d, levels_, level);
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
    tile->problem = problem_, tile->first_step = first_step, tile->levels = levels_, tile->rows = scheme_.rows;
    tile->open = skews_.open();
    tile->held = range_of([&](std::size_t d) { return skews_.read(d, at[d], levels_); });
    for (Index level = 1; level <= levels_; ++level)
      tile->computed.push_back(range_of([&](std::size_t d) { return skews_.computed(d, at[d], levels_, level); }));
    for (const Interval& band : arrays_.intervals(0, {tile->held.first[0], tile->held.last[0]}))
      tile->bands.push_back(band);
    bands_.place(*tile);
    for (std::size_t band = 0; band < tile->bands.size(); ++band) load(at, tile, band);
    if (!problem_->overlap) graph_.barrier();
    for (Index level = 1; level <= levels_; ++level) {
      if (level % skews_.levels(1) == 0) counts_.updates += static_cast<double>(tile->at_level(level).count());
      for (std::size_t band = 0; band < tile->bands.size(); ++band) bands_.step(tile, band, level);
    }
    if (!problem_->overlap) graph_.barrier();
    keep(at, tile);
    if (last_) give(tile);
    if (!problem_->overlap) graph_.drain();
  }

  /// Cells of the working arrays that hold what is needed; of the operands what no tile has written yet.
  void load(const Axes& at, const std::shared_ptr<const BandTile>& tile, std::size_t band) {
    TaskSpec task;
    std::vector<std::vector<Piece>> pieces(slots().number() + problem_->coefficients.size());
    Range3 range = tile->held;
    range.first[0] = tile->bands[band].first, range.last[0] = tile->bands[band].last;
    for (std::size_t slot = 0; slot < slots().number(); ++slot) {
      const std::optional<std::size_t> state = slots().begins(slot);
      arrays_.for_each_cell(range, [&](const Range3& cell, std::size_t number) {
        const Holds holds = arrays_.holds(array(slot), number);
        if (holds == Holds::nothing && first_ && state)
          read_operand(task, starts_[*state], cell, pieces[slot], counts_.read);
        else if (holds == Holds::start || (holds == Holds::stale && !last_) ||
                 (holds == Holds::fresh && (!last_ || needs(at, slot, cell))))
          read_cell(task, array(slot), cell, number, pieces[slot]);
      });
    }
    const Range3 written = range_of([&](std::size_t d) { return skews_.written(d, at[d], levels_); });
    for (std::size_t c = 0; c < problem_->coefficients.size(); ++c)
      if (const Range3 part = kernel::intersect(range, written); !part.empty())
        read_operand(task, {problem_->coefficients[c], cell_of(*problem_, problem_->coefficients[c], {})}, part,
                     pieces[slots().number() + c], counts_.given);
    bands_.load(tile, band, std::move(task), std::move(pieces));
  }

  void read_cell(TaskSpec& task, std::size_t array, const Range3& cell, std::size_t number,
                 std::vector<Piece>& pieces) {
    pieces.push_back({static_cast<std::uint32_t>(task.accesses.size()), cell, {}, true});
    task.accesses.push_back(read(arrays_.region(array, number, cell)));
    if (!arrays_.in_memory(cell)) counts_.read += static_cast<double>(cell.count());
  }

  void read_operand(TaskSpec& task, const Operand& operand, const Range3& range, std::vector<Piece>& pieces,
                    double& count) {
    const auto region = [&](const Range3& box) { return Region{operand.array, problem_->box(box)}; };
    Axes cell = operand.cell;
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

  /// Whether a tile of the last superstep still needs a cell that an earlier one has written.
  bool needs(const Axes& at, std::size_t slot, const Range3& cell) const {
    for (std::size_t d = 0; d < 3; ++d)
      if (skews_.cut(d) && cell.first[d] < skews_.begin(d, at[d]) - need(slot, d)) return false;
    return true;
  }
  Index need(std::size_t slot, std::size_t d) const { return skews_.reach(d) * slots().last_read(slot, levels_); }
  /// Whether any later tile does.
  bool needed_later(const Axes& at, std::size_t slot, const Range3& cell) const {
    for (std::size_t d = 0; d < 3; ++d)
      if (at[d] + 1 < skews_.tiles(d, levels_) && cell.first[d] >= skews_.begin(d, at[d] + 1) - need(slot, d))
        return true;
    return false;
  }

  /// Writes the tile's cells of the working arrays, band by band; in the end only those that a later tile needs.
  void keep(const Axes& at, const std::shared_ptr<const BandTile>& tile) {
    const Range3 written = range_of([&](std::size_t d) { return skews_.written(d, at[d], levels_); });
    for (const Interval& band : tile->bands) {
      Range3 range = written;
      range.first[0] = std::max(range.first[0], band.first), range.last[0] = std::min(range.last[0], band.last);
      if (range.empty()) continue;
      TaskSpec task;
      std::vector<Bands::Target> targets;
      for (std::size_t slot = 0; slot < slots().number(); ++slot)
        arrays_.for_each_cell(range, [&](const Range3& cell, std::size_t number) {
          Holds& holds = arrays_.holds(array(slot), number);
          holds = last_ && !needed_later(at, slot, cell) ? Holds::dropped : Holds::fresh;
          if (holds == Holds::dropped) return;
          targets.push_back({slot, {static_cast<std::uint32_t>(task.accesses.size()), cell, {}, true}});
          task.accesses.push_back(write(arrays_.region(array(slot), number, cell)));
          if (!arrays_.in_memory(cell)) counts_.written += static_cast<double>(cell.count());
        });
      if (!targets.empty()) bands_.store(tile, std::move(task), std::move(targets));
    }
  }

  /// Writes the results, whole chunks at a time: where the tile computes the last level.
  void give(const std::shared_ptr<const BandTile>& tile) {
    Range3 all = tile->at_level(levels_);
    if (all.empty()) return;
    const Index planes = ceil_div(scheme_.planes, unit_[0]) * unit_[0];
    const Range3 whole = all;
    for (Index z = whole.first[0]; z < whole.last[0]; z += planes) {
      all.first[0] = z, all.last[0] = std::min(whole.last[0], z + planes);
      TaskSpec task;
      std::vector<Bands::Target> targets;
      for (std::size_t state = 0; state < problem_->order(); ++state) {
        const std::size_t slot = slots().result(state, levels_);
        targets.push_back({slot, {static_cast<std::uint32_t>(task.accesses.size()), all, {}}});
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
  std::array<std::vector<Index>, 3> cuts_;
  Charge known_;  // of cells
  WorkingArrays arrays_;
  Bands bands_;
  Counts counts_;
  Index levels_ = 1, done_ = 0;  // of this superstep, before it
  bool first_ = true, last_ = true;
  std::vector<Operand> starts_;  // of each state
  Index saved_ = -1;             // the place of the last epoch
};

}  // namespace

Skewed run_skewed(Graph& graph, std::shared_ptr<const Problem> problem, const SkewedScheme& scheme, const Axes& unit) {
  graph.trust_order(true);
  return Builder(graph, std::move(problem), scheme, unit).run();
}

}  // namespace flagstone::stencil
