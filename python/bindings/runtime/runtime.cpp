// The runtime that jobs run on, and boxes that travel without one.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <mutex>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/tiled/placement.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/runtime/box_io.hpp"
#include "flagstone/runtime/graph/options.hpp"
#include "flagstone/runtime/spaces/device.hpp"
#include "flagstone/runtime/timeline/timeline.hpp"
#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/maintenance/pack.hpp"
#include "flagstone/storage/maintenance/resize.hpp"

namespace flagstone::python {
namespace {

/// A runtime whose ring for boxes is there from the beginning: what cannot be had is said at once.
struct Engine {
  explicit Engine(const RuntimeOptions& options) : runtime(options) { runtime.boxes(); }

  Runtime runtime;
  std::mutex running;  // one run at a time
};

/// A function of Python's, asked once of each place in a grid; of arrays with more dimensions the last two count.
Place place_by_function(nb::object function) {
  struct Asked {
    std::mutex mutex;
    std::map<std::pair<Index, Index>, int> told;
    std::shared_ptr<nb::object> function;
  };
  auto asked = std::make_shared<Asked>();
  asked->function = shared_object(std::move(function));
  return [asked](const Region&, const Shape& at) {
    const std::size_t dims = at.size();
    const std::pair<Index, Index> place{dims < 2 ? 0 : at[dims - 2], dims < 1 ? 0 : at[dims - 1]};
    {
      const std::lock_guard lock(asked->mutex);
      if (const auto known = asked->told.find(place); known != asked->told.end()) return known->second;
    }
    int memory;
    {
      const nb::gil_scoped_acquire python;
      memory = nb::cast<int>((*asked->function)(place.first, place.second));
    }
    const std::lock_guard lock(asked->mutex);
    return asked->told.emplace(place, memory).first->second;
  };
}

/// Where tiles are changed: by a name or a function; nothing said leaves it to the runtime.
Place place_of(const nb::object& given, std::size_t devices) {
  if (given.is_none() || devices == 0) return {};
  std::string name;
  if (nb::try_cast(given, name)) return linalg::place_by_name(name, static_cast<int>(devices));
  return place_by_function(given);
}

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

Statistics run(Engine& engine, const Job& job, nb::handle progress, const std::string& who,
               std::optional<std::uint64_t> scratch_quota) {
  const OneRun one(engine);
  const nb::gil_scoped_release unlocked;
  engine.runtime.asks_for_scratch(who, scratch_quota);
  // K workers x T threads (the runtime does not see the kernels). With all processors in every worker's call the
  // threads spin against each other: three times the processor seconds.
  const kernel::BlasThreads threads(engine.runtime.options().threads_per_task);
  return engine.runtime.run(job.build, heartbeat(progress));
}

Statistics plan(Engine& engine, const Job& job, std::uint64_t least) {
  const OneRun one(engine);
  const nb::gil_scoped_release unlocked;
  return engine.runtime.plan(job.build, heartbeat({}), least);
}

std::uint64_t least_memory(Engine& engine, const Job& job) {
  const OneRun one(engine);
  const nb::gil_scoped_release unlocked;
  return engine.runtime.least_memory(job.build, heartbeat({}));
}

/// Ctrl-C is looked at while boxes travel.
void look_at_signals() {
  nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// The same, and `progress` hears the bytes so far.
std::function<void(std::uint64_t)> told(nb::handle progress) {
  return [progress](std::uint64_t bytes) {
    nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none()) progress(bytes);
  };
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
  std::uint64_t asked = 0;  // memory that is made for them: nobody has touched it
  for (const auto& [start, memory] : boxes) asked += memory.nbytes();
  nb::gil_scoped_release unlocked;
  engine.runtime.boxes().read(
      array, tiles, {.untouched = asked, .staging = staging, .shelf = shelf_of_reads(), .pulse = look_at_signals});
}

void write(Engine& engine, const Array& array, const ConstBoxes& boxes, std::size_t staging) {
  const auto tiles = box_tiles(boxes);
  nb::gil_scoped_release unlocked;
  engine.runtime.boxes().write(array, tiles, {.staging = staging, .pulse = look_at_signals});
}

std::uint64_t check_room(Engine& engine, const std::string& who, const std::string& what, std::uint64_t bytes,
                         std::uint64_t kept, std::uint64_t resident_at_entry) {
  return engine.runtime.boxes().check_room({who, what, bytes, kept, resident_at_entry, release_kept_pages});
}

/// Reads a Zarr array; `progress` hears the bytes read so far.
CheckReport check(Engine& engine, const std::string& directory, nb::handle progress) {
  nb::gil_scoped_release unlocked;
  CheckReport report;
  engine.runtime.boxes().lend([&](Ring& ring) { report = check_array(ring, directory, box_staging, told(progress)); });
  return report;
}

void resize(Engine& engine, const std::string& directory, const Shape& shape) {
  nb::gil_scoped_release unlocked;
  engine.runtime.boxes().lend([&](Ring& ring) {
    resize_array(ring, directory, shape, BoxOptions{.staging = box_staging, .pulse = look_at_signals});
  });
}

PackReport pack(Engine& engine, const std::string& source, const std::string& destination, const std::string& codec,
                bool checksum, nb::handle progress) {
  nb::gil_scoped_release unlocked;
  PackReport report;
  engine.runtime.boxes().lend([&](Ring& ring) {
    report = pack_array(ring, source, destination, {.codec = codec, .checksum = checksum}, box_staging, told(progress));
  });
  return report;
}

/// Runs of this process add to a new file from here on. Nothing is replaced where another timeline is being written.
void begin_timeline(const std::string& path, bool overwrite) {
  if (const auto other = Timeline::active())
    throw Error("timeline: '" + other->path() + "' is being written; one at a time, end it first.");
  Timeline::activate(std::make_shared<Timeline>(path, overwrite));
}

/// StorageError for what could not be written.
void end_timeline() {
  const auto ended = Timeline::active();
  if (!ended) return;
  Timeline::activate(nullptr);
  ended->close();
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
      .def_ro("chain_seconds", &Statistics::chain_seconds)
      .def_ro("spaces", &Statistics::spaces)
      .def_ro("io", &Statistics::io);

  nb::class_<KernelRate>(m, "KernelRate")
      .def(
          "__init__",
          [](KernelRate* self, double most, double half_edge) {
            new (self) KernelRate{most, half_edge};
          },
          nb::arg("most"), nb::arg("half_edge"))
      .def_ro("most", &KernelRate::most)
      .def_ro("half_edge", &KernelRate::half_edge);

  nb::class_<ClusterProfile>(m, "ClusterProfile")
      .def(nb::init<>())
      .def_rw("nodes", &ClusterProfile::nodes)
      .def_rw("link_bytes_per_second", &ClusterProfile::link_bytes_per_second)
      .def_rw("message_seconds", &ClusterProfile::message_seconds)
      .def_rw("barrier_seconds", &ClusterProfile::barrier_seconds)
      .def_rw("disks", &ClusterProfile::disks);
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
      .def_rw("decode_bytes_per_second", &MachineProfile::decode_bytes_per_second)
      .def_rw("kernels_float32", &MachineProfile::kernels_float32)
      .def_rw("kernels_float64", &MachineProfile::kernels_float64)
      .def_rw("sockets", &MachineProfile::sockets)
      .def_rw("remote_bytes_per_second", &MachineProfile::remote_bytes_per_second)
      .def_rw("cluster", &MachineProfile::cluster);
}

/// A ValueError where the environment holds no size.
std::uint64_t limit_by_default() {
  try {
    return default_memory();
  } catch (const Error& error) {
    throw nb::value_error(error.what());
  }
}

void bind_limits(nb::module_& m) {
  m.def("default_memory", &limit_by_default);
  m.def("limit_for", &limit_for, nb::arg("least"));
  m.def("check_least", &check_least, nb::arg("who"), nb::arg("least"), nb::arg("memory"),
        nb::arg("resident_at_entry") = 0);
  m.def("bytes_beside_read", &bytes_beside_read, nb::arg("array"), nb::arg("box_bytes"));
  m.def("bytes_beside_write", &bytes_beside_write, nb::arg("array"), nb::arg("box_bytes"), nb::arg("copied"));
  m.def("begin_timeline", &begin_timeline, nb::arg("path"), nb::arg("overwrite"));
  m.def("end_timeline", &end_timeline, nb::call_guard<nb::gil_scoped_release>());
  m.def("trim", &trim_heap);
  m.def("kernel_names", [] {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < kernel_count; ++k) names.emplace_back(name_of(static_cast<Kernel>(k)));
    return names;
  });
  m.attr("allowed_drift") = Runtime::allowed_drift;
  m.attr("box_staging") = box_staging;
  m.attr("box_piece") = box_piece;
}

}  // namespace

