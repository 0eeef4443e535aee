#pragma once
// What a scheduler knows and does about several memories. In a run without devices none of it is entered.
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <unordered_map>
#include <vector>

#include "flagstone/runtime/scheduler/task_state.hpp"
#include "flagstone/runtime/spaces/residency.hpp"

namespace flagstone {

/// Launches that are under way on a device at a time: one runs on each queue, and one waits behind them. More would be
/// launched one by one that could go out together.
constexpr int most_launches(int queues) { return queues + 1; }

/// Which tasks devices get, room in their memories, and every copy between these and the host's: devices.cpp,
/// spread.cpp. The host's own room, loads and stores are the Scheduler's, which this is the lower half of.
class Spread {
 public:
  /// Tasks of a device that one launch may hold: runnable now, of equal calls, in program order; none: nothing is
  /// runnable there. Then finished(), each.
  std::vector<TaskState*> take_batch(int space);
  void copied_in(TileState& tile, int space);
  void copied_out(TileState& tile, int space);
  /// The task's tiles as they lie in its device, at `memory` (may be null: for plans).
  void tiles_on_device(const TaskState& task, std::byte* memory, std::vector<Tile>& tiles) const;
  /// The builder waits for all tasks and will look at arrays in memory: they come home, whoever else is to change them.
  void want_memory() { memory_wanted_ = spread(); }
  /// The builder may change arrays in memory from here on: what devices hold of those that no task uses is old.
  void memory_may_change();
  /// Where tiles of the array are changed from now on, whatever the run's options say; `tile`: extents of the grid
  /// that `place` counts in.
  void place_array(const Array& array, Shape tile, std::function<int(const Shape& at)> place);
  /// The box's place in the grid of tiles of its array: of what place_array() said, else of the first tile of it that
  /// a task changed. The same for a box from then on, whichever tiles are in memory.
  Shape place_of(const Region& region);
  /// Tasks that take() and take_batch() would give.
  std::size_t runnable_anywhere() const;
  const std::vector<Residency>& residencies() const { return residencies_; }
  /// The host's, and of each device all but its time; empty without devices. `now`: of the run.
  std::vector<SpaceStatistics> space_statistics(const Statistics& now) const;
  Device& device(int space) const { return *spaces_.devices[static_cast<std::size_t>(space) - 1]; }
  int device_count() const { return static_cast<int>(residencies_.size()); }

 protected:
  Spread(std::uint64_t capacity, Machine& machine, Spaces spaces);
  ~Spread() = default;

  // In tasks of trusted order: a next use this far off belongs to a later sweep, not to the one under way.
  static constexpr TaskId far_ahead = 16;

  // The host's side, as the Scheduler does it.
  enum class Room { enough, wait };
  virtual Room make_room(std::uint64_t bytes, bool trusted, TaskId now) = 0;
  virtual void store(TileState& tile) = 0;
  virtual void drop(TileState& tile) = 0;
  virtual void set_startable(TaskState& task, bool startable) = 0;

  bool spread() const { return !residencies_.empty(); }
  // Of a task, from add() to finished().
  void put_on_device(TaskState& task);
  std::uint64_t host_need(const TaskState& task) const;
  bool admit_spread(TaskState& task);
  void maybe_claim(TaskState& task);
  void release_spread(TaskState& task, TaskState::Held& held);
  void leave_device(TaskState& task);
  // Of a tile.
  void requeue_copies(TileState& tile);
  void arrived_spread(TileState& tile);
  bool superseded(TileState& tile);
  void discard(TileState& tile);
  void leave_at_end(TileState& tile, bool end);
  void go_home();

  struct Later {
    bool operator()(const TaskState* a, const TaskState* b) const { return InOrder()(b, a); }
  };
  using Runnable = std::priority_queue<TaskState*, std::vector<TaskState*>, Later>;

  Cache cache_;
  Machine& machine_;
  std::deque<TileState*> homeward_;  // to be copied out, and waiting for room on the host
  std::uint64_t strayed_ = 0;        // arrays' tiles in memory that are old there
  TaskId next_id_ = 1;
  std::unordered_map<TaskId, std::unique_ptr<TaskState>> tasks_;
  Runnable runnable_, runnable_host_;  // admitted, everything in memory, dependencies done; the first in order on top
  std::vector<Runnable> runnable_sockets_;  // likewise, for the workers of each socket alone
  Runnable& runnable(const TaskState& task) {
    if (task.host) return runnable_host_;
    const auto socket = static_cast<std::size_t>(task.spec.socket);
    return task.spec.socket >= 0 && socket < runnable_sockets_.size() ? runnable_sockets_[socket] : runnable_;
  }
  std::uint64_t admitted_ = 0;   // admitted or running
  std::uint64_t in_flight_ = 0;  // loads, stores and copies
  std::uint64_t loading_bytes_ = 0;

 private:
  Residency& residency(int space) { return residencies_[static_cast<std::size_t>(space) - 1]; }
  int space_of(const TaskState& task);
  void pin(TaskState& task, int by);
  bool place_on_device(TaskState& task);
  void take_back(TaskState& task);
  bool make_device_room(TaskState& task);
  bool clear_own(TaskState& task);
  bool evict_copy(Copy& copy, int space);
  void drop_copy(TileState& tile, int space);
  void drop_host(TileState& tile);
  void serve(TileState& tile);
  void bring(TileState& tile, int space);
  void start_copy_in(TileState& tile, int space);
  void start_copy_out(TileState& tile, int from);
  bool send_home(TileState& tile, bool ask_again);
  void unbounce(TaskState& task, const TileState* only);
  void claim(TaskState& task);
  void claim_tile(TileState& tile, int space);

  /// An array's grid of tiles, and where they are changed: none where the run's options say it.
  struct PlacedArray {
    std::weak_ptr<const ArrayStore> store;
    Shape tile;
    std::function<int(const Shape& at)> place;
  };
  PlacedArray& placed(const Region& region);

  const Spaces spaces_;
  std::unordered_map<const void*, PlacedArray> placed_arrays_;
  std::vector<Residency> residencies_;                           // by device
  std::vector<std::set<TaskState*, InOrder>> runnable_devices_;  // likewise
  bool memory_wanted_ = false;
  std::vector<Copy*> placed_;  // for the task that is being admitted
  std::vector<std::uint64_t> sizes_;
};

}  // namespace flagstone
