// A host and two devices against a model: random tasks in random orders of events, on tiles that do not fit. Every copy
// carries the number of the task that made it, so that a task that looks at an old one is seen, and after each step the
// invariants of the protocol hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "flagstone/runtime/scheduler/scheduler.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/array/scratch_array.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"

namespace flagstone {
namespace {

using State = Copy::State;
using Where = TileState::Where;

constexpr Index edge = 22, rows = 12;  // tiles of 22 x 23 float64: 3,872 bytes and 4,048, a page each on the host
constexpr std::uint64_t page = 4096;

/// Says what it can do and does nothing: the scheduler asks it no more.
class StatedDevice final : public Device {
 public:
  StatedDevice(std::string name, std::uint64_t memory) {
    properties_.kind = "stated", properties_.name = std::move(name), properties_.memory = memory;
  }
  const DeviceProperties& properties() const noexcept override { return properties_; }
  std::byte* memory() const noexcept override { return nullptr; }
  bool runs(const Call& call) const noexcept override { return call.kernel == Kernel::add; }
  std::size_t workspace_bytes(std::span<const Call> calls, std::span<const Tile>) const override {
    return calls.front().alpha.real() == 2 ? 1000 : 0;
  }
  void copy_in(const Tile&, const Tile&, Done) override {}
  void copy_out(const Tile&, const Tile&, Done) override {}
  void launch(std::span<const DeviceWork>, int, Done) override {}
  void lock_pages(std::span<std::byte>) override {}
  void unlock_pages(std::span<std::byte>) override {}
  DeviceCounts counts() const override { return {}; }

 private:
  DeviceProperties properties_;
};

/// Which tile, and which task made what it holds (0: as it was before the run).
struct Content {
  const void* array = nullptr;
  Shape start;
  TaskId by = 0;
  bool operator==(const Content&) const = default;
};
using Name = std::pair<const void*, Shape>;
Name name_of(const TileState& tile) { return {tile.array.id(), tile.box.start}; }

class ModelMachine final : public Machine {
 public:
  void allocate(TileState& tile) override { host[name_of(tile)] = {}; }
  void release(TileState& tile) override {
    ASSERT_FALSE(in_flight(tile)) << "a buffer was freed while something flies";
    host.erase(name_of(tile));
  }
  void allocate_scratch(TaskState&) override {}
  void release_scratch(TaskState&) override {}
  Transfer transfer_to_store(TileState& tile) override { return tile.array.store().read(tile.box); }
  void load(TileState& tile, Transfer) override { flights.push_back({Kind::load, &tile, 0, disk[name_of(tile)]}); }
  void store(TileState& tile, Transfer) override { flights.push_back({Kind::store, &tile, 0, host.at(name_of(tile))}); }
  void copy_in(TileState& tile, int space) override {
    flights.push_back({Kind::in, &tile, space, host.at(name_of(tile))});
  }
  void copy_out(TileState& tile, int space) override { flights.push_back({Kind::out, &tile, space, at(tile, space)}); }

  bool in_flight(const TileState& tile) const {
    return std::ranges::any_of(flights, [&](const auto& flight) { return flight.tile == &tile; });
  }
  Content& at(const TileState& tile, int space) {
    return space == 0 ? host.at(name_of(tile)) : device[space - 1][tile.copies->at(space).offset];
  }
  Content made(const TileState& tile, TaskId by) const { return {tile.array.id(), tile.box.start, by}; }

  /// One of those under way is done; what it copied from has not changed meanwhile.
  void land(Scheduler& scheduler, std::size_t which) {
    const Flight flight = flights[which];
    flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(which));
    TileState& tile = *flight.tile;
    switch (flight.kind) {
      case Kind::load:
        host.at(name_of(tile)) = flight.content.array ? flight.content : made(tile, 0);
        scheduler.loaded(tile, 0);
        return;
      case Kind::store:
        ASSERT_EQ(host.at(name_of(tile)), flight.content) << "changed while it was written";
        disk[name_of(tile)] = flight.content;
        scheduler.stored(tile);
        return;
      case Kind::in:
        ASSERT_EQ(host.at(name_of(tile)), flight.content) << "changed while it was copied";
        at(tile, flight.space) = flight.content;
        scheduler.copied_in(tile, flight.space);
        return;
      case Kind::out:
        ASSERT_EQ(at(tile, flight.space), flight.content) << "changed while it was copied";
        host.at(name_of(tile)) = flight.content;
        scheduler.copied_out(tile, flight.space);
    }
  }

  enum class Kind { load, store, in, out };
  struct Flight {
    Kind kind;
    TileState* tile;
    int space;
    Content content;
  };
  std::vector<Flight> flights;
  std::map<Name, Content> host, disk;
  std::map<std::uint64_t, Content> device[2];
};

class SpreadTest : public testing::Test {
 protected:
  explicit SpreadTest(std::uint64_t seed = 1) : random_(seed) {}

