#include "flagstone/flash/flash_ptr.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <future>
#include <numeric>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/graph/task.hpp"
#include "flagstone/storage/scratch/scratch.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

static_assert(dtype_of<const float>() == Dtype::float32 && dtype_of<std::complex<double>>() == Dtype::complex128);
static_assert(dtype_of<std::uint16_t>() == Dtype::uint16 && dtype_of<long>() == Dtype::int64);
static_assert(dtype_of<bool>() == Dtype::boolean && dtype_of<std::int8_t>() == Dtype::int8);
static_assert(std::is_convertible_v<flash_ptr<float>, flash_ptr<const float>>);
static_assert(!std::is_convertible_v<flash_ptr<const float>, flash_ptr<float>>);
static_assert(!std::is_convertible_v<flash_ptr<float>, flash_ptr<double>>);

TEST(FlashPtr, ArithmeticIsThatOfPointers) {
  TemporaryDirectory directory;
  auto p = map_file<double>(directory / "a.bin", MapMode::create, 100);
  const auto q = 3 + p + 4;
  EXPECT_EQ(q - p, 7);
  EXPECT_EQ(p - q, -7);
  EXPECT_EQ(q.offset(), 56u);
  EXPECT_EQ(q.ptr, p.ptr + 7);
  EXPECT_TRUE(p < q && p + 7 == q && q - 7 == p && p != q);
  auto r = q;
  EXPECT_EQ((--r, ++r, r -= 2, r - p), 5);
  const flash_ptr<float> half(p + 1);
  EXPECT_EQ(half.offset(), 8u);
  EXPECT_EQ((half + 1).offset(), 12u);
  EXPECT_FALSE(flash_ptr<float>());
}

