// Products and factorizations on devices, through a whole Runtime: the host's bits, tiles in and out once where they
// fit, and errors that end the run as themselves.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/linalg/matmul.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"
#include "flagstone/storage/formats/npy.hpp"

namespace flagstone {
namespace {

class SpacesTest : public testing::Test {
 protected:
  static constexpr Index n = 512, edge = 128;
  static constexpr std::uint64_t tile = edge * edge * 8;

  SpacesTest() {
    std::string name = std::filesystem::temp_directory_path() / "flagstone-spaces-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    for (auto* values : {&a_, &b_}) {
      values->resize(n * n);
      for (double& value : *values) value = normal(random);
    }
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < i; ++j) a_[j * n + i] = a_[i * n + j];
    for (Index i = 0; i < n; ++i) a_[i * n + i] += 4 * n;
  }
  ~SpacesTest() override { std::filesystem::remove_all(folder_); }

  RuntimeOptions options(std::vector<std::shared_ptr<Device>> devices = {}) const {
    RuntimeOptions options;
    options.memory = GiB;
    options.workers = 2;
    options.scratch = folder_ / "scratch";
    options.devices = std::move(devices);
    return options;
  }
  static std::shared_ptr<Device> emulated(std::uint64_t memory, std::vector<EmulatedFault> faults = {}) {
    EmulatedOptions options;
    options.memory = memory;
    options.faults = std::move(faults);
    options.reorder = 7;
    return open_emulated(std::move(options));
  }
  /// C := C + A B of 4 x 4 x 4 tiles, in memory.
  static void product(Graph& graph, const Array& a, const Array& b, const Array& c) {
    graph.trust_order(true);
    for (Index i = 0; i < n; i += edge)
      for (Index j = 0; j < n; j += edge)
        for (Index k = 0; k < n; k += edge) {
          TaskSpec task;
          task.name = "gemm";
          const Region left{a, {{i, k}, {edge, edge}}}, right{b, {{k, j}, {edge, edge}}}, to{c, {{i, j}, {edge, edge}}};
          const Access change = k == 0 ? write(to) : update(to);
          task.accesses = {read(left), read(right), k + edge < n ? again(change) : change};
          Call call(Kernel::gemm, Dtype::float64, {{0}, {1}, {2}});
          call.beta = k == 0 ? 0 : 1;
          call.flops = 2.0 * edge * edge * edge;
          task.calls = {call};
          task.cost.flops = call.flops;
          graph.add(std::move(task));
        }
  }
  std::vector<double> product_on(std::vector<std::shared_ptr<Device>> devices, Statistics* stats = nullptr) {
    std::vector<double> c(n * n, -1);
    Runtime runtime(options(std::move(devices)));
    const Statistics made = runtime.run([&](Graph& graph) {
      product(graph, memory_array(a_.data(), {n, n}), memory_array(b_.data(), {n, n}), memory_array(c.data(), {n, n}));
    });
    if (stats) *stats = made;
    return c;
  }

  std::filesystem::path folder_;
  std::vector<double> a_, b_;
};

TEST_F(SpacesTest, AProductHasTheHostsBitsAndComesInOnceWhereItFits) {
  const std::vector<double> expected = product_on({});
  Statistics stats;
  EXPECT_EQ(product_on({emulated(64 * tile)}, &stats), expected);
  ASSERT_EQ(stats.spaces.size(), 2u);
  EXPECT_EQ(stats.spaces[1].bytes_in, 2 * 16 * tile);
  EXPECT_EQ(stats.spaces[1].bytes_out, 16 * tile);
  EXPECT_EQ(stats.spaces[1].tasks, 64u);
  EXPECT_EQ(stats.spaces[0].tasks, 0u);
}

TEST_F(SpacesTest, AProductThatDoesNotFitIsTheSame) {
  const std::vector<double> expected = product_on({});
  for (const std::uint64_t tiles : {3, 4, 7, 20}) {
    Statistics stats;
    EXPECT_EQ(product_on({emulated(tiles * tile)}, &stats), expected) << tiles;
    EXPECT_LE(stats.spaces[1].peak, tiles * tile);
    EXPECT_EQ(stats.spaces[1].bytes_out, 16 * tile) << "C leaves once";
  }
}

TEST_F(SpacesTest, CholeskyThatFitsComesInOnce) {
  const auto factor = [&](std::vector<std::shared_ptr<Device>> devices, std::uint64_t memory, Statistics* stats) {
    const std::string path = folder_ / "l.npy";
    std::filesystem::remove(path);
    std::vector<double> l(n * n);
    RuntimeOptions given = options(std::move(devices));
    given.memory = memory;
    Runtime runtime(given);
    const Array made = memory_array(l.data(), {n, n});
    const Statistics ran = runtime.run([&](Graph& graph) {
      linalg::cholesky(graph, {memory_array(a_.data(), {n, n})}, {made}, {});
    });
    if (stats) *stats = ran;
    return l;
  };
  const auto expected = factor({}, GiB, nullptr);
  Statistics stats;
  EXPECT_EQ(factor({emulated(16 * MiB)}, GiB, &stats), expected);
  EXPECT_GT(stats.spaces[1].tasks, 0u);
  EXPECT_EQ(stats.spaces[0].tasks, 0u) << "none of its steps runs elsewhere";
  EXPECT_EQ(stats.spaces[1].bytes_in, 3u * 256 * 256 * 8) << "a triangle of tiles, each once";
}

