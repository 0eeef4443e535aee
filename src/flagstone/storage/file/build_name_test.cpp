// What goes with this process is known by its name and its lock, and is not synced.
#include "flagstone/storage/file/build_name.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/sync.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

std::string result_of(pid_t process) { return "results/matmul-" + std::to_string(process) + "-0123abcd.zarr"; }

/// A directory of results in which each of `places` has the lock of a result.
struct Results {
  TemporaryDirectory top;
  explicit Results(std::initializer_list<std::string> places) {
    for (const std::string& place : places) {
      std::filesystem::create_directories(std::filesystem::path(at(place)).parent_path());
      std::ofstream(lock_of_result(at(place)));
    }
  }
  std::string at(const std::string& place) const { return top / place; }
};

TEST(GoesWithUs, ResultsThatNobodyNamed) {
  const Results made{result_of(::getpid())};
  const std::string place = made.at(result_of(::getpid())), hidden = hidden_prefix(place) + "9f";
  for (const std::string& path : {place, place + "/", place + "/data/c/0", hidden, hidden + "/zarr.json",
                                  hidden + lock_suffix, std::filesystem::proximate(place).string()})
    EXPECT_TRUE(goes_with_us(path)) << path;
}

/// Somebody's own files: called by the process and a date, in a folder of results.
TEST(GoesWithUs, WhatIsCalledSoAndHasNoLockIsSomebodysOwn) {
  const Results other{result_of(::getpid())};
  const std::string name = "results/run-" + std::to_string(::getpid()) + "-20261128.zarr", place = other.at(name);
  for (const std::string& path : {name, place, place + "/data/c/0", hidden_prefix(place) + "9f/zarr.json"})
    EXPECT_FALSE(goes_with_us(path)) << path;
}

TEST(GoesWithUs, NothingElse) {
  const std::string ours = name_of_our_own(), process = std::to_string(::getpid());
  const std::initializer_list<std::string> places = {result_of(::getpid() + 1),
                                                     result_of(1),
                                                     "results/matmul.zarr",
                                                     "kept/matmul-" + ours + ".zarr",
                                                     "results/deep/matmul-" + ours + ".zarr",
                                                     "results/matmul-" + ours,
                                                     "results/matmul-" + ours + ".npy",
                                                     "results/matmul-" + process + "-0123abcg.zarr",
                                                     "results/matmul-" + process + "-0123.zarr",
                                                     "results/" + ours + ".zarr.flagstone-tmp-9f"};
  const Results made(places);
  for (const std::string& place : places) EXPECT_FALSE(goes_with_us(made.at(place))) << place;
  for (const std::string& path : {made.at("results"), std::string()}) EXPECT_FALSE(goes_with_us(path)) << path;
}

TEST(GoesWithUs, ThroughADescriptor) {
  for (const std::string folder : {"results", "kept"}) {
    const std::string name = folder + "/sum-" + name_of_our_own() + ".zarr";
    const Results made{name};
    std::filesystem::create_directories(made.at(name));
    const Directory held(made.at(name));
    EXPECT_EQ(goes_with_us(held.self()), folder == "results");
    EXPECT_EQ(goes_with_us(held.file("zarr.json")), folder == "results");
  }
  EXPECT_FALSE(goes_with_us("/proc/self/fd/99999/zarr.json"));
}

TEST(GoesWithUs, AForkedChildHasItsOwn) {
  const Results made{result_of(::getpid())};
  const std::string place = made.at(result_of(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(goes_with_us(place) ? 1 : 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// What is asked for would fail: a descriptor that is none, a folder that is not there.
TEST(GoesWithUs, IsNotSynced) {
  const Results made{result_of(::getpid())};
  const std::string ours = made.at(result_of(::getpid())), kept = "/s/kept.zarr";
  EXPECT_NO_THROW(sync_file(-1, ours));
  EXPECT_NO_THROW(sync_directory(ours));
  EXPECT_NO_THROW(sync_tree(ours));
  EXPECT_THROW(sync_file(-1, kept), StorageError);
  EXPECT_THROW(sync_directory(kept), StorageError);
}

}  // namespace
}  // namespace flagstone
