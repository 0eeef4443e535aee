// map and reduce against loops in memory: flat files at any byte, Zarr, memory; in place; same bits whatever the limit.
#include "flagstone/flash/map.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::flash {
namespace {

struct FlashMap : testing::Test {
  std::unique_ptr<Runtime> runtime(int workers = 2, std::uint64_t budget = 512 * MiB) const {
    return std::make_unique<Runtime>(
        RuntimeOptions{.memory = resident_bytes() + budget, .workers = workers, .scratch = directory / "scratch"});
  }
  TemporaryDirectory directory;
};

TEST_F(FlashMap, BlocksCoverEveryElementOnce) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3'000'001}, Shape{1000, 3000}, Shape{7, 11, 30'000},
                             Shape{2, 0, 3}, Shape{3, 2'000'000}}) {
    std::vector<double> one(1);
    const Array x = memory_array(reinterpret_cast<std::byte*>(one.data()), shape, Dtype::float64, c_strides(shape, 8));
    const Blocks blocks(x);
    Index elements = 0;
    for (Index i = 0; i < blocks.number(); ++i) {
      const Box box = blocks[i];
      EXPECT_LE(count(box.shape) * 8, Index{4} << 20);
      elements += count(box.shape);
      for (Index j = 0; j < i; ++j) EXPECT_FALSE(overlap(box, blocks[j]));
    }
    EXPECT_EQ(elements, count(shape));
  }
}

TEST_F(FlashMap, ReadOnlyTargetsAreAnError) {
  const auto engine = runtime();
  const Index n = 3'000'000;  // several tasks: tiles are written behind, on workers
  auto x = map_file<float>(directory / "x.bin", MapMode::create, n);
  auto y = map_file<float>(directory / "y.bin", MapMode::create, n);
  const auto target = map_file<float>(directory / "y.bin");
  EXPECT_THROW(map(*engine, x, target, n, [](float v) { return v; }), Error);
  unmap_file(x), unmap_file(y);
}

TEST_F(FlashMap, MapsAFlatFileAtAnyByteAndTouchesNothingElse) {
  const auto engine = runtime();
  const Index n = 1'300'001;
  std::mt19937 random(4);
  std::vector<float> numbers(n);
  for (float& x : numbers) x = static_cast<float>(random() % 1000) / 8;
  auto x = map_file<float>(directory / "x.bin", MapMode::create, n, 3);  // 3: not even a multiple of the element
  write_sync(x, numbers.data(), Contiguous{n});
  auto y = map_file<double>(directory / "y.bin", MapMode::create, n + 2, 5);
  const std::vector<double> before(n + 2, -1);
  write_sync(y, before.data(), Contiguous{n + 2});
  map(*engine, x, y + 1, n, [](float v) { return std::sqrt(static_cast<double>(v)) + 1; });
  std::vector<double> found(n + 2);
  read_sync(found.data(), y, Contiguous{n + 2});
  EXPECT_EQ(found.front(), -1);
  EXPECT_EQ(found.back(), -1);
  for (Index i = 0; i < n; ++i) ASSERT_EQ(found[i + 1], std::sqrt(static_cast<double>(numbers[i])) + 1) << i;
  map(*engine, x, x, n, [](float v) { return 2 * v; });  // in place
  std::vector<float> doubled(n);
  read_sync(doubled.data(), x, Contiguous{n});
  for (Index i = 0; i < n; ++i) ASSERT_EQ(doubled[i], 2 * numbers[i]);
}

