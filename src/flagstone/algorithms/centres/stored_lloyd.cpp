#include "flagstone/algorithms/centres/stored_lloyd.hpp"

#include <algorithm>
#include <filesystem>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone::centres {

using namespace cluster;

namespace {

Layout layout_of(const PointsInput& x) { return x.sparse ? Layout::coordinates : Layout::rows; }

}  // namespace

StoredLloyd::StoredLloyd(Graph& graph, const PointsInput& x, Index k, const LloydOptions& options, Stages& stages,
                         std::optional<Index> step)
    : graph_(graph),
      x_(x),
      stages_(stages),
      source_(make_source(x)),
      kept_(graph.charge(40 * static_cast<std::uint64_t>(k) + 32 * static_cast<std::uint64_t>(x.cols()))),
      centres_(graph, k, x.cols(), layout_of(x), step ? *step : block_rows(k, x.cols(), layout_of(x))),
      moves_(*source_, k, options),
      options_(options) {
  const Shape state{source_->rows, state_width};
  to_.state = chosen() ? graph.allocate(state, Dtype::float64)
                       : graph.temporary(state, Dtype::float64, {source_->step, state_width});
  to_.opened = graph.allocate({source_->panels, centres_.count()}, Dtype::float64);
  to_.totals = graph.allocate({1, k + 3}, Dtype::float64);
}

/// Iterations from the seeds, or from where a dead process left them; `name`: of what is saved. `progress` lives as
/// long as this does.
void StoredLloyd::run(Progress& progress, StoredCentres seeds, const std::string& name) {
  const Index most = graph_.planning() ? planned_iterations(options_) : options_.iterations;
  if (most > 0) make_sums();
  state_.reset(new Stages::Kept(stages_.keep(name, [&](StateParts& parts) { list_parts(parts, progress); })));
  if (state_->loaded())
    go_on();
  else
    begin(seeds);
  seeds = {};
  while (progress.iteration < most && !progress.converged) iterate(progress, most);
}

/// What is saved, beside the centres themselves.
void StoredLloyd::list_parts(StateParts& parts, Progress& progress) {
  list_progress(parts, progress);
  parts.value("generation", generation_);
  parts.values("shift", shift_);
}

void StoredLloyd::begin(const StoredCentres& seeds) {
  open();
  shift_.assign(static_cast<std::size_t>(centres_.d()), 0.0);
  for (Index b = 0; b < centres_.count(); ++b) load(seeds, b);
  made();
}

/// With the centres that a dead process left.
void StoredLloyd::go_on() {
  saved_ = generation_;
  open();
  if (!tiles_->holds(whole(centres_.exact.shape())))
    throw FormatError(x_.asked.who +
                      ": the centers that were saved beside the record are gone; remove it to start again.");
  made();
}

/// Where there is little room, partial sums take that of centres, which nobody looks at until they move. Whether a
/// partial sum is merged before the next one begins, timing decides: so then centres are written when they are made.
void StoredLloyd::make_sums() {
  to_.sums = graph_.temporary({centres_.k(), centres_.d()}, Dtype::float64, {centres_.step(), centres_.d()});
  to_.farthest = graph_.allocate({source_->panels, 4 * std::min(centres_.k(), most_far)}, Dtype::float64);
  leave_ = crowded_ = BlockPass(graph_, x_, *source_, centres_, to_).crowded();
}

void StoredLloyd::iterate(Progress& progress, Index most) {
  pass(progress);
  leave_ = crowded_ && progress.iteration + 1 < most;  // of the last ones no sums are added
  move(progress);
  ++progress.iteration;
  made();
  stages_.offer(static_cast<double>(progress.iteration) / static_cast<double>(most + 1));
  forget();
}

/// One more pass, without an update.
void StoredLloyd::label(Progress& progress, const Array& labels) {
  to_.sums = to_.farthest = {};
  to_.labels = chosen() ? graph_.allocate(labels.shape(), labels.dtype()) : labels;
  pass(progress);
  if (chosen()) write_rows(graph_, to_.labels, labels);
}

/// out := the centres.
void StoredLloyd::write(const Array& out) {
  for (Index b = 0; b < centres_.count(); ++b) {
    TaskSpec task;
    task.name = "written";
    task.accesses = {read({centres_.exact, centres_.box(b)}), once(flagstone::write({out, centres_.box(b)}))};
    task.cost.bytes_touched = 16.0 * static_cast<double>(count(centres_.box(b).shape));
    task.calls = {out.dtype() == Dtype::float64 ? call::copy(out.dtype(), {0}, {1})
                                                : call::convert(out.dtype(), {0}, {1})};
    graph_.add(std::move(task));
  }
  graph_.barrier();
}

/// The array of this generation.
void StoredLloyd::open() {
  tiles_.reset();
  centres_.exact = stages_.temporary(name(), {centres_.k(), centres_.d()}, Dtype::float64, tile());
  if (leave_) write_early(centres_.exact, whole(centres_.exact.shape()));
  tiles_ = std::make_unique<FinishedTiles>(stages_, centres_.exact, tile(), name());
}

