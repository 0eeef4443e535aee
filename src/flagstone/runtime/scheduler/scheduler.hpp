#pragma once
// Decides what is loaded, run, written and dropped, and in which order. Pure logic: a Machine carries it out, the
// real one (executor) or one with a virtual clock (simulator), and reports back. The caller holds the lock.
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "flagstone/runtime/scheduler/spread.hpp"

namespace flagstone {

class Scheduler final : public Spread {
 public:
  Scheduler(std::uint64_t capacity, Machine& machine, int workers, Spaces spaces = {});

  /// Adds in program order. BudgetError when the task alone exceeds the capacity.
  TaskState& add(TaskSpec spec, bool host, bool trusted);
  /// Starts everything that can start now: admissions, loads, evictions, write-behind.
  void pump();

  /// Workers could run dry: worth a pump at once. Else a choice made at the next event has seen more of the graph (an
  /// idle tile may be wanted by the very next task that is added).
  bool hungry() const { return admitted_ < 2 * workers_; }

  /// The next task that a worker of that socket may run now (null: none); then finished().
  TaskState* take(int socket = -1);
  /// The await whose turn has come, or null.
  TaskState* take_host();
  void finished(TaskState& task);
  void loaded(TileState& tile, std::uint64_t beside);
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
  std::size_t runnable() const {
    std::size_t tasks = runnable_.size();
    for (const Runnable& socket : runnable_sockets_) tasks += socket.size();
    return tasks;
  }
  /// Whether some of them are for one socket's workers alone.
  bool bound_to_sockets() const { return runnable() > runnable_.size(); }
  const Cache& cache() const { return cache_; }
  /// The largest capacity that any task so far needed at least, charges of the time included.
  std::uint64_t least_capacity() const { return least_capacity_; }
  /// Drop clean tiles that nobody in sight needs beyond so many, however much room there is: what is known of a tile is
  /// memory too, and whoever only asks for the least capacity gives room without end.
  void keep_idle(std::size_t tiles) { most_idle_ = tiles; }
  /// What reserve() holds now.
  std::uint64_t charged() const { return charged_; }
  /// Where owners of reserved memory put back what they held, from any thread and without the lock (their
  /// destructors run wherever the last handle dies).
  std::shared_ptr<std::atomic<std::uint64_t>> returns() const { return returns_; }

 private:
  void depend(TaskState& task, TaskState* on);
  void link(TaskState& task);
  void set_startable(TaskState& task, bool startable) override;
  std::uint64_t missing_bytes(const TaskState& task) const;
  std::uint64_t score(const TaskState& task) const;
  int companions(const TaskState& task) const;
  TaskState* best_startable() const;
  Room make_room(std::uint64_t bytes, bool trusted, TaskId now) override;
  TileState* victim(bool trusted, TaskId now) const;
  bool admit(TaskState& task);
  void overtake(TaskState& waiting);
  void evict(TileState& tile);
  void store(TileState& tile) override;
  static void hold_changes(TileState& tile);
  void arrived(TileState& tile);
  void maybe_runnable(TaskState& task);
  std::unique_ptr<TaskState> fresh_task();
  void drop(TileState& tile) override;
  void drop_outdated();
  void release_tile(TaskState& task, TaskState::Held& held);
  void collect_returns();
  [[noreturn]] void throw_over_budget(const std::string& who, std::uint64_t need) const;
  bool quiet() const { return admitted_ == 0 && in_flight_ == 0; }

  static TaskState* taken(Runnable& from);

  const std::uint64_t workers_;
  std::set<TaskState*, InOrder> startable_;        // every dependency is admitted or done
  std::vector<std::unique_ptr<TaskState>> spare_;  // finished ones, for the memory that their vectors hold
  std::uint64_t leaving_bytes_ = 0;                // of tiles that are stored for their room
  bool at_end_ = false;                            // no more tasks will be added
  std::uint64_t overtaking_ = 0;                   // tasks that went past the one that waits for room
  std::uint64_t charged_ = 0, least_capacity_ = 0;
  std::size_t most_idle_ = std::numeric_limits<std::size_t>::max();
  std::shared_ptr<std::atomic<std::uint64_t>> returns_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace flagstone
