#include "flagstone/runtime/resume/finished_tiles.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/array/scratch_array.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {
namespace {

TEST(FinishedTiles, TwoBytesOfATileAreChargedInPlansAndInRuns) {
  const std::string folder = std::filesystem::temp_directory_path();
  const Array out = temporary_array({3'000'000}, Dtype::uint8, {3}, folder);
  const auto builder = [&](Graph& graph) {
    const std::uint64_t before = graph.budget();
    {
      Stages stages(graph, nullptr);
      const FinishedTiles many(stages, out, {3});
      EXPECT_EQ(before - graph.budget(), align_down(2'000'000));
      const FinishedTiles few(stages, out, {3000});
      EXPECT_EQ(before - graph.budget(), align_down(2'000'000));  // 2,000 bytes are less than a page
    }
    const Charge next = graph.charge(page_bytes);  // what was given back is seen by the next that asks
    EXPECT_EQ(before - graph.budget(), page_bytes);
  };
  RuntimeOptions options;
  options.scratch = folder;
  const auto ring = make_ring();
  Executor(*ring, options, {options.scratch, "test", {}}, 16 * MiB, {}).run(builder);
  Simulator simulator(options, {}, 16 * MiB, 16 * MiB);
  simulator.run(builder);
  EXPECT_GE(simulator.least_capacity(), align_down(2'000'000));
}

}  // namespace
}  // namespace flagstone
