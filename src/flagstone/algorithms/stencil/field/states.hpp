#pragma once
// Where the field lies between supersteps, and which of these places outlives the process.
#include "flagstone/algorithms/stencil/field/problem.hpp"

namespace flagstone::stencil {

/// Where each superstep reads and writes: the operands, the results, and between them places that take turns.
///
/// Two places, where nothing is saved. Of these the first `held` planes (of one dimension: elements) lie in memory and
/// the others in scratch, each written and read once a superstep: what travels is no question of when (decision 135).
///
/// Three, where epochs are saved (Problem::saved), all of them in files beside the checkpoint: the one that the last
/// checkpoint speaks of is not written until there is another one, so a process that takes over finds it whole. One
/// that took over with other cells copies it first: one read and one write of each state.
class States {
 public:
  /// `cell`: extents of a box of a place; `held`: a multiple of its first one, or all.
  States(Graph& graph, std::shared_ptr<const Problem> problem, Index supersteps, const Axes& cell, Index held);
  /// Superstep s is next: chooses where it writes.
  void begin(Index s);
  /// Superstep s is added, after which `step` steps are done: saves an epoch, where a checkpoint is due.
  void end(Index s, Index step);
  /// Where a loop ends early: what superstep s left goes into the results, in boxes of `unit` (whole chunks of these).
  /// One read and one write of each state.
  void finish(Index s, const Axes& unit);

  /// A range of the field (state 0) or of the step before (1) that superstep s begins with, and of what it leaves: of a
  /// place a cell, or part of one that is read.
  Region in(Index s, std::size_t state, const Range3& range) const;
  Region out(Index s, std::size_t state, const Range3& range) const;
  /// Whether superstep s reads one of these places, and no operand.
  bool reads_turn(Index s) const { return input(s) >= 0; }
  bool is_result(Index s) const { return s + 1 == supersteps_; }

 private:
  struct Turn {
    Array held, rest;
  };
  Index input(Index s) const { return s == 0 ? first_ : written_[static_cast<std::size_t>(s - 1)]; }
  Index free_place(Index used) const;
  void take_over(const Axes& cell);
  Turn& turn(Index place, std::size_t state);
  void make(Index place);
  Region region(Index place, std::size_t state, Range3 range) const;
  using RegionOf = std::function<Region(std::size_t state, const Range3&)>;
  void copy(const RegionOf& from, const Axes& cell, const RegionOf& to, const Axes& unit) const;

  Graph& graph_;
  std::shared_ptr<const Problem> problem_;
  Index supersteps_;
  Axes cell_;
  Index held_;
  std::vector<Turn> turns_;     // of each place, of each state
  std::vector<Index> written_;  // by each superstep that is no result
  Index first_ = -1;            // what superstep 0 reads; -1: the operands
  Index saved_ = -1;            // what the last checkpoint speaks of
};

/// What a checkpoint says of a time loop: parts of it, beside traces and reductions.
struct Epoch {
  Index step = 0;   // steps that are done
  Index place = 0;  // where the states lie
  Axes cell{};      // by which they are stored there
};
/// A state of the field at a place of epochs: what lies there, or (not `there`) a new one, made with its first tile.
Array epoch_state(const Problem& problem, Index place, std::size_t state, const Axes& cell, bool there);
/// Says what is durable: the states at the epoch's place are, snapshots become so here. Cost: one write of traces and
/// reductions.
void save_epoch(const Problem& problem, const Epoch& epoch);
/// What a dead process saved, with its traces and reductions in their places; step 0: nothing.
Epoch load_epoch(const Problem& problem);

}  // namespace flagstone::stencil