/// All centres of this generation are computed.
void StoredLloyd::made() {
  tiles_->finish(whole(centres_.exact.shape()));
  if (graph_.planning() || !source_->shifts()) return;
  std::copy(shift_.begin(), shift_.end(), numbers(centres_.shift));
}

/// Files of generations that nobody goes on from: all but the last that was saved, and this one.
void StoredLloyd::forget() {
  if (!stages_.saving()) return;
  if (generation_ - 1 != saved_) remove(generation_ - 1);
  if (tiles_->unnoted()) return;
  if (saved_ >= 0 && saved_ != generation_) remove(saved_);
  saved_ = generation_;
}
void StoredLloyd::remove(Index generation) const {
  std::error_code ignored;  // it is in the folder of the record, which goes as a whole
  std::filesystem::remove(stages_.directory() + "/centres" + std::to_string(generation), ignored);
}

/// Where centre j is added to the mean of all: in their order, as in memory.
void StoredLloyd::add_to_shift(const double* centre) {
  for (Index l = 0; l < centres_.d(); ++l)
    shift_[static_cast<std::size_t>(l)] += centre[l] / static_cast<double>(centres_.k());
}

/// A block := seeds, of unit length where that is what is compared.
void StoredLloyd::load(const StoredCentres& seeds, Index block) {
  Box box = centres_.box(block);
  if (seeds.transpose) std::swap(box.start[0], box.start[1]), std::swap(box.shape[0], box.shape[1]);
  const Access from = read({seeds.array, box});
  graph_.await({seeds.found ? last(from) : from, flagstone::write({centres_.exact, centres_.box(block)})},
               [&](std::span<const Tile> tiles) {
                 kernel::convert(seeds.transpose ? call::turned(tiles[0], {1, 0}) : tiles[0], nullptr, tiles[1]);
                 for (Index j = 0; j < centres_.length(block); ++j) {
                   double* centre = tiles[1].as<double>() + j * centres_.d();
                   check(centre, centres_.first(block) + j);
                   if (x_.unit && !seeds.found) make_unit(centre, centres_.d());
                   add_to_shift(centre);
                 }
               });
}
void StoredLloyd::check(const double* centre, Index j) const {
  const Index bad = kernel::first_bad(centre, centres_.d());
  if (bad < 0) return;
  throw NumericalError(x_.asked.who + ": the centers have NaN or Inf at row " + std::to_string(j) + ", column " +
                       std::to_string(bad) + "; give finite ones.");
}

void StoredLloyd::pass(Progress& progress) {
  if (!graph_.planning()) std::fill_n(numbers(to_.totals), count(to_.totals.shape()), 0.0);
  BlockPass one(graph_, x_, *source_, centres_, to_);
  if (to_.sums || order_.empty()) order_ = one.told();
  one.run(progress.iteration % 2 == 1);
  point_reads_ += one.order().point_reads;
  if (graph_.planning()) return;
  const double* totals = numbers(to_.totals);
  take_totals(progress, totals, centres_.k());
  const double* opened = numbers(to_.opened);
  for (Index i = 0; i < count(to_.opened.shape()); ++i) progress.decided += opened[i];
}

/// The next generation := where the centres go, block after block.
void StoredLloyd::move(Progress& progress) {
  if (!graph_.planning())
    moves_.begin(numbers(to_.totals), {reinterpret_cast<const Far*>(numbers(to_.farthest)),
                                       static_cast<std::size_t>(count(to_.farthest.shape()) / 4)});
  const Array before = centres_.exact;
  ++generation_;
  open();
  shift_.assign(static_cast<std::size_t>(centres_.d()), 0.0);
  for (Index b = 0; b < centres_.count(); ++b) move(before, b);
  if (!graph_.planning()) moves_.finish(progress);
}

void StoredLloyd::move(const Array& before, Index block) {
  const Index first = centres_.first(block), rows = centres_.length(block);
  const Box box = centres_.box(block);
  const Region sums{to_.sums, box};
  graph_.await({read(sums), read({before, box})}, [&](std::span<const Tile> tiles) {
    moves_.note(first, rows, tiles[0].as<const double>(), tiles[1].as<const double>());
  });
  const auto here = [&](Index j) { return j >= first && j < first + rows; };
  for (const CentreMoves::Refill& refill : moves_.refills()) {
    if (!here(refill.from) && !here(refill.to)) continue;
    const std::vector<double> point = source_->row(graph_, refill.row);
    graph_.await({update(sums)}, [&](std::span<const Tile> tiles) {
      moves_.refill(refill, point.data(), first, rows, tiles[0].as<double>());
    });
  }
  graph_.await({last(read(sums)), last(read({before, box})), flagstone::write({centres_.exact, box})},
               [&](std::span<const Tile> tiles) {
                 auto* to = tiles[2].as<double>();
                 moves_.move(first, rows, tiles[0].as<const double>(), tiles[1].as<const double>(), to);
                 for (Index j = 0; j < rows; ++j) add_to_shift(to + j * centres_.d());
               });
}

}  // namespace flagstone::centres
