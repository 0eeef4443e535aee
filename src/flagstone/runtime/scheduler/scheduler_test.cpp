// What the scheduler decides, watched from the machine's side: what is written behind, who may go first.
#include "flagstone/runtime/scheduler/scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "flagstone/storage/array/scratch_array.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"

namespace flagstone {
namespace {

/// Does nothing at once: loads have completed when pump() returns, stores when the test says so.
class IdleMachine : public Machine {
 public:
  void allocate(TileState&) override {}
  void release(TileState& tile) override { released.emplace_back(tile.array.id(), tile.box.start[0]); }
  void allocate_scratch(TaskState&) override {}
  void release_scratch(TaskState&) override {}
  Transfer transfer_to_store(TileState& tile) override { return tile.array.store().read(tile.box); }
  void load(TileState& tile, Transfer) override { loading.push_back(&tile); }
  void store(TileState& tile, Transfer) override { storing.push_back(&tile); }

  std::vector<TileState*> loading, storing;
  std::vector<std::pair<const void*, Index>> released;  // which array's, and from which row
};

class SchedulerTest : public testing::Test {
 protected:
  static constexpr Index edge = 96;  // of more than 64 KiB, so that nothing else is charged
  static constexpr std::uint64_t tile_bytes = edge * edge * 8;

  Region tile(Index i) const { return {array_, {{i * edge, 0}, {edge, edge}}}; }
  static TaskState& add(Scheduler& scheduler, std::vector<Access> accesses) {
    TaskSpec task;
    task.name = "task";
    task.accesses = std::move(accesses);
    return scheduler.add(std::move(task), false, true);
  }
  void pump(Scheduler& scheduler) {
    scheduler.pump();
    for (TileState* loaded : std::exchange(machine_.loading, {})) scheduler.loaded(*loaded, 0);
  }
  /// Runs what take() gives, which must be `expected`.
  void run(Scheduler& scheduler, const TaskState& expected) {
    pump(scheduler);
    TaskState* task = scheduler.take();
    ASSERT_EQ(task, &expected);
    scheduler.finished(*task);
  }

