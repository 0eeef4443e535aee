#include "flagstone/runtime/simulator.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone {
namespace {

constexpr auto beat_every = std::chrono::milliseconds(100);
constexpr std::uint64_t steps_a_look = 1024;  // a step takes a microsecond or more

std::array<KernelRate, kernel_count> by_kernel(const std::map<std::string, KernelRate>& rates) {
  std::array<KernelRate, kernel_count> found{};
  for (std::size_t k = 0; k < kernel_count; ++k)
    if (const auto rate = rates.find(std::string(name_of(static_cast<Kernel>(k)))); rate != rates.end())
      found[k] = rate->second;
  return found;
}

}  // namespace

Simulator::Simulator(const RuntimeOptions& options, const MachineProfile& profile, std::uint64_t capacity,
                     std::uint64_t announced_budget, Heartbeat heartbeat, bool unlimited_devices)
    : RunningGraph(options, {options.scratch, {}, {}}),
      profile_(profile),
      scheduler_(capacity, *this, options.workers,
                 {options.devices, options.place, options.strict, unlimited_devices,
                  options.sockets ? options.sockets->size() : 0}),
      reduction_(*this, [this](TaskSpec task) { add_one(std::move(task), false); }),
      announced_(announced_budget),
      heartbeat_(std::move(heartbeat)),
      next_beat_(std::chrono::steady_clock::now() + beat_every),
      idle_workers_(static_cast<std::size_t>(std::clamp(profile.sockets, 1, options.workers))),
      node_clocks_(static_cast<std::size_t>(profile.cluster.nodes)),
      kernels_float32_(by_kernel(profile.kernels_float32)),
      kernels_float64_(by_kernel(profile.kernels_float64)) {
  if (options.sockets && options.sockets->size() > idle_workers_.size()) idle_workers_.resize(options.sockets->size());
  for (int worker = 0; worker < options.workers; ++worker)
    ++idle_workers_[static_cast<std::size_t>(worker) % idle_workers_.size()];
  for (const auto& device : options.devices) links_.push_back(link_to(device->properties()));
}

void Simulator::run(const std::function<void(Graph&)>& builder) {
  builder(*this);
  write_all(true);
}

void Simulator::at(double time, std::function<void()> happen) { queue_.push({time, events_++, std::move(happen)}); }

/// A plan of millions of tasks takes seconds: Ctrl-C is heard meanwhile.
void Simulator::beat() {
  if (!heartbeat_ || ++steps_ < steps_a_look) return;
  steps_ = 0;
  if (std::chrono::steady_clock::now() < next_beat_) return;
  heartbeat_(statistics());
  next_beat_ = std::chrono::steady_clock::now() + beat_every;
}

template <class Ready>
void Simulator::advance_until(Ready ready) {
  for (;;) {
    beat();
    scheduler_.pump();
    launch();
    start();
    if (ready()) return;
    if (queue_.empty()) throw Error("plan: the graph waits for something that no task brings.");
    Event event = queue_.top();
    queue_.pop();
    now_ = std::max(now_, event.time);
    event.happen();
  }
}

/// Gives conversions (as the executor: before any task) and runnable tasks to idle workers.
void Simulator::start() {
  for (std::size_t socket = 0; socket < idle_workers_.size(); ++socket)
    while (idle_workers_[socket] > 0 && start_on(socket)) --idle_workers_[socket];
}

/// One thing that a worker of the socket can do; false: there is none.
bool Simulator::start_on(std::size_t socket) {
  if (!jobs_.empty()) {
    auto [seconds, then] = std::move(jobs_.front());
    jobs_.pop_front();
    stats_.worker_busy_seconds += seconds;
    stats_.by_rate.memory += seconds;
    at(now_ + seconds, [this, socket, then = std::move(then)] {
      ++idle_workers_[socket];
      then();
    });
    return true;
  }
  TaskState* task = scheduler_.take(static_cast<int>(socket));
  if (!task) return false;
  const double seconds = seconds_of(task->spec, socket);
  stats_.worker_busy_seconds += seconds;
  count_by_rate(task->spec.cost);
  at(now_ + seconds, [this, socket, task] {
    ++idle_workers_[socket];
    scheduler_.finished(*task);
  });
  return true;
}

void Simulator::copy(TileState& tile, int space, bool in) {
  Link& link = this->link(space);
  const double rate = in ? link.profile.bytes_in_per_second : link.profile.bytes_out_per_second;
  double& free = link.free[in];
  free = std::max(free, now_) + link.each_copy + static_cast<double>(tile.copies->bytes) / rate;
  at(free + link.profile.copy_seconds,
     [this, &tile, space, in] { in ? scheduler_.copied_in(tile, space) : scheduler_.copied_out(tile, space); });
}

