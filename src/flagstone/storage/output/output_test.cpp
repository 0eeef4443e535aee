#include "flagstone/storage/output/output.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A group of several files that all say `version`.
void fill_directory(const std::string& directory, const std::string& version) {
  fs::create_directories(directory + "/c/0");
  for (int i = 0; i < 5; ++i) write_file(directory + "/c/0/" + std::to_string(i), version);
  write_file(directory + "/zarr.json", version);
}

/// The version that all files of `directory` agree on; nothing where they do not, or one is missing.
std::optional<std::string> version_of(const std::string& directory) {
  const std::string version = read_file(directory + "/zarr.json");
  for (int i = 0; i < 5; ++i)
    if (read_file(directory + "/c/0/" + std::to_string(i)) != version) return std::nullopt;
  if (version.empty()) return std::nullopt;
  return version;
}

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

StorageError error_of(const auto& call) {
  try {
    call();
  } catch (const StorageError& error) {
    return error;
  }
  return {"nothing was thrown", 0, ""};
}

/// renameat2 answers EINVAL from now on, as on file systems without its flags; only in a child that ends.
bool forbid_renameat2() {
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 4),
                         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[4])),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),  // without flags it is rename()
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{sizeof rules / sizeof rules[0], rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Exit status of `body` run in a child; 77 means that the test cannot be had here.
int in_child(const auto& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Output, AppearsWholeAndLeavesNothingElse) {
  TemporaryDirectory top;
  const std::string path = top / "a.zarr";
  {
    Output output(path + "/", false, 1 * MiB);
    EXPECT_FALSE(fs::exists(output.directory()));
    fill_directory(output.directory(), "one");
    EXPECT_FALSE(fs::exists(path));
    EXPECT_EQ(fs::path(output.directory()).parent_path(), fs::path(path).parent_path());
    EXPECT_EQ(fs::path(output.directory()).filename().string().rfind(".a.zarr.flagstone-tmp-", 0), 0u);
    output.publish();
    EXPECT_EQ(version_of(path), "one");
    EXPECT_THROW(output.publish(), Error);
  }
  EXPECT_EQ(names_in(top.path()), std::set<std::string>{"a.zarr"});
}

TEST(Output, UnpublishedIsRemoved) {
  TemporaryDirectory top;
  {
    Output output(top / "a", false);
    fill_directory(output.directory(), "one");
  }
  EXPECT_TRUE(names_in(top.path()).empty());
  fill_directory(top / "a", "old");
  {
    Output output(top / "a", true);
    fill_directory(output.directory(), "new");
  }
  EXPECT_EQ(version_of(top / "a"), "old");
  EXPECT_EQ(names_in(top.path()), std::set<std::string>{"a"});
}

TEST(Output, ReplacesDirectoriesFilesAndBoth) {
  TemporaryDirectory top;
  const std::string path = top / "a";
  for (int turn = 0; turn < 4; ++turn) {  // nothing -> file -> file -> directory -> directory
    Output output(path, true);
    if (turn < 2)
      write_file(output.directory(), std::to_string(turn));
    else
      fill_directory(output.directory(), std::to_string(turn));
    output.publish();
    EXPECT_EQ(turn < 2 ? read_file(path) : version_of(path), std::to_string(turn));
  }
  EXPECT_EQ(names_in(top.path()), std::set<std::string>{"a"});
}

TEST(Output, ReplacesWhatALinkPointsTo) {
  TemporaryDirectory top;
  fs::create_directory(top / "there");
  write_file(top / "there/a", "old");
  fs::create_symlink(top / "there/a", top / "link");
  {
    Output output(top / "link", true);
    write_file(output.directory(), "new");
    output.publish();
  }
  EXPECT_TRUE(fs::is_symlink(top / "link"));
  EXPECT_EQ(read_file(top / "there/a"), "new");
}

TEST(Output, SaysWhatIsWrongBeforeAnythingIsWritten) {
  TemporaryDirectory top;
  write_file(top / "a", "mine");
  const auto exists = error_of([&] { Output(top / "a", false); });
  EXPECT_EQ(exists.number, EEXIST);
  EXPECT_NE(std::string(exists.what()).find("overwrite=True"), std::string::npos);
  const auto missing = error_of([&] { Output(top / "no/b", false); });
  EXPECT_EQ(missing.number, ENOENT);
  EXPECT_EQ(missing.filename, top / "no");
  EXPECT_EQ(error_of([&] { Output(top / "a/b", false); }).number, ENOTDIR);
  const auto full = error_of([&] { Output(top / "b", false, 1024 * 1024 * GiB); });
  EXPECT_EQ(full.number, ENOSPC);
  EXPECT_NE(std::string(full.what()).find("needs 1 PiB"), std::string::npos) << full.what();
  EXPECT_EQ(error_of([&] { Output("", false); }).number, EINVAL);
  EXPECT_EQ(names_in(top.path()), std::set<std::string>{"a"});
  EXPECT_EQ(read_file(top / "a"), "mine");
}

TEST(Output, ReadOnlyParentIsNamed) {
  TemporaryDirectory top;
  fs::create_directory(top / "p");
  ASSERT_EQ(::chmod(top.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((top / "p").c_str(), 0555), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::seteuid(65534) != 0) return 77;
              const auto error = error_of([&] { Output(top / "p/a", false); });
              return error.number == EACCES && error.filename == top / "p" ? 0 : 1;
            }),
            0);
  ::chmod((top / "p").c_str(), 0755);
}

TEST(Output, APathThatAppearsMeanwhileIsKept) {
  TemporaryDirectory top;
  Output output(top / "a", false);
  fill_directory(output.directory(), "ours");
  fill_directory(top / "a", "theirs");
  EXPECT_EQ(error_of([&] { output.publish(); }).number, EEXIST);
  EXPECT_EQ(version_of(top / "a"), "theirs");
}

