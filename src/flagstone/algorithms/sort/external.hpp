#pragma once
// Records beyond memory, sorted stably: sorted runs, and a merge whose output tiles are found by rank.
#include <memory>
#include <string>
#include <vector>

#include "flagstone/algorithms/sort/records.hpp"
#include "flagstone/kernel/sort/order.hpp"
#include "flagstone/storage/output/checkpoint.hpp"
#include "flagstone/storage/scratch/quota.hpp"

namespace flagstone::sort {

/// What sorting or merging a byte of record costs, as bytes that the core copies meanwhile: 5.2 ns where it copies
/// 30 GB/s (2^26 int64: 5.6 s of processor time for both, runs and merge).
inline constexpr double sort_bytes = 160;

struct Job {
  Index records = 0;
  std::shared_ptr<const kernel::RecordOrder> order;
  std::vector<Lane> from;  // their elements make a record
  std::vector<Lane> to;    // the elements of records that are kept
};

/// How much is handled at once, in records. Moves bytes, never bits: a stable sort has one result.
struct Scheme {
  Index unit = 1;   // of the outputs: whole stored units of all of them
  Index run = 1;    // sorted in one task
  Index block = 1;  // of a run, read and written at once
  Index tile = 1;   // merged in one task
  Index fan = 2;    // runs merged at once
  Index runs = 1;
  Index kept = 0;  // blocks of runs that wait in memory; all others go to scratch when they are made
  int passes = 1;  // reads and writes of everything

  std::string why() const;
  /// Of these, for a save, and back.
  std::vector<Index> numbers() const { return {unit, run, block, tile, fan, runs, kept, passes}; }
  static Scheme of(const std::vector<Index>& numbers);
};
/// The scheme that a dead process began with (`checkpoint`), where a task of it has room.
Scheme choose(const Job& job, std::uint64_t budget, int workers, const Checkpoint* checkpoint = nullptr);

/// Adds the tasks. Bytes: the elements read and written once, records of runs and of merges before the last one written
/// and read once each. Merges: O(n log n) in memory; the places of k runs at each tile by multiway selection.
void run(Graph& graph, const Job& job, const Scheme& scheme);
/// The same of several, one after the other, of one scheme and with outputs in the same arrays. Where there is a
/// checkpoint runs lie in files beside it; finished blocks of runs and units of the outputs are noted, and a successor
/// adds no task for them. What it was begun with may be another budget: a stable sort has one result.
void run(Graph& graph, const std::vector<Job>& jobs, const Scheme& scheme,
         const std::shared_ptr<Checkpoint>& checkpoint);

}  // namespace flagstone::sort
