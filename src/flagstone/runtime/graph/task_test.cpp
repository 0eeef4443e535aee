#include "flagstone/runtime/graph/task.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

struct TaskTest : testing::Test {
  TaskTest() {
    RuntimeOptions options;
    options.memory = resident_bytes() + 256 * MiB;
    options.workers = 3;
    options.scratch = directory / "scratch";
    runtime = std::make_unique<Runtime>(options);
    numbers.assign(1000, 0.0);
    array = memory_array(reinterpret_cast<std::byte*>(numbers.data()), {1000}, Dtype::float64, {8});
  }
  Region part(Index i) { return {array, {{i * 100}, {100}}}; }

  TemporaryDirectory directory;
  std::unique_ptr<Runtime> runtime;
  std::vector<double> numbers;
  Array array;
};

struct Set final : Task {
  Set(Region target, double value) : Task("set"), value_(value) { output(std::move(target)); }
  void execute(std::span<const Tile> tiles) override { std::fill_n(tiles[0].as<double>(), tiles[0].shape[0], value_); }
  double value_;
};
struct AddInto final : Task {
  AddInto(Region from, Region to) : Task("add"), from_(input(std::move(from))), to_(update(std::move(to))) {
    work_ = scratch(100);
  }
  void execute(std::span<const Tile> tiles) override {
    EXPECT_EQ(tiles[work_].bytes, 100u);
    for (Index i = 0; i < tiles[to_].shape[0]; ++i) tiles[to_].as<double>()[i] += tiles[from_].as<double>()[i];
  }
  Cost cost() const override { return {.flops = 100}; }
  std::size_t from_, to_, work_;
};

TEST_F(TaskTest, DerivedTasksDependOnEachOtherByWhatTheyTouch) {
  const Statistics stats = runtime->run([&](Graph& graph) {
    for (Index i = 0; i < 10; ++i) graph.add(std::make_shared<Set>(part(i), static_cast<double>(i)));
    for (Index i = 1; i < 10; ++i) graph.add(std::make_shared<AddInto>(part(i - 1), part(i)));
  });
  for (Index i = 0; i < 10; ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i * 100)], i * (i + 1) / 2.0);
  EXPECT_EQ(stats.flops, 900);
  EXPECT_EQ(stats.tasks, 19u);
}

/// Notes when it ran.
struct Note final : Task {
  Note(std::vector<int>& log, std::mutex& mutex, int number)
      : Task("note"), log_(log), mutex_(mutex), number_(number) {}
  void execute(std::span<const Tile>) override {
    std::lock_guard lock(mutex_);
    log_.push_back(number_);
  }
  std::vector<int>& log_;
  std::mutex& mutex_;
  int number_;
};

TEST_F(TaskTest, SerialAndParallelCompositionsKeepTheirOrder) {
  for (int round = 0; round < 20; ++round) {
    std::vector<int> log;
    std::mutex mutex;
    const auto note = [&](int number) { return std::make_shared<Note>(log, mutex, number); };
    runtime->run([&](Graph& graph) {
      const Composition fan = parallel({note(1), serial({note(2), note(3)}), note(4)});
      const Composition next = parallel({note(5), note(6)});
      const auto ends = add(graph, serial({note(0), fan, next, note(7)}));
      EXPECT_EQ(ends.size(), 1u);
      graph.add(note(8), ends);
    });
    ASSERT_EQ(log.size(), 9u);
    const auto when = [&](int number) { return std::find(log.begin(), log.end(), number) - log.begin(); };
    EXPECT_EQ(when(0), 0);
    EXPECT_LT(when(2), when(3));
    for (const int first : {1, 2, 3, 4})
      for (const int second : {5, 6}) EXPECT_LT(when(first), when(second));
    EXPECT_EQ(when(7), 7);
    EXPECT_EQ(when(8), 8);
  }
}

TEST_F(TaskTest, ParentsAreExplicitWhereAccessesSayNothing) {
  for (int round = 0; round < 20; ++round) {
    std::vector<int> log;
    std::mutex mutex;
    runtime->run([&](Graph& graph) {
      std::shared_ptr<Note> before;
      for (int i = 0; i < 10; ++i) {
        auto task = std::make_shared<Note>(log, mutex, i);
        if (before) task->after(before);
        graph.add(task);
        before = task;
      }
    });
    EXPECT_TRUE(std::is_sorted(log.begin(), log.end()));
  }
}

/// Waits until it is told to go on.
struct Gate final : Task {
  explicit Gate(std::shared_future<void> open) : Task("gate"), open_(std::move(open)) {}
  void execute(std::span<const Tile>) override { open_.wait(); }
  std::shared_future<void> open_;
};

TEST_F(TaskTest, HigherPrioritiesGoFirstAmongWhatCanRun) {
  RuntimeOptions options = runtime->options();
  options.workers = 1;
  std::vector<int> log;
  std::mutex mutex;
  Runtime(options).run([&](Graph& graph) {
    std::promise<void> open;
    graph.add(std::make_shared<Gate>(open.get_future().share()));  // the worker is busy while the others are added
    for (const int priority : {0, 2, -1, 7, 2, 5}) {
      auto task = std::make_shared<Note>(log, mutex, priority);
      task->set_priority(priority);
      graph.add(std::move(task));
    }
    open.set_value();
  });
  EXPECT_EQ(log, (std::vector<int>{7, 5, 2, 2, 0, -1}));
}

TEST_F(TaskTest, WhatCannotBeIsSaid) {
  std::vector<int> log;
  std::mutex mutex;
  const auto message = [&](const std::function<void(Graph&)>& builder) -> std::string {
    try {
      runtime->run(builder);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const auto a = std::make_shared<Note>(log, mutex, 1), b = std::make_shared<Note>(log, mutex, 2);
  b->after(a);
  EXPECT_THAT(message([&](Graph& graph) { graph.add(b); }), testing::HasSubstr("add parents first"));
  EXPECT_EQ(message([&](Graph& graph) { graph.add(a), graph.add(b); }), "none");
  EXPECT_THAT(message([&](Graph& graph) { graph.add(a); }), testing::HasSubstr("was added before"));
  EXPECT_THAT(message([&](Graph& graph) { graph.add(std::shared_ptr<Task>()); }), testing::HasSubstr("null task"));
}

TEST_F(TaskTest, TheGraphLetsTasksGoOnceTheyHaveRun) {
  std::weak_ptr<Set> watched;
  runtime->run([&](Graph& graph) {
    auto task = std::make_shared<Set>(part(0), 1.0);
    watched = task;
    graph.add(std::move(task));
    graph.barrier();
    EXPECT_TRUE(watched.expired());
  });
}

}  // namespace
}  // namespace flagstone
