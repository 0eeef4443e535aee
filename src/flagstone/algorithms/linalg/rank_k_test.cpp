// Rank-k updates: flops and bytes that the planner counts, sums side by side, and numbers against naive loops.
#include "flagstone/algorithms/linalg/rank_k.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "flagstone/algorithms/linalg/superblock.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"

namespace flagstone {
namespace {

using linalg::check_rank_k;
using linalg::Half;
using linalg::Operand;
using linalg::rank_k;
using linalg::rank_k_groups;

Statistics planned(Index n, Index k, std::uint64_t capacity, const linalg::RankKOptions& options, bool second = false) {
  const Array a = planned_array({n, k}, Dtype::float32, {1024, 1024}),
              c = planned_array({n, n}, Dtype::float32, {1024, 1024});
  const Operand x{a}, y{planned_array({n, k}, Dtype::float32, {1024, 1024})};
  RuntimeOptions runtime;
  runtime.workers = 2;
  Simulator simulator(runtime, {}, capacity, capacity);
  simulator.run([&](Graph& graph) { rank_k(graph, x, second ? &y : nullptr, nullptr, c, options); });
  return simulator.statistics();
}

TEST(RankK, TakesHalfOfTheFlopsAndWritesEachTileOnce) {
  const Index n = 16384, k = 2048;
  const double flops = static_cast<double>(n) * n * k, bytes = 4.0 * n * n;
  for (const std::uint64_t capacity : {100 * MiB, 300 * MiB, 4096 * MiB}) {
    const Statistics both = planned(n, k, capacity, {}), lower = planned(n, k, capacity, {.half = Half::lower});
    EXPECT_EQ(both.flops, flops);
    EXPECT_EQ(static_cast<double>(both.bytes_written), bytes);
    EXPECT_EQ(static_cast<double>(lower.bytes_written), bytes * 9 / 16);  // of 8 x 8 tiles
    EXPECT_LE(static_cast<double>(both.bytes_read), 1.35 * static_cast<double>(lower.bytes_read)) << capacity;
    // sqrt(2) x the bound of Beaumont et al., and superblocks of whole tiles beside panels of the next step.
    const double bound = 8 * flops / std::sqrt(2.0 * static_cast<double>(capacity)) + 4.0 * n * k;
    EXPECT_LE(static_cast<double>(both.bytes_read), 2.5 * bound) << capacity;
  }
  EXPECT_EQ(planned(4096, 1024, 300 * MiB, {}, true).flops, 2.0 * 4096 * 4096 * 1024 * (1 + 1.0 / 4));
}

TEST(RankK, ReadsALongOperandOnceWhereATriangleFits) {
  const Index n = 8192, k = 16384;  // 36 tiles of 4 MiB, and two panels of 32 MiB; of a whole square 256 MiB alone
  const Statistics lower = planned(n, k, 224 * MiB, {.half = Half::lower});
  EXPECT_EQ(static_cast<double>(lower.bytes_read), 4.0 * n * k);
  EXPECT_EQ(static_cast<double>(lower.bytes_written), 4.0 * 36 * 1024 * 1024);
}

TEST(RankK, TilesAreSmallerBeforeTheyHaveSeveralSums) {
  const auto edge = [](Index n) {
    const Array a = planned_array({n, 4096}, Dtype::float32, {1024, 1024}),
                c = planned_array({n, n}, Dtype::float32, {512, 512});
    return linalg::symmetric_tile({a}, {a, true}, c).rows;
  };
  EXPECT_EQ(edge(16384), 2048);
  EXPECT_EQ(edge(8192), 1024);
  EXPECT_EQ(edge(1536), 1024);
}

TEST(RankK, DealsStepsOutWhereTilesAreFew) {
  EXPECT_EQ(rank_k_groups(1, 4), 1);  // chains of less than eight steps are not worth it
  EXPECT_EQ(rank_k_groups(1, 40), 5);
  EXPECT_EQ(rank_k_groups(1, 100000), 16);
  EXPECT_EQ(rank_k_groups(2, 100000), 6);
  EXPECT_EQ(rank_k_groups(6, 100000), 1);
  EXPECT_EQ(rank_k_groups(0, 0), 1);
}

TEST(RankK, TilesHaveMirrors) {
  const Array a = planned_array({5000, 300}, Dtype::float64, {512, 300});
  for (const Shape& chunks : {Shape{256, 384}, Shape{512, 512}, Shape{5000, 5000}}) {
    const Array c = planned_array({5000, 5000}, Dtype::float64, chunks);
    const linalg::ProductTile tile = linalg::symmetric_tile({a}, {a, true}, c);
    EXPECT_EQ(tile.rows, tile.cols);
    EXPECT_EQ(tile.rows % std::min<Index>(chunks[0], 5000), 0);
    EXPECT_EQ(tile.cols % std::min<Index>(chunks[1], 5000), 0);
  }
}

TEST(RankK, SaysWhoDoesNotConform) {
  const Array a = planned_array({50, 30}, Dtype::float32, {50, 30}),
              c = planned_array({40, 40}, Dtype::float32, {40, 40});
  EXPECT_THROW(check_rank_k({a}, nullptr, &c, {}), ShapeError);
  EXPECT_THROW(check_rank_k({a}, nullptr, nullptr, {.alpha = {1, 1}}), ShapeError);
  const Operand b{planned_array({50, 31}, Dtype::float32, {50, 31})};
  EXPECT_THROW(check_rank_k({a}, &b, nullptr, {}), ShapeError);
  EXPECT_THROW(check_rank_k({planned_array({50, 30}, Dtype::int8, {50, 30})}, nullptr, nullptr, {}), ShapeError);
}

}  // namespace
}  // namespace flagstone
