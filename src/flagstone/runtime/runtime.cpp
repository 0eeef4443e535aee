#include "flagstone/runtime/runtime.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/box_io.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/runtime/executor/nesting.hpp"
#include "flagstone/runtime/graph/sockets.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/runtime/spaces/device.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/scratch/scratch.hpp"

namespace flagstone {
namespace {

// Held back from the limit, per worker and once: what BLAS packs (measured with OpenBLAS 0.3 on 2048² tiles), stacks,
// ring buffers, and what an interpreter may still load while we run.
constexpr std::uint64_t reserve_per_worker = 6 * MiB;
constexpr std::uint64_t reserve_once = 10 * MiB;

constexpr std::size_t kept_by_the_least = 2048;  // tiles, of some hundred bytes: what is known of one is asked for once

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

/// Gives back what a plan held and the allocator keeps, where it is much: it would count as resident against the next
/// call. Some MiB are what the next plan, and the run, take again for the tasks in sight.
class PlanMemory {
 public:
  PlanMemory() = default;
  PlanMemory(const PlanMemory&) = delete;
  ~PlanMemory() {
    if (resident_bytes() > before_ + much) trim_heap();
  }

 private:
  static constexpr std::uint64_t much = 16 * MiB;
  std::uint64_t before_ = resident_bytes();
};

constexpr int most_workers = 4096;  // threads that a run starts

// A read of so little is not weighed against the limit: to know what is resident takes as long as the read.
constexpr std::uint64_t never_asked_for = 128 * KiB;

void make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw StorageError("scratch: cannot create the directory; name another place (scratch=, FLAGSTONE_SCRATCH)",
                       error.value(), path);
}

int workers_in(const std::string& given) {
  int number = 0;
  const auto [after, error] = std::from_chars(given.data(), given.data() + given.size(), number);
  if (error != std::errc() || after != given.data() + given.size() || number < 1 || number > most_workers)
    throw Error("Runtime: FLAGSTONE_WORKERS is '" + given + "'; a number from 1 to " + std::to_string(most_workers) +
                " is needed.");
  return number;
}

RuntimeOptions completed(RuntimeOptions options) {
  if (options.workers > most_workers)
    throw Error("Runtime: workers is " + std::to_string(options.workers) + "; at most " + std::to_string(most_workers) +
                " are taken.");
  if (const char* given = std::getenv("FLAGSTONE_WORKERS"); options.workers <= 0 && given && *given)
    options.workers = workers_in(given);
  if (options.workers <= 0) {
    const auto here = static_cast<int>(processors_here().size());
    options.workers = std::max(1, here > 0 ? here : static_cast<int>(std::thread::hardware_concurrency()));
  }
  // A worker is of one socket: those beyond the workers have none.
  if (!options.sockets) options.sockets = sockets_of_machine();
  if (options.sockets->size() > static_cast<std::size_t>(options.workers))
    options.sockets->resize(static_cast<std::size_t>(options.workers));
  if (options.sockets->size() < 2) options.sockets->clear();
  options.threads_per_task = std::max(1, options.threads_per_task);
  options.lookahead = std::max(2, options.lookahead);
  if (options.memory == 0) options.memory = default_memory();
  options.scratch = options.scratch.empty() ? default_scratch() : from_root(options.scratch);
  return options;
}

/// A plan with devices without end says what each needs.
void check_devices(const RuntimeOptions& options, const Simulator& planned) {
  for (std::size_t i = 0; i < options.devices.size(); ++i) {
    const DeviceProperties& device = options.devices[i]->properties();
    const std::uint64_t least = planned.residencies()[i].least;
    if (least > device.memory)
      throw BudgetError("memory: " + device.name + " has " + format_bytes(device.memory) + " and at least " +
                            format_bytes(least) + " are needed there; give the device more.",
                        least);
  }
}

std::uint64_t bytes_of(const Box& box, const Array& array) {
  return static_cast<std::uint64_t>(count(box.shape)) * size_of(array.dtype());
}

std::string part_text(const Box& box, const Array& array) {
  return to_string(box.shape) + " of " + std::string(name_of(array.dtype()));
}

void ask_to_read(const BoxIo& boxes, const Array& array, const Box& box, std::uint64_t untouched) {
  const std::uint64_t needed = untouched + bytes_beside_read(array, bytes_of(box, array));
  if (needed > never_asked_for) boxes.check_room({"read", part_text(box, array), needed});
}

/// Bytes of this memory that have no pages yet: what touching all of it would add to VmRSS.
std::uint64_t untouched_bytes(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t step = 16 * MiB;
  unsigned char there[step / page_bytes];
  const auto first = align_down(reinterpret_cast<std::uintptr_t>(data));
  const auto end = align_up(reinterpret_cast<std::uintptr_t>(data) + bytes);
  std::uint64_t untouched = 0;
  for (auto at = first; at < end; at += step) {
    const std::size_t length = std::min<std::size_t>(step, end - at);
    if (::mincore(reinterpret_cast<void*>(at), length, there) != 0) return bytes;
    for (std::size_t page = 0; page < length / page_bytes; ++page)
      if ((there[page] & 1) == 0) untouched += page_bytes;
  }
  return std::min<std::uint64_t>(untouched, bytes);
}

/// Of the stretch from a tile's first byte to its last.
std::uint64_t untouched_bytes(const Tile& tile) {
  std::size_t before = 0, bytes = size_of(tile.dtype);
  for (std::size_t d = 0; d < tile.shape.size(); ++d) {
    if (tile.shape[d] == 0) return 0;
    const Index reach = (tile.shape[d] - 1) * tile.strides[d];
    (reach < 0 ? before : bytes) += static_cast<std::size_t>(std::abs(reach));
  }
  return untouched_bytes(tile.data - before, before + bytes);
}

}  // namespace

