#include "flagstone/runtime/executor/device_queues.hpp"

#include <algorithm>

#include "flagstone/runtime/executor/transfers.hpp"

namespace flagstone {
namespace {}  // namespace

DeviceQueues::DeviceQueues(RunState& run) : run_(run), loads_(static_cast<std::size_t>(run.scheduler.device_count())) {
  for (int space = 1; space <= run.scheduler.device_count(); ++space) {
    Load& load = loads_[static_cast<std::size_t>(space) - 1];
    load.queues.assign(static_cast<std::size_t>(run.scheduler.device(space).properties().kernel_queues), 0);
    load.row_ends.resize(2 + load.queues.size());
  }
}

template <class Begin>
void DeviceQueues::begin(Begin begin) {
  ++run_.on_devices;
  try {
    begin();
  } catch (...) {
    --run_.on_devices;
    throw;
  }
}

template <class Then>
void DeviceQueues::heard(std::exception_ptr thrown, const std::string& where, Then then) {
  Lock lock(run_.mutex);
  if (!thrown && !run_.error) try {
      then();
    } catch (...) {
      thrown = std::current_exception();
    }
  if (thrown) run_.fail(thrown, where);
  run_.advance(lock);
  --run_.on_devices;
  settled_.notify_all();
  run_.builder_ready.notify_all();
}

Tile DeviceQueues::on_device(const TileState& tile, int space) const {
  const Copies& copies = *tile.copies;
  std::byte* data = run_.scheduler.device(space).memory() + copies.at(space).offset;
  return {data, tile.array.dtype(), tile.box.shape, copies.strides, copies.bytes};
}

void DeviceQueues::copy_in(TileState& tile, int space) { copy(tile, space, true); }
void DeviceQueues::copy_out(TileState& tile, int space) { copy(tile, space, false); }

void DeviceQueues::copy(TileState& tile, int space, bool in) {
  Tile host;
  tile.view(host);
  Device& device = run_.scheduler.device(space);
  const auto asked = run_.timeline ? Clock::now() : Clock::time_point{};
  const auto done = [this, &tile, &device, space, in, asked](std::exception_ptr thrown) {
    const auto ended = Clock::now();
    const std::string where =
        thrown ? "copying " + about(tile) + (in ? " to " : " from ") + device.properties().name : std::string();
    heard(thrown, where, [&] {
      if (run_.timeline)
        tell(space, in ? 0 : 1, "link", in ? "copy in" : "copy out", about(tile), tile.copies->bytes, asked, ended);
      in ? run_.scheduler.copied_in(tile, space) : run_.scheduler.copied_out(tile, space);
    });
  };
  begin([&] {
    const Tile there = on_device(tile, space);
    in ? device.copy_in(host, there, done) : device.copy_out(there, host, done);
  });
}

void DeviceQueues::name_rows() const {
  for (int space = 1; space <= run_.scheduler.device_count(); ++space) {
    const DeviceProperties& device = run_.scheduler.device(space).properties();
    const int first = Timeline::first_device_row + space * Timeline::rows_a_device;
    run_.timeline->name_row(run_.timeline_run, first, device.name + " in");
    run_.timeline->name_row(run_.timeline_run, first + 1, device.name + " out");
    for (int queue = 0; queue < device.kernel_queues; ++queue)
      run_.timeline->name_row(run_.timeline_run, first + 2 + queue, device.name + " queue " + std::to_string(queue));
  }
}

void DeviceQueues::tell(int space, std::size_t row, const char* kind, const std::string& name, const std::string& about,
                        std::uint64_t bytes, Clock::time_point asked, Clock::time_point ended) {
  Clock::time_point& last = loads_[static_cast<std::size_t>(space) - 1].row_ends[row];
  const auto began = std::min(std::max(asked, last), ended);
  last = ended;
  run_.timeline->span(run_.timeline_run,
                      Timeline::first_device_row + space * Timeline::rows_a_device + static_cast<int>(row), kind, name,
                      began, ended, about, bytes);
}

void DeviceQueues::launch_what_can_run() {
  if (run_.error) return;
  for (int space = 1; space <= run_.scheduler.device_count(); ++space) {
    const Load& load = loads_[static_cast<std::size_t>(space) - 1];
    while (load.launches < most_launches(static_cast<int>(load.queues.size()))) {
      auto tasks = run_.scheduler.take_batch(space);
      if (tasks.empty()) break;
      launch(space, std::move(tasks));
    }
  }
}

void DeviceQueues::launch(int space, std::vector<TaskState*> tasks) {
  Device& device = run_.scheduler.device(space);
  auto made = std::make_shared<Launch>();
  made->space = space;
  made->tasks = std::move(tasks);
  made->tiles.resize(made->tasks.size());
  for (std::size_t i = 0; i < made->tasks.size(); ++i) {
    const TaskState& task = *made->tasks[i];
    run_.scheduler.tiles_on_device(task, device.memory(), made->tiles[i]);
    std::size_t scratch = 0;
    for (const Access& access : task.spec.accesses)
      if (access.mode == Mode::scratch) scratch += Arena::charged(access.scratch_bytes);
    std::byte* workspace = task.workspace_bytes > scratch ? device.memory() + task.workspace_offset + scratch : nullptr;
    made->works.push_back({task.spec.calls, made->tiles[i], workspace});
  }
  Load& load = loads_[static_cast<std::size_t>(space) - 1];
  made->queue =
      static_cast<std::size_t>(std::min_element(load.queues.begin(), load.queues.end()) - load.queues.begin());
  made->began = Clock::now();
  if (load.launches++ == 0) load.busy_since = made->began;
  ++load.queues[made->queue];
  begin([&] {
    device.launch(made->works, static_cast<int>(made->queue),
                  [this, made](std::exception_ptr thrown) { launched(*made, thrown); });
  });
}

void DeviceQueues::launched(const Launch& launch, std::exception_ptr thrown) {
  const auto ended = Clock::now();
  const std::string where =
      thrown ? note_of(*launch.tasks.front()) + " on " + run_.scheduler.device(launch.space).properties().name
             : std::string();
  heard(thrown, where, [&] {
    Load& load = loads_[static_cast<std::size_t>(launch.space) - 1];
    --load.queues[launch.queue];
    if (--load.launches == 0) load.busy_seconds += RunState::seconds_between(load.busy_since, ended);
    if (run_.timeline) {
      const std::size_t others = launch.tasks.size() - 1;
      const std::string more = others > 0 ? " and " + std::to_string(others) + " more" : std::string();
      tell(launch.space, 2 + launch.queue, "launch", launch.tasks.front()->spec.name,
           region_of(*launch.tasks.front()) + more, 0, launch.began, ended);
    }
    const double share = RunState::seconds_between(launch.began, ended) / static_cast<double>(launch.tasks.size());
    for (TaskState* task : launch.tasks) {
      run_.stats.flops += task->spec.cost.flops;
      run_.stats.count(task->spec.calls, share);
      run_.scheduler.finished(*task);
    }
  });
}

std::vector<SpaceStatistics> DeviceQueues::statistics(const Statistics& now) const {
  std::vector<SpaceStatistics> spaces = run_.scheduler.space_statistics(now);
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    const Load& load = loads_[i];
    spaces[i + 1].busy_seconds =
        load.busy_seconds + (load.launches > 0 ? RunState::seconds_between(load.busy_since, Clock::now()) : 0);
  }
  return spaces;
}

void DeviceQueues::wait_until_settled() {
  Lock lock(run_.mutex);
  settled_.wait(lock, [this] { return run_.on_devices == 0; });
}

}  // namespace flagstone
