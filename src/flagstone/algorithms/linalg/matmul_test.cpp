// Products: the traffic that the planner counts, and numbers against naive loops through real files.
#include "flagstone/algorithms/linalg/matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "flagstone/algorithms/linalg/superblock.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/runtime/simulator.hpp"
#include "flagstone/storage/box/box.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"
#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/formats/npy.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

using linalg::matmul;
using linalg::Operand;

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "flagstone-matmul-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path / name; }
};

RuntimeOptions options_in(const Folder& folder, int workers = 2) {
  RuntimeOptions options;
  options.workers = workers;
  options.scratch = folder / "scratch";
  std::filesystem::create_directories(options.scratch);
  return options;
}

/// C = A B of `tiles`³ tiles of 1 MiB; the order of the C tiles is the caller's.
Statistics planned_product(int tiles, std::uint64_t capacity, const std::vector<std::pair<int, int>>& order) {
  const Index edge = 512;
  const Shape shape{tiles * edge, tiles * edge}, chunk{edge, edge};
  const Array a = planned_array(shape, Dtype::float32, chunk), b = planned_array(shape, Dtype::float32, chunk),
              c = planned_array(shape, Dtype::float32, chunk);
  const auto box = [&](const Array& array, int i, int j) { return Region{array, {{i * edge, j * edge}, chunk}}; };
  RuntimeOptions options;
  options.workers = 2;
  options.lookahead = 1 << 20;
  Simulator simulator(options, {}, capacity, capacity);
  simulator.run([&](Graph& graph) {
    const auto add = [&](int i, int j, int k) {
      TaskSpec task;
      task.name = "gemm";
      task.accesses = {read(box(a, i, k)), read(box(b, k, j)), k == 0 ? write(box(c, i, j)) : update(box(c, i, j))};
      task.cost.flops = 2.0 * edge * edge * edge;
      graph.add(std::move(task));
    };
    for (auto [i, j] : order)
      for (int k = 0; k < tiles; ++k) add(i, j, k);
  });
  return simulator.statistics();
}

TEST(MatmulTraffic, RandomInjectionMovesAtMostTwiceTheBytesOfSuperblockOrder) {
  const int tiles = 12;
  const Index edge = 512;
  const std::uint64_t capacity = 24 * MiB;  // 24 tiles
  const Shape shape{tiles * edge, tiles * edge}, chunk{edge, edge};
  const auto array = [&] { return planned_array(shape, Dtype::float32, chunk); };
  // Superblocks of 4 x 4.
  RuntimeOptions options;
  options.workers = 2;
  options.lookahead = 1 << 20;
  Simulator superblocks(options, {}, capacity, capacity);
  {
    const Array a = array(), b = array(), c = array();
    const auto box = [&](const Array& x, Index i, Index j) { return Region{x, {{i * edge, j * edge}, chunk}}; };
    superblocks.run([&](Graph& graph) {
      graph.trust_order(true);
      for (Index i0 = 0; i0 < tiles; i0 += 4)
        for (Index j0 = 0; j0 < tiles; j0 += 4)
          for (Index k = 0; k < tiles; ++k)
            for (Index i = i0; i < i0 + 4; ++i)
              for (Index j = j0; j < j0 + 4; ++j) {
                TaskSpec task;
                task.name = "gemm";
                task.accesses = {read(box(a, i, k)), read(box(b, k, j)),
                                 k == 0 ? write(box(c, i, j)) : update(box(c, i, j))};
                task.cost.flops = 2.0 * edge * edge * edge;
                graph.add(std::move(task));
              }
    });
  }
  const Statistics ordered = superblocks.statistics();
  const double tile_bytes = static_cast<double>(edge * edge * 4);
  EXPECT_LE(static_cast<double>(ordered.bytes_read + ordered.bytes_written) / tile_bytes, 1.05 * (9 * 12 * 8 + 144));
  std::vector<std::pair<int, int>> order;
  for (int i = 0; i < tiles; ++i)
    for (int j = 0; j < tiles; ++j) order.emplace_back(i, j);
  for (unsigned seed : {1u, 2u, 3u}) {
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    const Statistics random = planned_product(tiles, capacity, order);
    const double ratio = static_cast<double>(random.bytes_read + random.bytes_written) /
                         static_cast<double>(ordered.bytes_read + ordered.bytes_written);
    EXPECT_LE(ratio, 2.0) << "seed " << seed;
  }
}

TEST(MatmulTraffic, StaysNearTheLowerBound) {
  const Index n = 16384;
  for (const std::uint64_t budget : {150 * MiB, 400 * MiB, 900 * MiB}) {
    const auto array = [&] { return planned_array({n, n}, Dtype::float32, {1024, 1024}); };
    RuntimeOptions options;
    options.workers = 2;
    Simulator simulator(options, {}, budget, budget);
    const Operand a{array()}, b{array()};
    const Array c = array();
    simulator.run([&](Graph& graph) { matmul(graph, a, b, nullptr, c, {}); });
    const Statistics stats = simulator.statistics();
    const double bound = 2 * 8.0 * n * n * n / std::sqrt(static_cast<double>(budget)) + 3.0 * 4 * n * n;
    const double moved = static_cast<double>(stats.bytes_read + stats.bytes_written);
    EXPECT_LE(moved / bound, 1.1) << "budget " << format_bytes(budget);
    EXPECT_LE(stats.peak_budget, budget);
    EXPECT_EQ(stats.bytes_written, static_cast<std::uint64_t>(4 * n * n));
    EXPECT_EQ(stats.flops, 2.0 * n * n * n);
  }
}

