// k-means on files and memory against Lloyd's loops in float64.
#include "flagstone/flash/kmeans.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/reference/nearest.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::flash {
namespace {

constexpr Index n = 3000, d = 5, k = 4;

std::vector<float> points() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> made(n * d);
  for (Index i = 0; i < n * d; ++i) made[i] = normal(random) + 6.0F * static_cast<float>(i / d % 3);
  return made;
}

std::vector<double> lloyd(const std::vector<float>& x, std::vector<double> c, int iterations) {
  const std::vector<double> wide(x.begin(), x.end());
  for (int round = 0; round < iterations; ++round) {
    std::vector<double> sums(k * d, 0.0), counts(k, 0.0);
    for (Index i = 0; i < n; ++i) {
      const Index label = kernel::reference::by_distance(wide, i, c, d)[0];
      counts[label] += 1;
      for (Index l = 0; l < d; ++l) sums[label * d + l] += wide[i * d + l];
    }
    for (Index j = 0; j < k * d; ++j) c[j] = sums[j] / counts[j / d];
  }
  return c;
}

TEST(FlashKMeans, OverwritesTheSeedsWhereTheyStand) {
  TemporaryDirectory folder;
  Runtime runtime({.memory = 4 * GiB, .workers = 2, .scratch = folder / "scratch"});
  const std::vector<float> x = points();
  const std::vector<float> seeds(x.begin(), x.begin() + k * d);
  auto file = flash_malloc<float>(runtime, n * d);
  write_sync(file, x.data(), Contiguous{n * d});
  for (const int iterations : {1, 5}) {
    const std::vector<double> want = lloyd(x, {seeds.begin(), seeds.end()}, iterations);
    std::vector<double> wide(seeds.begin(), seeds.end());
    kmeans(runtime, file, n, d, wide.data(), k, iterations);
    for (Index j = 0; j < k * d; ++j) EXPECT_NEAR(wide[j], want[j], 1e-12 * n);
    auto stored = flash_malloc<float>(runtime, k * d);
    write_sync(stored, seeds.data(), Contiguous{k * d});
    kmeans(runtime, x.data(), n, d, stored, k, iterations);
    std::vector<float> found(k * d);
    read_sync(found.data(), stored, Contiguous{k * d});
    for (Index j = 0; j < k * d; ++j) EXPECT_EQ(found[j], static_cast<float>(wide[j]));
  }
}

/// 2,000 centres of 1,000 coordinates and their sums are hundreds of MiB.
TEST(FlashKMeans, CentresThatDoNotFitGiveTheSameBits) {
  constexpr Index rows = 2500, columns = 1000, clusters = 2000;
  TemporaryDirectory folder;
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * columns);
  for (float& value : x) value = normal(random);
  std::vector<std::vector<float>> found;
  for (const std::uint64_t memory : {4 * GiB, resident_bytes() + 120 * MiB}) {
    Runtime runtime({.memory = memory, .workers = 2, .scratch = folder / "scratch"});
    auto points = flash_malloc<float>(runtime, rows * columns);
    write_sync(points, x.data(), Contiguous{rows * columns});
    auto seeds = flash_malloc<float>(runtime, clusters * columns);
    write_sync(seeds, x.data(), Contiguous{clusters * columns});
    kmeans(runtime, points, rows, columns, seeds, clusters, 2);
    std::vector<float>& made = found.emplace_back(clusters * columns);
    read_sync(made.data(), seeds, Contiguous{clusters * columns});
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(FlashKMeans, RefusesWhatDoesNotFit) {
  Runtime runtime({.memory = 4 * GiB, .workers = 1});
  std::vector<float> x(12, 1.0F);
  EXPECT_THROW(kmeans(runtime, x.data(), 3, 4, x.data(), 4, 1), ShapeError);
  EXPECT_THROW(kmeans(runtime, static_cast<const float*>(nullptr), 3, 4, x.data(), 1, 1), ShapeError);
  EXPECT_THROW(kmeans(runtime, x.data(), 3, 4, x.data() + 8, 1, 1), ShapeError);  // seeds in the points
}

}  // namespace
}  // namespace flagstone::flash
