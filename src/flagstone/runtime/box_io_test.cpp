// The limit as transfers meet it: its default, its rounding, refusals, shares; boxes read and written inside it.
#include "flagstone/runtime/box_io.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <thread>

#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::message_of;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// An environment variable for one test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value, 1);
  }
  ~Environment() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class BoxIoTest : public testing::Test {
 protected:
  /// 512 x 512 of float64, chunks of 64 x 64, all different.
  Array stored(const std::string& codec) {
    const Array array = create_zarr_array(folder_.path() + "/" + codec + ".zarr", {512, 512}, Dtype::float64,
                                          {.chunks = {64, 64}, .codec = codec});
    values_.resize(512 * 512);
    std::iota(values_.begin(), values_.end(), 0.0);
    Runtime(options_).write(array, whole(array.shape()), tile_of(values_.data(), array.shape()));
    array.store().flush();
    return array;
  }

  TemporaryDirectory folder_;
  RuntimeOptions options_{.memory = 4 * GiB, .workers = 3, .scratch = folder_.path()};
  std::vector<double> values_;
};

TEST(Limits, DefaultIsTheEnvironmentsElseSixTenths) {
  {
    const Environment given("FLAGSTONE_MEMORY", "3GiB");
    EXPECT_EQ(default_memory(), 3 * GiB);
    EXPECT_EQ(Runtime().options().memory, 3 * GiB);
  }
  for (const char* bad : {"much", "0", "-1", "1e30"}) {
    const Environment given("FLAGSTONE_MEMORY", bad);
    EXPECT_THAT(message_of<Error>(default_memory),
                HasSubstr("FLAGSTONE_MEMORY: '" + std::string(bad) + "' is no size; give bytes"));
  }
  const Environment none("FLAGSTONE_MEMORY", "");
  EXPECT_NEAR(static_cast<double>(default_memory()), 0.6 * static_cast<double>(allowed_memory()), 1.0);
}

TEST(Limits, ANeedIsNamedInWholeMebibytesWithOneToSpare) {
  EXPECT_EQ(limit_for(0), 2 * MiB);
  EXPECT_EQ(limit_for(5 * MiB), 7 * MiB);
  EXPECT_EQ(limit_for(6 * MiB - 1), 7 * MiB);
  EXPECT_GT(limit_for(~std::uint64_t{0}), std::uint64_t{1} << 63);  // no wrap
}

TEST(Limits, ALeastLimitIsRefusedBeyondTheDrift) {
  EXPECT_NO_THROW(check_least("sum", 100 * MiB + Runtime::allowed_drift, 100 * MiB));
  try {
    check_least("sum", 100 * MiB + Runtime::allowed_drift + 1, 100 * MiB);
    FAIL() << "accepted";
  } catch (const BudgetError& error) {
    EXPECT_THAT(error.what(), StartsWith("sum: needs at least 107 MiB; memory is 100 MiB, and "));
    EXPECT_THAT(error.what(), EndsWith(" were resident before the call. Raise memory=."));
    EXPECT_EQ(error.least, 107 * MiB);
  }
}

TEST_F(BoxIoTest, ThreadsShareWhatStagingLeaves) {
  const Array packed = stored("blosc-lz4");
  const std::uint64_t each = std::max(packed.store().unpack_bytes(), packed.store().pack_bytes());
  ASSERT_GT(each, 0u);
  const auto share = [&](std::uint64_t left, std::uint64_t most = 1 * MiB) {
    return share_of_limit({.memory = 1 * GiB, .workers = 3}, packed, 1 * GiB - left, most);
  };
  EXPECT_EQ(share(0).staging, 0u);
  EXPECT_EQ(share(0).hands, 1u);
  EXPECT_EQ(share(each + 1 * MiB / 2).staging, 1 * MiB / 2);  // one chunk comes first
  EXPECT_EQ(share(each + 1 * MiB).hands, 1u);
  EXPECT_EQ(share(2 * each + 1 * MiB - 1).hands, 1u);
  EXPECT_EQ(share(2 * each + 1 * MiB).hands, 2u);
  EXPECT_EQ(share(64 * each + 1 * MiB).hands, 3u);  // the workers
  const Array raw = stored("raw");
  EXPECT_EQ(share_of_limit({.memory = 1, .workers = 3}, raw, 1 * GiB, 5 * MiB).staging, 5 * MiB);
  EXPECT_EQ(share_of_limit({.memory = 1 * GiB, .workers = 3}, raw, 0, 5 * MiB).hands, 1u);
}