TEST_F(SpacesTest, CholeskyGoesBackAndForthBetweenMemories) {
  std::vector<double> expected;
  const auto factor = [&](const RuntimeOptions& given) {
    std::vector<double> l(n * n);
    Runtime runtime(given);
    const auto build = [&](Graph& graph) {
      linalg::cholesky(graph, {memory_array(a_.data(), {n, n})}, {memory_array(l.data(), {n, n})}, {});
    };
    runtime.plan(build);
    runtime.run(build);
    return l;
  };
  expected = factor(options());
  for (const auto& place : {cyclic(2, 0), cyclic(2, 1), Place([](const Region&, const Shape& at) {
                              return static_cast<int>((at[0] + at[1]) % 2);
                            })}) {
    EmulatedOptions second;
    second.name = "emulated:1", second.memory = 4 * MiB, second.reorder = 3;
    RuntimeOptions given = options({emulated(4 * MiB), open_emulated(second)});
    given.place = place;
    EXPECT_EQ(factor(given), expected);
  }
}

TEST_F(SpacesTest, AFailureLeavesAsItself) {
  for (const auto step : {EmulatedFault::Step::copy_in, EmulatedFault::Step::copy_out, EmulatedFault::Step::launch})
    for (const std::uint64_t at : {1, 2, 9})
      for (const bool lost : {false, true})
        EXPECT_THROW(product_on({emulated(7 * tile, {{step, at, lost}})}), DeviceError);
}

TEST_F(SpacesTest, ADeviceThatIsTooSmallIsRefused) { EXPECT_THROW(product_on({emulated(2 * tile)}), BudgetError); }

TEST_F(SpacesTest, APlanCountsWhatARunCounts) {
  Runtime runtime(options({emulated(64 * tile)}));
  std::vector<double> c(n * n);
  const auto build = [&](Graph& graph) {
    product(graph, memory_array(a_.data(), {n, n}), memory_array(b_.data(), {n, n}), memory_array(c.data(), {n, n}));
  };
  const Statistics planned = runtime.plan(build), ran = runtime.run(build);
  EXPECT_EQ(planned.spaces[1].bytes_in, ran.spaces[1].bytes_in);
  EXPECT_EQ(planned.spaces[1].bytes_out, ran.spaces[1].bytes_out);
  EXPECT_EQ(planned.spaces[1].tasks, ran.spaces[1].tasks);
}

TEST_F(SpacesTest, ADistributionSaysWhereTilesAreChanged) {
  const std::vector<double> expected = product_on({});
  Runtime runtime(options({emulated(64 * tile)}));
  std::vector<double> c(n * n);
  const auto build = [&](Graph& graph) {
    const Array made = memory_array(c.data(), {n, n});
    Distribution distribution = Distribution::one({edge, edge}, 0);
    distribution.place = [](const Shape& at) { return at[0] == 3 && at[1] > 0 ? 0 : 1; };
    graph.distribute(made, distribution);
    product(graph, memory_array(a_.data(), {n, n}), memory_array(b_.data(), {n, n}), made);
  };
  for (const Statistics& stats : {runtime.plan(build), runtime.run(build)}) {
    EXPECT_EQ(stats.spaces[0].tasks, 3u * 4);
    EXPECT_EQ(stats.spaces[1].tasks, 13u * 4);
  }
  EXPECT_EQ(c, expected);
}

/// 8 x 8 x 8 tiles of 256²: whoever computes longer than copies take has many at hand.
TEST_F(SpacesTest, SmallTilesGoOutTogether) {
  constexpr Index all = 2048, small = 256;
  std::vector<float> a(all * all, 0.5f), b(all * all, 0.25f), c(all * all);
  const auto device = open_emulated({.memory = 64 * MiB});
  Runtime runtime(options({device}));
  const Statistics stats = runtime.run([&](Graph& graph) {
    const auto matrix = [](std::vector<float>& values) {
      return memory_array(reinterpret_cast<std::byte*>(values.data()), {all, all}, Dtype::float32, {});
    };
    const Array left = matrix(a), right = matrix(b), to = matrix(c);
    graph.trust_order(true);
    for (Index k = 0; k < all; k += small)
      for (Index i = 0; i < all; i += small)
        for (Index j = 0; j < all; j += small) {
          TaskSpec task;
          task.name = "gemm";
          const Region sum{to, {{i, j}, {small, small}}};
          task.accesses = {read({left, {{i, k}, {small, small}}}), read({right, {{k, j}, {small, small}}}),
                           k == 0 ? write(sum) : update(sum)};
          Call call(Kernel::gemm, Dtype::float32, {{0}, {1}, {2}});
          call.beta = k == 0 ? 0 : 1;
          task.calls = {call};
          graph.add(std::move(task));
        }
  });
  EXPECT_EQ(stats.spaces[1].tasks, 512u);
  EXPECT_LE(8 * stats.spaces[1].launches, stats.spaces[1].tasks);
  EXPECT_EQ(device->counts().synchronizing, 0u);
  EXPECT_EQ(c, std::vector<float>(all * all, all * 0.125f));
}

}  // namespace
}  // namespace flagstone
