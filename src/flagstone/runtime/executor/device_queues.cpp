#include "flagstone/runtime/executor/device_queues.hpp"

#include <algorithm>

#include "flagstone/runtime/executor/transfers.hpp"

namespace flagstone {
namespace {

// One runs and one waits behind it: more would be launched one by one that could go out together.
constexpr int most_on_a_queue = 2;

}  // namespace

DeviceQueues::DeviceQueues(RunState& run) : run_(run), loads_(static_cast<std::size_t>(run.scheduler.device_count())) {
  for (int space = 1; space <= run.scheduler.device_count(); ++space)
    loads_[static_cast<std::size_t>(space) - 1].queues.assign(
        static_cast<std::size_t>(run.scheduler.device(space).properties().kernel_queues), 0);
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

void DeviceQueues::copy_in(TileState& tile, int space) {
  Tile host;
  tile.view(host);
  const auto done = [this, &tile, space](std::exception_ptr thrown) {
    heard(thrown, "copying " + about(tile) + " to " + run_.scheduler.device(space).properties().name,
          [&] { run_.scheduler.copied_in(tile, space); });
  };
  begin([&] { run_.scheduler.device(space).copy_in(host, on_device(tile, space), done); });
}

void DeviceQueues::copy_out(TileState& tile, int space) {
  Tile host;
  tile.view(host);
  const auto done = [this, &tile, space](std::exception_ptr thrown) {
    heard(thrown, "copying " + about(tile) + " from " + run_.scheduler.device(space).properties().name,
          [&] { run_.scheduler.copied_out(tile, space); });
  };
  begin([&] { run_.scheduler.device(space).copy_out(on_device(tile, space), host, done); });
}

void DeviceQueues::launch_what_can_run() {
  if (run_.error) return;
  for (int space = 1; space <= run_.scheduler.device_count(); ++space) {
    const Load& load = loads_[static_cast<std::size_t>(space) - 1];
    while (load.launches < most_on_a_queue * static_cast<int>(load.queues.size())) {
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
