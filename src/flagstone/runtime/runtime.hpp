#pragma once
// Budget + cache + ring + workers: what graphs run on.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/graph/options.hpp"
#include "flagstone/runtime/graph/statistics.hpp"
#include "flagstone/storage/scratch/quota.hpp"

namespace flagstone {

class BoxIo;
class Ring;

class Runtime {
 public:
  explicit Runtime(RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;

  /// Executes while `builder` adds, then writes back and drains. The first error leaves as itself. `heartbeat`, when
  /// given, is called on the calling thread about ten times a second and may throw to cancel the run. One run at a
  /// time: another thread's waits; one inside the builder or a task of this Runtime is refused (Error). Where there is
  /// a quota of scratch, a plan before says what will be spilled: ScratchError (EDQUOT) where the quota does not hold
  /// it.
  Statistics run(const std::function<void(Graph&)>& builder,
                 const std::function<void(const Statistics&)>& heartbeat = {});
  /// The same builder on a virtual clock: nothing is read, written or computed. `heartbeat` as in run(). `least`: what
  /// least_memory() gave for it, where it was asked.
  Statistics plan(const std::function<void(Graph&)>& builder,
                  const std::function<void(const Statistics&)>& heartbeat = {}, std::uint64_t least = 0);
  /// Least memory limit with which `builder` could run: resident now + reserve + largest working set. `builder` must
  /// choose its smallest parameters when Graph::budget() is 0.
  std::uint64_t least_memory(const std::function<void(Graph&)>& builder,
                             const std::function<void(const Statistics&)>& heartbeat = {});
  /// What the process may have grown by between a refusal and the next try (a first plan's probe, first BLAS calls):
  /// least_memory() adds it, and a limit is refused when it is smaller than the least of now by more than this.
  static constexpr std::uint64_t allowed_drift = std::uint64_t{5} << 20;

  /// Reads a box into `to` (any strides), beside runs and inside the limit: memory of `to` that has no pages yet,
  /// staging and what unpacks chunks count. BudgetError before anything is read. Raw chunks go straight into their
  /// place; packed ones are worked on by as many threads as the limit has room for. One at a time.
  void read(const Array& array, const Box& box, const Tile& to);
  /// The same into new memory: elements_of<T>(result).
  Array read(const Array& array, const Box& box);
  /// Writes a box; chunks that it covers in part are read, changed and written. Others see it after store().flush(), of
  /// an array in a Transaction after its commit.
  void write(const Array& array, const Box& box, const Tile& from);
  /// What read and write go through; made at their first use.
  BoxIo& boxes();

  const RuntimeOptions& options() const;
  /// Where nameless files go, and the quota that they are promised under; `who` asks, in messages.
  ScratchSpace scratch(std::string who) const;
  /// In the messages of the runs from here on, and their quota.
  void asks_for_scratch(std::string who, std::optional<std::uint64_t> quota);
  MachineProfile& profile();
  Ring& ring();
  /// Which task and tile the last failed run stopped at ("" when unknown): a note for the exception.
  const std::string& failure_note() const;
  /// What is held back for BLAS workspace, stacks and drift: memory = resident at entry + reserve + budget.
  std::uint64_t reserve() const;

 private:
  [[noreturn]] void throw_too_small(std::uint64_t least) const;
  void check_scratch(std::uint64_t capacity, const std::function<void(Graph&)>& builder,
                     const std::function<void(const Statistics&)>& heartbeat);
  /// Beside `resident` bytes that the process holds; none: as it is now.
  std::uint64_t least_beside(std::optional<std::uint64_t> resident, const std::function<void(Graph&)>& builder,
                             const std::function<void(const Statistics&)>& heartbeat);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flagstone
