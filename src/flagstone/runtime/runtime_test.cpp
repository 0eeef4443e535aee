// Graphs on the real machine: dependencies, reductions, errors, growing graphs.
#include "flagstone/runtime/runtime.hpp"

#include <atomic>
#include <fstream>
#include <mutex>
#include <random>

#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/small_runs.hpp"

namespace flagstone {
namespace {

class RuntimeTest : public SmallRuns {};

TEST_F(RuntimeTest, ProgramOrderDecidesWhateverTheLimit) {
  // x[i] := i, then many updates in program order; spills to scratch when memory holds three tiles.
  for (const std::uint64_t capacity : {2 * tile_bytes, 3 * tile_bytes, 64 * tile_bytes}) {
    for (const int workers : {1, 2, 4}) {
      options_.workers = workers;
      const Index n = 16;
      const Array x = tiles(n);
      std::vector<double> expected(n);
      std::vector<double> found(n);
      std::mt19937 random(7);
      run(capacity, [&](Graph& graph) {
        for (Index i = 0; i < n; ++i) {
          expected[i] = static_cast<double>(i);
          graph.add(task("set", {write(tile(x, i))}, [i](auto t) { t[0].template as<double>()[0] = i; }));
        }
        for (int step = 0; step < 200; ++step) {
          const Index i = random() % n, j = random() % n;
          if (i == j) continue;
          expected[i] = 0.5 * expected[i] + expected[j] + 1;
          graph.add(task("mix", {update(tile(x, i)), read(tile(x, j))}, [](auto t) {
            auto& a = t[0].template as<double>()[0];
            a = 0.5 * a + t[1].template as<double>()[0] + 1;
          }));
        }
        for (Index i = 0; i < n; ++i)
          graph.await({read(tile(x, i))}, [&](auto t) { found[i] = t[0].template as<double>()[0]; });
      });
      EXPECT_EQ(found, expected) << "capacity " << capacity << ", workers " << workers;
      EXPECT_LE(stats_.peak_budget, capacity);
      if (capacity == 2 * tile_bytes) {
        EXPECT_GT(stats_.bytes_written, 0u);
      }
    }
  }
}

TEST_F(RuntimeTest, ReductionsKeepTheirBits) {
  const int leaves = 37;
  std::vector<double> first;
  for (const int workers : {1, 2, 4})
    for (const std::uint64_t capacity : {3 * tile_bytes, 40 * tile_bytes}) {
      options_.workers = workers;
      std::vector<double> sum(elements, 1.0);
      const Array y = memory_array(reinterpret_cast<std::byte*>(sum.data()), {elements}, Dtype::float64, {8});
      run(capacity, [&](Graph& graph) {
        for (int leaf = 0; leaf < leaves; ++leaf)
          graph.add(task("leaf", {reduce({y, whole({elements})})}, [leaf](auto t) {
            for (Index i = 0; i < elements; ++i) {
              EXPECT_EQ(t[0].template as<double>()[i], 0.0);
              t[0].template as<double>()[i] += 1.0 / (1 + leaf + i);
            }
          }));
      });
      if (first.empty()) first = sum;
      EXPECT_EQ(sum, first);
      double exact = 1;
      for (int leaf = 0; leaf < leaves; ++leaf) exact += 1.0 / (1 + leaf);
      EXPECT_NEAR(sum[0], exact, 1e-14);
    }
}

/// The calls of a task come before its body, which sees what they made.
TEST_F(RuntimeTest, CallsRunBeforeTheBody) {
  const Array x = tiles(1);
  std::vector<double> found;
  run(4 * tile_bytes, [&](Graph& graph) {
    TaskSpec spec = task("both", {write(tile(x, 0))}, [&](auto t) { found.push_back(t[0].template as<double>()[7]); });
    spec.calls = {call::fill(Dtype::float64, 3, {0}), call::fill(Dtype::float64, 5, {0, false, false, {{7}, {1}}})};
    graph.add(std::move(spec));
    graph.await({read(tile(x, 0))}, [&](auto t) { found.push_back(t[0].template as<double>()[6]); });
  });
  EXPECT_EQ(found, (std::vector<double>{5, 3}));
  EXPECT_EQ(stats_.of(Kernel::fill).calls, 2u);
}

TEST_F(RuntimeTest, WhatIsKeptForNobodyIsWrittenInTheEnd) {
  const Array x = tiles(4);
  const auto builder = [&](Graph& graph) {
    for (Index i = 0; i < 4; ++i)
      graph.add(task("kept", {again(write(tile(x, i)))}, [i](auto t) { t[0].template as<double>()[0] = i + 1.0; }));
  };
  run(8 * tile_bytes, builder);
  EXPECT_EQ(stats_.bytes_written, 4 * tile_bytes);
  std::vector<double> found(4);
  run(8 * tile_bytes, [&](Graph& graph) {
    for (Index i = 0; i < 4; ++i)
      graph.await({read(tile(x, i))}, [&](auto t) { found[i] = t[0].template as<double>()[0]; });
  });
  EXPECT_EQ(found, (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(RuntimeTest, GraphsGrowAfterReadingValuesAtTheLeastMemory) {
  // Breadth-first expansion: each level's size is read from the tiles of the one before.
  const Array x = tiles(64);
  int levels = 0;
  run(2 * tile_bytes, [&](Graph& graph) {
    std::vector<Index> frontier{0};
    graph.add(task("root", {write(tile(x, 0))}, [](auto t) { t[0].template as<double>()[0] = 2; }));
    Index used = 1;
    while (!frontier.empty()) {
      ++levels;
      std::vector<Index> next;
      for (const Index i : frontier) {
        double children = 0;
        graph.await({read(tile(x, i))}, [&](auto t) { children = t[0].template as<double>()[0]; });
        for (int c = 0; c < static_cast<int>(children) && used < 64; ++c, ++used) {
          graph.add(task("child", {read(tile(x, i)), write(tile(x, used))},
                         [](auto t) { t[1].template as<double>()[0] = t[0].template as<double>()[0]; }));
          next.push_back(used);
        }
      }
      frontier = next;
    }
  });
  EXPECT_EQ(levels, 7);  // 1 + 2 + ... + 32 = 63, one more level for the 64th
}

TEST_F(RuntimeTest, RunningTasksMayAddTasks) {
  std::atomic<int> done = 0;
  const Array x = tiles(2);
  run(4 * tile_bytes, [&](Graph& graph) {
    graph.add(task("parent", {write(tile(x, 0))}, [&](auto) {
      for (int i = 0; i < 10; ++i) graph.add(task("child", {}, [&](auto) { ++done; }));
    }));
  });
  EXPECT_EQ(done, 10);
  // Children that cannot end before their parent does fill the lookahead.
  options_.lookahead = 4;
  std::atomic<bool> parent_ended = false;
  struct Ending {
    std::atomic<bool>& ended;
    ~Ending() { ended = true, ended.notify_all(); }
  };
  EXPECT_THROW(run(4 * tile_bytes,
                   [&](Graph& graph) {
                     graph.add(task("parent", {}, [&](auto) {
                       const Ending ending{parent_ended};
                       for (int i = 0; i < 10; ++i)
                         graph.add(task("child", {}, [&](auto) { parent_ended.wait(false); }));
                     }));
                   }),
               Error);
}

TEST_F(RuntimeTest, OneProcessAgreesWithItself) {
  const auto builder = [](Graph& graph) {
    EXPECT_TRUE(graph.agree(true));
    EXPECT_FALSE(graph.agree(false));
    EXPECT_EQ(graph.rank(), 0);
    EXPECT_EQ(graph.ranks(), 1);
    const Array array = graph.allocate({8, 8}, Dtype::float64);
    graph.distribute(array, Distribution::block_cyclic({4, 4}, 2, 2));
    EXPECT_THROW(graph.distribute(array, Distribution::one({4}, 0)), ShapeError);
    EXPECT_TRUE(graph.concerns({}));
  };
  run(MiB, builder);
  Simulator(options_, {}, MiB, MiB).run(builder);
}

TEST_F(RuntimeTest, AfterOrdersWhatAccessesDoNotExpress) {
  std::vector<int> order;
  run(MiB, [&](Graph& graph) {
    TaskSpec a = task("a", {}, [&](auto) { order.push_back(1); });
    const TaskId first = graph.add(std::move(a));
    TaskSpec b = task("b", {}, [&](auto) { order.push_back(2); });
    b.after = {first};
    graph.add(std::move(b));
  });
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_F(RuntimeTest, TheFirstErrorLeavesAsItself) {
  struct Mine : std::exception {};
  const Array x = tiles(8);
  Executor executor(*ring_, options_, space(), 8 * tile_bytes, {});
  EXPECT_THROW(executor.run([&](Graph& graph) {
    for (Index i = 0; i < 8; ++i)
      graph.add(task("fails", {write(tile(x, i))}, [i](auto) {
        if (i == 5) throw Mine();
      }));
  }),
               Mine);
  EXPECT_EQ(executor.failed_in(), "in task 'fails' (tile 8192 at 40960)");
}

TEST_F(RuntimeTest, TheHeartbeatCancels) {
  struct Cancel {};
  Executor executor(*ring_, options_, space(), MiB, [](const Statistics&) { throw Cancel(); });
  EXPECT_THROW(executor.run([&](Graph& graph) {
    graph.add(task("long", {}, [](auto) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }));
  }),
               Cancel);
}

TEST_F(RuntimeTest, PlansHearTheHeartbeat) {
  struct Cancel {};
  const Array x = tiles(8);
  Simulator simulator(options_, {}, 8 * tile_bytes, 0, [](const Statistics&) { throw Cancel(); });
  EXPECT_THROW(simulator.run([&](Graph& graph) {
    for (;;) graph.add(task("endless", {update(tile(x, 0))}, {}));
  }),
               Cancel);
}

/// A ring that refuses at one submit and keeps the requests: they go out with what comes next, as io_uring's do.
class RefusingRing final : public Ring {
 public:
  explicit RefusingRing(int at) : left_(at) {}
  void submit(std::span<const Request> requests) override {
    std::lock_guard lock(mutex_);
    kept_.insert(kept_.end(), requests.begin(), requests.end());
    if (!requests.empty() && left_-- == 0) throw StorageError("io: the kernel takes no requests", ENOMEM, "ring");
    ring_->submit(std::exchange(kept_, {}));
  }
  std::size_t reap(std::span<Completion> out) override { return ring_->reap(out); }
  void wake() override {
    submit({});
    ring_->wake();
  }
  std::string describe() const override { return "refusing"; }

 private:
  std::mutex mutex_;
  int left_;
  std::vector<Request> kept_;
  std::unique_ptr<Ring> ring_ = make_ring({.kind = "threads"});
};

TEST_F(RuntimeTest, ARefusingRingEndsTheRunWhateverItDoesLater) {
  const Array x = tiles(64);
  for (int at = 0; at < 6; ++at) {
    RefusingRing ring(at);
    Executor executor(ring, options_, space(), 3 * tile_bytes, {});
    EXPECT_THROW(executor.run([&](Graph& graph) {
      for (int pass = 0; pass < 2; ++pass)
        for (Index i = 0; i < 64; ++i)
          graph.add(task("set", {pass == 0 ? write(tile(x, i)) : update(tile(x, i))}, [](auto) {}));
    }),
                 StorageError);
    EXPECT_TRUE(executor.ring_lost());
  }
}

TEST_F(RuntimeTest, ScratchThatIsAFileIsSaid) {
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "not a directory";
  options_.scratch = file;
  options_.memory = resident_bytes() + GiB;
  Runtime runtime(options_);
  try {
    runtime.run([](Graph&) {});
    ADD_FAILURE() << "accepted";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.filename, file);
    EXPECT_EQ(error.number, ENOTDIR);
  }
}

TEST_F(RuntimeTest, AbsurdNumbersOfWorkersAreRefused) {
  options_.workers = 1'000'000;
  EXPECT_THROW(Runtime{options_}, Error);
}

TEST_F(RuntimeTest, OverlappingBoxesOfAWrittenArrayAreRefused) {
  std::vector<double> numbers(100);
  const Array x = memory_array(reinterpret_cast<std::byte*>(numbers.data()), {100}, Dtype::float64, {8});
  EXPECT_THROW(run(MiB,
                   [&](Graph& graph) {
                     graph.add(task("a", {write({x, {{0}, {60}}})},
                                    [](auto) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }));
                     graph.add(task("b", {read({x, {{50}, {50}}})}, [](auto) {}));
                   }),
               ShapeError);
}

}  // namespace
}  // namespace flagstone
