// What plans cost the process: their memory is given back, and is small.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

constexpr Index rows = 4000, columns = 800, width = 8;

class PlanTest : public testing::Test {
 protected:
  TemporaryDirectory folder_;
  // A thousand-fold of short runs: each tile of columns is one for every row.
  Array rows_ = create_raw(folder_ / "x.bin", {.shape = {rows, columns}});

  void by_columns(Graph& graph) const {
    for (Index j = 0; j < columns; j += width)
      graph.add({.name = "look", .accesses = {read({rows_, {{0, j}, {rows, width}}})}, .body = [](auto) {}});
  }
};

TEST_F(PlanTest, HoldsNoTransfersAndLeavesNothing) {
  const auto builder = [this](Graph& graph) { by_columns(graph); };
  Runtime runtime({.memory = 1 * GiB, .workers = 2, .scratch = folder_.path()});
  runtime.least_memory(builder);  // what a first one loads
  const std::uint64_t before = resident_bytes();
  if (!reset_peak_resident()) GTEST_SKIP() << "the kernel does not start VmHWM anew";
  const std::uint64_t least = runtime.least_memory(builder);
  runtime.plan(builder);
  EXPECT_LE(peak_resident_bytes(), before + 8 * MiB);  // 100 transfers of 4000 segments: 34 MiB
  EXPECT_LE(resident_bytes(), before + 4 * MiB);
  EXPECT_EQ(runtime.least_memory(builder), least);
}

TEST_F(PlanTest, WhatIsNamedIsEnoughForTheNextPlan) {
  const auto builder = [this](Graph& graph) { by_columns(graph); };
  std::uint64_t least = 0;
  try {
    Runtime({.memory = 1 * MiB, .workers = 2, .scratch = folder_.path()}).plan(builder);
    FAIL() << "it cannot run in so little";
  } catch (const BudgetError& error) {
    least = error.least;
  }
  EXPECT_NO_THROW(Runtime({.memory = least, .workers = 2, .scratch = folder_.path()}).plan(builder));
}

TEST_F(PlanTest, WalksTheGraphOnceWhereTheLeastIsKnown) {
  int walks = 0;
  const auto builder = [&](Graph& graph) { ++walks, by_columns(graph); };
  Runtime runtime({.memory = 1 * GiB, .workers = 2, .scratch = folder_.path()});
  const std::uint64_t least = runtime.least_memory(builder);
  EXPECT_EQ(runtime.plan(builder, {}, least).least_memory, least);
  EXPECT_EQ(walks, 2);
}

TEST_F(PlanTest, OfAProcessThatShrinksMeanwhile) {
  Buffer held(96 * MiB);
  std::fill_n(held.data(), held.size(), std::byte{1});
  const std::uint64_t resident = resident_bytes();
  Runtime runtime({.memory = resident, .workers = 1, .scratch = folder_.path()});  // with no room for the reserve
  const Statistics planned = runtime.plan([&](Graph& graph) {
    held = Buffer();
    by_columns(graph);
  });
  EXPECT_LE(planned.budget, resident);
  EXPECT_GT(planned.budget, 32 * MiB);
}

}  // namespace
}  // namespace flagstone
