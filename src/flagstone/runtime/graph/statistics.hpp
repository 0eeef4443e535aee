#pragma once
// What a run did, or what a plan says it will do: the same fields.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "flagstone/runtime/graph/call.hpp"

namespace flagstone {

/// Calls of one kernel, as values: what bodies compute is not among them. flops ÷ seconds is the kernel's rate.
struct KernelStatistics {
  std::uint64_t calls = 0;
  double flops = 0;
  double seconds = 0;  // of a worker: measured, or planned
};

/// Seconds of workers by the rate that they are counted with.
struct RateSeconds {
  double flops_float32 = 0, flops_float64 = 0, memory = 0, decode = 0;
};

/// One memory and its processors.
struct SpaceStatistics {
  std::string name;                             // "host", "cuda:0"
  std::uint64_t budget = 0, peak = 0;           // bytes: what tiles, results and workspaces may take, and took
  std::uint64_t bytes_in = 0, bytes_out = 0;    // copied from and to the host; the host's: read and written
  std::uint64_t copies_in = 0, copies_out = 0;  // tiles
  std::uint64_t launches = 0, tasks = 0;        // batches, and the tasks in them
  double busy_seconds = 0;                      // at least one launch under way; the host's: of workers, summed
};

struct Statistics {
  std::uint64_t bytes_read = 0, bytes_written = 0;  // submitted to the ring (aligned)
  double flops = 0;
  double seconds = 0;
  double worker_busy_seconds = 0, worker_idle_seconds = 0;  // summed over workers
  double ring_busy_seconds = 0, ring_idle_seconds = 0;      // busy: at least one request in flight
  std::uint64_t tasks = 0;
  std::uint64_t budget = 0;       // bytes for tiles, scratch and charges
  std::uint64_t peak_budget = 0;  // most of it in use
  std::uint64_t resident_at_entry = 0;
  std::uint64_t peak_memory = 0;   // run: VmHWM during the call; plan: entry + reserve in use + peak_budget
  std::uint64_t least_memory = 0;  // plan only
  RateSeconds by_rate;             // plan only
  double chain_seconds = 0;        // plan only, where asked: of tasks that wait for one another, the longest chain
  std::uint64_t expected_bytes = 0, expected_tasks = 0;  // for progress: set by the caller from the plan
  std::array<KernelStatistics, kernel_count> kernels{};  // by Kernel
  std::vector<SpaceStatistics> spaces;                   // the host and the run's devices; empty without devices
  std::string io;                                        // "io_uring, O_DIRECT, registered buffers"

  const KernelStatistics& of(Kernel kernel) const { return kernels[static_cast<std::size_t>(kernel)]; }
  /// The calls of one task, which share its seconds by their flops (the first one has all where there are none).
  void count(const std::vector<Call>& calls, double task_seconds);
};

}  // namespace flagstone
