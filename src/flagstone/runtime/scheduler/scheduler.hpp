#pragma once
// Decides what is loaded, run, written and dropped, and in which order. Pure logic: a Machine carries it out, the
// real one (executor) or one with a virtual clock (simulator), and reports back. The caller holds the lock.
#include <atomic>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <queue>
#include <set>
#include <unordered_map>

#include "flagstone/runtime/graph/place.hpp"
#include "flagstone/runtime/scheduler/cache.hpp"
#include "flagstone/runtime/spaces/device.hpp"
#include "flagstone/runtime/spaces/residency.hpp"

namespace flagstone {

struct TaskState {
  enum class Phase : std::uint8_t { waiting, admitted, running, done };
  struct Held {
    TileState* tile;
    bool reads, modifies, last, again, once;
    bool bounce = false;  // holds the host's copy too, which its device's comes from
  };

  TaskId id = 0;
  TaskSpec spec;
  std::vector<TileState*> operands;  // one per access, null for scratch
  std::vector<Held> held;            // each tile once, its modes joined
  std::size_t scratch_bytes = 0;
  std::vector<PooledBuffer> scratch;  // one per scratch access; the machine fills them
  Phase phase = Phase::waiting;
  bool host = false;                // runs on the builder's thread
  int space = 0;                    // where it runs: the host, or the device of this number
  bool trusted = false;             // program order is good (Graph::trust_order)
  int unplanned = 0;                // dependencies that are not admitted yet
  int unmet = 0;                    // dependencies that are not done yet
  int arriving = 0;                 // tiles that are still on their way (loads, stores that block a writer)
  std::size_t workspace_bytes = 0;  // of a device, with its scratch in front
  std::uint64_t workspace_offset = 0;
  std::vector<TaskState*> successors;
};

/// Carries decisions out. Called with the lock held; must not call back into the scheduler from these functions.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual void allocate(TileState& tile) = 0;  // give it a zeroed or recycled buffer
  virtual void release(TileState& tile) = 0;   // take the buffer back
  virtual void allocate_scratch(TaskState& task) = 0;
  virtual void release_scratch(TaskState& task) = 0;
  virtual Transfer transfer_to_store(TileState& tile) = 0;     // a plan's must not touch what is stored
  virtual void load(TileState& tile, Transfer transfer) = 0;   // then Scheduler::loaded
  virtual void store(TileState& tile, Transfer transfer) = 0;  // then Scheduler::stored
  // Between the host and a device (its space from 1 on): asked for where a run has devices, then copied_in, copied_out.
  virtual void copy_in(TileState& /*tile*/, int /*space*/) {}
  virtual void copy_out(TileState& /*tile*/, int /*space*/) {}
};

/// The memories beside the host's.
struct Spaces {
  std::vector<std::shared_ptr<Device>> devices = {};
  Place place = {};        // none: columns of tiles, cyclic
  bool strict = false;     // refuses what a device cannot run
  bool unlimited = false;  // devices without end: for who asks for the least
};

class Scheduler {
 public:
  Scheduler(std::uint64_t capacity, Machine& machine, int workers, Spaces spaces = {});

  /// Adds in program order. BudgetError when the task alone exceeds the capacity.
  TaskState& add(TaskSpec spec, bool host, bool trusted);
  /// Starts everything that can start now: admissions, loads, evictions, write-behind.
  void pump();

  /// Workers could run dry: worth a pump at once. Else a choice made at the next event has seen more of the graph (an
  /// idle tile may be wanted by the very next task that is added).
  bool hungry() const { return admitted_ < 2 * workers_; }

  /// The next task that a worker may run now (null: none); then finished().
  TaskState* take();
  /// The await whose turn has come, or null.
  TaskState* take_host();
  void finished(TaskState& task);
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
  void loaded(TileState& tile, std::uint64_t staging_bytes);
  void stored(TileState& tile);
  /// With no task left: stores what was kept for tasks that were yet to be added; and what a checkpoint is to speak of,
  /// unless this is the `end`.
  void store_kept(bool end);

  /// Room for `bytes` outside the cache; false when it has to wait for running tasks; BudgetError when waiting
  /// cannot help. Freed through returns().
  bool reserve(std::uint64_t bytes);

  /// Hands every tile's buffer back to the machine: the end, nothing runs any more.
  void release_tiles() {
    cache_.for_each_tile([this](TileState& tile) { machine_.release(tile); });
  }
  /// No tasks, nothing in flight, nothing dirty that store_kept() stores.
  bool drained() const {
    return tasks_.empty() && in_flight_ == 0 && cache_.open_bytes(Written::always) == 0 &&
           cache_.open_bytes(Written::streamed) == 0 && strayed_ == 0 && homeward_.empty() &&
           (at_end_ || cache_.open_bytes(Written::with_checkpoints) == 0);
  }
  bool idle() const { return tasks_.empty() && strayed_ == 0; }
  std::size_t pending() const { return tasks_.size(); }
  /// Tasks that take() would give.
  std::size_t runnable() const { return runnable_.size(); }
  /// The same, and those that take_batch() would give.
  std::size_t runnable_anywhere() const;
  const Cache& cache() const { return cache_; }
  const std::vector<Residency>& residencies() const { return residencies_; }
  /// The host's, and of each device all but its time; empty without devices. `now`: of the run.
  std::vector<SpaceStatistics> space_statistics(const Statistics& now) const;
  Device& device(int space) const { return *spaces_.devices[static_cast<std::size_t>(space) - 1]; }
  int device_count() const { return static_cast<int>(residencies_.size()); }
  /// The largest capacity that any task so far needed at least, charges of the time included.
  std::uint64_t least_capacity() const { return least_capacity_; }
  /// Drop clean tiles that nobody in sight needs beyond so many bytes, however much room there is: what is known of a
  /// tile is memory too, and whoever only asks for the least capacity gives room without end.
  void keep_idle(std::uint64_t bytes) { most_idle_ = bytes; }
  /// What reserve() holds now.
  std::uint64_t charged() const { return charged_; }
  /// Where owners of reserved memory put back what they held, from any thread and without the lock (their
  /// destructors run wherever the last handle dies).
  std::shared_ptr<std::atomic<std::uint64_t>> returns() const { return returns_; }

