#include "flagstone/storage/ring/ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/ring/scripted_ring.hpp"
#include "flagstone/testing/ring_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::one;
using test::pattern;
using test::reap_all;

void write_whole(int fd, const std::vector<std::byte>& data) {
  ASSERT_EQ(::pwrite(fd, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
}

class RingTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam();
    if (kind == "memory") {
      ring_ = make_memory_ring();
    } else if (kind == "hostile") {  // a memory ring that does everything but fail
      RingScript script{.step_bytes = 5000, .reorder = true, .seed = 3, .delay = 2};
      for (std::uint64_t i = 0; i < 5000; i += 3) script.faults.push_back({i, i % 2 ? EINTR : EAGAIN, 2});
      ring_ = make_memory_ring(script);
    } else {
      try {
        ring_ = make_ring({.kind = kind, .depth = 8});
      } catch (const Error& error) {
        GTEST_SKIP() << error.what();
      }
    }
    file_ = File::temporary(directory_.path());
  }
  Request request(bool write, std::uint64_t offset, std::byte* memory, std::size_t bytes, bool direct = false) {
    return {.write = write,
            .fd = direct ? file_->direct() : file_->buffered(),
            .offset = offset,
            .memory = memory,
            .row_bytes = bytes};
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Ring> ring_;
  std::shared_ptr<File> file_;
};

TEST_P(RingTest, AlignedDirect) {
  const auto data = pattern(1 * MiB);
  Buffer buffer(data.size()), again(data.size());
  std::memcpy(buffer.data(), data.data(), data.size());
  EXPECT_EQ(one(*ring_, request(true, 0, buffer.data(), data.size(), true)), static_cast<std::int64_t>(data.size()));
  EXPECT_EQ(one(*ring_, request(false, 0, again.data(), data.size(), true)), static_cast<std::int64_t>(data.size()));
  EXPECT_EQ(std::memcmp(again.data(), data.data(), data.size()), 0);
}

TEST_P(RingTest, UnalignedBuffered) {
  auto data = pattern(100'003);
  EXPECT_EQ(one(*ring_, request(true, 77, data.data(), data.size())), 100'003);
  std::vector<std::byte> again(data.size());
  EXPECT_EQ(one(*ring_, request(false, 77, again.data(), again.size())), 100'003);
  EXPECT_EQ(again, data);
  EXPECT_EQ(file_->size(), 77u + data.size());
}

TEST_P(RingTest, ScatteredRowsBeyondIovMax) {
  // 3000 rows of 40 bytes, 64 bytes apart: three readv calls, none of which may touch the gaps.
  const std::size_t rows = 3000, row = 40, pitch = 64;
  auto data = pattern(rows * row);
  write_whole(file_->buffered(), data);
  std::vector<std::byte> memory(rows * pitch, std::byte{0xEE});
  Request read = request(false, 0, memory.data(), row);
  read.rows = rows, read.pitch = pitch;
  EXPECT_EQ(one(*ring_, read), static_cast<std::int64_t>(rows * row));
  for (std::size_t i = 0; i < rows; ++i) {
    ASSERT_EQ(std::memcmp(&memory[i * pitch], &data[i * row], row), 0) << i;
    for (std::size_t j = row; j < pitch; ++j) ASSERT_EQ(memory[i * pitch + j], std::byte{0xEE});
  }
  Request write = read;
  write.write = true, write.offset = 13;
  EXPECT_EQ(one(*ring_, write), static_cast<std::int64_t>(rows * row));
  std::vector<std::byte> again(data.size());
  ASSERT_EQ(::pread(file_->buffered(), again.data(), again.size(), 13), static_cast<ssize_t>(again.size()));
  EXPECT_EQ(again, data);
}

TEST_P(RingTest, ScatteredPagesDirect) {
  const std::size_t rows = 16, row = 2 * page_bytes, pitch = 5 * page_bytes;
  auto data = pattern(rows * row);
  write_whole(file_->buffered(), data);
  Buffer memory(rows * pitch);
  Request read = request(false, 0, memory.data(), row, true);
  read.rows = rows, read.pitch = pitch;
  EXPECT_EQ(one(*ring_, read), static_cast<std::int64_t>(rows * row));
  for (std::size_t i = 0; i < rows; ++i) ASSERT_EQ(std::memcmp(memory.data() + i * pitch, &data[i * row], row), 0) << i;
}

TEST_P(RingTest, ReadsPastTheEndGiveFewerBytes) {
  auto data = pattern(10'000);
  write_whole(file_->buffered(), data);
  for (bool direct : {false, true}) {
    Buffer memory(64 * KiB);
    EXPECT_EQ(one(*ring_, request(false, 0, memory.data(), 64 * KiB, direct)), 10'000);
    EXPECT_EQ(std::memcmp(memory.data(), data.data(), data.size()), 0);
    EXPECT_EQ(one(*ring_, request(false, 8192, memory.data(), 8192, direct)), 10'000 - 8192);
    EXPECT_EQ(one(*ring_, request(false, 64 * KiB, memory.data(), 4096, direct)), 0);
    EXPECT_EQ(one(*ring_, request(false, 9728, memory.data(), 4096, direct)), 10'000 - 9728);  // a block, not a page
  }
  std::vector<std::byte> memory(300);
  EXPECT_EQ(one(*ring_, request(false, 9'900, memory.data(), 300)), 100);
}

TEST_P(RingTest, EmptyRequestsComplete) {
  std::byte nothing;
  EXPECT_EQ(one(*ring_, request(false, 0, &nothing, 0)), 0);
  EXPECT_EQ(one(*ring_, request(true, 0, &nothing, 0)), 0);
}

TEST_P(RingTest, BadDescriptorAndReadOnly) {
  std::vector<std::byte> memory(100);
  Request bad = request(false, 0, memory.data(), 100);
  bad.fd = 1'000'000;
  EXPECT_EQ(one(*ring_, bad), -EBADF);
  { File::open(directory_ / "r", File::Mode::create)->truncate(4096); }
  const auto read_only = File::open(directory_ / "r", File::Mode::read);
  bad = request(true, 0, memory.data(), 100);
  bad.fd = read_only->buffered();
  EXPECT_EQ(one(*ring_, bad), -EBADF);
}

TEST_P(RingTest, FullFileSystem) {
  // A sealed memfd cannot grow: what it takes is written, the rest is refused.
  const int fd = ::memfd_create("full", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 8192), 0);
  ASSERT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
  auto data = pattern(64 * KiB);
  Request write{.write = true, .fd = fd, .offset = 0, .memory = data.data(), .row_bytes = data.size()};
  EXPECT_EQ(one(*ring_, write), -EPERM);
  ::close(fd);
}

TEST_P(RingTest, ThousandsOfRequestsFromTwoThreads) {
  const std::size_t piece = 1000, pieces = 4000;
  auto data = pattern(piece * pieces);
  std::vector<std::byte> again(data.size());
  const auto submit = [&](bool write, std::vector<std::byte>& memory, std::size_t first, std::size_t last) {
    std::vector<Request> some;
    for (std::size_t i = first; i < last; ++i) {
      Request next = request(write, i * piece, &memory[i * piece], piece);
      next.tag = i;
      some.push_back(next);
      if (some.size() == 1 + i % 50 || i + 1 == last) {
        ring_->submit(some);
        some.clear();
      }
    }
  };
  for (bool write : {true, false}) {
    auto& memory = write ? data : again;
    std::thread first([&] { submit(write, memory, 0, pieces / 2); });
    std::thread second([&] { submit(write, memory, pieces / 2, pieces); });
    const auto results = reap_all(*ring_, pieces);
    first.join(), second.join();
    for (const auto& [tag, result] : results) ASSERT_EQ(result, static_cast<std::int64_t>(piece)) << tag;
    EXPECT_EQ(results.rbegin()->first, pieces - 1);
  }
  EXPECT_EQ(again, data);
}

TEST_P(RingTest, RequestsOfAThreadThatEndedComplete) {
  auto data = pattern(256 * KiB);
  write_whole(file_->buffered(), data);
  ASSERT_EQ(::posix_fadvise(file_->buffered(), 0, 0, POSIX_FADV_DONTNEED), 0);
  std::vector<std::byte> again(data.size());
  std::thread([&] {
    std::vector<Request> all;
    for (std::size_t i = 0; i < 64; ++i) {
      all.push_back(request(false, i * 4096, &again[i * 4096], 4096));
      all.back().tag = i;
    }
    ring_->submit(all);
  }).join();
  for (const auto& [tag, result] : reap_all(*ring_, 64)) EXPECT_EQ(result, 4096) << tag;
  EXPECT_EQ(again, data);
}

TEST_P(RingTest, WakeEndsAWaitAndIsRemembered) {
  Completion out[4];
  ring_->wake();
  EXPECT_EQ(ring_->reap(out), 0u);
  for (int i = 0; i < 100; ++i) {
    std::thread waker([&] { ring_->wake(); });
    EXPECT_EQ(ring_->reap(out), 0u);
    waker.join();
  }
  auto data = pattern(100);  // and the ring still works
  EXPECT_EQ(one(*ring_, request(true, 0, data.data(), 100)), 100);
}

TEST_P(RingTest, DestructionWaitsForWhatIsInFlight) {
  auto data = pattern(4 * MiB);
  write_whole(file_->buffered(), data);
  {
    Buffer memory(4 * MiB);
    std::vector<Request> all;
    for (std::size_t i = 0; i < 4; ++i) all.push_back(request(false, i * MiB, memory.data() + i * MiB, 1 * MiB, true));
    ring_->submit(all);
    ring_.reset();
  }
}

TEST_P(RingTest, AForkedChildLeavesTheRingToItsParent) {
  auto data = pattern(64 * KiB);
  write_whole(file_->buffered(), data);
  std::vector<std::byte> again(data.size());
  std::vector<Request> all;
  for (std::size_t i = 0; i < 16; ++i) {
    all.push_back(request(false, i * 4096, &again[i * 4096], 4096));
    all.back().tag = i;
  }
  ring_->submit(all);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ring_.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  for (const auto& [tag, result] : reap_all(*ring_, 16)) EXPECT_EQ(result, 4096) << tag;
  EXPECT_EQ(again, data);
}

TEST_P(RingTest, RegisteredBuffersMoveTheSameBytes) {
  const auto data = pattern(256 * KiB);
  Buffer buffer(data.size());
  std::memcpy(buffer.data(), data.data(), data.size());
  const int slot = ring_->register_buffer(buffer.data(), buffer.size());  // -1 is a legal answer everywhere
  Request write = request(true, 0, buffer.data() + 4096, 64 * KiB, true);
  write.registered = slot;
  EXPECT_EQ(one(*ring_, write), static_cast<std::int64_t>(64 * KiB));
  Request read = write;
  read.write = false, read.memory = buffer.data() + 128 * KiB;
  EXPECT_EQ(one(*ring_, read), static_cast<std::int64_t>(64 * KiB));
  EXPECT_EQ(std::memcmp(buffer.data() + 128 * KiB, data.data() + 4096, 64 * KiB), 0);
  read.rows = 4, read.row_bytes = 4096, read.pitch = 8192;  // scattered and registered
  EXPECT_EQ(one(*ring_, read), static_cast<std::int64_t>(16 * KiB));
  EXPECT_EQ(std::memcmp(buffer.data() + 128 * KiB + 8192, data.data() + 8192, 4096), 0);
  EXPECT_EQ(ring_->describe().find(", registered buffers") != std::string::npos, slot >= 0);
  ring_->unregister_buffer(slot);
}

INSTANTIATE_TEST_SUITE_P(Backends, RingTest, testing::Values("uring", "threads", "memory", "hostile"),
                         [](const auto& info) { return info.param; });

TEST(MemoryRing, FailsWhatItIsTold) {
  TemporaryDirectory directory;
  const auto file = File::temporary(directory.path());
  auto data = pattern(3000);
  const auto run = [&](const RingScript& script) {
    const auto ring = make_memory_ring(script);
    std::vector<Request> all;
    for (std::uint64_t i = 0; i < 3; ++i)
      all.push_back({.write = true,
                     .fd = file->buffered(),
                     .offset = i * 1000,
                     .memory = &data[i * 1000],
                     .row_bytes = 1000,
                     .tag = i});
    ring->submit(all);
    return reap_all(*ring, 3);
  };
  EXPECT_EQ(run({.faults = {{1, EIO}}}), (std::map<std::uint64_t, std::int64_t>{{0, 1000}, {1, -EIO}, {2, 1000}}));
  EXPECT_EQ(run({.space = 1500}), (std::map<std::uint64_t, std::int64_t>{{0, 1000}, {1, -ENOSPC}, {2, -ENOSPC}}));
  EXPECT_EQ(run({.faults = {{0, EINTR, 5}}, .step_bytes = 1}),
            (std::map<std::uint64_t, std::int64_t>{{0, 1000}, {1, 1000}, {2, 1000}}));
}

TEST(MemoryRing, SameSeedSameOrder) {
  TemporaryDirectory directory;
  const auto file = File::temporary(directory.path());
  file->truncate(100'000);
  std::vector<std::byte> memory(100'000);
  const auto order = [&](std::uint64_t seed) {
    const auto ring = make_memory_ring({.reorder = true, .seed = seed});
    std::vector<Request> all;
    for (std::uint64_t i = 0; i < 100; ++i)
      all.push_back(
          {.fd = file->buffered(), .offset = i * 1000, .memory = &memory[i * 1000], .row_bytes = 1000, .tag = i});
    ring->submit(all);
    std::vector<std::uint64_t> tags;
    Completion out;
    while (tags.size() < 100)
      if (ring->reap({&out, 1})) tags.push_back(out.tag);
    return tags;
  };
  EXPECT_EQ(order(5), order(5));
  EXPECT_NE(order(5), order(6));
}

}  // namespace
}  // namespace flagstone
