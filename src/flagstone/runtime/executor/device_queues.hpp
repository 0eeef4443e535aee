#pragma once
// Copies and launches under way on the devices of a run.
#include <vector>

#include "flagstone/runtime/executor/run_state.hpp"

namespace flagstone {

/// Between the scheduler's decisions and the devices. Whatever a device reports is an event: it takes the lock, tells
/// the scheduler, and lets it start what has become possible. Nobody waits for a device and nobody asks it.
class DeviceQueues {
 public:
  using Lock = RunState::Lock;
  explicit DeviceQueues(RunState& run);
  DeviceQueues(const DeviceQueues&) = delete;

  // With the lock held.
  void copy_in(TileState& tile, int space);
  void copy_out(TileState& tile, int space);
  /// Gives every device what it can run, as long as its queues are short: what waits here goes out together later.
  void launch_what_can_run();
  /// Of the timeline, where there is one.
  void name_rows() const;
  /// The host's and the devices', `now` being the run's; empty without devices.
  std::vector<SpaceStatistics> statistics(const Statistics& now) const;

  /// Takes the lock; returns when devices have reported everything.
  void wait_until_settled();

 private:
  using Clock = RunState::Clock;
  struct Launch {
    std::vector<TaskState*> tasks;
    std::vector<std::vector<Tile>> tiles;  // of each task
    std::vector<DeviceWork> works;
    int space = 0;
    std::size_t queue = 0;
    Clock::time_point began{};
  };
  struct Load {               // of one device
    std::vector<int> queues;  // launches out
    int launches = 0;
    Clock::time_point busy_since{};
    double busy_seconds = 0;
    std::vector<Clock::time_point> row_ends;  // of the timeline: copies in, copies out, each queue
  };
  void launch(int space, std::vector<TaskState*> tasks);
  void launched(const Launch& launch, std::exception_ptr thrown);
  /// Counts what a device is asked for; what it refuses at once is nothing that it reports later.
  template <class Begin>
  void begin(Begin begin);
  /// What a device reports, from a thread of its own.
  template <class Then>
  void heard(std::exception_ptr thrown, const std::string& where, Then then);
  void copy(TileState& tile, int space, bool in);
  /// In a timeline: what was asked at `asked` and is done now, on a row that does one thing after the other.
  void tell(int space, std::size_t row, const char* kind, const std::string& name, const std::string& about,
            std::uint64_t bytes, Clock::time_point asked, Clock::time_point ended);
  Tile on_device(const TileState& tile, int space) const;

  RunState& run_;
  std::vector<Load> loads_;  // by device
  std::condition_variable settled_;
};

}  // namespace flagstone