struct Runtime::Impl {
  RuntimeOptions options;
  MachineProfile profile;
  std::unique_ptr<Ring> ring;
  pid_t pid = ::getpid();
  std::string failure;
  std::string who = "Runtime";  // asks for scratch
  std::mutex running;
  std::once_flag boxes_made;
  std::unique_ptr<BoxIo> boxes;

  void check_alive() const {
    if (pid != ::getpid()) throw Error("Runtime: it belongs to the process that forked; make a new one in the child.");
  }
};

Runtime::Runtime(RuntimeOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = completed(std::move(options));
}
Runtime::~Runtime() {
  if (impl_->pid == ::getpid()) return;
  impl_->ring.release();  // the parent's ring: closing it here would disturb nobody but us
  impl_->boxes.release();
}

const RuntimeOptions& Runtime::options() const { return impl_->options; }
MachineProfile& Runtime::profile() { return impl_->profile; }
ScratchSpace Runtime::scratch(std::string who) const {
  return {impl_->options.scratch, std::move(who), impl_->options.scratch_quota};
}
void Runtime::asks_for_scratch(std::string who, std::optional<std::uint64_t> quota) {
  impl_->who = std::move(who), impl_->options.scratch_quota = quota;
}
const std::string& Runtime::failure_note() const { return impl_->failure; }

Ring& Runtime::ring() {
  impl_->check_alive();
  if (!impl_->ring) impl_->ring = make_ring({impl_->options.io, 32});
  return *impl_->ring;
}

BoxIo& Runtime::boxes() {
  impl_->check_alive();
  std::call_once(impl_->boxes_made, [this] { impl_->boxes = std::make_unique<BoxIo>(impl_->options); });
  return *impl_->boxes;
}

void Runtime::read(const Array& array, const Box& box, const Tile& to) {
  check_box(array.shape(), box);
  const std::uint64_t untouched = untouched_bytes(to);
  ask_to_read(boxes(), array, box, untouched);
  const BoxTile one{box, to};
  boxes().read(array, {&one, 1}, {.untouched = untouched});
}

