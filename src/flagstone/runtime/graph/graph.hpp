#pragma once
// The stream of tasks: what each reads, writes and updates. Dependencies follow from program order.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "flagstone/base/shape.hpp"
#include "flagstone/runtime/graph/call.hpp"
#include "flagstone/runtime/graph/distribution.hpp"
#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone {

using TaskId = std::uint64_t;

enum class Mode : std::uint8_t {
  read,
  write,  // overwrites the whole region: never loaded
  update,
  reduce,   // private accumulator, zeroed; merged in a fixed tree in program order
  scratch,  // bytes for the body alone
};

/// What one access names: a box of an array. Boxes of one array that are accessed in one run either coincide or are
/// disjoint, unless all their accesses are reads; boxes of other handles or arrays of the same file are disjoint, too.
struct Region {
  Array array;
  Box box;
};

struct Access {
  Mode mode = Mode::read;
  Region region;  // empty for scratch
  std::size_t scratch_bytes = 0;
  bool last = false;   // nobody needs the region after this task: drop it, do not write it back
  bool again = false;  // a task that is yet to be added needs it: do not write it behind
  bool once = false;   // no task that is yet to be added needs it: not kept when it is written
};
Access read(Region region);
Access write(Region region);
Access update(Region region);
/// Adds this task's private tile (zero at entry) into `region`, elementwise, float32/64 or complex.
Access reduce(Region region);
Access scratch(std::size_t bytes);
/// The same access, and the region's content is not needed afterwards (temporaries).
Access last(Access access);
/// The same access, and a task that is yet to be added needs what it makes: written only where its room is needed.
Access again(Access access);
/// The same access, and no later task reads what it makes: its memory is free when it is written.
Access once(Access access);

struct Cost {
  double flops = 0;
  double bytes_touched = 0;  // of memory traffic beside the arithmetic: conversions, copies, skinny products
  bool float64 = false;      // the arithmetic is in double precision (the planner's flop rate)
  double bytes_decoded = 0;  // unpacked bytes that come from a codec
  double bytes_sent = 0;     // in one message between nodes
};

/// Tiles arrive in the order of the accesses (scratch too: dtype uint8, 1-D, page-aligned).
using Body = std::function<void(std::span<const Tile>)>;

struct TaskSpec {
  std::string name;  // "gemm", "csr_gram": a literal; no index in it
  std::vector<Access> accesses;
  Body body;  // users' tasks, and what has no kernel; after the calls
  Cost cost;
  std::vector<TaskId> after;  // what accesses cannot express
  int priority = 0;           // higher first among tasks that miss equally many bytes
  std::vector<Call> calls;    // one after the other
  /// Whose workers run it and touch its scratch first (Graph::sockets()); -1: any.
  int socket = -1;
};

/// Bytes held outside the cache (a basis, a vector block), charged to the run's budget; given back by destruction.
class Charge {
 public:
  Charge() = default;
  explicit Charge(std::function<void()> release);
  Charge(Charge&&) noexcept;
  Charge& operator=(Charge&&) noexcept;
  ~Charge();

 private:
  std::function<void()> release_;
};

class Task;

