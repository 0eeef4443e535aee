#pragma once
// H' = ZᵀHZ: pairs of stripes of Z, each a task that makes its blocks of H and writes its run of H'.
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "flagstone/algorithms/subspace/runs.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::subspace {

enum class Order : std::uint8_t { panels, columns };

/// What one block of H' was thought to take, and took.
struct Measured {
  Index run = 0;  // first element of the pair of stripes
  PairWork work;
  double making = 0, multiplying = 0;  // seconds
};

/// What a run did, told as it goes.
struct Notes {
  std::atomic<Index> pairs{0}, nonzeros{0};
  std::atomic<double> making{0}, multiplying{0};  // seconds of workers
  Index panels = 0;
  bool keep = false;  // a line for each block in `blocks`
  std::mutex mutex;
  std::vector<Measured> blocks;
};

struct Projection {
  std::shared_ptr<const BlockSource> h;
  BlockBasis z;
  Runs runs;
  Order order = Order::panels;
  std::uint64_t panel = 0;  // bytes of Z that stay; 0: what the budget leaves
  double pace = 1;  // of plans: what work takes here beside its flops, ÷ `PairWork::bytes_touched` by the profile
};

/// So many handles of each file of Z: what reads through one shares no part of it with others. Order::columns: each
/// column of H has another one, and no more tasks are seen at a time; Order::panels: each panel.
inline constexpr Index column_handles = 16;

/// values (1-D, runs.length) and blocks (int32, number of blocks x 2: groups i and j) := H'. Reads, of stripes P that
/// stay, Σ_P (|Z_P| + what couples to it behind it); `columns` is algorithm 1 of Aktulga et al. (Euro-Par 2012) with
/// one block as its tile: for each j its block and then, one after the other, those of the i > j that couple, |Z| +
/// Σ_pairs |Z_i|, each in whole pages. A block of H' is computed whole, in one way, so its bits do not depend on order,
/// panel, limit, files or workers.
void project(Graph& graph, std::shared_ptr<const Projection> job, const Array& values, const Array& blocks,
             const std::shared_ptr<Checkpoint>& checkpoint, std::shared_ptr<Notes> notes);

}  // namespace flagstone::subspace