TEST(Output, NothingBuiltCannotBePublished) {
  TemporaryDirectory top;
  Output output(top / "a", true);
  EXPECT_THROW(output.publish(), std::exception);
}

TEST(Output, WhatCannotBeLookedThroughIsAnErrorOfStorage) {
  TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      Output output(directory / "out", false);
      fill_directory(output.directory(), "new");
      const int next = ::dup(0);
      ::close(next);
      const rlimit limit{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};  // no directory can be opened now
      ::setrlimit(RLIMIT_NOFILE, &limit);
      try {
        output.publish();
      } catch (const StorageError& error) {
        code = error.number == EMFILE && error.filename == output.directory() ? 0 : 2;
      }
      const rlimit enough{64, static_cast<rlim_t>(next)};
      ::setrlimit(RLIMIT_NOFILE, &enough);
    } catch (...) {
      code = 3;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(fs::exists(directory / "out"));
}

TEST(Output, LiveWritersAreLeftAlone) {
  TemporaryDirectory top;
  Output first(top / "a", true);
  fill_directory(first.directory(), "first");
  {
    Output second(top / "a", true);
    EXPECT_EQ(version_of(first.directory()), "first");
    fill_directory(second.directory(), "second");
    second.publish();
  }
  first.publish();
  EXPECT_EQ(version_of(top / "a"), "first");
}

TEST(Output, AForkedChildRemovesNothing) {
  TemporaryDirectory top;
  auto output = std::make_unique<Output>(top / "a", false);
  fill_directory(output->directory(), "one");
  EXPECT_EQ(in_child([&] {
              output.reset();
              return 0;
            }),
            0);
  output->publish();
  EXPECT_EQ(version_of(top / "a"), "one");
}

TEST(Output, NeighboursAreNotSwept) {
  TemporaryDirectory top;
  write_file(top / ".ab.flagstone-tmp-1", "of another output");
  write_file(top / ".a.flagstone-tmp-1", "a dead writer's, without its lock");
  { Output output(top / "a", false); }
  EXPECT_EQ(names_in(top.path()), std::set<std::string>{".ab.flagstone-tmp-1"});
}

/// A writer that is killed at random moments, again and again: the path always shows one whole version.
void kill_loop(bool with_renameat2) {
  TemporaryDirectory top;
  const std::string path = top / "a";
  fill_directory(path, "0");
  std::minstd_rand random(7);
  int completed = 0, interrupted = 0;
  unsigned undisturbed = 0;  // microseconds
  for (int round = 1; round <= 36; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!with_renameat2 && !forbid_renameat2()) ::_exit(77);
      try {
        Output output(path, true);
        // Recovery comes first: whatever the last one left, the path is whole again.
        if (!version_of(path)) ::_exit(1);
        fill_directory(output.directory(), std::to_string(round));
        output.publish();
      } catch (...) {
        ::_exit(2);
      }
      ::_exit(0);
    }
    // Every sixth writer is left in peace; the others die within about the time that it took.
    const auto start = std::chrono::steady_clock::now();
    if (round % 6 != 1) {
      ::usleep(static_cast<useconds_t>(random() % (undisturbed + 1)));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (round % 6 == 1) undisturbed = static_cast<unsigned>(1.2 * took.count());
    if (WIFEXITED(status)) {
      if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "seccomp is not allowed here";
      ASSERT_EQ(WEXITSTATUS(status), 0) << "round " << round;
      ++completed;
    } else {
      ++interrupted;
    }
    // With two steps there is a moment without the path; the next writer ends it (checked in the child).
    ASSERT_TRUE(version_of(path) || (!with_renameat2 && !fs::exists(path))) << "round " << round;
  }
  EXPECT_GT(completed, 0);
  EXPECT_GT(interrupted, 0);
  { Output last(path, true); }
  EXPECT_TRUE(version_of(path).has_value());
  EXPECT_EQ(names_in(top.path()), std::set<std::string>{"a"});
}

TEST(Output, KilledAtAnyMomentThePathIsWhole) { kill_loop(true); }
TEST(Output, KilledAtAnyMomentWithoutRenameat2) { kill_loop(false); }

TEST(Output, AFullDiskLeavesTheOldVersionAndNothingElse) {
  TemporaryDirectory top;
  const int code = in_child([&] {
    if (!mount_small(top.path(), 4 * MiB)) return 77;
    fill_directory(top / "a", "old");
    bool full = false;
    {
      Output output(top / "a", true, 1 * MiB);
      fs::create_directory(output.directory());
      std::ofstream file(output.directory() + "/big");
      const std::string block(64 * KiB, 'x');
      for (int i = 0; i < 100 && file.flush(); ++i) file << block;
      full = !file;
    }
    if (!full) return 1;
    if (version_of(top / "a") != "old") return 2;
    if (names_in(top.path()) != std::set<std::string>{"a"}) return 3;
    return error_of([&] { Output(top / "a", true, 8 * MiB); }).number == ENOSPC ? 0 : 4;
  });
  if (code == 77) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(code, 0);
}

TEST(Output, ADeadWriterBetweenTheTwoStepsIsFinished) {
  TemporaryDirectory top;
  const std::string hidden = top / ".a.flagstone-tmp-12";
  fill_directory(hidden, "new");
  fill_directory(hidden + ".old", "old");
  write_file(hidden + ".lock", "p");
  { Output output(top / "a", true); }
  EXPECT_EQ(version_of(top / "a"), "new");
  EXPECT_EQ(names_in(top.path()), std::set<std::string>{"a"});
}

}  // namespace
}  // namespace flagstone
