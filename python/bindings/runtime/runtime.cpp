// The runtime that jobs run on, and boxes that travel without one.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/graph/options.hpp"
#include "flagstone/storage/box/thread_pool.hpp"
#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/maintenance/pack.hpp"
#include "flagstone/storage/maintenance/resize.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone::python {
namespace {

/// A runtime, and what read_box and write_box have to themselves: a ring (the runtime's own has its reaper), and a pool
/// of threads for packed chunks, from the first request with several (the runtime's workers live as long as a run).
struct Engine {
  explicit Engine(const RuntimeOptions& options) : runtime(options), ring(make_ring({.kind = options.io})) {}

  Runtime runtime;
  std::unique_ptr<Ring> ring;
  std::unique_ptr<ThreadPool> pool;
  std::mutex running, transferring;  // one run and one box at a time
};

/// Called by the runtime on the calling thread: Ctrl-C and the progress bar.
std::function<void(const Statistics&)> heartbeat(nb::handle progress) {
  return [progress](const Statistics& now) {
    nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) {
      nb::python_error interrupted;
      interrupt_tasks();
      throw interrupted;
    }
    if (progress.is_valid() && !progress.is_none()) progress(now);
  };
}

/// One run at a time. A task that waited for the run that it belongs to would wait for ever.
class OneRun {
 public:
  explicit OneRun(Engine& engine) : lock_(engine.running, std::defer_lock) {
    if (!inside_task()) {
      const nb::gil_scoped_release unlocked;
      lock_.lock();
    } else if (!lock_.try_lock()) {
      throw Error(
          "graph: a routine was called inside a task's function, and their runtime is busy with that task; call it "
          "before, or give it a runtime of its own (with fl.Runtime(): ...).");
    }
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

Statistics run(Engine& engine, const Job& job, nb::handle progress) {
  const OneRun one(engine);
  const nb::gil_scoped_release unlocked;
  // K workers x T threads (the runtime does not see the kernels). With all processors in every worker's call the
  // threads spin against each other: three times the processor seconds.
  const kernel::BlasThreads threads(engine.runtime.options().threads_per_task);
  return engine.runtime.run(job.build, heartbeat(progress));
}

Statistics plan(Engine& engine, const Job& job) {
  const OneRun one(engine);
  const nb::gil_scoped_release unlocked;
  return engine.runtime.plan(job.build, heartbeat({}));
}

std::uint64_t least_memory(Engine& engine, const Job& job) {
  const OneRun one(engine);
  const nb::gil_scoped_release unlocked;
  return engine.runtime.least_memory(job.build, heartbeat({}));
}

/// What a box needs beside its memory. Ctrl-C is looked at while it travels.
BoxOptions box_options(std::size_t staging) {
  return {.staging = staging, .pulse = [] {
            nb::gil_scoped_acquire lock;
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
          }};
}

/// The same, `transferring` being held. Packed chunks are worked on by as many threads as the limit has room for beside
/// `asked` bytes that are yet to be touched; the first one has been asked for.
BoxOptions box_options(Engine& engine, const Array& array, std::size_t staging, std::uint64_t asked) {
  BoxOptions options = box_options(staging);
  const std::uint64_t each = std::max(array.store().unpack_bytes(), array.store().pack_bytes());
  if (each == 0) return options;
  const auto workers = static_cast<std::uint64_t>(engine.runtime.options().workers);
  const std::uint64_t held = resident_bytes() + asked + each, memory = engine.runtime.options().memory;
  const std::uint64_t left = memory > held ? memory - held : 0;
  options.staging = std::min<std::uint64_t>(staging, left);
  options.hands = std::min(workers, 1 + (left - options.staging) / each);
  if (options.hands > 1 && !engine.pool) engine.pool = std::make_unique<ThreadPool>(workers, workers);
  options.pool = engine.pool.get();
  return options;
}

std::vector<BoxTile> box_tiles(const std::vector<std::pair<Shape, nb::ndarray<nb::ro>>>& boxes) {
  std::vector<BoxTile> tiles;
  for (const auto& [start, memory] : boxes) {
    const Tile tile = tile_of(memory);
    tiles.push_back({{start, tile.shape}, tile});
  }
  return tiles;
}

using Boxes = std::vector<std::pair<Shape, nb::ndarray<>>>;
using ConstBoxes = std::vector<std::pair<Shape, nb::ndarray<nb::ro>>>;

void read(Engine& engine, const Array& array, const Boxes& boxes, std::size_t staging) {
  ConstBoxes seen;
  for (const auto& [start, memory] : boxes) seen.emplace_back(start, nb::ndarray<nb::ro>(memory));
  const auto tiles = box_tiles(seen);
  nb::gil_scoped_release unlocked;
  std::lock_guard one(engine.transferring);
  std::uint64_t asked = 0;
  for (const auto& [start, memory] : boxes) asked += memory.nbytes();
  BoxOptions options = box_options(engine, array, staging, asked);
  options.shelf = shelf_of_reads();
  read_boxes(*engine.ring, array, tiles, options);
}

void write(Engine& engine, const Array& array, const ConstBoxes& boxes, std::size_t staging) {
  const auto tiles = box_tiles(boxes);
  nb::gil_scoped_release unlocked;
  std::lock_guard one(engine.transferring);
  write_boxes(*engine.ring, array, tiles, box_options(engine, array, staging, 0));
}

/// Reads a Zarr array; `progress` hears the bytes read so far.
CheckReport check(Engine& engine, const std::string& directory, std::size_t staging, nb::handle progress) {
  nb::gil_scoped_release unlocked;
  std::lock_guard one(engine.transferring);
  return check_array(*engine.ring, directory, staging, [progress](std::uint64_t bytes) {
    nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none()) progress(bytes);
  });
}

void resize(Engine& engine, const std::string& directory, const Shape& shape, std::size_t staging) {
  nb::gil_scoped_release unlocked;
  std::lock_guard one(engine.transferring);
  resize_array(*engine.ring, directory, shape, box_options(staging));
}

PackReport pack(Engine& engine, const std::string& source, const std::string& destination, const std::string& codec,
                bool checksum, std::size_t staging, nb::handle progress) {
  nb::gil_scoped_release unlocked;
  std::lock_guard one(engine.transferring);
  return pack_array(*engine.ring, source, destination, {.codec = codec, .checksum = checksum}, staging,
                    [progress](std::uint64_t bytes) {
                      nb::gil_scoped_acquire lock;
                      if (PyErr_CheckSignals() != 0) throw nb::python_error();
                      if (!progress.is_none()) progress(bytes);
                    });
}

void bind_statistics(nb::module_& m) {
  nb::class_<RateSeconds>(m, "RateSeconds")
      .def_ro("flops_float32", &RateSeconds::flops_float32)
      .def_ro("flops_float64", &RateSeconds::flops_float64)
      .def_ro("memory_bytes_per_second", &RateSeconds::memory)
      .def_ro("decode_bytes_per_second", &RateSeconds::decode);

  nb::class_<Statistics>(m, "Statistics")
      .def_ro("bytes_read", &Statistics::bytes_read)
      .def_ro("bytes_written", &Statistics::bytes_written)
      .def_ro("flops", &Statistics::flops)
      .def_ro("seconds", &Statistics::seconds)
      .def_ro("worker_busy_seconds", &Statistics::worker_busy_seconds)
      .def_ro("worker_idle_seconds", &Statistics::worker_idle_seconds)
      .def_ro("ring_busy_seconds", &Statistics::ring_busy_seconds)
      .def_ro("ring_idle_seconds", &Statistics::ring_idle_seconds)
      .def_ro("tasks", &Statistics::tasks)
      .def_ro("budget", &Statistics::budget)
      .def_ro("peak_budget", &Statistics::peak_budget)
      .def_ro("resident_at_entry", &Statistics::resident_at_entry)
      .def_ro("peak_memory", &Statistics::peak_memory)
      .def_ro("by_rate", &Statistics::by_rate)
      .def_ro("io", &Statistics::io);

  nb::class_<MachineProfile>(m, "MachineProfile")
      .def(nb::init<>())
      .def_rw("read_bytes_per_second", &MachineProfile::read_bytes_per_second)
      .def_rw("write_bytes_per_second", &MachineProfile::write_bytes_per_second)
      .def_rw("request_seconds", &MachineProfile::request_seconds)
      .def_rw("request_overhead_seconds", &MachineProfile::request_overhead_seconds)
      .def_rw("mixed_penalty", &MachineProfile::mixed_penalty)
      .def_rw("sync_seconds", &MachineProfile::sync_seconds)
      .def_rw("flops_float32", &MachineProfile::flops_float32)
      .def_rw("flops_float64", &MachineProfile::flops_float64)
      .def_rw("memory_bytes_per_second", &MachineProfile::memory_bytes_per_second)
      .def_rw("decode_bytes_per_second", &MachineProfile::decode_bytes_per_second);
}

}  // namespace