 private:
  enum class Room { enough, wait };
  void depend(TaskState& task, TaskState* on);
  void link(TaskState& task);
  void set_startable(TaskState& task, bool startable);
  std::uint64_t missing_bytes(const TaskState& task) const;
  std::uint64_t score(const TaskState& task) const;
  int companions(const TaskState& task) const;
  TaskState* best_startable() const;
  Room make_room(std::uint64_t bytes, bool trusted, TaskId now);
  TileState* victim(bool trusted, TaskId now) const;
  bool admit(TaskState& task);
  void overtake(TaskState& waiting);
  void evict(TileState& tile);
  void store(TileState& tile);
  static void hold_changes(TileState& tile);
  void arrived(TileState& tile);
  void maybe_runnable(TaskState& task);
  std::unique_ptr<TaskState> fresh_task();
  void drop(TileState& tile);
  void drop_outdated();
  void release_tile(TaskState& task, TaskState::Held& held);
  void collect_returns();
  [[noreturn]] void throw_over_budget(const std::string& who, std::uint64_t need) const;
  bool quiet() const { return admitted_ == 0 && in_flight_ == 0; }

  // Of runs with devices: spread.cpp, devices.cpp.
  bool spread() const { return !residencies_.empty(); }
  Residency& residency(int space) { return residencies_[static_cast<std::size_t>(space) - 1]; }
  int space_of(const TaskState& task) const;
  void put_on_device(TaskState& task);
  std::uint64_t host_need(const TaskState& task) const;
  static int writer_before(const TileState& tile, const TaskState& task);
  static bool comes_through_host(const TileState& tile, const TaskState& task);
  bool admit_spread(TaskState& task);
  void pin(TaskState& task, int by);
  bool place_on_device(TaskState& task);
  void take_back(TaskState& task);
  bool make_device_room(TaskState& task);
  bool clear_own(TaskState& task);
  bool evict_copy(Copy& copy, int space);
  void drop_copy(TileState& tile, int space);
  void drop_host(TileState& tile);
  void requeue_copies(TileState& tile);
  void serve(TileState& tile);
  void bring(TileState& tile, int space);
  void start_copy_in(TileState& tile, int space);
  void start_copy_out(TileState& tile);
  bool send_home(TileState& tile, bool ask_again);
  void go_home();
  void unbounce(TaskState& task, const TileState* only);
  bool ready(const TaskState& task, const TaskState::Held& held) const;
  void claim(TaskState& task);
  void claim_tile(TileState& tile, int space);
  void maybe_claim(TaskState& task);
  void arrived_spread(TileState& tile);
  bool superseded(TileState& tile);
  void discard(TileState& tile);
  void release_spread(TaskState& task, TaskState::Held& held);
  void leave_device(TaskState& task);
  void leave_at_end(TileState& tile, bool end);

  struct InOrder {
    bool operator()(const TaskState* a, const TaskState* b) const {
      if (a->spec.priority != b->spec.priority) return a->spec.priority > b->spec.priority;
      return a->id < b->id;
    }
  };
  struct Later {
    bool operator()(const TaskState* a, const TaskState* b) const { return InOrder()(b, a); }
  };
  using Runnable = std::priority_queue<TaskState*, std::vector<TaskState*>, Later>;
  static TaskState* taken(Runnable& from);

  Cache cache_;
  Machine& machine_;
  const Spaces spaces_;
  std::vector<Residency> residencies_;                           // by device
  std::vector<std::set<TaskState*, InOrder>> runnable_devices_;  // likewise
  std::deque<TileState*> homeward_;                              // to be copied out, and waiting for room on the host
  std::uint64_t strayed_ = 0;                                    // arrays' tiles in memory that are old there
  bool memory_wanted_ = false;
  std::vector<Copy*> placed_;  // for the task that is being admitted
  std::vector<std::uint64_t> sizes_;
  const std::uint64_t workers_;
  TaskId next_id_ = 1;
  std::unordered_map<TaskId, std::unique_ptr<TaskState>> tasks_;
  std::set<TaskState*, InOrder> startable_;  // every dependency is admitted or done
  Runnable runnable_, runnable_host_;  // admitted, everything in memory, dependencies done; the first in order on top
  std::vector<std::unique_ptr<TaskState>> spare_;  // finished ones, for the memory that their vectors hold
  std::uint64_t admitted_ = 0;                     // admitted or running
  std::uint64_t in_flight_ = 0;                    // loads and stores
  std::uint64_t leaving_bytes_ = 0;                // of tiles that are stored for their room
  bool at_end_ = false;                            // no more tasks will be added
  std::uint64_t loading_bytes_ = 0;
  std::uint64_t overtaking_ = 0;  // tasks that went past the one that waits for room
  std::uint64_t charged_ = 0, least_capacity_ = 0, most_idle_ = std::numeric_limits<std::uint64_t>::max();
  std::shared_ptr<std::atomic<std::uint64_t>> returns_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace flagstone