  std::size_t any(std::size_t below) { return random_() % below; }

  Region tile(std::size_t which) const {
    const Array& array = arrays_[which / rows];
    const auto i = static_cast<Index>(which % rows);
    return {array, {{i * edge, 0}, {edge, array.shape()[1]}}};
  }

  void add_one(Scheduler& scheduler) {
    TaskSpec task;
    task.name = "task";
    std::vector<std::size_t> tiles;
    const std::size_t wanted = 1 + any(3);
    while (tiles.size() < wanted) {
      const std::size_t which = any(3 * rows);
      if (std::ranges::find(tiles, which) == tiles.end()) tiles.push_back(which);
    }
    std::map<Name, TaskId> reads;
    std::vector<Region> changes;
    for (const std::size_t which : tiles) {
      const Region region = tile(which);
      const bool first = which == tiles.front();
      const std::size_t how = first && any(8) != 0 ? 1 + any(2) : any(10) < 8 ? 0 : 1 + any(2);
      Access access = how == 0 ? read(region) : how == 1 ? update(region) : write(region);
      if (how > 0 && any(6) == 0) access = again(access);
      if (how > 0 && any(6) == 0) access = once(access);
      task.accesses.push_back(access);
      if (how < 2) reads[{region.array.id(), region.box.start}] = newest_[{region.array.id(), region.box.start}];
      if (how > 0) changes.push_back(region);
    }
    if (any(4) != 0) {
      Call call(any(8) == 0 ? Kernel::gemm : Kernel::add, Dtype::float64, {{0}});
      call.alpha = 1.0 + static_cast<double>(any(2));
      task.calls = {call};
    } else {
      task.body = [](std::span<const Tile>) {};
    }
    const TaskState& added = scheduler.add(std::move(task), false, true);
    expected_[added.id] = std::move(reads);
    for (const Region& region : changes) newest_[{region.array.id(), region.box.start}] = added.id;
  }

  void look(const TaskState& task) {
    for (const auto& held : task.held) {
      if (!held.reads) continue;
      const Content expected = machine_.made(*held.tile, expected_.at(task.id).at(name_of(*held.tile)));
      ASSERT_EQ(machine_.at(*held.tile, task.space), expected) << "task " << task.id << " in space " << task.space;
    }
  }

  void start(Scheduler& scheduler) {
    std::vector<TaskState*> taken;
    if (const std::size_t space = any(3); space > 0)
      taken = scheduler.take_batch(static_cast<int>(space));
    else if (TaskState* task = scheduler.take())
      taken = {task};
    for (TaskState* task : taken) {
      look(*task);
      for (const auto& held : task->held)
        if (held.modifies) machine_.at(*held.tile, task->space) = {};
      running_.push_back(task);
    }
  }

  void finish(Scheduler& scheduler, std::size_t which) {
    TaskState* task = running_[which];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
    for (const auto& held : task->held)
      if (held.modifies)
        machine_.at(*held.tile, task->space) = machine_.made(*held.tile, task->id);
      else
        ASSERT_EQ(machine_.at(*held.tile, task->space).by, expected_.at(task->id).at(name_of(*held.tile)));
    expected_.erase(task->id);
    scheduler.finished(*task);
  }

  void check(Scheduler& scheduler) {
    std::uint64_t used = 0;
    auto& cache = const_cast<Cache&>(scheduler.cache());
    cache.for_each_tile([&](TileState& tile) {
      if (!tile.copies) return;
      const Copies& copies = *tile.copies;
      if (tile.where != Where::absent) used += tile.bytes;
      ASSERT_GE(tile.pins, 0);
      for (int space = 1; space <= 2; ++space) {
        const Copy& copy = copies.at(space);
        ASSERT_GE(copy.pins, 0);
        if (copy.pins > 0) ASSERT_NE(copy.state, State::invalid);
        if (copy.leaving) ASSERT_TRUE(copies.newest == space || (copies.newest == 0 && copy.state == State::valid));
        if (copies.newest == space) {
          ASSERT_EQ(copy.state, State::valid) << "M";
        } else if (copies.newest != 0) {
          ASSERT_TRUE(copy.state == State::invalid || copy.state == State::empty) << "M, and no S beside it";
        }
        if (copy.state == State::arriving) ASSERT_GT(tile.pins, 0) << "what it is copied from stays";
        ++reached_[static_cast<std::size_t>(copy.state)][copies.newest == space][copy.leaving];
      }
      if (copies.newest != 0) {
        ASSERT_FALSE(tile.dirty) << "at most one is newer than the disk";
        ASSERT_TRUE(tile.where != Where::resident || tile.storing);
      }
      if (tile.dirty) ASSERT_EQ(tile.where, Where::resident);
    });
    ASSERT_LE(used, scheduler.cache().used());
    ASSERT_LE(scheduler.cache().used(), scheduler.cache().capacity());
    for (const Residency& residency : scheduler.residencies())
      ASSERT_LE(residency.capacity() - residency.free(), residency.capacity());
  }