void bind_runtime(nb::module_& m) {
  bind_statistics(m);
  nb::class_<Job>(m, "Job");
  nb::class_<Engine>(m, "Engine")
      .def(
          "__init__",
          [](Engine* self, std::uint64_t memory, int workers, int threads_per_task, const std::string& scratch,
             const std::string& io) {
            new (self) Engine(RuntimeOptions{.memory = memory,
                                             .workers = workers,
                                             .threads_per_task = threads_per_task,
                                             .scratch = scratch,
                                             .io = io});
          },
          nb::arg("memory"), nb::arg("workers"), nb::arg("threads_per_task"), nb::arg("scratch"), nb::arg("io"),
          nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("memory", [](const Engine& e) { return e.runtime.options().memory; })
      .def_prop_ro("workers", [](const Engine& e) { return e.runtime.options().workers; })
      .def_prop_ro("threads_per_task", [](const Engine& e) { return e.runtime.options().threads_per_task; })
      .def_prop_ro("scratch", [](const Engine& e) { return e.runtime.options().scratch; })
      .def_prop_ro("io", [](const Engine& e) { return e.ring->describe(); })
      .def_prop_ro("reserve", [](const Engine& e) { return e.runtime.reserve(); })
      .def_prop_rw(
          "profile", [](Engine& e) { return e.runtime.profile(); },
          [](Engine& e, const MachineProfile& p) { e.runtime.profile() = p; })
      .def("run", &run, nb::arg("job"), nb::arg("progress").none())
      .def("plan", &plan)
      .def("least_memory", &least_memory)
      .def("check", &check, nb::arg("directory"), nb::arg("staging"), nb::arg("progress") = nb::none())
      .def("resize", &resize, nb::arg("directory"), nb::arg("shape"), nb::arg("staging"))
      .def("pack", &pack, nb::arg("source"), nb::arg("destination"), nb::arg("codec"), nb::arg("checksum"),
           nb::arg("staging"), nb::arg("progress") = nb::none())
      .def_prop_ro_static("allowed_drift", [](nb::handle) { return Runtime::allowed_drift; })
      .def("read_boxes", &read, nb::arg("array"), nb::arg("boxes"), nb::arg("staging"))
      .def("write_boxes", &write, nb::arg("array"), nb::arg("boxes"), nb::arg("staging"));
}

}  // namespace flagstone::python
