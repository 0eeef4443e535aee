// Space that is taken before anything is written: promised once, given back, and woken shards like any others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/output/leftovers.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::read_elements;
using test::twos;
using test::write_elements;

/// Chunks of 4 MiB.
Array made(const std::string& path, const Shape& shape, const std::string& codec = "raw") {
  return create_zarr_array(path, shape, Dtype::float64, {.chunks = {1024, 512}, .codec = codec});
}

std::size_t shard_files(const std::string& path) {
  std::size_t files = 0;
  if (!path_exists(path + "/c")) return 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path + "/c")) files += entry.is_regular_file();
  return files;
}

template <class F>
int errno_of(F&& f) {
  try {
    f();
  } catch (const StorageError& error) {
    return error.number;
  }
  return 0;
}

TEST(Reserve, TakesAllItsBytesAndGivesBackWhatIsNotUsed) {
  TemporaryDirectory top;
  const Shape shape{8192, 8192};  // 512 MiB
  const Array array = made(top / "a", shape);
  const bool reserved = array.store().reserve();
  if (reserved) {
    EXPECT_GE(bytes_on_disk(top / "a"), array.nbytes());
  }
  EXPECT_TRUE(array.store().reserve() || !reserved);  // again: it is there
  const Box box{{1024, 512}, {1024, 512}}, zeros{{0, 0}, {1024, 512}};
  EXPECT_EQ(read_elements(array, box), std::vector<std::byte>(4 * MiB));  // absent chunks are zero
  write_elements(array, box, twos(box.shape, Dtype::float64));
  write_elements(array, zeros, std::vector<std::byte>(4 * MiB));
  array.store().flush();
  EXPECT_LE(bytes_on_disk(top / "a"), 4 * MiB + 128 * KiB);
  EXPECT_EQ(shard_files(top / "a"), 1u);
  const Array again = open_zarr_array(top / "a");
  EXPECT_EQ(read_elements(again, box), twos(box.shape, Dtype::float64));
  EXPECT_EQ(read_elements(again, zeros), std::vector<std::byte>(4 * MiB));
}

TEST(Reserve, NothingOfWhatIsPackedOrEmpty) {
  TemporaryDirectory top;
  const Array packed = made(top / "p", {8192, 8192}, "zstd");
  EXPECT_TRUE(packed.store().reserve());
  EXPECT_EQ(shard_files(top / "p"), 0u);
  for (const Shape& shape : {Shape{0, 5}, Shape{}}) {
    const std::string path = top / ("e" + std::to_string(shape.size()));
    const Array empty = create_zarr_array(path, shape, Dtype::float64, {.chunks = Shape(shape.size(), 1)});
    empty.store().reserve();
    empty.store().flush();
    EXPECT_EQ(shard_files(path), 0u);
  }
}

TEST(Reserve, WhatAWriterLeftIsTakenOverAndIdleShardsStillGo) {
  TemporaryDirectory top;
  const Shape shape{65536, 4096};  // 2 GiB: more than one shard
  const Box first{{0, 0}, {1024, 512}};
  {
    const Array array = made(top / "a", shape);
    array.store().reserve();
    write_elements(array, first, twos(first.shape, Dtype::float64));
    array.store().checkpoint();
  }
  const std::size_t files = shard_files(top / "a");
  ASSERT_GT(files, 1u);
  const Array array = open_zarr_array(top / "a", true);
  array.store().adopt();
  array.store().reserve();
  EXPECT_EQ(shard_files(top / "a"), files);
  EXPECT_TRUE(array.store().stored(first));
  const Box last{{64512, 3584}, {1024, 512}};
  EXPECT_FALSE(array.store().stored(last));
  write_elements(array, last, twos(last.shape, Dtype::float64));
  array.store().flush();
  EXPECT_EQ(shard_files(top / "a"), 2u);
  EXPECT_LE(bytes_on_disk(top / "a"), 8 * MiB + 256 * KiB);
  for (const Box& box : {first, last})
    EXPECT_EQ(read_elements(open_zarr_array(top / "a"), box), twos(box.shape, Dtype::float64));
}

TEST(Reserve, TwoJobsAreNotPromisedTheSameBytes) {
  TemporaryDirectory top;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!mount_small(top.path(), 100 * MiB)) ::_exit(77);
    const Shape shape{4096, 2048};  // 64 MiB
    int code = 1;
    {
      const Array one = made(top / "one", shape), two = made(top / "two", shape);
      if (!one.store().reserve()) ::_exit(78);
      const bool refused = errno_of([&] { two.store().reserve(); }) == ENOSPC && shard_files(top / "two") == 0;
      std::filesystem::remove_all(top / "one");
      // It is refused again only while somebody holds the files of the first.
      code = refused && free_bytes(top.path()) > 90 * MiB && two.store().reserve() ? 0 : 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) >= 77) GTEST_SKIP() << "no mounts here, or no fallocate";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Reserve, TemporaryArraysTakeAllTheirTiles) {
  TemporaryDirectory top;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!mount_small(top.path(), 100 * MiB)) ::_exit(77);
    const auto tiles = [&] { return temporary_array({4096, 2048}, Dtype::float64, {1024, 512}, top.path()); };
    int code = 1;
    {
      const Array one = tiles(), two = tiles();
      if (!one.store().reserve()) ::_exit(78);
      const bool taken = one.store().reserve() && free_bytes(top.path()) <= 36 * MiB;
      code = taken && errno_of([&] { two.store().reserve(); }) == ENOSPC ? 0 : 2;
    }
    if (code == 0 && free_bytes(top.path()) < 99 * MiB) code = 3;
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) >= 77) GTEST_SKIP() << "no mounts here, or no fallocate";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace flagstone
