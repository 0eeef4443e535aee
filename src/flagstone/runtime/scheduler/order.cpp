// Which of the tasks that could start goes next, and which tile leaves; the rest of Scheduler is in scheduler.cpp.
#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/scheduler/scheduler.hpp"

namespace flagstone {
namespace {

using Where = TileState::Where;

constexpr int most_scored = 1024;  // startable tasks that one decision compares: bounds its cost
// Where program order is not trusted, tasks are chosen this far ahead: enough to keep workers and disk busy. More would
// only spread a stream over more memory than the processor's caches and page tables like (16 % of a pass over CSR).
constexpr std::uint64_t enough_loading = 16 * MiB;
constexpr std::uint64_t enough_admitted = 12;  // tasks a worker
// Where it is trusted, what lies far ahead may load too, for disks; but small tasks that wait by the thousand take
// fresh memory each where they would take that of those before them.
constexpr std::uint64_t enough_ahead = 256;  // tasks
// Tasks a worker that may go past one of trusted order that waits for room: it is not to wait for ever.
constexpr std::uint64_t most_overtaking = 32;

/// Of the capacity, what products in progress may hold: the rest is for the operands that stream past them.
std::uint64_t open_cap(std::uint64_t capacity) { return capacity / 4 * 3; }

}  // namespace

void Scheduler::set_startable(TaskState& task, bool startable) {
  if (startable)
    startable_.insert(&task);
  else
    startable_.erase(&task);
  if (task.trusted) return;  // there the next use in program order says it all
  for (auto& held : task.held) {
    held.tile->wanted += startable ? 1 : -1;
    cache_.requeue(*held.tile);
  }
}

std::uint64_t Scheduler::missing_bytes(const TaskState& task) const {
  std::uint64_t missing = task.scratch_bytes;
  for (const auto& held : task.held)
    if (held.tile->where == Where::absent) missing += held.tile->bytes;
  return missing;
}

/// Traffic that starting this task would cause: what it loads, what would have to be evicted and needed again, and
/// a new product beyond the cap (which would be evicted, that is written and read again, before it is finished).
std::uint64_t Scheduler::score(const TaskState& task) const {
  std::uint64_t loads = 0, opens = 0;
  for (const auto& held : task.held) {
    if (held.tile->where == Where::absent) (held.reads ? loads : opens) += held.tile->bytes;
  }
  const std::uint64_t room = cache_.free() + cache_.idle_clean_bytes();
  const std::uint64_t need = loads + opens + task.scratch_bytes;
  std::uint64_t cost = loads + (need > room ? need - room : 0);
  if (opens > 0 && cache_.open_bytes() + opens > open_cap(cache_.capacity())) cost += 2 * opens;
  return cost;
}

/// Startable tasks that would miss nothing more once `task` has loaded what it misses.
int Scheduler::companions(const TaskState& task) const {
  const auto brought = [&](const TileState* tile) {
    return tile->where != Where::absent ||
           std::any_of(task.held.begin(), task.held.end(), [&](const auto& held) { return held.tile == tile; });
  };
  int count = 0;
  for (const auto& held : task.held) {
    if (held.tile->where != Where::absent || !held.reads) continue;
    for (const auto& use : held.tile->uses) {
      const TaskState& other = *use.task;
      if (other.phase != TaskState::Phase::waiting || other.unplanned > 0) continue;
      count +=
          std::all_of(other.held.begin(), other.held.end(), [&](const auto& h) { return !h.reads || brought(h.tile); });
    }
  }
  return count;
}

/// The task that causes the least traffic; among equals the one whose loads let most others run (in a product: the row
/// or column that crosses most products in progress, so that squares grow by themselves), then program order.
TaskState* Scheduler::best_startable() const {
  const bool far_enough = !hungry() && (loading_bytes_ >= enough_loading || admitted_ >= enough_admitted * workers_);
  TaskState* best = nullptr;
  std::uint64_t least = 0;
  int most = 0, seen = 0;
  for (TaskState* task : startable_) {
    if ((task->trusted || task->spec.priority > 0) && !best) return admitted_ < enough_ahead ? task : nullptr;
    if (far_enough) return nullptr;  // a choice made later knows more of the graph
    const std::uint64_t cost = score(*task);
    if (cost == 0) return task;
    if (best && cost > least) continue;
    const int helped = companions(*task);
    if (!best || cost < least || helped > most) best = task, least = cost, most = helped;
    if (++seen == most_scored) break;
  }
  return best;
}

/// Admits tasks behind one that waits for room: those that bring nothing into memory but scratch that is free. (In a
/// factorization a panel waits for its column while updates of tiles that lie in memory could run.)
void Scheduler::overtake(TaskState& waiting) {
  std::vector<TaskState*> ready;
  std::uint64_t seen = 0;
  for (auto it = startable_.find(&waiting); it != startable_.end() && seen < enough_ahead; ++it, ++seen) {
    if (overtaking_ + ready.size() >= most_overtaking * workers_ || admitted_ + ready.size() >= enough_ahead) break;
    const auto& held = (*it)->held;
    const int space = (*it)->space;
    const bool in_memory = std::none_of(held.begin(), held.end(), [&](const auto& h) {
      return space == 0 ? h.tile->where == Where::absent : h.tile->copies->at(space).state == Copy::State::invalid;
    });
    if (in_memory && *it != &waiting) ready.push_back(*it);
  }
  for (TaskState* task : ready)
    if ((task->space > 0 || task->scratch_bytes <= cache_.free()) && admit(*task)) ++overtaking_;
}

TaskState* Scheduler::taken(Runnable& from) {
  if (from.empty()) return nullptr;
  TaskState* task = from.top();
  from.pop();
  task->phase = TaskState::Phase::running;
  return task;
}

TaskState* Scheduler::take(int socket) {
  if (socket < 0 || runnable_sockets_.empty()) return taken(runnable_);
  Runnable& own = runnable_sockets_[static_cast<std::size_t>(socket)];
  const bool first = !own.empty() && (runnable_.empty() || InOrder()(own.top(), runnable_.top()));
  return taken(first ? own : runnable_);
}
TaskState* Scheduler::take_host() { return taken(runnable_host_); }

/// Which tile that is needed again leaves now, if any may. Tasks in flight will release memory that costs nothing: so
/// only when the workers are about to run dry. Where order is trusted the next use is certain: then a clean tile leaves
/// early if that is far off, else only when nothing runs; and the one that is needed last leaves, dirty or not, before
/// the workers run dry, so that they do not wait for its store.
TileState* Scheduler::victim(bool trusted, TaskId now) const {
  const auto far_off = [&](const TileState& tile) {
    return tile.uses.empty() || tile.uses.front().id > now + far_ahead;
  };
  if (quiet()) return cache_.costly_victim(true);
  if (trusted && hungry())
    if (TileState* last = cache_.costly_victim(true); last && far_off(*last)) return last;
  TileState* clean = cache_.costly_victim(false);
  if (!clean || (trusted ? !far_off(*clean) && admitted_ > 0 : !hungry())) return nullptr;
  return clean;
}

/// Frees memory until `bytes` fit. Tiles without a known next use go first.
Scheduler::Room Scheduler::make_room(std::uint64_t bytes, bool trusted, TaskId now) {
  while (cache_.free() < bytes) {
    if (TileState* idle = cache_.free_victim()) {
      drop(*idle);
      continue;
    }
    if (cache_.free() + leaving_bytes_ >= bytes) return Room::wait;
    TileState* leaves = victim(trusted, now);
    if (!leaves) return Room::wait;
    evict(*leaves);
  }
  return Room::enough;
}

}  // namespace flagstone