Array Runtime::read(const Array& array, const Box& box) {
  check_box(array.shape(), box);
  const std::uint64_t bytes = bytes_of(box, array);
  ask_to_read(boxes(), array, box, bytes);
  const Array made = memory_array(box.shape, array.dtype());
  const BoxTile one{box, {made.store().memory(), array.dtype(), box.shape, made.store().memory_strides(), bytes}};
  boxes().read(array, {&one, 1}, {.untouched = bytes});
  return made;
}

void Runtime::write(const Array& array, const Box& box, const Tile& from) {
  check_box(array.shape(), box);
  boxes().check_room({"write", part_text(box, array), bytes_beside_write(array, bytes_of(box, array))});
  const BoxTile one{box, from};
  boxes().write(array, {&one, 1});
}

std::uint64_t Runtime::reserve() const {
  int workers = impl_->options.workers;
  for (const auto& device : impl_->options.devices) workers += device->properties().host_workers;
  return reserve_once + reserve_per_worker * static_cast<std::uint64_t>(workers) +
         (Timeline::active() ? Timeline::memory_bytes : 0);
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
  make_directory(impl_->options.scratch);
  if (impl_->options.strict && !impl_->options.devices.empty()) least_beside(entry, builder, heartbeat);
  if (impl_->options.scratch_quota) check_scratch(capacity, builder, heartbeat);
  const bool watched = reset_peak_resident();
  Statistics stats;
  bool lost = false;
  try {
    Executor executor(ring, impl_->options, scratch(impl_->who), capacity, heartbeat, impl_->who);
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
  trim_heap();  // what workers' arenas kept would count against the next call
  return stats;
}

/// What a plan spills is asked for before any work, and promised when it goes out.
void Runtime::check_scratch(std::uint64_t capacity, const std::function<void(Graph&)>& builder,
                            const std::function<void(const Statistics&)>& heartbeat) {
  const PlanMemory given_back;
  // May cancel; what is planned is no progress.
  const auto beat = [&](const Statistics&) { heartbeat({}); };
  Simulator simulator(impl_->options, impl_->profile, capacity, capacity, heartbeat ? beat : Simulator::Heartbeat());
  try {
    simulator.run(builder);
  } catch (const BudgetError&) {
    return;  // the run says how much memory is needed
  }
  if (simulator.spilled_bytes() == 0) return;
  Reservation(impl_->who, impl_->options.scratch, impl_->options.scratch_quota).take(simulator.spilled_bytes());
}

void Runtime::throw_too_small(std::uint64_t least) const {
  least = std::max(least, align_up(impl_->options.memory + 1, MiB));  // the limit at hand was too small
  throw BudgetError("memory: the limit is " + format_bytes(impl_->options.memory) + " and at least " +
                        format_bytes(least) + " are needed; raise memory=.",
                    least);
}

Statistics Runtime::plan(const std::function<void(Graph&)>& builder,
                         const std::function<void(const Statistics&)>& heartbeat, std::uint64_t least) {
  std::uint64_t entry = resident_bytes();
  const std::uint64_t memory = impl_->options.memory;
  if (least == 0) least = least_memory(builder, heartbeat);
  if (memory + allowed_drift < least) throw_too_small(least);
  entry = std::min(entry, resident_bytes());  // the process may have shrunk, and the least counts from there
  const std::uint64_t held = entry + reserve();
  const std::uint64_t capacity = memory > held ? memory - held : 0;
  const PlanMemory given_back;
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
  const PlanMemory given_back;
  const MachineProfile instant = at_once();
  RuntimeOptions options = impl_->options;
  options.chains = false;
  Simulator simulator(options, instant, std::numeric_limits<std::int64_t>::max(), 0, heartbeat, true);
  simulator.keep_idle(kept_by_the_least);
  simulator.run(builder);
  check_devices(options, simulator);
  return align_up(resident.value_or(resident_bytes()) + reserve() + simulator.least_capacity() + allowed_drift, MiB);
}

}  // namespace flagstone