TEST(FlashPtr, TheMappingAndTheCallsSeeTheSameElements) {
  TemporaryDirectory directory;
  auto p = map_file<int>(directory / "a.bin", MapMode::create, 10'000, 13 * sizeof(int));
  p.ptr[5] = 42;
  int value = 0;
  read_sync(&value, p + 5, Contiguous{1});
  EXPECT_EQ(value, 42);
  std::vector<int> block(12);
  std::iota(block.begin(), block.end(), 1);
  write_sync(p + 100, block.data(), Strided{3, 4, 50});
  EXPECT_EQ(p.ptr[100], 1);
  EXPECT_EQ(p.ptr[153], 8);
  EXPECT_EQ(p.ptr[200], 9);
  EXPECT_EQ(p.ptr[104], 0);
  std::vector<int> again(12);
  read_sync(again.data(), p + 100, Strided{3, 4, 50});
  EXPECT_EQ(again, block);
  EXPECT_THROW(read_sync(&value, p + 10'000, Contiguous{1}), ShapeError);
  EXPECT_THROW(read_sync(&value, p - 14, Contiguous{1}), ShapeError);
  unmap_file(p);
  const auto reading = map_file<int>(directory / "a.bin", MapMode::read, 0, 13 * sizeof(int));
  EXPECT_EQ(reading.ptr[5], 42);
  EXPECT_THROW(write_sync(reading, block.data(), Contiguous{1}), StorageError);
  EXPECT_THROW(map_file<int>(directory / "a.bin", MapMode::create, 10), StorageError);
  EXPECT_THROW(map_file<int>(directory / "missing"), StorageError);
}

TEST(FlashPtr, EqualRegionsAreOneArrayAndTasksOnThemAreOrdered) {
  TemporaryDirectory directory;
  Runtime runtime({.memory = resident_bytes() + 256 * MiB, .workers = 2, .scratch = directory / "scratch"});
  auto p = flash_malloc<double>(runtime, 1'000'000);
  EXPECT_EQ(region(p + 7, Strided{10, 20, 30}).array.id(), region(p + 7, Strided{10, 20, 30}).array.id());
  // Blocks of a matrix of 999 columns: sectors are shared between blocks in flight.
  const auto add_one = [&](Graph& graph, Index i, Index j) {
    TaskSpec task;
    task.name = "add one";
    task.accesses = {update(region(p + (3 + i * 999 + j), Strided{50, 37, 999}))};
    task.body = [](std::span<const Tile> t) {
      for (Index r = 0; r < 50; ++r)
        for (Index q = 0; q < 37; ++q) *reinterpret_cast<double*>(t[0].data + r * t[0].strides[0] + q * 8) += 1;
    };
    graph.add(std::move(task));
  };
  runtime.run([&](Graph& graph) {
    for (int time = 0; time < 5; ++time)
      for (Index i = 0; i < 1000; i += 50)
        for (Index j = 0; j < 999; j += 37) add_one(graph, i, j);
  });
  for (Index e = 0; e < 999'000; ++e) ASSERT_EQ(p.ptr[3 + e], 5.0) << e;
  EXPECT_EQ(p.ptr[2], 0.0);
  EXPECT_EQ(p.ptr[3 + 999'000], 0.0);
  auto copy = p;
  flash_free(p);
  double value;
  EXPECT_THROW(read_sync(&value, copy, Contiguous{1}), Error);
}

TEST(FlashPtr, AllocationsArePromisedUnderTheQuota) {
  TemporaryDirectory directory;
  const std::string scratch = directory / "scratch";
  Runtime runtime({.memory = resident_bytes() + 256 * MiB, .workers = 1, .scratch = scratch, .scratch_quota = 6 * MiB});
  auto p = flash_malloc<double>(runtime, MiB / 2);
  EXPECT_EQ(scratch_held(scratch), 4 * MiB);
  try {
    (void)flash_malloc<double>(runtime, MiB / 2);
    FAIL() << "the quota holds one";
  } catch (const ScratchError& error) {
    EXPECT_EQ(std::string(error.what()).find("flash_malloc: needs 4 MiB of scratch, and '" + scratch + "' holds 4 MiB"),
              0u)
        << error.what();
  }
  flash_free(p);
  EXPECT_EQ(scratch_held(scratch), 0u);
  p = flash_malloc<double>(runtime, MiB / 2);
}

TEST(FlashPtr, MoreElementsThanAFileHoldsAreRefused) {
  TemporaryDirectory directory;
  Runtime runtime({.memory = resident_bytes() + 256 * MiB, .workers = 1, .scratch = directory / "scratch"});
  const std::uint64_t many = std::uint64_t{1} << 61;  // 2^64 bytes are 0
  const auto number = [](auto&& f) {
    try {
      f();
    } catch (const StorageError& error) {
      return error.number;
    }
    return 0;
  };
  EXPECT_EQ(number([&] { (void)flash_malloc<double>(runtime, many); }), EFBIG);
  EXPECT_EQ(number([&] { (void)map_file<double>(directory / "x.bin", MapMode::create, many); }), EFBIG);
  EXPECT_FALSE(std::filesystem::exists(directory / "x.bin"));
}

TEST(FlashPtr, RegionsThatOverlapAreRefusedAndNothingIsLost) {
  TemporaryDirectory directory;
  Runtime runtime({.memory = resident_bytes() + 256 * MiB, .workers = 2, .scratch = directory / "scratch"});
  const auto task = [](Access access, std::function<void()> first) {
    TaskSpec spec;
    spec.name = "add one";
    spec.accesses = {std::move(access)};
    spec.body = [first = std::move(first)](std::span<const Tile> t) {
      first();
      for (Index i = 0; i < t[0].shape[0]; ++i) t[0].as<double>()[i] += 1;
    };
    return spec;
  };
  auto p = flash_malloc<double>(runtime, 1000);
  std::promise<void> refused;
  EXPECT_THROW(runtime.run([&](Graph& graph) {
    graph.add(task(update(region(p, Contiguous{600})), [&] { refused.get_future().wait(); }));
    try {
      graph.add(task(update(region(p + 400, Contiguous{600})), [] {}));
    } catch (const ShapeError&) {
      refused.set_value();
      throw;
    }
    refused.set_value();
  }),
               ShapeError);
  // As one array, in boxes that are equal or apart, none is lost.
  const auto q = flash_malloc<double>(runtime, 1000);
  runtime.run([&](Graph& graph) {
    for (int time = 0; time < 50; ++time)
      for (const auto& [start, length] : {std::pair(0, 400), {400, 200}, {600, 400}})
        graph.add(task(update(region(q + start, Contiguous{length})), [] {}));
  });
  for (Index e = 0; e < 1000; ++e) ASSERT_EQ(q.ptr[e], 50.0) << e;
}

}  // namespace
}  // namespace flagstone
