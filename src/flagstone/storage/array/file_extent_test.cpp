#include "flagstone/storage/array/file_extent.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

/// Naively: every byte of every element.
std::set<std::uint64_t> bytes_of(const RawLayout& layout, const Box& box) {
  Shape strides(layout.shape.size());
  Index stride = static_cast<Index>(size_of(layout.dtype));
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::size_t d = layout.column_major ? i : strides.size() - 1 - i;
    strides[d] = stride;
    stride *= i == 0 && layout.leading > 0 ? layout.leading : layout.shape[d];
  }
  std::set<std::uint64_t> bytes;
  for (Index i = 0; i < box.shape[0]; ++i)
    for (Index j = 0; j < box.shape[1]; ++j)
      for (std::size_t b = 0; b < size_of(layout.dtype); ++b)
        bytes.insert(layout.offset + b +
                     static_cast<std::uint64_t>((box.start[0] + i) * strides[0] + (box.start[1] + j) * strides[1]));
  return bytes;
}

TEST(FilePlace, RunsAndOverlapsAreThoseOfTheBytes) {
  TemporaryDirectory directory;
  create_raw(directory / "a.bin", {.shape = {4000}, .dtype = Dtype::int8});
  std::mt19937 random(7);
  const auto below = [&](Index n) { return static_cast<Index>(random() % static_cast<unsigned>(n)); };
  int meet = 0;
  for (int round = 0; round < 2000; ++round) {
    ByteRuns runs[2];
    std::set<std::uint64_t> bytes[2];
    for (int which = 0; which < 2; ++which) {
      RawLayout layout{.shape = {1 + below(6), 1 + below(6)},
                       .dtype = round % 3 ? Dtype::float32 : Dtype::uint8,
                       .column_major = below(2) == 1,
                       .offset = static_cast<std::uint64_t>(below(24))};
      if (below(2)) layout.leading = (layout.column_major ? layout.shape[0] : layout.shape[1]) + below(5);
      Box box{{below((layout.shape[0] + 1) / 2), below((layout.shape[1] + 1) / 2)}, {}};
      box.shape = {below(layout.shape[0] - box.start[0] + 1), below(layout.shape[1] - box.start[1] + 1)};
      const Array array = open_raw(directory / "a.bin", layout);
      runs[which] = byte_runs(array, *file_place(array), box);
      bytes[which] = bytes_of(layout, box);
      if (!bytes[which].empty()) {
        EXPECT_EQ(runs[which].first, *bytes[which].begin());
        EXPECT_EQ(runs[which].end(), *bytes[which].rbegin() + 1);
      }
    }
    std::set<std::uint64_t> both;
    for (const auto byte : bytes[0])
      if (bytes[1].contains(byte)) both.insert(byte);
    EXPECT_EQ(overlap(runs[0], runs[1]), !both.empty()) << round;
    meet += !both.empty();
  }
  EXPECT_GT(meet, 100);
  EXPECT_LT(meet, 1800);
}

TEST(FilePlace, IsOfTheFileThatWasOpened) {
  TemporaryDirectory directory;
  create_zarr_array(directory / "a.zarr", {4, 4}, Dtype::float64);
  const auto one = file_place(open_zarr_array(directory / "a.zarr")),
             two = file_place(open_zarr_array(directory / "a.zarr"));
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->inode, two->inode);
  create_zarr_array(directory / "b.zarr", {4, 4}, Dtype::float64);
  EXPECT_NE(file_place(open_zarr_array(directory / "b.zarr"))->inode, one->inode);
  EXPECT_FALSE(file_place(temporary_array({8}, Dtype::float64, {8}, directory.path())));
  EXPECT_FALSE(file_place(planned_array({8}, Dtype::float64, {8})));
}

}  // namespace
}  // namespace flagstone
