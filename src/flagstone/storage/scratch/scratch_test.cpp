#include "flagstone/storage/scratch/scratch.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/output/output.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

/// The exit status of `body` in a forked child that runs no destructor of ours.
int in_child(const std::function<int()>& body) {
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
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

template <class Body>
std::string refusal(int number, Body&& body) {
  try {
    body();
  } catch (const ScratchError& error) {
    EXPECT_EQ(error.number, number);
    return error.what();
  }
  return "nothing was refused";
}

void fill(const std::string& place) {
  fs::create_directories(place);
  std::ofstream(place + "/c") << "values";
}

TEST(DefaultScratch, IsNamedOrInTheCacheOfTheUser) {
  TemporaryDirectory top;
  EXPECT_EQ(in_child([&] {
              ::setenv("FLAGSTONE_SCRATCH", "/named/there", 1);
              if (default_scratch() != "/named/there") return 1;
              ::setenv("FLAGSTONE_SCRATCH", "", 1);
              ::setenv("XDG_CACHE_HOME", (top / "cache").c_str(), 1);
              if (default_scratch() != top / "cache/flagstone/scratch") return 2;
              ::unsetenv("XDG_CACHE_HOME");
              ::setenv("HOME", top.path().c_str(), 1);
              if (default_scratch() != top / ".cache/flagstone/scratch") return 3;
              return 0;
            }),
            0);
}

TEST(DefaultScratch, NeverLiesInMemoryUnlessItIsNamed) {
  TemporaryDirectory top;
  const int code = in_child([&] {
    if (!mount_small(top.path(), 1 << 20)) return 77;
    ::unsetenv("FLAGSTONE_SCRATCH");
    ::unsetenv("XDG_CACHE_HOME");
    ::setenv("HOME", top.path().c_str(), 1);
    if (file_system(top / "not/there/yet") != "tmpfs") return 1;
    const std::string place = default_scratch();
    if (place != "/var/tmp/flagstone-" + std::to_string(::getuid()) + "/scratch") return 2;
    if (!mount_small("/var/tmp", 1 << 20)) return 3;
    const std::string text = refusal(ENODEV, [] { default_scratch(); });
    if (text.find("both live in memory (tmpfs); name a directory on a disk") == std::string::npos) return 4;
    ::setenv("FLAGSTONE_SCRATCH", top.path().c_str(), 1);
    if (default_scratch() != top.path()) return 5;
    return 0;
  });
  if (code == 77) GTEST_SKIP() << "no file system may be mounted here";
  EXPECT_EQ(code, 0);
}

TEST(DefaultScratch, WithoutAHomeLiesInVarTmp) {
  const int code = in_child([] {
    ::unsetenv("FLAGSTONE_SCRATCH");
    ::unsetenv("XDG_CACHE_HOME");
    ::unsetenv("HOME");
    if (::setuid(54321) != 0) return 77;  // nobody: no row of /etc/passwd
    return default_scratch() == "/var/tmp/flagstone-54321/scratch" ? 0 : 1;
  });
  if (code == 77) GTEST_SKIP() << "needs another user";
  EXPECT_EQ(code, 0);
}

TEST(PrepareScratch, SaysWhatCannotBeMade) {
  TemporaryDirectory top;
  prepare_scratch(top / "a/b");
  EXPECT_TRUE(fs::is_directory(top / "a/b"));
  std::ofstream(top / "file") << "x";
  EXPECT_EQ(
      refusal(ENOTDIR, [&] { prepare_scratch(top / "file/b"); }),
      "scratch: cannot create '" + top / "file/b" + "' (Not a directory); name another place with FLAGSTONE_SCRATCH.");
  refusal(EEXIST, [&] { prepare_scratch(top / "file"); });
}

TEST(ScratchResult, GoesWithItsOwner) {
  TemporaryDirectory top;
  const std::string results = top / "results";
  {
    ScratchResult result(top.path(), "product");
    const std::string name = fs::path(result.path()).filename().string();
    EXPECT_TRUE(name.starts_with("product-" + std::to_string(::getpid()) + "-")) << name;
    EXPECT_TRUE(name.ends_with(".zarr"));
    EXPECT_EQ(names_in(results), std::vector<std::string>{fs::path(name).replace_extension(".lock").string()});
    EXPECT_FALSE(fs::exists(result.path()));
    fill(result.path());
    EXPECT_EQ(in_child([&] {
                result.discard();  // a forked child's copy removes nothing
                return fs::exists(result.path()) ? 0 : 1;
              }),
              0);
    EXPECT_TRUE(file_locked(fs::path(result.path()).replace_extension(".lock")));
    ScratchResult other(top.path(), "product");  // and sweeps nothing that is in use
    EXPECT_TRUE(fs::exists(result.path()));
  }
  EXPECT_FALSE(fs::exists(results));  // with the last one the folder goes
}

TEST(ScratchResult, WhatADeadProcessLeftIsSwept) {
  TemporaryDirectory top;
  EXPECT_EQ(in_child([&] {
              auto* whole = new ScratchResult(top.path(), "whole");
              fill(whole->path());
              auto* half = new ScratchResult(top.path(), "half");
              fill((new Output(half->path(), false))->directory());
              return 0;
            }),
            0);
  EXPECT_EQ(names_in(top / "results").size(), 5u);  // two locks, one result, one build and its lock
  { const ScratchResult next(top.path(), "next"); }
  EXPECT_FALSE(fs::exists(top / "results"));
}

TEST(ScratchResult, ALockSweptBeforeItWasTakenIsMadeAgain) {
  TemporaryDirectory top;
  static int swept;
  swept = 0;
  before_lock = [](const std::string& path) {
    if (swept++ == 0) ::unlink(path.c_str());  // as another process's sweep does
  };
  const ScratchResult result(top.path(), "one");
  before_lock = nullptr;
  EXPECT_EQ(swept, 2);
  EXPECT_TRUE(fs::exists(fs::path(result.path()).replace_extension(".lock")));
}

TEST(ScratchResult, AFolderThatWasRemovedMeanwhileIsMadeAgain) {
  TemporaryDirectory top;
  static std::string folder;
  folder = top / "results";
  before_lock = [](const std::string& path) {
    before_lock = nullptr;
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
  };
  const ScratchResult result(top.path(), "one");
  EXPECT_EQ(names_in(folder).size(), 1u);
}

TEST(ScratchResult, ALinkThatLeadsNowhereIsRefused) {
  TemporaryDirectory top;
  fs::create_symlink("nowhere", top / "results");
  EXPECT_THROW(ScratchResult(top.path(), "one"), StorageError);
}

TEST(Import, IsKeyedByTheFileAsItIs) {
  TemporaryDirectory top;
  std::ofstream(top / "m.npz") << "1234";
  const std::string place = import_path(top / "s", top / "m.npz");
  EXPECT_EQ(import_path(top / "s", top / "m.npz"), place);
  EXPECT_EQ(fs::path(place).parent_path(), top / "s/imports");
  struct stat status;
  ASSERT_EQ(::stat((top / "m.npz").c_str(), &status), 0);
  char key[100];
  std::snprintf(key, sizeof key, "%lx-%lx-4-%lx.zarr", static_cast<unsigned long>(status.st_dev),
                static_cast<unsigned long>(status.st_ino),
                static_cast<unsigned long>(status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec));
  EXPECT_EQ(fs::path(place).filename(), key);
  std::ofstream(top / "m.npz", std::ios::app) << "5";
  EXPECT_NE(import_path(top / "s", top / "m.npz"), place);
  describe_import(place, top / "m.npz", 1.23456);
  EXPECT_EQ(read_text(fs::path(place).replace_extension(".json")),
            "{\"source\": \"" + top / "m.npz" + "\", \"seconds\": 1.235}");
  EXPECT_THROW(import_path(top / "s", top / "missing"), StorageError);
}

}  // namespace
}  // namespace flagstone
