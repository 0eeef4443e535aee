#include "flagstone/runtime/runtime.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/runtime/executor/nesting.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/scratch/scratch.hpp"

namespace flagstone {
namespace {

// Held back from the limit, per worker and once: what BLAS packs (measured with OpenBLAS 0.3 on 2048² tiles), stacks,
// ring buffers, and what an interpreter may still load while we run.
constexpr std::uint64_t reserve_per_worker = 6 * MiB;
constexpr std::uint64_t reserve_once = 10 * MiB;

constexpr std::uint64_t kept_by_the_least = 8 * MiB;  // of tiles: some thousand are known at a time

/// A machine without time: where there is room without end, tiles would queue up before a disk by the hundred thousand.
MachineProfile at_once() {
  constexpr double rate = 1e30;
  MachineProfile profile;
  profile.read_bytes_per_second = profile.write_bytes_per_second = rate;
  profile.flops_float32 = profile.flops_float64 = rate;
  profile.memory_bytes_per_second = profile.decode_bytes_per_second = rate;
  profile.request_seconds = profile.request_overhead_seconds = profile.sync_seconds = 0;
  return profile;
}

constexpr int most_workers = 4096;  // threads that a run starts

void make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw StorageError("scratch: cannot create the directory; name another place (scratch=, FLAGSTONE_SCRATCH)",
                       error.value(), path);
}

RuntimeOptions completed(RuntimeOptions options) {
  if (options.workers > most_workers)
    throw Error("Runtime: workers is " + std::to_string(options.workers) + "; at most " + std::to_string(most_workers) +
                " are taken.");
  if (options.workers <= 0) {
    cpu_set_t allowed;
    const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    options.workers = std::max(1, known ? CPU_COUNT(&allowed) : static_cast<int>(std::thread::hardware_concurrency()));
  }
  options.threads_per_task = std::max(1, options.threads_per_task);
  options.lookahead = std::max(2, options.lookahead);
  if (options.memory == 0) {
    const char* given = std::getenv("FLAGSTONE_MEMORY");
    options.memory = given && *given ? parse_bytes(given) : allowed_memory() / 10 * 6;
  }
  if (options.scratch.empty()) options.scratch = default_scratch();
  return options;
}

}  // namespace

struct Runtime::Impl {
  RuntimeOptions options;
  MachineProfile profile;
  std::unique_ptr<Ring> ring;
  pid_t pid = ::getpid();
  std::string failure;
  std::mutex running;

  void check_alive() const {
    if (pid != ::getpid()) throw Error("Runtime: it belongs to the process that forked; make a new one in the child.");
  }
};

Runtime::Runtime(RuntimeOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = completed(std::move(options));
}
Runtime::~Runtime() {
  if (impl_->pid != ::getpid())
    impl_->ring.release();  // the parent's ring: closing it here would disturb nobody but us
}

const RuntimeOptions& Runtime::options() const { return impl_->options; }
MachineProfile& Runtime::profile() { return impl_->profile; }
const std::string& Runtime::failure_note() const { return impl_->failure; }

Ring& Runtime::ring() {
  impl_->check_alive();
  if (!impl_->ring) impl_->ring = make_ring({impl_->options.io, 32});
  return *impl_->ring;
}

std::uint64_t Runtime::reserve() const {
  return reserve_once + reserve_per_worker * static_cast<std::uint64_t>(impl_->options.workers);
}

Statistics Runtime::run(const std::function<void(Graph&)>& builder,
                        const std::function<void(const Statistics&)>& heartbeat) {
  if (inside_run_of(impl_.get()))
    throw Error(
        "Runtime: run was called inside a run of the same Runtime, which waits for its tasks; add tasks to the graph "
        "that runs, or give what runs inside a Runtime of its own.");
  const std::lock_guard one_at_a_time(impl_->running);
  const InsideRun inside(impl_.get());
  Ring& ring = this->ring();
  impl_->failure.clear();
  const std::uint64_t entry = resident_bytes();
  const std::uint64_t held = entry + reserve();
  const std::uint64_t memory = impl_->options.memory;
  const std::uint64_t capacity = memory > held ? memory - held : 0;
  const bool watched = reset_peak_resident();
  make_directory(impl_->options.scratch);
  Statistics stats;
  bool lost = false;
  try {
    Executor executor(ring, impl_->options, capacity, heartbeat);
    try {
      executor.run(builder);
    } catch (const BudgetError&) {
      throw_too_small(least_beside(entry, builder, heartbeat));
    } catch (...) {
      impl_->failure = executor.failed_in();
      lost = executor.ring_lost();
      throw;
    }
    stats = executor.statistics();
  } catch (...) {
    if (lost) impl_->ring.reset();  // the next run makes a new one
    throw;
  }
  stats.resident_at_entry = entry;
  stats.peak_memory = watched ? peak_resident_bytes() : std::max(entry, resident_bytes());
#ifdef __GLIBC__
  ::malloc_trim(0);  // what workers' arenas kept would count against the next call
#endif
  return stats;
}

void Runtime::throw_too_small(std::uint64_t least) const {
  least = std::max(least, align_up(impl_->options.memory + 1, MiB));  // the limit at hand was too small
  throw BudgetError("memory: the limit is " + format_bytes(impl_->options.memory) + " and at least " +
                        format_bytes(least) + " are needed; raise memory=.",
                    least);
}

Statistics Runtime::plan(const std::function<void(Graph&)>& builder,
                         const std::function<void(const Statistics&)>& heartbeat) {
  const std::uint64_t entry = resident_bytes();
  const std::uint64_t held = entry + reserve();
  const std::uint64_t memory = impl_->options.memory;
  const std::uint64_t least = least_memory(builder, heartbeat);
  if (memory + allowed_drift < least) throw_too_small(least);
  const std::uint64_t capacity = memory - held;
  Simulator simulator(impl_->options, impl_->profile, capacity, capacity, heartbeat);
  simulator.run(builder);
  Statistics stats = simulator.statistics();
  stats.resident_at_entry = entry;
  // What runs touch of the reserve (some MiB of BLAS and stacks) is about what they leave untouched of their charges.
  stats.peak_memory = entry + stats.peak_budget;
  stats.least_memory = least;
  return stats;
}

std::uint64_t Runtime::least_memory(const std::function<void(Graph&)>& builder,
                                    const std::function<void(const Statistics&)>& heartbeat) {
  return least_beside({}, builder, heartbeat);
}

std::uint64_t Runtime::least_beside(std::optional<std::uint64_t> resident, const std::function<void(Graph&)>& builder,
                                    const std::function<void(const Statistics&)>& heartbeat) {
  const MachineProfile instant = at_once();
  Simulator simulator(impl_->options, instant, std::numeric_limits<std::int64_t>::max(), 0, heartbeat);
  simulator.keep_idle(kept_by_the_least);
  simulator.run(builder);
  return align_up(resident.value_or(resident_bytes()) + reserve() + simulator.least_capacity() + allowed_drift, MiB);
}

}  // namespace flagstone