/// As the executor's queues: so many launches under way, and what waits goes out together.
void Simulator::launch() {
  for (int space = 1; space <= scheduler_.device_count(); ++space) {
    Link& link = this->link(space);
    while (link.launches < link.most) {
      auto tasks = scheduler_.take_batch(space);
      if (tasks.empty()) break;
      double seconds = link.profile.launch_seconds;
      for (const TaskState* task : tasks) seconds += seconds_on(*task, link.profile);
      if (link.launches++ == 0) link.busy_since = now_;
      const auto queue = static_cast<std::size_t>(std::ranges::min_element(link.waiting) - link.waiting.begin());
      ++link.waiting[queue];
      double& free = link.queues[queue % link.queues.size()];
      free = std::max(free, now_) + seconds;
      at(free, [this, space, queue, tasks = std::move(tasks)] {
        Link& on = this->link(space);
        --on.waiting[queue];
        if (--on.launches == 0) on.busy_seconds += now_ - on.busy_since;
        for (TaskState* task : tasks) scheduler_.finished(*task);
      });
    }
  }
}

/// Nothing is under way where the node changes, so that a clock is all that a node has of its own.
void Simulator::go_to_node(int node) {
  if (static_cast<std::size_t>(node) == node_) return;
  drain();
  node_clocks_[node_] = now_;
  node_ = static_cast<std::size_t>(node);
  set_clock(node_clocks_[node_]);
}

void Simulator::set_clock(double now) {
  now_ = disk_free_ = link_free_ = direction_free_[0] = direction_free_[1] = now;
}

double Simulator::meet(bool barrier) {
  drain();
  node_clocks_[node_] = now_;
  const auto nodes = static_cast<double>(node_clocks_.size());
  const double last = std::ranges::max(node_clocks_);
  const double mean = std::accumulate(node_clocks_.begin(), node_clocks_.end(), 0.0) / nodes;
  set_clock(last + (barrier && nodes > 1 ? profile_.cluster.barrier_seconds : 0));
  std::ranges::fill(node_clocks_, now_);
  return now_ - mean;
}

/// In program order: a task comes after who wrote what it touches, and after who read what it writes.
void Simulator::follow_chains(const TaskSpec& task, double seconds) {
  double end = 0;
  touched_.clear();
  for (const Access& access : task.accesses) {
    if (access.mode == Mode::scratch) continue;
    Chain& chain = chains_[access.region.array.id()][access.region.box.start];
    const bool modifies = access.mode != Mode::read;
    end = std::max(end, modifies ? std::max(chain.written, chain.read) : chain.written);
    touched_.emplace_back(&chain, modifies);
  }
  end += seconds;
  for (const auto& [chain, modifies] : touched_)
    modifies ? (chain->written = end, chain->read = 0) : chain->read = std::max(chain->read, end);
  stats_.chain_seconds = std::max(stats_.chain_seconds, end);
}

/// Assembling or decoding a tile is a copy of it on a worker, into pages that are often fresh; a tile that is computed
/// takes its arithmetic too, in float64 at most.
void Simulator::convert(std::size_t buffer_bytes, double flops, std::function<void()> then) {
  jobs_.emplace_back(
      6 * static_cast<double>(buffer_bytes) / profile_.memory_bytes_per_second + flops / profile_.flops_float64,
      std::move(then));
}

Transfer Simulator::transfer_to_store(TileState& tile) { return tile.array.store().planned_write(tile.box); }

// Events keep no transfer: one of short runs has thousands of segments, and in a plan hundreds are under way.
void Simulator::load(TileState& tile, Transfer transfer) {
  const Requests requests{transfer.bytes(), transfer.segments.size()};
  stats_.bytes_read += requests.bytes;
  stats_.flops += transfer.flops;
  const auto landed = [this, &tile, beside = transfer.beside_bytes()] { scheduler_.loaded(tile, beside); };
  const double arrives = transfer_end(requests, false);
  if (!transfer.convert) return at(arrives, landed);
  at(arrives, [this, buffer_bytes = transfer.buffer_bytes, flops = transfer.flops, landed] {
    convert(buffer_bytes, flops, landed);
  });
}

/// The first tile of a temporary array goes out: its file is made.
void Simulator::spill(const std::shared_ptr<const ArrayStore>& store, std::uint64_t bytes) {
  std::erase_if(spilled_, [](const auto& file) { return file.first.expired(); });
  std::uint64_t held = bytes;
  for (const auto& [other, other_bytes] : spilled_) {
    if (other.lock() == store) return;
    held += other_bytes;
  }
  spilled_.emplace_back(store, bytes);
  spilled_bytes_ = std::max(spilled_bytes_, held);
}

