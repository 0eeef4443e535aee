// The search for a scheme against all schemes, by its own model; caches as the system tells them.
#include "flagstone/algorithms/stencil/scheme.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include "flagstone/algorithms/stencil/processor_cache.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/stencil/weights.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::stencil {
namespace {

class StencilScheme : public testing::Test {
 protected:
  Index draw(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random_); }
  Problem problem_of(const Shape& shape, Index reach, std::size_t order, Index steps) {
    Problem problem;
    problem.axes = axes_of(3);
    problem.dtype = Dtype::float32, problem.space.item = 4, problem.steps = steps;
    problem.space.shape = {shape[0], shape[1], shape[2]};
    problem.space.radius = {reach, reach, reach};
    std::vector<kernel::WeightedNeighbour> star{{{0, 0, 0}, 1}};
    for (std::size_t d = 0; d < 3; ++d) {
      Axes at{};
      at[d] = reach, star.push_back({at, 0.1});
    }
    problem.kernel = kernel::weights_kernel(Dtype::float32, kernel::WeightsForm::sum, star);
    for (auto* arrays : {&problem.from, &problem.to})  // no element of them is ever touched
      for (std::size_t state = 0; state < order; ++state) arrays->push_back(memory_array(&nothing_, shape));
    return problem;
  }

  std::mt19937_64 random_{5};
  float nothing_ = 0;
};

/// The least time of all blocks of whole rows, batches and depths.
Scheme least_of_all(const Problem& problem, const Wishes& wishes, std::uint64_t budget) {
  Scheme least;
  const auto consider = [&](const Wishes& fixed) {
    const Scheme scheme = choose(problem, fixed, budget, 2);
    if (scheme.fits && (!least.fits || scheme.seconds < least.seconds)) least = scheme;
  };
  const Axes& n = problem.space.shape;
  for (Index depth = 1; depth <= std::min<Index>(64, problem.steps); ++depth) {
    Wishes fixed = wishes;
    fixed.depth = depth;
    fixed.method = "al4";
    for (fixed.planes = 1; fixed.planes <= n[0]; ++fixed.planes) consider(fixed);
    fixed.planes = 0;
    for (const char* method : {"al1", "al2", "al3"})
      for (Index z = 1; z <= n[0]; ++z)
        for (Index y = 1; y <= n[1]; ++y) {
          fixed.method = method, fixed.block = {z, y, n[2]};
          consider(fixed);
        }
  }
  return least;
}

TEST_F(StencilScheme, TheSearchFindsWhatEnumerationFinds) {
  for (int trial = 0; trial < 200; ++trial) {
    const Shape shape{draw(2, 14), draw(2, 9), draw(1, 4) * 4096};
    const Problem problem = problem_of(shape, draw(1, 2), static_cast<std::size_t>(draw(1, 2)), draw(1, 12));
    const auto bytes = static_cast<std::uint64_t>(shape[0] * shape[1] * shape[2] * 4);
    const std::uint64_t budget = bytes / 4 * static_cast<std::uint64_t>(draw(2, 40)) + 2 * MiB;
    Wishes wishes;
    wishes.rates = {static_cast<double>(draw(1, 40)) * 1e8, static_cast<double>(draw(1, 40)) * 1e8,
                    static_cast<double>(draw(20, 60)) * 1e8, static_cast<double>(draw(5, 20)) * 1e8};
    const Scheme least = least_of_all(problem, wishes, budget);
    if (!least.fits) continue;
    const Scheme found = choose(problem, wishes, budget, 2);
    EXPECT_TRUE(found.fits) << trial;
    EXPECT_LE(found.seconds, 1.01 * least.seconds)
        << trial << " " << name_of(found.method) << " " << found.depth << "; " << name_of(least.method) << " "
        << least.depth << " " << least.blocks.block[0] << " " << least.blocks.block[1];
  }
}

TEST_F(StencilScheme, ALargeProblemIsChosenForInMilliseconds) {
  const Problem problem = problem_of({2048, 1024, 1024}, 1, 1, 1000);
  const std::clock_t start = std::clock();
  const Scheme scheme = choose(problem, {}, 900 * MiB, 2);
  const double milliseconds = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(scheme.fits);
  EXPECT_LE(milliseconds, 50) << "of processor time";
}

TEST_F(StencilScheme, CacheBlocksAreTakenWhereNoWavefrontGoes) {
  Problem problem = problem_of({1, 1, Index{1} << 26}, 1, 1, 64);
  problem.axes = axes_of(1), problem.space.radius = {0, 0, 1};
  for (auto* arrays : {&problem.from, &problem.to}) *arrays = {memory_array(&nothing_, {Index{1} << 26})};
  Wishes wishes;
  wishes.rates = {8e9, 8e9, 4e9, 1e9};
  EXPECT_EQ(choose(problem, wishes, 64 * MiB, 2).method, Method::al2);
  wishes.rates.cached = wishes.rates.streaming;  // where nothing is gained in the cache nothing is computed twice
  EXPECT_NE(choose(problem, wishes, 64 * MiB, 2).method, Method::al2);
}

TEST(ProcessorCache, IsReadOfTheSystemsFolder) {
  const TemporaryDirectory folder;
  EXPECT_EQ(worker_cache(folder.path()), 0u);
  const auto write = [&](const std::string& cache, const std::string& level, const std::string& type,
                         const std::string& size, const std::string& shared) {
    std::filesystem::create_directories(folder / cache);
    const std::pair<const char*, std::string> words[] = {
        {"level", level}, {"type", type}, {"size", size}, {"shared_cpu_map", shared}};
    for (const auto& [name, word] : words) std::ofstream(std::filesystem::path(folder / cache) / name) << word << "\n";
  };
  write("index0", "1", "Data", "48K", "1");
  write("index2", "2", "Unified", "1024K", "3");
  write("index3", "3", "Unified", "32M", "ff,000000ff");
  EXPECT_EQ(worker_cache(folder.path()), 512 * KiB + 2 * MiB);
  EXPECT_GE(worker_cache(), 1 * MiB);
}

}  // namespace
}  // namespace flagstone::stencil
