#pragma once
// Sorted runs between two passes: records in blocks, and the last record of each block.
#include <vector>

#include <algorithm>
#include <span>

#include "flagstone/algorithms/sort/external.hpp"
#include "flagstone/kernel/sort/select.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::sort {

/// Runs of records in blocks, of which the first `kept` made wait in memory, and the others leave when they are made. A
/// run begins with a block; of its last one a part may be unused.
class Runs {
 public:
  /// `name`: of this level of merges, in saves.
  Runs(Graph& graph, Stages& stages, const std::string& name, Index blocks, Index kept, std::size_t width, Index block);

  /// The next run, of so many records: the number of its first block.
  struct Run {
    Index first_block = 0, records = 0;
  };
  const Run& begin(Index records);
  const std::vector<Run>& all() const { return runs_; }

  Index block() const { return block_; }
  Index blocks(const Run& run) const { return ceil_div(run.records, block_); }
  Index records_of(const Run& run, Index block) const { return std::min(block_, run.records - block * block_); }
  Region records(const Run& run, Index block) const;
  /// By a task that makes it; by the last one that needs it.
  Access made(const Run& run, Index block) const;
  Access spent(const Run& run, Index block) const;
  /// The last records of its blocks [block, block + number).
  Region lasts(const Run& run, Index block, Index number) const;
  std::size_t width() const { return width_; }

  /// Whether a dead process made all of its blocks [block, block + number).
  bool holds(const Run& run, Index block, Index number) const;
  /// The task that makes them is added.
  void finish(const Run& run, Index block, Index number);

 private:
  Index kept_;
  bool saved_;
  Array here_, away_, lasts_;                           // here_ may leave too, where room is needed that nobody foresaw
  std::optional<FinishedTiles> here_done_, away_done_;  // where something is saved
  std::unique_ptr<Stages::Kept> lasts_kept_;
  std::size_t width_;
  Index block_, next_ = 0;
  std::vector<Run> runs_;
};

/// The places at which the runs of a group part, tile after tile.
class Parting {
 public:
  /// Waits for the last records of the blocks.
  Parting(Graph& graph, const kernel::RecordOrder& order, const Runs& runs, std::span<const Runs::Run> group);
  /// The place in each run that `rank` records of all lie before; ranks increase. Loads the blocks in question, at most
  /// two a run and one more.
  const std::vector<Index>& at(Index rank);

 private:
  struct Last {
    std::uint32_t run = 0;
    Index block = 0;
  };
  void sort_lasts();
  /// Evenly, in plans.
  void guess(Index rank);
  bool window(Index rank, std::vector<kernel::RunWindow>& windows);
  std::vector<Access> loads(std::vector<kernel::RunWindow>& windows) const;

  Graph& graph_;
  const kernel::RecordOrder& order_;
  const Runs& runs_;
  std::span<const Runs::Run> group_;
  Index records_ = 0;
  Charge charge_;
  std::vector<Last> lasts_;         // in the order of their records
  std::size_t low_ = 0, high_ = 0;  // how many of them are surely, and possibly, before the rank
  Index low_records_ = 0, high_records_ = 0;
  std::vector<Index> low_blocks_, high_blocks_, at_;
};

}  // namespace flagstone::sort