void bind_runtime(nb::module_& m) {
  bind_statistics(m);
  nb::class_<Job>(m, "Job");
  nb::class_<Engine>(m, "Engine")
      .def(
          "__init__",
          [](Engine* self, std::uint64_t memory, int workers, int threads_per_task, const std::string& scratch,
             const std::string& io, bool chains, std::vector<std::shared_ptr<Device>> devices, bool strict,
             const nb::object& place, std::optional<int> sockets) {
            Place where = place_of(place, devices.size());
            const bool waits = where && !nb::isinstance<nb::str>(place);
            // Of a described machine their number counts.
            std::optional<std::vector<std::vector<int>>> told;
            if (sockets) told.emplace(static_cast<std::size_t>(*sockets));
            const nb::gil_scoped_release unlocked;
            new (self) Engine(RuntimeOptions{.memory = memory,
                                             .workers = workers,
                                             .threads_per_task = threads_per_task,
                                             .scratch = scratch,
                                             .io = io,
                                             .chains = chains,
                                             .devices = std::move(devices),
                                             .strict = strict,
                                             .place = std::move(where),
                                             .place_waits = waits,
                                             .sockets = told});
          },
          nb::arg("memory"), nb::arg("workers"), nb::arg("threads_per_task"), nb::arg("scratch"), nb::arg("io"),
          nb::arg("chains") = false, nb::arg("devices") = std::vector<std::shared_ptr<Device>>{},
          nb::arg("strict") = false, nb::arg("place") = nb::none(), nb::arg("sockets") = nb::none())
      .def_prop_ro("memory", [](const Engine& e) { return e.runtime.options().memory; })
      .def_prop_ro("workers", [](const Engine& e) { return e.runtime.options().workers; })
      .def_prop_ro("threads_per_task", [](const Engine& e) { return e.runtime.options().threads_per_task; })
      .def_prop_ro("scratch", [](const Engine& e) { return e.runtime.options().scratch; })
      .def_prop_ro("io", [](Engine& e) { return e.runtime.boxes().describe(); })
      .def_prop_ro("reserve", [](const Engine& e) { return e.runtime.reserve(); })
      .def_prop_rw(
          "profile", [](Engine& e) { return e.runtime.profile(); },
          [](Engine& e, const MachineProfile& p) { e.runtime.profile() = p; })
      .def("run", &run, nb::arg("job"), nb::arg("progress").none(), nb::arg("who"), nb::arg("scratch_quota").none())
      .def("plan", &plan, nb::arg("job"), nb::arg("least") = 0)
      .def("least_memory", &least_memory)
      .def("check", &check, nb::arg("directory"), nb::arg("progress") = nb::none())
      .def("resize", &resize, nb::arg("directory"), nb::arg("shape"))
      .def("pack", &pack, nb::arg("source"), nb::arg("destination"), nb::arg("codec"), nb::arg("checksum"),
           nb::arg("progress") = nb::none())
      .def("check_room", &check_room, nb::arg("who"), nb::arg("what"), nb::arg("bytes"), nb::arg("kept") = 0,
           nb::arg("resident_at_entry") = 0)
      .def("read_boxes", &read, nb::arg("array"), nb::arg("boxes"), nb::arg("staging") = box_staging)
      .def("write_boxes", &write, nb::arg("array"), nb::arg("boxes"), nb::arg("staging") = box_staging);
  bind_limits(m);
}

}  // namespace flagstone::python
