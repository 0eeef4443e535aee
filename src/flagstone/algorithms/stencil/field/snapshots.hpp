#pragma once
// What a time loop keeps of the field on the way: boxes with strides, at some steps, written as their points are made.
#include <list>
#include <vector>

#include "flagstone/kernel/stencil/points.hpp"
#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::stencil {

using kernel::Axes;
using kernel::Points;
using kernel::Range3;

struct Snapshot {
  std::vector<Index> steps;          // ascending, from 1
  Axes first{}, number{}, stride{};  // along the three axes
  std::size_t field = 0;
  std::vector<std::size_t> kept;  // axes that `to` has, after the one of steps
  Array to;

  /// The points of the snapshot that lie in a range of the field, counted as the snapshot counts them.
  Range3 within(const Range3& range) const;
  /// Elements of `to` that a chunk spans along the three axes.
  Axes chunk() const;
  /// Where points of the time at index `at` lie in `to`.
  Box box(std::size_t at, const Range3& range) const;
};

/// What a task copies out of the points that it computed.
struct SnapshotPiece {
  const Snapshot* snapshot = nullptr;
  Index step = 0;
  std::uint32_t access = 0;
  Range3 points;  // of the snapshot; in the tile in C order

  /// Those of a range of the field.
  void copy(const Points& field, const Range3& range, const Tile& tile, std::size_t item) const;
};

/// The builder's side, one superstep after the other: tasks that compute write pieces, in memory where there is room,
/// and for each chunk another task gathers its pieces and writes it once. So a chunk costs one write whatever the
/// blocks, no task waits for another one's snapshot, and nothing is read that was not computed just now.
class SnapshotWriter {
 public:
  /// `snapshots` outlives it.
  SnapshotWriter(Graph& graph, const std::vector<Snapshot>& snapshots, Dtype dtype);
  /// A superstep of steps (first_step, last_step].
  void begin(Index first_step, Index last_step);
  /// The next `tasks` tasks of it at most, of which each computes ranges no longer than `largest`.
  void room(Index tasks, const Axes& largest);
  /// A task computes a range of the field at a step; of a superstep's tasks each point of a step belongs to one.
  void take(TaskSpec& task, Index step, const Range3& range, std::vector<SnapshotPiece>& pieces);
  /// After that task was added: adds what gathers chunks that are complete now.
  void gather();

 private:
  struct Piece {
    Region region;
    Range3 points;
    Index chunks = 0;  // that are not gathered yet
  };
  struct Chunk {
    Range3 points;
    Index missing = 0;
    std::vector<std::shared_ptr<Piece>> pieces;
  };
  struct Under {  // one snapshot at one step
    const Snapshot* snapshot = nullptr;
    Index step = 0;
    std::size_t at = 0;  // of the snapshot's steps
    Axes grid{}, chunk{};
    std::vector<Chunk> chunks;
  };
  struct Room {  // for pieces of one snapshot: slots of one size
    Array slots;
    Index next = 0;
  };
  void add_task(const Under& under, Chunk& chunk);

  Graph& graph_;
  const std::vector<Snapshot>& snapshots_;
  Dtype dtype_;
  std::vector<Under> under_;
  std::vector<Room> rooms_;  // of each snapshot
  std::vector<std::pair<const Under*, Chunk*>> complete_;
};

/// Bytes that pieces and chunks of snapshots take beside a scheme's own.
std::uint64_t snapshot_bytes(const std::vector<Snapshot>& snapshots, std::size_t item);

}  // namespace flagstone::stencil
