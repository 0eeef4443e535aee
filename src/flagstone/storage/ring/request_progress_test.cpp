#include "flagstone/storage/ring/request_progress.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <climits>

#include "flagstone/base/bytes.hpp"

namespace flagstone {
namespace {

// No memory is touched here: addresses are only counted.
std::byte* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);

Request request(bool write, std::uint64_t offset, std::size_t row_bytes, std::size_t rows = 1, std::size_t pitch = 0) {
  return {.write = write,
          .offset = offset,
          .memory = nowhere,
          .row_bytes = row_bytes,
          .rows = rows,
          .pitch = pitch,
          .tag = 5};
}

TEST(RequestProgress, LargeRequestsGoInGibibytes) {
  RequestProgress progress(request(false, 4096, 5 * GiB / 2));
  const std::size_t sizes[] = {GiB, GiB, GiB / 2};
  std::uint64_t offset = 4096;
  for (int i = 0; i < 3; ++i) {
    const auto step = progress.step();
    EXPECT_EQ(step.offset, offset);
    EXPECT_EQ(step.bytes, sizes[i]);
    EXPECT_EQ(step.vectors->at(0).iov_base, nowhere + (offset - 4096));
    EXPECT_EQ(progress.finished(static_cast<std::int64_t>(step.bytes)), i == 2);
    offset += step.bytes;
  }
  EXPECT_EQ(progress.completion().result, static_cast<std::int64_t>(5 * GiB / 2));
  EXPECT_EQ(progress.completion().tag, 5u);
}

TEST(RequestProgress, RowsAreGatheredUpToIovMaxAndResumedInsideARow) {
  RequestProgress progress(request(true, 0, 100, 2000, 300));
  auto step = progress.step();
  EXPECT_EQ(step.vectors->size(), static_cast<std::size_t>(IOV_MAX));
  EXPECT_FALSE(progress.finished(12'345));  // short, inside row 123
  step = progress.step();
  EXPECT_EQ(step.offset, 12'345u);
  EXPECT_EQ(step.vectors->at(0).iov_base, nowhere + 123 * 300 + 45);
  EXPECT_EQ(step.vectors->at(0).iov_len, 55u);
  EXPECT_EQ(step.vectors->at(1).iov_base, nowhere + 124 * 300);
  EXPECT_FALSE(progress.finished(static_cast<std::int64_t>(step.bytes)));
  EXPECT_TRUE(progress.finished(static_cast<std::int64_t>(progress.step().bytes)));
  EXPECT_EQ(progress.completion().result, 200'000);
}

TEST(RequestProgress, AdjacentRowsAreOne) {
  RequestProgress progress(request(false, 0, 100, 2000, 100));
  EXPECT_EQ(progress.step().vectors->size(), 1u);
  EXPECT_EQ(progress.step().bytes, 200'000u);
}

TEST(RequestProgress, DirectTransfersResumeAtTheAlignmentTheyCameWith) {
  for (std::uint64_t alignment : {512, 1024, 4096}) {
    RequestProgress progress(request(false, 8192 + (alignment % 4096), 16384));
    progress.step();
    EXPECT_FALSE(progress.finished(5000));  // the file ends there
    EXPECT_EQ(progress.step().offset, 8192 + alignment % 4096 + 5000);
    EXPECT_FALSE(progress.finished(-EINVAL));  // O_DIRECT does not go on at an odd byte
    const std::uint64_t resumed = progress.step().offset - (8192 + alignment % 4096);
    EXPECT_EQ(resumed, 5000 / alignment * alignment);
    EXPECT_TRUE(progress.finished(static_cast<std::int64_t>(5000 - resumed)));  // nothing new: the end
    EXPECT_EQ(progress.completion().result, 5000);
  }
}

TEST(RequestProgress, ErrorsEndsAndRefusals) {
  RequestProgress invalid(request(false, 512, 4096));
  invalid.step();
  EXPECT_TRUE(invalid.finished(-EINVAL));  // at once: nothing to align
  EXPECT_EQ(invalid.completion().result, -EINVAL);

  RequestProgress stuck(request(true, 0, 4096));
  stuck.step();
  EXPECT_TRUE(stuck.finished(0));  // a write that takes nothing and gives no reason
  EXPECT_EQ(stuck.completion().result, -EIO);

  RequestProgress end(request(false, 0, 4096));
  end.step();
  EXPECT_TRUE(end.finished(0));
  EXPECT_EQ(end.completion().result, 0);

  RequestProgress full(request(true, 0, 4096));
  full.step();
  EXPECT_FALSE(full.finished(1000));
  full.step();
  EXPECT_TRUE(full.finished(-ENOSPC));  // not "1000 bytes": the request as a whole failed
  EXPECT_EQ(full.completion().result, -ENOSPC);

  RequestProgress never(request(false, 0, 4096));
  int turns = 0;
  do never.step();
  while (!never.finished(-EAGAIN) && ++turns < 100'000);
  EXPECT_EQ(turns, 1000);
  EXPECT_EQ(never.completion().result, -EAGAIN);
}

}  // namespace
}  // namespace flagstone
