#pragma once
// The planner: the same scheduler on a virtual clock. Nothing is read, written or computed.
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <queue>
#include <unordered_map>

#include "flagstone/runtime/graph/reduction.hpp"
#include "flagstone/runtime/scheduler/running_graph.hpp"
#include "flagstone/runtime/scheduler/scheduler.hpp"

namespace flagstone {

/// A machine of rates (MachineProfile): one disk whose requests queue up, `workers` processors that compute and
/// convert, transfers and computing overlap. Of a node with several sockets each worker is one's; of several nodes each
/// has such a disk and such processors, and a clock of its own: what ranks do between two meetings is added node by
/// node, and the clock is turned back for the next one.
class Simulator final : public RunningGraph, private Machine {
 public:
  using Heartbeat = std::function<void(const Statistics&)>;
  Simulator(const RuntimeOptions& options, const MachineProfile& profile, std::uint64_t capacity,
            std::uint64_t announced_budget, Heartbeat heartbeat = {}, bool unlimited_devices = false);

  void run(const std::function<void(Graph&)>& builder);
  Statistics statistics() const;
  /// What each device needs at least, for the largest task there.
  const std::vector<Residency>& residencies() const { return scheduler_.residencies(); }
  std::uint64_t least_capacity() const { return scheduler_.least_capacity(); }
  void keep_idle(std::size_t tiles) { scheduler_.keep_idle(tiles); }
  /// Most bytes of nameless files in scratch at a time.
  std::uint64_t spilled_bytes() const { return spilled_bytes_; }

  TaskId add(TaskSpec task) override;
  void await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>& body) override;
  void barrier() override;
  void drain() override { write_all(false); }
  void distribute(const Array& array, const Distribution& distribution) override;
  Array allocate(const Shape& shape, Dtype dtype) override;
  Charge charge(std::uint64_t bytes) override;
  bool planning() const override { return true; }
  std::uint64_t budget() const override;
  void host_work(const std::string& name, Cost cost) override;
  int nodes() const override { return profile_.cluster.nodes; }
  void go_to_node(int node) override;
  double meet(bool barrier) override;
  double planned_seconds() const override { return now_; }

 private:
  struct Event {
    double time;
    std::uint64_t number;  // ties in the order of creation: the same plan every time
    std::function<void()> happen;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : number > other.number; }
  };

  void allocate(TileState&) override {}
  void release(TileState&) override {}
  void allocate_scratch(TaskState&) override {}
  void release_scratch(TaskState&) override {}
  Transfer transfer_to_store(TileState& tile) override;
  void load(TileState& tile, Transfer transfer) override;
  void store(TileState& tile, Transfer transfer) override;
  void copy_in(TileState& tile, int space) override { copy(tile, space, true); }
  void copy_out(TileState& tile, int space) override { copy(tile, space, false); }

  TaskState& add_one(TaskSpec task, bool host);
  void write_all(bool end);
  void spill(const std::shared_ptr<const ArrayStore>& store, std::uint64_t bytes);
  void at(double time, std::function<void()> happen);
  /// What of a transfer its time depends on.
  struct Requests {
    std::uint64_t bytes;
    std::size_t number;
  };
  double transfer_end(const Requests& requests, bool write);
  void convert(std::size_t buffer_bytes, double flops, std::function<void()> then);
  double seconds_of(const Cost& cost) const;
  double seconds_of(const TaskSpec& task, std::size_t socket);
  double memory_rate(bool placed, std::size_t socket) const;
  bool start_on(std::size_t socket);
  void set_clock(double now);
  /// A device: a link each way, and queues. A card's share its processors; an emulated one's have one each.
  struct Link {
    SpaceProfile profile;
    double each_copy = 0;        // seconds that the link does nothing else
    double free[2] = {0, 0};     // out, in: when the last copy is done
    std::vector<double> queues;  // when the last launch of each is done
    std::vector<int> waiting;    // launches of each that are out
    int launches = 0, most = 0;  // out together
    double busy_since = 0, busy_seconds = 0;
  };
  Link& link(int space) { return links_[static_cast<std::size_t>(space) - 1]; }
  Link link_to(const DeviceProperties& properties) const;
  void copy(TileState& tile, int space, bool in);
  void launch();
  double seconds_on(const TaskState& task, const SpaceProfile& device) const;
  void rate_kernels(TaskSpec& task) const;
  void follow_chains(const TaskSpec& task, double seconds);
  void count_by_rate(const Cost& cost);
  void start();
  template <class Ready>
  void advance_until(Ready ready);
  void beat();

  MachineProfile profile_;
  Scheduler scheduler_;
  Reduction reduction_;
  std::uint64_t announced_;
  Heartbeat heartbeat_;
  std::uint64_t steps_ = 0;  // since the clock was looked at
  std::chrono::steady_clock::time_point next_beat_;
  double now_ = 0, disk_free_ = 0;
  std::vector<Link> links_;                                    // by device
  double direction_free_[2] = {0, 0};                          // when the last read and the last write are done
  std::deque<std::pair<double, std::function<void()>>> jobs_;  // seconds of a conversion, and what comes then
  std::vector<int> idle_workers_;                              // of each socket
  std::vector<double> node_clocks_;                            // of each node
  std::size_t node_ = 0;
  double link_free_ = 0;  // of the node: when its last message has arrived
  std::vector<std::pair<std::weak_ptr<const ArrayStore>, std::uint64_t>> spilled_;  // files of temporary arrays
  std::uint64_t spilled_bytes_ = 0;
  std::uint64_t events_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  Statistics stats_;
  std::array<KernelRate, kernel_count> kernels_float32_, kernels_float64_;
  /// When, on any number of workers and without a disk, a region was last written, and last read since.
  struct Chain {
    double written = 0, read = 0;
  };
  struct Begin {
    std::size_t operator()(const Shape& start) const noexcept {
      std::uint64_t hash = 0;
      for (const Index at : start)
        hash = (hash ^ static_cast<std::uint64_t>(at)) * 0x9E3779B97F4A7C15u, hash ^= hash >> 32;
      return hash;
    }
  };
  std::unordered_map<const void*, std::unordered_map<Shape, Chain, Begin>> chains_;  // by array, where the box begins
  std::vector<std::pair<Chain*, bool>> touched_;                                     // by a task, and whether changed
};

}  // namespace flagstone