TEST_F(BoxIoTest, WhatTravelsBesideABox) {
  const Array raw = stored("raw"), packed = stored("blosc-lz4");
  const std::uint64_t unpack = packed.store().unpack_bytes(), pack = packed.store().pack_bytes();
  EXPECT_EQ(bytes_beside_read(raw, 1 * MiB), 1 * MiB);
  EXPECT_EQ(bytes_beside_read(raw, 1 * GiB), box_staging);
  EXPECT_EQ(bytes_beside_read(packed, 1 * GiB), box_staging + unpack);
  EXPECT_EQ(bytes_beside_write(raw, 1 * GiB), box_staging);
  EXPECT_EQ(bytes_beside_write(raw, 1 * GiB, true), box_staging + box_piece);
  EXPECT_EQ(bytes_beside_write(packed, 3 * MiB, true), 6 * MiB + std::max(pack, unpack));
}

TEST_F(BoxIoTest, BoxesComeAndGoWithAnyStridesAndCodec) {
  for (const std::string codec : {"raw", "blosc-lz4"}) {
    const Array array = stored(codec);
    Runtime runtime(options_);
    const Box box{{10, 100}, {200, 300}};
    const Array part = runtime.read(array, box);
    const auto found = elements_of<double>(part);
    for (Index i : {0, 57, 199})
      for (Index j : {0, 131, 299}) EXPECT_EQ(found[i * 300 + j], values_[(10 + i) * 512 + 100 + j]);

    std::vector<double> turned(200 * 300);  // column-major
    Tile columns = tile_of(turned.data(), {200, 300});
    columns.strides = {8, 200 * 8};
    runtime.read(array, box, columns);
    for (Index i : {0, 57, 199})
      for (Index j : {0, 131, 299}) EXPECT_EQ(turned[j * 200 + i], values_[(10 + i) * 512 + 100 + j]);

    const std::vector<double> sevens(30 * 70, 7.0);  // parts of six chunks
    runtime.write(array, {{60, 60}, {30, 70}}, tile_of(sevens.data(), {30, 70}));
    const Array again = runtime.read(array, whole(array.shape()));
    for (Index i = 0; i < 512; ++i)
      for (Index j = 0; j < 512; ++j) {
        const bool changed = i >= 60 && i < 90 && j >= 60 && j < 130;
        ASSERT_EQ(elements_of<double>(again)[i * 512 + j], changed ? 7.0 : values_[i * 512 + j]) << i << ", " << j;
      }
  }
}

TEST_F(BoxIoTest, WhatDoesNotFitIsRefusedBeforeItIsRead) {
  const Array array = stored("raw");
  options_.memory = resident_bytes() + 1 * MiB;
  Runtime runtime(options_);
  try {
    runtime.read(array, whole(array.shape()));  // 2 MiB, and as much staging
    FAIL() << "read";
  } catch (const BudgetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("read: needs at least "));
    EXPECT_THAT(error.what(), HasSubstr("(4 MiB of them for 512 x 512 of float64); memory is "));
    options_.memory = error.least;
  }
  const std::uint64_t limit = options_.memory;
  Runtime larger(options_);  // what was named works
  ASSERT_TRUE(reset_peak_resident());
  EXPECT_EQ(elements_of<double>(larger.read(array, whole(array.shape())))[513], 513.0);
  EXPECT_LE(peak_resident_bytes(), limit);
}