template <class T>
std::vector<T> random_numbers(Index count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& number : numbers) number = static_cast<T>(uniform(generator));
  return numbers;
}

Array stored(Ring& ring, const std::string& path, const Shape& shape, const std::vector<float>& values, bool npy) {
  const Array array = npy ? create_npy(path, shape, Dtype::float32)
                          : create_zarr_array(path, shape, Dtype::float32, {.chunks = {256, 256}});
  const Tile tile{reinterpret_cast<std::byte*>(const_cast<float*>(values.data())), Dtype::float32, shape,
                  c_strides(shape, 4), values.size() * 4};
  write_box(ring, array, whole(shape), tile, 16 * MiB);
  array.store().flush();
  return array;
}

TEST(MatmulTile, IsWholeRowsWhereRowsOfAFlatFileSharePages) {
  Folder folder;
  const auto tile_of = [&](Index m, Index n, Dtype dtype) {
    const Array c = create_raw(folder / (std::to_string(n) + ".raw"), {.shape = {m, n}, .dtype = dtype});
    const Array a = planned_array({m, 100}, dtype, {100, 100}), b = planned_array({100, n}, dtype, {100, 100});
    const linalg::ProductTile tile = linalg::product_tile(linalg::Operand{a}, linalg::Operand{b}, c);
    return Shape{tile.rows, tile.cols};
  };
  EXPECT_EQ(tile_of(600, 3001, Dtype::float32), (Shape{512, 3001}));
  EXPECT_EQ(tile_of(600, 3072, Dtype::float32), (Shape{600, 2048}));  // rows of whole pages
  EXPECT_EQ(tile_of(600, 2001, Dtype::float32), (Shape{600, 2001}));  // whole rows at any rate
  EXPECT_EQ(tile_of(9, 70000, Dtype::float32), (Shape{9, 23334}));
  EXPECT_EQ(tile_of(600, 16385, Dtype::float64), (Shape{512, 8193}));
}

TEST(MatmulTile, CoversTheOnlyChunkOfANarrowResult) {
  const Array c = planned_array({4096, 64}, Dtype::float32, {4096, 64});
  const Array a = planned_array({4096, 100}, Dtype::float32, {1024, 100});
  const Array b = planned_array({100, 64}, Dtype::float32, {100, 64});
  const linalg::ProductTile tile = linalg::product_tile(linalg::Operand{a}, linalg::Operand{b}, c);
  EXPECT_EQ((Shape{tile.rows, tile.cols}), (Shape{4096, 64}));
}

TEST(Matmul, AgreesWithNaiveLoopsThroughFiles) {
  Folder folder;
  const auto ring = make_ring();
  const Index m = 700, n = 513, k = 901;
  const auto a = random_numbers<float>(m * k, 1), b = random_numbers<float>(k * n, 2);
  std::vector<double> expected(static_cast<std::size_t>(m * n));
  for (Index i = 0; i < m; ++i)
    for (Index p = 0; p < k; ++p)
      for (Index j = 0; j < n; ++j) expected[i * n + j] += static_cast<double>(a[i * k + p]) * b[p * n + j];
  for (const bool npy : {false, true}) {
    const std::string kind = npy ? ".npy" : ".zarr";
    const Array on_disk_a = stored(*ring, folder / ("a" + kind), {m, k}, a, npy),
                on_disk_b = stored(*ring, folder / ("b" + kind), {k, n}, b, npy);
    const Array c = create_zarr_array(folder / ("c" + kind), {m, n}, Dtype::float32, {.chunks = {256, 256}});
    Executor executor(*ring, options_in(folder), {folder / "scratch", "test", {}}, 64 * MiB, {});
    executor.run([&](Graph& graph) { matmul(graph, {on_disk_a}, {on_disk_b}, nullptr, c, {}); });
    std::vector<float> result(expected.size());
    read_box(*ring, c, whole({m, n}),
             {reinterpret_cast<std::byte*>(result.data()), Dtype::float32, {m, n}, c_strides({m, n}, 4), 0}, 16 * MiB);
    double worst = 0;
    for (std::size_t i = 0; i < result.size(); ++i) worst = std::max(worst, std::abs(result[i] - expected[i]));
    EXPECT_LE(worst, 1.2e-7 * std::sqrt(k) * 10) << kind;
    EXPECT_GT(executor.statistics().bytes_read, 0u);
  }
}

}  // namespace
}  // namespace flagstone
