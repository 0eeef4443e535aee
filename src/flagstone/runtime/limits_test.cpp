// What runs may hold, on the real machine and on the planner: partial sums, charges, refusals, the least memory, plans.
#include <array>
#include <atomic>
#include <cstdlib>

#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/small_runs.hpp"

namespace flagstone {
namespace {

class RuntimeLimits : public SmallRuns {};

/// Partial sums wait for others that the builder, held back by the lookahead, has not added yet.
TEST_F(RuntimeLimits, PartialSumsStayInMemoryWhereTheyFit) {
  options_.workers = 2;
  options_.lookahead = 3;
  std::vector<double> sum(elements);
  const Array y = memory_array(reinterpret_cast<std::byte*>(sum.data()), {elements}, Dtype::float64, {8});
  const auto builder = [&](Graph& graph) {
    for (int leaf = 0; leaf < 64; ++leaf)
      graph.add(task("leaf", {reduce({y, whole({elements})})}, [](auto t) { t[0].template as<double>()[0] += 1; }));
  };
  run(40 * tile_bytes, builder);
  EXPECT_EQ(stats_.bytes_written, 0u);
  EXPECT_EQ(sum[0], 64);
}

TEST_F(RuntimeLimits, PartialSumsThatSpillArePromisedTheirBytes) {
  std::vector<double> sum(elements);
  const Array y = memory_array(reinterpret_cast<std::byte*>(sum.data()), {elements}, Dtype::float64, {8});
  std::uint64_t held = 0;
  const auto builder = [&](Graph& graph) {
    for (int leaf = 0; leaf < 64; ++leaf)
      graph.add(task("leaf", {reduce({y, whole({elements})})}, [&](auto t) {
        t[0].template as<double>()[0] += 1;
        held = std::max(held, scratch_held(folder_));
      }));
  };
  options_.workers = 1;
  run(3 * tile_bytes, builder);
  EXPECT_EQ(sum[0], 64);
  EXPECT_GT(held, 0u);
  EXPECT_EQ(held % tile_bytes, 0u) << "files that have gone count no longer";
  EXPECT_EQ(scratch_held(folder_), 0u);
  options_.scratch_quota = tile_bytes - 1;
  EXPECT_THROW(run(3 * tile_bytes, builder), ScratchError);
}

TEST_F(RuntimeLimits, WhatTasksFreeIsGivenBackByTheirThreads) {
  void* volatile large = std::malloc(16 * MiB);  // volatile: what nobody looks at is left out
  std::free(large);  // from here on blocks below that come from the heap of a thread, which keeps 32 MiB
  std::vector<double> x(elements);
  const Array y = memory_array(reinterpret_cast<std::byte*>(x.data()), {elements}, Dtype::float64, {8});
  options_.workers = 1;
  const std::uint64_t before = resident_bytes();
  run(40 * tile_bytes, [&](Graph& graph) {
    graph.add(task("temporaries", {write({y, whole({elements})})}, [](auto t) {
      std::array<volatile char*, 6> blocks;
      for (volatile char*& block : blocks) {
        block = static_cast<volatile char*>(std::malloc(4 * MiB));
        for (std::size_t at = 0; at < 4 * MiB; at += page_bytes) block[at] = 1;
      }
      for (volatile char* block : blocks) std::free(const_cast<char*>(block));
      t[0].template as<double>()[0] = 1;
    }));
  });
  EXPECT_LT(resident_bytes(), before + 4 * MiB);
}

TEST_F(RuntimeLimits, WhatWouldSpillBeyondTheQuotaIsRefusedBeforeAnyWork) {
  const Index large = (8 * MiB) / 8;
  std::vector<double> sum(static_cast<std::size_t>(large));
  const Array y = memory_array(reinterpret_cast<std::byte*>(sum.data()), {large}, Dtype::float64, {8});
  std::atomic<int> ran = 0;
  const auto builder = [&](Graph& graph) {
    for (int leaf = 0; leaf < 40; ++leaf)
      graph.add(task("leaf", {reduce({y, whole({large})})}, [&](auto t) {
        ++ran;
        t[0].template as<double>()[0] += 1;
      }));
  };
  options_.workers = 1;
  options_.memory = 8 * GiB;
  options_.memory = Runtime(options_).least_memory(builder);
  options_.scratch_quota = MiB;
  Runtime runtime(options_);
  try {
    runtime.run(builder);
    FAIL() << "five partial sums of 8 MiB fitted";
  } catch (const ScratchError& error) {
    const std::string said = error.what();
    EXPECT_TRUE(said.starts_with("Runtime: needs ")) << said;
    EXPECT_NE(said.find(" of its quota of 1 MiB"), std::string::npos) << said;
  }
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(scratch_held(folder_), 0u);
  runtime.asks_for_scratch("sum", 4 * GiB);
  runtime.run(builder);
  EXPECT_EQ(sum[0], 40);
  EXPECT_EQ(scratch_held(folder_), 0u);
}

TEST_F(RuntimeLimits, WhatCannotFitIsRefusedBeforeItStarts) {
  const Array x = tiles(4);
  const auto builder = [&](Graph& graph) {
    graph.add(task("one", {write(tile(x, 0))}, [](auto) {}));
    graph.add(task("two", {read(tile(x, 0)), write(tile(x, 1)), scratch(tile_bytes)}, [](auto) {}));
  };
  EXPECT_THROW(run(3 * tile_bytes - 1, builder), BudgetError);
  run(3 * tile_bytes, builder);
  Simulator measuring(options_, {}, std::numeric_limits<std::int64_t>::max(), 0);
  measuring.run(builder);
  EXPECT_EQ(measuring.least_capacity(), 3 * tile_bytes);
}

TEST_F(RuntimeLimits, ChargesCountAndComeBack) {
  run(4 * tile_bytes, [&](Graph& graph) {
    EXPECT_EQ(graph.budget(), 4 * tile_bytes);
    {
      const Array held = graph.allocate({elements * 3}, Dtype::float64);
      EXPECT_EQ(graph.budget(), tile_bytes);
      EXPECT_THROW(graph.charge(2 * tile_bytes), BudgetError);
    }
    const Charge again = graph.charge(4 * tile_bytes);
    EXPECT_EQ(graph.budget(), 0u);
  });
}

// Between runs of tasks nothing else is under way: what leaves for a charge must be sent by who waits for it.
TEST_F(RuntimeLimits, AChargeWritesWhatLeavesForIt) {
  const Array x = tiles(4);
  std::vector<double> found(4);
  run(4 * tile_bytes, [&](Graph& graph) {
    for (Index i = 0; i < 4; ++i)
      graph.add(task("set", {again(write(tile(x, i)))}, [i](auto t) { t[0].template as<double>()[0] = i + 1.0; }));
    graph.barrier();
    {
      const Array held = graph.allocate({3 * elements}, Dtype::float64);
      EXPECT_EQ(graph.budget(), tile_bytes);
    }
    for (Index i = 0; i < 4; ++i)
      graph.add(task("add", {read(tile(x, i))},
                     [&, i](auto t) { found[static_cast<std::size_t>(i)] = t[0].template as<const double>()[0]; }));
    graph.barrier();
  });
  EXPECT_EQ(found, (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(RuntimeLimits, LeastMemoryWorksExactlyAndPeakStaysBelow) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory counts as resident";
#endif
  Runtime runtime(options_);
  const Array x = tiles(400);
  const auto builder = [&](Graph& graph) {
    for (Index i = 0; i < 400; ++i)
      graph.add(task("set", {write(tile(x, i)), scratch(8 * MiB)},
                     [](auto t) { std::fill_n(t[1].data, t[1].bytes, std::byte{1}); }));
  };
  const std::uint64_t least = runtime.least_memory(builder);
  RuntimeOptions options = options_;
  options.memory = least;
  Runtime tight(options);
  const Statistics stats = tight.run(builder);
  EXPECT_LE(stats.peak_memory, least);
  options.memory = least - 12 * MiB;
  EXPECT_THROW(Runtime(options).plan(builder), BudgetError);
}

TEST_F(RuntimeLimits, ARefusalNamesMoreThanTheLimit) {
  std::vector<std::byte> held(256 * MiB, std::byte{1});  // gone when the need is counted
  RuntimeOptions options = options_;
  options.memory = resident_bytes() + Runtime(options_).reserve() + 16 * MiB;
  const Array x = tiles(1);
  const auto builder = [&](Graph& graph) {
    held = {};
    graph.add(task("one", {write(tile(x, 0)), scratch(64 * MiB)}, [](auto) {}));
  };
  try {
    Runtime(options).run(builder);
    FAIL();
  } catch (const BudgetError& error) {
    EXPECT_GT(error.least, options.memory);
  }
}

TEST_F(RuntimeLimits, PlansCountWhatRunsDo) {
  const Array x = tiles(64);
  const auto builder = [&](Graph& graph) {
    for (Index i = 0; i < 64; ++i) graph.add(task("set", {write(tile(x, i))}, [](auto) {}));
    graph.barrier();
    for (int pass = 0; pass < 3; ++pass) {
      for (Index i = 0; i < 64; ++i) {
        TaskSpec scan =
            task("scan", {read(tile(x, i))}, [](auto) { std::this_thread::sleep_for(std::chrono::microseconds(500)); });
        scan.cost.flops = 5e7;  // the planner's half a millisecond
        graph.add(std::move(scan));
      }
      graph.barrier();
    }
  };
  const std::uint64_t capacity = 32 * tile_bytes;
  run(capacity, builder);
  Simulator simulator(options_, {}, capacity, capacity);
  simulator.run(builder);
  const Statistics planned = simulator.statistics();
  EXPECT_EQ(planned.bytes_written, 64 * tile_bytes);
  EXPECT_EQ(stats_.bytes_written, 64 * tile_bytes);
  // Passes over 64 tiles with room for 32: cyclic scans keep a part instead of nothing (LRU would read all).
  EXPECT_LT(planned.bytes_read, 3 * 50 * tile_bytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // there tasks take longer than their cost says
  EXPECT_NEAR(static_cast<double>(planned.bytes_read), static_cast<double>(stats_.bytes_read),
              0.15 * planned.bytes_read);
#endif
}

TEST_F(RuntimeLimits, CallsAreRunAndCountedByKernel) {
  const auto builder = [&](Graph& graph) {
    const Array x = tiles(4), sum = tiles(1);
    for (Index i = 0; i < 4; ++i)
      graph.add(task("fill", {write(tile(x, i))}, [i](std::span<const Tile> t) {
        std::fill_n(t[0].as<double>(), elements, static_cast<double>(i));
      }));
    for (Index i = 0; i < 4; ++i) {
      TaskSpec spec = task("gather", {read(tile(x, i)), i == 0 ? write(tile(sum, 0)) : update(tile(sum, 0))}, {});
      if (i == 0) spec.calls.push_back(call::zero(Dtype::float64, {1}));
      spec.calls.push_back(call::add(Dtype::float64, {0}, {1}));
      spec.calls.back().flops = elements;
      spec.cost.flops = elements;
      graph.add(std::move(spec));
    }
    graph.await({read(tile(sum, 0))}, [](std::span<const Tile> t) { EXPECT_EQ(t[0].as<double>()[elements - 1], 6); });
  };
  run(MiB, builder);
  Simulator simulator(options_, {}, MiB, MiB);
  simulator.run(builder);
  for (const Statistics& stats : {stats_, simulator.statistics()}) {
    EXPECT_EQ(stats.of(Kernel::zero).calls, 1u);
    EXPECT_EQ(stats.of(Kernel::add).calls, 4u);
    EXPECT_EQ(stats.of(Kernel::add).flops, stats.flops);
    EXPECT_GT(stats.of(Kernel::add).seconds, 0);
  }
}

}  // namespace
}  // namespace flagstone
