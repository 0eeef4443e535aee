#include "flagstone/gauge/disk.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::gauge {
namespace {

class EachRing : public ::testing::TestWithParam<const char*> {
 protected:
  TemporaryDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Backends, EachRing, ::testing::Values("auto", "threads"));

TEST_P(EachRing, CountsWhatItMoved) {
  Disk disk(directory_.path(), 32 * MiB, GetParam());
  EXPECT_EQ(disk.filled(), 0u);
  EXPECT_EQ(disk.fill(8 * MiB).bytes_written, 8 * MiB);
  EXPECT_EQ(disk.fill(64 * MiB).bytes_written, 24 * MiB);
  EXPECT_EQ(disk.fill(MiB).bytes_written, 0u);
  EXPECT_EQ(disk.filled(), 32 * MiB);

  const Moved moved = disk.measure({.request_bytes = MiB, .depth = 4, .seconds = 60, .bytes = 40 * MiB});
  EXPECT_EQ(moved.bytes_read, 40 * MiB);  // around the file's end
  EXPECT_EQ(moved.bytes_written, 0u);
  EXPECT_EQ(moved.requests, 40u);
  EXPECT_GT(moved.seconds, 0);
  EXPECT_GT(moved.request_seconds, 0);
  EXPECT_LE(moved.request_seconds, moved.seconds);
}

TEST_P(EachRing, MixesReadsAndWritesInTheShareAskedFor) {
  Disk disk(directory_.path(), 16 * MiB, GetParam());
  disk.fill(16 * MiB);
  const Moved half =
      disk.measure({.request_bytes = 256 * KiB, .depth = 4, .write_share = 0.5, .seconds = 60, .bytes = 32 * MiB});
  EXPECT_EQ(half.bytes_read, 16 * MiB);
  EXPECT_EQ(half.bytes_written, 16 * MiB);
  const Moved quarter =
      disk.measure({.request_bytes = 256 * KiB, .depth = 4, .write_share = 0.25, .seconds = 60, .bytes = 32 * MiB});
  EXPECT_EQ(quarter.bytes_written, 8 * MiB);
}

TEST_P(EachRing, StridedAndRandomStayInside) {
  Disk disk(directory_.path(), 8 * MiB, GetParam());
  disk.fill(8 * MiB);
  Pattern pattern{.request_bytes = 8 * KiB, .depth = 16, .stride = 72 * KiB, .seconds = 60, .bytes = 16 * MiB};
  EXPECT_EQ(disk.measure(pattern).bytes_read, 16 * MiB);  // a read beyond the end would be short and throw
  pattern.stride = 0, pattern.random = true;
  EXPECT_EQ(disk.measure(pattern).bytes_read, 16 * MiB);
}

TEST_P(EachRing, StopsInTime) {
  Disk disk(directory_.path(), 4 * MiB, GetParam());
  disk.fill(4 * MiB);
  const Moved moved = disk.measure({.request_bytes = page_bytes, .depth = 1, .seconds = 0.02});
  EXPECT_GE(moved.seconds, 0.02);
  EXPECT_LT(moved.seconds, 5);
  EXPECT_EQ(moved.bytes_read, moved.requests * page_bytes);
  EXPECT_GT(disk.sync(), 0);
}

TEST_P(EachRing, LeavesNothingBehind) {
  { Disk(directory_.path(), 4 * MiB, GetParam()).fill(MiB); }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST(Disk, RefusesWhatItCannotMeasure) {
  const TemporaryDirectory directory;
  Disk disk(directory.path(), 8 * MiB, "auto");
  EXPECT_THROW(disk.measure({.request_bytes = MiB}), ShapeError);  // nothing filled yet
  disk.fill(8 * MiB);
  EXPECT_THROW(disk.measure({.request_bytes = 1000}), ShapeError);
  EXPECT_THROW(disk.measure({.request_bytes = 0}), ShapeError);
  EXPECT_THROW(disk.measure({.request_bytes = MiB, .depth = 0}), ShapeError);
  EXPECT_THROW(disk.measure({.request_bytes = 16 * MiB}), ShapeError);
  EXPECT_THROW(disk.measure({.request_bytes = 8 * MiB, .write_share = 0.5}), ShapeError);
  EXPECT_THROW(Disk(directory / "missing", MiB, "auto"), StorageError);
}

}  // namespace
}  // namespace flagstone::gauge
