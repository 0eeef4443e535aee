#pragma once
// Budget + cache + ring + workers: what graphs run on.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/graph/statistics.hpp"

namespace flagstone {

class Ring;

struct RuntimeOptions {
  std::uint64_t memory = 0;  // most resident bytes of the whole process during a call; 0: 60 % of what is allowed
  int workers = 0;           // 0: processors available
  int threads_per_task = 1;
  std::string scratch;      // directory; empty: $FLAGSTONE_SCRATCH, else ~/.cache/flagstone/scratch (never tmpfs)
  std::string io = "auto";  // auto | uring | threads
  int lookahead = 4096;     // tasks seen ahead
};

/// Rates of this machine, for plans only: never for arithmetic.
struct MachineProfile {
  double read_bytes_per_second = 1.5e9, write_bytes_per_second = 1.2e9;
  double request_seconds = 60e-6;          // latency of one request
  double request_overhead_seconds = 4e-6;  // what one more request costs at depth, beyond its bytes
  double mixed_penalty = 1;                // reads and writes at once ÷ the sum of their times alone
  double sync_seconds = 2e-3;              // one fdatasync
  double flops_float32 = 1e11;             // one worker while all are busy, as what follows
  double flops_float64 = 5e10;
  double memory_bytes_per_second = 28e9;  // read plus written by a copy
  double decode_bytes_per_second = 2e9;   // unpacked bytes of blosc lz4
};

class Runtime {
 public:
  explicit Runtime(RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;

  /// Executes while `builder` adds, then writes back and drains. The first error leaves as itself. `heartbeat`, when
  /// given, is called on the calling thread about ten times a second and may throw to cancel the run. One run at a
  /// time: another thread's waits; one inside the builder or a task of this Runtime is refused (Error).
  Statistics run(const std::function<void(Graph&)>& builder,
                 const std::function<void(const Statistics&)>& heartbeat = {});
  /// The same builder on a virtual clock: nothing is read, written or computed. `heartbeat` as in run().
  Statistics plan(const std::function<void(Graph&)>& builder,
                  const std::function<void(const Statistics&)>& heartbeat = {});
  /// Least memory limit with which `builder` could run: resident now + reserve + largest working set. `builder` must
  /// choose its smallest parameters when Graph::budget() is 0.
  std::uint64_t least_memory(const std::function<void(Graph&)>& builder,
                             const std::function<void(const Statistics&)>& heartbeat = {});
  /// What the process may have grown by between a refusal and the next try (a first plan's probe, first BLAS calls):
  /// least_memory() adds it, and a limit is refused when it is smaller than the least of now by more than this.
  static constexpr std::uint64_t allowed_drift = std::uint64_t{5} << 20;

  const RuntimeOptions& options() const;
  MachineProfile& profile();
  Ring& ring();
  /// Which task and tile the last failed run stopped at ("" when unknown): a note for the exception.
  const std::string& failure_note() const;
  /// What is held back for BLAS workspace, stacks and drift: memory = resident at entry + reserve + budget.
  std::uint64_t reserve() const;

 private:
  [[noreturn]] void throw_too_small(std::uint64_t least) const;
  /// Beside `resident` bytes that the process holds; none: as it is now.
  std::uint64_t least_beside(std::optional<std::uint64_t> resident, const std::function<void(Graph&)>& builder,
                             const std::function<void(const Statistics&)>& heartbeat);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flagstone