  Array array_ = planned_array({100 * edge, edge}, Dtype::float64, {edge, edge});
  IdleMachine machine_;
};

TEST_F(SchedulerTest, WritesAFinishedTileWhileOthersReadIt) {
  Scheduler scheduler(10 * tile_bytes, machine_, 2);
  const TaskState& made = add(scheduler, {write(tile(0))});
  const TaskState& changed = add(scheduler, {update(tile(0))});
  const TaskState& first = add(scheduler, {read(tile(0))});
  const TaskState& second = add(scheduler, {read(tile(0))});
  run(scheduler, made);
  EXPECT_TRUE(machine_.storing.empty()) << "it is changed again";
  run(scheduler, changed);
  ASSERT_EQ(machine_.storing.size(), 1u) << "it is as it will stay";
  run(scheduler, first);
  scheduler.stored(*machine_.storing[0]);
  run(scheduler, second);
  EXPECT_EQ(machine_.storing.size(), 1u) << "and is written once";
  EXPECT_TRUE(scheduler.drained());
}

TEST_F(SchedulerTest, DoesNotWriteWhatAReaderInSightEnds) {
  Scheduler scheduler(10 * tile_bytes, machine_, 2);
  const TaskState& made = add(scheduler, {write(tile(0))});
  const TaskState& reader = add(scheduler, {read(tile(0))});
  const TaskState& end = add(scheduler, {last(read(tile(0)))});
  for (const TaskState* task : {&made, &reader, &end}) run(scheduler, *task);
  EXPECT_TRUE(machine_.storing.empty());
  EXPECT_EQ(machine_.released.size(), 1u);
  EXPECT_TRUE(scheduler.drained());
}

TEST_F(SchedulerTest, KeepsForATaskThatIsYetToBeAdded) {
  Scheduler scheduler(10 * tile_bytes, machine_, 2);
  run(scheduler, add(scheduler, {again(write(tile(0)))}));
  EXPECT_TRUE(machine_.storing.empty());
  scheduler.store_kept(false);
  EXPECT_EQ(machine_.storing.size(), 1u);
}

/// What is stored for a checkpoint leaves the queue of dirty tiles: a tile that was left there would be dropped twice,
/// or read when it is gone.
TEST_F(SchedulerTest, WhatACheckpointStoredMayBeDropped) {
  Scheduler scheduler(5 * tile_bytes, machine_, 1);
  for (Index i = 0; i < 5; ++i) run(scheduler, add(scheduler, {again(write(tile(i)))}));
  scheduler.store_kept(false);
  ASSERT_EQ(machine_.storing.size(), 5u);
  for (TileState* tile : std::exchange(machine_.storing, {})) scheduler.stored(*tile);
  for (Index i = 5; i < 10; ++i) run(scheduler, add(scheduler, {again(write(tile(i)))}));
  ASSERT_EQ(machine_.released.size(), 5u);
  std::vector<Index> rows;
  for (const auto& [id, row] : machine_.released) rows.push_back(row / edge);
  std::ranges::sort(rows);
  EXPECT_EQ(rows, (std::vector<Index>{0, 1, 2, 3, 4}));
  scheduler.store_kept(false);
  EXPECT_EQ(machine_.storing.size(), 5u);
}

/// Nobody reads it after the run: its room alone is a reason to write it, and then before the workers run dry.
TEST_F(SchedulerTest, WritesATemporaryTileForItsRoomAlone) {
  array_ = temporary_array({100 * edge, edge}, Dtype::float64, {edge, edge}, {"/nowhere", {}, {}}, Written::for_room);
  Scheduler scheduler(3 * tile_bytes, machine_, 1);
  const TaskState& made = add(scheduler, {write(tile(0))});
  const TaskState& other = add(scheduler, {write(tile(1))});
  const TaskState& reader = add(scheduler, {read(tile(0))});
  for (int i = 0; i < 20; ++i) add(scheduler, {update(tile(1))});
  add(scheduler, {read(tile(0))});
  for (const TaskState* task : {&made, &other, &reader}) run(scheduler, *task);
  EXPECT_TRUE(machine_.storing.empty());
  scheduler.store_kept(false);
  EXPECT_TRUE(machine_.storing.empty()) << "what is synced is not it";
}

TEST_F(SchedulerTest, TheTemporaryTileNeededLastLeavesWhileOthersRun) {
  array_ = temporary_array({100 * edge, edge}, Dtype::float64, {edge, edge}, {"/nowhere", {}, {}}, Written::for_room);
  Scheduler scheduler(2 * tile_bytes, machine_, 1);
  run(scheduler, add(scheduler, {write(tile(0))}));
  const TaskState& running = add(scheduler, {write(tile(1))});
  const TaskState& next = add(scheduler, {write(tile(2))});
  for (int i = 0; i < 20; ++i) add(scheduler, {update(tile(1)), update(tile(2))});
  add(scheduler, {read(tile(0)), read(tile(1))});
  pump(scheduler);
  ASSERT_EQ(machine_.storing.size(), 1u) << "beside a task that runs";
  EXPECT_EQ(machine_.storing[0]->box.start[0], 0);
  ASSERT_EQ(scheduler.take(), &running);
  scheduler.stored(*machine_.storing[0]);
  pump(scheduler);
  EXPECT_EQ(scheduler.take(), &next);
}

TEST_F(SchedulerTest, WhatLiesInMemoryGoesPastATaskThatWaitsForRoom) {
  Scheduler scheduler(3 * tile_bytes + 4096, machine_, 1);
  const TaskState& made = add(scheduler, {update(tile(0))});
  const TaskState& large = add(scheduler, {read(tile(1)), read(tile(2)), write(tile(3))});
  const TaskState& reader = add(scheduler, {read(tile(0)), scratch(4096)});
  run(scheduler, made);
  run(scheduler, reader);
  scheduler.stored(*machine_.storing.at(0));
  run(scheduler, large);
}

TEST_F(SchedulerTest, AWaitingTaskIsNotOvertakenForEver) {
  Scheduler scheduler(3 * tile_bytes, machine_, 1);
  add(scheduler, {read(tile(0))});
  const TaskState& large = add(scheduler, {read(tile(1)), read(tile(2)), read(tile(3))});
  add(scheduler, {read(tile(0))});
  int before = 0;
  for (; before < 1000; ++before) {
    add(scheduler, {read(tile(0))});
    pump(scheduler);
    TaskState* task = scheduler.take();
    ASSERT_NE(task, nullptr);
    if (task == &large) break;
    scheduler.finished(*task);
  }
  EXPECT_GT(before, 3);
  EXPECT_LT(before, 64);
}

/// Of several arrays that are read again and again the one named last gives way, and of it the tile used last.
TEST_F(SchedulerTest, TheArrayNamedLastGivesWay) {
  const Array other = planned_array({100 * edge, edge}, Dtype::float64, {edge, edge});
  Scheduler scheduler(5 * tile_bytes, machine_, 1);
  const auto part = [&](const Array& array, Index i) { return Region{array, {{i * edge, 0}, {edge, edge}}}; };
  for (Index i = 0; i < 2; ++i)
    for (const Array& array : {array_, other}) run(scheduler, add(scheduler, {read(part(array, i))}));
  run(scheduler, add(scheduler, {read(part(array_, 0))}));
  add(scheduler, {read(part(array_, 9))}), add(scheduler, {read(part(other, 9))});
  pump(scheduler);
  ASSERT_EQ(machine_.released.size(), 1u);
  EXPECT_EQ(machine_.released[0], std::pair(other.id(), edge));
}

/// What is streamed goes out when it is whole, though somebody reads it and changes it later, and is loaded by who
/// reads it: no timing saves a transfer.
TEST_F(SchedulerTest, WhatIsStreamedGoesThroughTheDisk) {
  const Array streamed =
      temporary_array({4 * edge, edge}, Dtype::float64, {edge, edge}, {"/tmp", "test", {}}, Written::streamed);
  const auto part = [&](Index i) { return Region{streamed, {{i * edge, 0}, {edge, edge}}}; };
  Scheduler scheduler(10 * tile_bytes, machine_, 2);
  const TaskState& begun = add(scheduler, {again(write(part(0)))});
  const TaskState& whole = add(scheduler, {update(part(0))});
  add(scheduler, {read(part(0))});
  const TaskState& later = add(scheduler, {write(part(0))});
  run(scheduler, begun);
  EXPECT_TRUE(machine_.storing.empty()) << "somebody adds to it";
  run(scheduler, whole);
  ASSERT_EQ(machine_.storing.size(), 1u) << "it is overwritten, but read before that";
  pump(scheduler);
  EXPECT_EQ(scheduler.take(), nullptr) << "its reader waits for the store";
  EXPECT_TRUE(machine_.released.empty());
  scheduler.stored(*machine_.storing[0]);
  EXPECT_EQ(machine_.released.size(), 1u);
  scheduler.pump();
  ASSERT_EQ(machine_.loading.size(), 1u);
  scheduler.loaded(*std::exchange(machine_.loading, {})[0], 0);
  scheduler.finished(*scheduler.take());
  run(scheduler, later);
  EXPECT_EQ(machine_.storing.size(), 2u);
  EXPECT_FALSE(scheduler.drained());
  scheduler.stored(*machine_.storing[1]);
  EXPECT_TRUE(scheduler.drained());
}

/// Its next change was admitted beside the one before, and may not touch what is on its way to the disk.
TEST_F(SchedulerTest, AChangeWaitsForWhatIsStreamed) {
  const Array streamed =
      temporary_array({edge, edge}, Dtype::float64, {edge, edge}, {"/tmp", "test", {}}, Written::streamed);
  const Region all{streamed, whole(streamed.shape())};
  Scheduler scheduler(10 * tile_bytes, machine_, 2);
  const TaskState& first = add(scheduler, {write(all)});
  const TaskState& next = add(scheduler, {update(all)});
  run(scheduler, first);
  pump(scheduler);
  ASSERT_EQ(machine_.storing.size(), 1u);
  EXPECT_EQ(scheduler.take(), nullptr);
  scheduler.stored(*machine_.storing[0]);
  run(scheduler, next);
  EXPECT_EQ(machine_.storing.size(), 2u);
}

}  // namespace
}  // namespace flagstone
