#pragma once
// Who looks at the field between two steps: snapshots and reductions, for every method.
#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// What is a part's own of a range of it, as the larger field counts.
Range3 whole_range(const Window& window, const Range3& range);

/// What a task shows of the steps that it computed.
struct Observed {
  std::shared_ptr<const Problem> problem;
  std::vector<SnapshotPiece> pieces;

  /// `to` holds a range of the field (of each of several) after `step`, `from` before it; each point of a step is shown
  /// once, by the task that Observers::task was told of.
  void see(Index step, std::span<const kernel::Points> from, std::span<const kernel::Points> to, Range3 range,
           std::span<const Tile> tiles) const;
  void see(Index step, const kernel::Points& from, const kernel::Points& to, const Range3& range,
           std::span<const Tile> tiles) const {
    see(step, {&from, 1}, {&to, 1}, range, tiles);
  }
};

/// The builder's side.
class Observers {
 public:
  Observers(Graph& graph, std::shared_ptr<const Problem> problem)
      : graph_(graph), problem_(std::move(problem)), snapshots_(graph, problem_->snapshots, problem_->dtype) {}

  /// A superstep of `depth` steps after `first_step`, of `tasks` tasks at most, whose ranges are `largest` at most.
  void begin(Index first_step, Index depth, Index tasks, const Axes& largest) {
    if (problem_->window)
      first_step_ = first_step, depth_ = depth;
    else
      begin(first_step, depth);
    writer().room(tasks, largest);
  }
  /// The same where the tasks are those of parts, whose builders tell how many.
  void begin(Index first_step, Index depth) {
    first_step_ = first_step, depth_ = depth;
    snapshots_.begin(first_step, first_step + depth);
  }
  /// `range(t)`: what the task shows of step t of the superstep, 1 to depth.
  template <class RangeOf>
  Observed task(TaskSpec& spec, const RangeOf& range) {
    Observed observed{problem_, {}};
    for (Index t = 1; t <= depth_ && !problem_->snapshots.empty(); ++t)
      writer().take(spec, first_step_ + t, in_whole(range(t)), observed.pieces);
    return observed;
  }
  /// After that task was added.
  void added() { writer().gather(); }
  /// After the last task of the superstep: whether the loop ends here. Waits only where something is to be decided.
  /// NumericalError: a point is NaN or Inf and somebody asked.
  bool ends();

 private:
  SnapshotWriter& writer() { return problem_->window ? problem_->window->observers->snapshots_ : snapshots_; }
  Range3 in_whole(const Range3& range) const {
    return problem_->window ? whole_range(*problem_->window, range) : range;
  }

  Graph& graph_;
  std::shared_ptr<const Problem> problem_;
  SnapshotWriter snapshots_;
  Index first_step_ = 0, depth_ = 0;
};

}  // namespace flagstone::stencil