TEST_F(FlashMap, FoldsWithTheSameBitsWhateverTheLimitAndTheWorkers) {
  const Index n = 3'000'000;
  std::vector<double> numbers(n);
  for (Index i = 0; i < n; ++i) numbers[i] = std::sin(static_cast<double>(i));
  auto x = map_file<double>(directory / "x.bin", MapMode::create, n);
  write_sync(x, numbers.data(), Contiguous{n});
  const auto plus = [](double a, double b) { return a + b; };
  double first = 0, exact = 0;
  for (const double v : numbers) exact += v;
  for (const int workers : {1, 2, 4})
    for (const std::uint64_t budget : {96 * MiB, 512 * MiB}) {
      const double sum = reduce(*runtime(workers, budget), x, n, 0.0, plus);
      if (first == 0) first = sum;
      EXPECT_EQ(sum, first);
      EXPECT_NEAR(sum, exact, 1e-9);
    }
  const auto larger = [](double a, double b) { return std::max(a, b); };
  EXPECT_EQ(reduce(*runtime(), x, n, -std::numeric_limits<double>::infinity(), larger),
            *std::max_element(numbers.begin(), numbers.end()));
}

TEST_F(FlashMap, AFoldMayHaveAnotherTypeThanTheElements) {
  const Index n = 2'000'000;
  std::vector<std::int32_t> numbers(n);
  for (Index i = 0; i < n; ++i) numbers[i] = static_cast<std::int32_t>((i * 7919) % 1001 - 500);
  const Array x = memory_array(reinterpret_cast<std::byte*>(numbers.data()), {n / 100, 100}, Dtype::int32, {400, 4});
  struct Range {
    std::int64_t sum = 0, negative = 0;
  };
  const Range found = reduce<std::int32_t>(
      *runtime(), x, Range{},
      [](Range r, std::int32_t v) {
        return Range{r.sum + v, r.negative + (v < 0)};
      },
      [](Range a, Range b) {
        return Range{a.sum + b.sum, a.negative + b.negative};
      });
  std::int64_t sum = 0, negative = 0;
  for (const auto v : numbers) sum += v, negative += v < 0;
  EXPECT_EQ(found.sum, sum);
  EXPECT_EQ(found.negative, negative);
  const bool any = reduce<std::int32_t>(
      *runtime(), x, false, [](bool is, std::int32_t v) { return is || v == 500; },
      [](bool a, bool b) { return a || b; });
  EXPECT_TRUE(any);
  EXPECT_EQ(reduce<std::int32_t>(*runtime(),
                                 memory_array(reinterpret_cast<std::byte*>(numbers.data()), {0}, Dtype::int32, {4}),
                                 std::int32_t{7}, [](std::int32_t a, std::int32_t b) { return a + b; }),
            7);
}

TEST_F(FlashMap, ArraysStoredInChunksAndOtherStrides) {
  const Shape shape{130, 70};
  std::vector<float> numbers(130 * 70);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const Array x = memory_array(reinterpret_cast<std::byte*>(numbers.data()), shape, Dtype::float32, {4, 130 * 4});
  const Array stored = create_zarr_array(directory / "y", shape, Dtype::float64, {.chunks = {32, 32}});
  const auto engine = runtime();
  engine->run([&](Graph& graph) {
    map<float, double>(graph, x, stored, [](float v) { return 3.0 * v; });
    const double sum = reduce<double>(graph, stored, 0.0, [](double a, double b) { return a + b; });
    EXPECT_EQ(sum, 3.0 * 9100 * 9099 / 2);
  });
}

TEST_F(FlashMap, WhatCannotBeIsSaid) {
  const auto engine = runtime();
  auto x = map_file<float>(directory / "x.bin", MapMode::create, 100);
  const auto same = [](float v) { return v; };
  EXPECT_THROW(map(*engine, x, x + 1, 50, same), ShapeError);
  map(*engine, x, x + 50, 50, same);
  EXPECT_THROW((map<double, double>(*engine, matrix(x, 10, 10, 10), matrix(x, 10, 10, 10), same)), ShapeError);
  EXPECT_THROW((map<float, float>(*engine, matrix(x, 5, 10, 10), matrix(x + 50, 10, 5, 5), same)), ShapeError);
  EXPECT_THROW(reduce(*engine, x, 100, 0.0F, [](float, float) -> float { throw std::runtime_error("mine"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace flagstone::flash