TEST_F(BoxIoTest, NoMemoryIsTakenBeforeARefusal) {
  const Array vast = create_zarr_array(folder_ / "vast.zarr", {Index{1} << 22, Index{1} << 22}, Dtype::float64);
  Runtime runtime(options_);
  EXPECT_THROW(runtime.read(vast, whole(vast.shape())), BudgetError);  // 128 TiB: not bad_alloc
  EXPECT_EQ(elements_of<double>(runtime.read(vast, {{7, 7}, {1, 1}}))[0], 0.0);
}

TEST_F(BoxIoTest, PagesOfTheCallersMemoryCountOnce) {
  const Array array = stored("raw");
  const Buffer fresh(256 * MiB);
  const Tile to{fresh.data(), Dtype::float64, {512, 512}, {512 * 64 * 8, 64 * 8}, 0};  // over all of it
  options_.memory = resident_bytes() + 64 * MiB;
  Runtime runtime(options_);
  EXPECT_THROW(runtime.read(array, whole(array.shape()), to), BudgetError);
  for (std::size_t at = 0; at < fresh.size(); at += 4096) fresh.data()[at] = std::byte{1};
  options_.memory = resident_bytes() + 16 * MiB;  // now they are resident, and not asked for again
  EXPECT_NO_THROW(Runtime(options_).read(array, whole(array.shape()), to));
}

TEST_F(BoxIoTest, BadBoxesAreShapeErrors) {
  const Array array = stored("raw");
  Runtime runtime(options_);
  EXPECT_THROW(runtime.read(array, {{500, 0}, {20, 20}}), ShapeError);
  std::vector<float> floats(20 * 20);
  EXPECT_THROW(runtime.read(array, {{0, 0}, {20, 20}}, tile_of(floats.data(), {20, 20})), ShapeError);
  EXPECT_THROW(runtime.write(array, {{0, 0}, {20, 21}}, tile_of(values_.data(), {20, 20})), ShapeError);
  EXPECT_THROW(elements_of<float>(runtime.read(array, {{0, 0}, {2, 2}})), ShapeError);
  EXPECT_THROW(elements_of<double>(array), ShapeError);
}

TEST_F(BoxIoTest, ThreadsTakeTurnsAlsoBesideARun) {
  const Array array = stored("blosc-lz4");
  Runtime runtime(options_);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  runtime.run([&](Graph& graph) {
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (Index row = t; row < 512; row += 64) {
          const Array part = runtime.read(array, {{row, 0}, {1, 512}});
          if (elements_of<double>(part)[11] != values_[row * 512 + 11]) ++wrong;
        }
      });
    for (Index i = 0; i < 512; i += 64) {
      TaskSpec task;
      task.name = "look";
      task.accesses = {read({array, {{i, 0}, {64, 64}}})};
      task.body = [&, i](std::span<const Tile> tiles) {
        if (tiles[0].as<double>()[0] != values_[i * 512]) ++wrong;
      };
      graph.add(std::move(task));
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(BoxIoTest, AChildMayDropTheRuntimeOfItsParent) {
  const Array array = stored("blosc-lz4");
  auto runtime = std::make_unique<Runtime>(options_);
  runtime->read(array, whole(array.shape()));  // the ring and its threads are there
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = !message_of<Error>([&] { runtime->boxes(); }).empty();
    runtime.reset();  // must not wait for threads that this process does not have
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(elements_of<double>(runtime->read(array, {{0, 5}, {1, 1}}))[0], 5.0);
}

/// What is held already for a call counts once, also where nothing can be given back.
TEST(BoxIoRoom, WhatIsKeptIsNotAskedForAgain) {
  const std::uint64_t resident = resident_bytes();
  Runtime runtime({.memory = resident + 16 * MiB, .workers = 1});
  try {
    runtime.boxes().check_room({.who = "read", .what = "a box", .bytes = 192 * MiB, .kept = 128 * MiB});
    FAIL() << "64 MiB more do not fit";
  } catch (const BudgetError& error) {
    EXPECT_LE(error.least, resident + 96 * MiB);
    EXPECT_GE(error.least, resident + 64 * MiB);
  }
}

}  // namespace
}  // namespace flagstone
