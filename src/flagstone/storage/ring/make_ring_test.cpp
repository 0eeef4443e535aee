// Which ring is made, and what it says of itself where the system refuses something.
#include "flagstone/storage/ring/ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/testing/ring_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::one;
using test::pattern;

TEST(MakeRing, UnknownKindIsRefused) {
  EXPECT_THROW(make_ring({.kind = "windows"}), Error);
  EXPECT_EQ(make_ring({.kind = "threads", .depth = 4})->describe(), "4 threads");
}

/// Refuses io_uring_setup like a container does; only in a child that ends.
bool forbid_io_uring() {
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{sizeof rules / sizeof rules[0], rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(MakeRing, FallsBackToThreadsAndSaysWhy) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!forbid_io_uring()) ::_exit(77);
    int code = 1;
    try {
      const std::string text = make_ring({.kind = "auto", .depth = 4})->describe();
      if (text.find("4 threads (io_uring: ") == 0) code = 0;
      make_ring({.kind = "uring"});
      code = 2;
    } catch (const Error& error) {
      if (std::string(error.what()).find("io_uring cannot be had") == std::string::npos) code = 3;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "seccomp is not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MakeRing, RefusedRegistrationIsSaid) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{64 * KiB, 64 * KiB};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (::geteuid() == 0 && ::seteuid(65534) != 0)) ::_exit(77);
    int code = 1;
    try {
      const auto ring = make_ring({.kind = "uring"});
      Buffer small(16 * KiB), large(4 * MiB);
      const int slot = ring->register_buffer(small.data(), small.size());
      const int none = ring->register_buffer(large.data(), large.size());
      const bool said =
          ring->describe().find("registered") != std::string::npos && ring->describe().find("(") != std::string::npos;
      code = none == -1 && said ? 0 : 2;
      if (slot >= 0 && ring->register_buffer(small.data(), small.size()) >= 0) code = 3;  // nothing was given back
      ring->unregister_buffer(slot);
      if (slot >= 0 && ring->register_buffer(small.data(), small.size()) < 0) code = 4;
    } catch (const Error&) {
      code = 77;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "io_uring cannot be had here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MakeRing, AFullDiskIsEnospc) {
  TemporaryDirectory directory;
  for (const char* kind : {"auto", "threads"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!mount_small(directory.path(), 1 * MiB)) ::_exit(77);
      int code = 1;
      try {
        const auto ring = make_ring({.kind = kind, .depth = 4});
        const auto file = File::open(directory / "a", File::Mode::create);
        auto data = pattern(4 * MiB);
        const auto result =
            one(*ring, {.write = true, .fd = file->buffered(), .memory = data.data(), .row_bytes = data.size()});
        code = result == -ENOSPC ? 0 : 2;
      } catch (const std::exception&) {
      }
      ::_exit(code);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "mounting is not allowed here";
    EXPECT_EQ(WEXITSTATUS(status), 0) << kind;
  }
}

TEST(MakeRing, LargeFilesAreRefusedWithTheirErrno) {
  // RLIMIT_FSIZE stands for a full disk: the kernel takes a part, then refuses.
  for (const char* kind : {"auto", "threads"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{6000, 6000};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      int code = 1;
      try {
        const auto ring = make_ring({.kind = kind, .depth = 4});
        TemporaryDirectory directory;
        const auto file = File::temporary(directory.path());
        auto data = pattern(10'000);
        const auto result =
            one(*ring, {.write = true, .fd = file->buffered(), .memory = data.data(), .row_bytes = data.size()});
        code = result == -EFBIG ? 0 : 2;
      } catch (const std::exception&) {
      }
      ::_exit(code);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << kind << " " << status;
  }
}

}  // namespace
}  // namespace flagstone