/// Tasks are added in program order from one thread (the builder's), or by a running task's body.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Waits while `lookahead` tasks are pending; throws the run's first error; refused (Error) where it would wait
  /// inside a task. BudgetError when the task could never fit.
  virtual TaskId add(TaskSpec task) = 0;
  /// A task that is a class (task.hpp); `after`: tasks that finish first, beyond what accesses and the task itself say.
  TaskId add(std::shared_ptr<Task> task);
  TaskId add(std::shared_ptr<Task> task, std::vector<TaskId> after);
  /// Runs `body` on the calling (builder's) thread with the regions resident, after everything added before that
  /// touches them; returns when done. In a planned run the body is not called: algorithms branch on planning().
  virtual void await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>& body) = 0;
  /// Waits until all tasks added so far are done (their results may still be in the cache).
  virtual void barrier() = 0;
  /// barrier(), and everything that was changed is written, what was to be used again too: what follows may sync it.
  virtual void drain() = 0;
  /// An in-memory array charged to the budget, zeroed; in a planned run only charged (no memory behind it).
  virtual Array allocate(const Shape& shape, Dtype dtype) = 0;
  virtual Charge charge(std::uint64_t bytes) = 0;
  /// Tiles that go to a nameless file of the run's scratch where their room is needed, and else never: nobody reads
  /// them after the run. Before the first one goes, the file's bytes are promised under the quota (temporary_array).
  /// Written::streamed: each goes when it is made; for an algorithm that knows how much stays. What is written
  /// `again` is changed before it is read: it goes when nobody says `again` any more, and readers wait for that.
  virtual Array temporary(const Shape& shape, Dtype dtype, const Shape& tile, Written written = Written::for_room) = 0;
  /// Tasks added from now on start in program order as far as dependencies allow: for algorithms that chose their order
  /// for this budget. Off (the default): among startable tasks the one that misses the fewest bytes goes first.
  virtual void trust_order(bool trusted) = 0;
  /// The scheduler sees at least so many tasks ahead: a sweep over everything that stays in memory, or tiles whose next
  /// task is out of sight are written back too early. `no_further`: and no more, for very many small tasks, of each of
  /// which a graph knows some KiB.
  virtual void look_ahead(std::size_t tasks, bool no_further = false) = 0;
  /// True when this run only counts.
  virtual bool planning() const = 0;
  /// Bytes of budget that tiles, scratch and further charges may still take at most (for choosing superblocks).
  virtual std::uint64_t budget() const = 0;
  /// The least memory among the run's devices, which tiles and workspaces of their tasks may take; 0 without devices.
  virtual std::uint64_t device_budget() const { return 0; }
  /// Whether a kind of device is among them that is at its rate on larger tiles than the host. By kind, never by
  /// memory: bits depend on tiles.
  virtual bool large_tiles() const { return false; }
  /// Tasks that run at the same time.
  virtual int workers() const = 0;
  /// Threads that one task may use: what an algorithm tells BLAS before its tasks call it.
  virtual int threads_per_task() const = 0;
  /// Processors of each socket that has workers of its own, which tasks may name; none: there is one socket.
  virtual std::span<const std::vector<int>> sockets() const { return {}; }
  /// Nodes on which ranks run side by side: in plans of a described machine; else 1.
  virtual int nodes() const { return 1; }
  /// What is added from here on that node does, whose clock goes on from where it stands; what was added before is
  /// done.
  virtual void go_to_node(int /*node*/) {}
  /// Nodes wait for the last one, and for each other's word where it is a `barrier`: seconds that one waited, on
  /// average.
  virtual double meet(bool /*barrier*/) { return 0; }
  /// Of a plan's clock, on the node where it is.
  virtual double planned_seconds() const { return 0; }
  /// What a builder may decide by when it is no function of shapes, dtypes, layouts, budget and awaited values: whether
  /// a checkpoint is due, say, which is a clock's word. All processes of a run hear one answer, the first one's, so
  /// that they add the same tasks; the one process of today hears its own.
  virtual bool agree(bool mine) = 0;
  /// Which process this is, of how many: the one of today is the first.
  virtual int rank() const { return 0; }
  virtual int ranks() const { return 1; }
  /// Says who has which tile of the array, before its first access; ShapeError where the two do not fit. A task runs
  /// with the owner of the first region that it changes, in the memory that `place` names. The one process of today
  /// has everything.
  virtual void distribute(const Array& array, const Distribution& distribution) = 0;
  /// Whether a task with these accesses runs here or needs a tile that is here: a builder may leave others out.
  virtual bool concerns(std::span<const Access> accesses) const;
  /// Work done on the builder's thread, for the plan's clock and the statistics (dense Rayleigh-Ritz, ...).
  virtual void host_work(const std::string& name, Cost cost) = 0;
};

}  // namespace flagstone