void Simulator::store(TileState& tile, Transfer transfer) {
  const Requests requests{transfer.bytes(), transfer.segments.size()};
  stats_.bytes_written += requests.bytes;
  if (const std::uint64_t bytes = scratch_bytes(tile.array)) spill(tile.array.shared_store(), bytes);
  const auto send = [this, &tile, requests] {
    at(transfer_end(requests, true), [this, &tile] { scheduler_.stored(tile); });
  };
  transfer.convert ? convert(transfer.buffer_bytes, 0, send) : send();
}

TaskState& Simulator::add_one(TaskSpec task, bool host) {
  const auto full = [this] { return scheduler_.pending() >= lookahead_; };
  beat();
  if (full()) advance_until([&] { return !full(); });
  task.body = nullptr;  // a plan never computes
  stats_.flops += task.cost.flops;
  const Cost as_stated = task.cost;
  rate_kernels(task);
  const double seconds = seconds_of(task.cost);
  if (links_.empty()) stats_.count(task.calls, seconds);
  if (options_.chains) follow_chains(task, seconds);
  if (links_.empty()) task.calls = {};  // their memory too
  ++stats_.tasks;
  TaskState& added = scheduler_.add(std::move(task), host, trusted_);
  if (added.space > 0) added.spec.cost = as_stated;
  if (!links_.empty())
    stats_.count(added.spec.calls, added.space > 0 ? seconds_on(added, link(added.space).profile) : seconds);
  if (scheduler_.hungry()) {
    scheduler_.pump();
    launch();
    start();
  }
  return added;
}

TaskId Simulator::add(TaskSpec task) {
  const auto merge = reduction_.prepare(task);
  const TaskId id = add_one(std::move(task), false).id;
  if (merge) merge();
  return id;
}

void Simulator::await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>&) {
  TaskSpec spec;
  spec.name = "await";
  spec.accesses = std::move(accesses);
  reduction_.prepare(spec);
  add_one(std::move(spec), true);
  TaskState* task = nullptr;
  advance_until([&] { return (task = scheduler_.take_host()) != nullptr; });
  scheduler_.finished(*task);
  scheduler_.memory_may_change();
}

void Simulator::distribute(const Array& array, const Distribution& distribution) {
  check_distribution(array.shape(), distribution);
  if (distribution.place) scheduler_.place_array(array, distribution.tile, distribution.place);
}

void Simulator::barrier() {
  reduction_.finish();
  scheduler_.want_memory();
  advance_until([this] { return scheduler_.idle(); });
  scheduler_.memory_may_change();
}

void Simulator::write_all(bool end) {
  barrier();
  scheduler_.store_kept(end);
  advance_until([this] { return scheduler_.drained(); });
}

Charge Simulator::charge(std::uint64_t bytes) {
  advance_until([&] { return scheduler_.reserve(bytes); });
  return Charge([returns = scheduler_.returns(), bytes] { returns->fetch_add(bytes); });
}

Array Simulator::allocate(const Shape& shape, Dtype dtype) {
  const std::uint64_t bytes = align_up(static_cast<std::uint64_t>(count(shape)) * size_of(dtype));
  auto held = std::make_shared<Charge>(charge(bytes));
  // An address that is never followed: a plan has charges but no memory.
  auto* nowhere = reinterpret_cast<std::byte*>(page_bytes);
  return memory_array(nowhere, shape, dtype, c_strides(shape, size_of(dtype)), held);
}

std::uint64_t Simulator::budget() const {
  return announced_ > scheduler_.charged() ? announced_ - scheduler_.charged() : 0;
}

void Simulator::host_work(const std::string&, Cost cost) {
  now_ += seconds_of(cost);
  stats_.flops += cost.flops;
}

Statistics Simulator::statistics() const {
  Statistics planned = stats_;
  planned.seconds = now_;
  const auto nodes = static_cast<double>(node_clocks_.size());
  planned.worker_idle_seconds = now_ * nodes * options_.workers - stats_.worker_busy_seconds;
  planned.ring_idle_seconds = now_ * nodes - stats_.ring_busy_seconds;
  planned.budget = scheduler_.cache().capacity();
  planned.peak_budget = scheduler_.cache().peak();
  planned.io = "planned";
  planned.spaces = scheduler_.space_statistics(planned);
  for (std::size_t i = 0; i < links_.size(); ++i) planned.spaces[i + 1].busy_seconds = links_[i].busy_seconds;
  return planned;
}

}  // namespace flagstone