  /// Some `steps`, then to the end; and what is stored is what the last task made of each tile.
  void go(Scheduler& scheduler, std::size_t steps) {
    for (std::size_t step = 0; step < steps && !HasFatalFailure(); ++step) {
      const std::size_t what = any(3);
      if (what == 0 && scheduler.pending() < 40)
        add_one(scheduler);
      else if (what == 1 && !machine_.flights.empty())
        machine_.land(scheduler, any(machine_.flights.size()));
      else if (!running_.empty() && any(2) == 0)
        finish(scheduler, any(running_.size()));
      else
        start(scheduler);
      scheduler.pump();
      check(scheduler);
    }
    const auto until = [&](auto done) {
      for (int idle = 0; !done() && !HasFatalFailure(); ++idle) {
        ASSERT_LT(idle, 1000) << "nothing goes on";
        const bool busy = !machine_.flights.empty() || !running_.empty();
        if (!machine_.flights.empty()) machine_.land(scheduler, any(machine_.flights.size()));
        if (!running_.empty()) finish(scheduler, any(running_.size()));
        scheduler.pump();
        start(scheduler);
        if (busy) idle = 0;
      }
    };
    scheduler.want_memory();
    until([&] { return scheduler.idle(); });
    scheduler.store_kept(true);
    until([&] { return scheduler.drained(); });
    scheduler.memory_may_change();
    for (const auto& [name, by] : newest_) {
      if (name.first == arrays_[0].id()) ASSERT_EQ(machine_.disk[name].by, by) << name.second[0];
      if (name.first == arrays_[1].id()) ASSERT_EQ(machine_.host[name].by, by) << name.second[0];
    }
  }

  static std::byte* nowhere() { return reinterpret_cast<std::byte*>(page); }
  std::mt19937_64 random_;
  const std::vector<Array> arrays_{
      planned_array({rows * edge, edge}, Dtype::float64, {edge, edge}),
      memory_array(nowhere(), {rows * edge, edge + 1}, Dtype::float64, c_strides({rows * edge, edge + 1}, 8)),
      temporary_array({rows * edge, edge}, Dtype::float64, {edge, edge}, {"/nowhere", {}, {}}, Written::for_room)};
  ModelMachine machine_;
  std::vector<TaskState*> running_;
  std::map<Name, TaskId> newest_;
  std::map<TaskId, std::map<Name, TaskId>> expected_;
  std::size_t reached_[4][2][2] = {};  // state, whether newest, whether leaving

  /// Nothing has run yet.
  void begin() {
    machine_ = {};
    newest_.clear(), expected_.clear();
    for (std::size_t which = rows; which < 2 * rows; ++which) {
      const Region region = tile(which);
      machine_.host[{region.array.id(), region.box.start}] = {region.array.id(), region.box.start, 0};
    }
  }
};

TEST_F(SpreadTest, EveryTaskSeesWhatTheLastOneMade) {
  constexpr std::uint64_t least = 3 * page + 1024;  // of the largest task, with its workspace
  constexpr std::uint64_t memories[][3] = {
      {3 * charged(page), least, least}, {4 * charged(page), 5 * page, least}, {12 * charged(page), least, 8 * page}};
  for (const auto& [host, one, two] : memories) {
    for (std::size_t i = 0; i < 2; ++i) {
      const Spaces spaces{{std::make_shared<StatedDevice>("one", one), std::make_shared<StatedDevice>("two", two)},
                          [](const Region&, const Shape& at) { return static_cast<int>(at[0] % 3); }};
      begin();
      Scheduler scheduler(host, machine_, 2, spaces);
      go(scheduler, 170000);
      ASSERT_FALSE(HasFatalFailure());
      for (const Residency& residency : scheduler.residencies()) EXPECT_GT(residency.counts.tasks, 3000u);
    }
  }
  for (const State state : {State::empty, State::arriving, State::valid})
    EXPECT_GT(reached_[static_cast<std::size_t>(state)][0][0], 0u);
  EXPECT_GT(reached_[static_cast<std::size_t>(State::valid)][1][0], 0u);
  EXPECT_GT(reached_[static_cast<std::size_t>(State::valid)][1][1], 0u);
  EXPECT_GT(reached_[static_cast<std::size_t>(State::valid)][0][1], 0u) << "what one device has need not be loaded";
}

}  // namespace
}  // namespace flagstone
