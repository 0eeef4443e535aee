// What goes with this process is known by its name, and is not synced.
#include "flagstone/storage/file/build_name.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/sync.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

std::string result_of(pid_t process) { return "/s/results/matmul-" + std::to_string(process) + "-0123abcd.zarr"; }

TEST(GoesWithUs, ResultsThatNobodyNamed) {
  const std::string place = result_of(::getpid()), hidden = hidden_prefix(place) + "9f";
  for (const std::string& path : {place, place + "/data/c/0", hidden, hidden + "/zarr.json", hidden + lock_suffix,
                                  "results/a-b-" + name_of_our_own() + ".zarr"})
    EXPECT_TRUE(goes_with_us(path)) << path;
}

TEST(GoesWithUs, NothingElse) {
  const std::string ours = name_of_our_own(), process = std::to_string(::getpid());
  for (const std::string& path :
       {result_of(::getpid() + 1), result_of(1), std::string("/s/results"), std::string("/s/results/matmul.zarr"),
        "/s/kept/matmul-" + ours + ".zarr", "/s/results/deep/matmul-" + ours + ".zarr", "/s/results/matmul-" + ours,
        "/s/results/matmul-" + ours + ".npy", "/s/results/matmul-" + process + "-0123abcg.zarr",
        "/s/results/matmul-" + process + "-0123.zarr", "/s/results/" + ours + ".zarr.flagstone-tmp-9f", std::string()})
    EXPECT_FALSE(goes_with_us(path)) << path;
}

TEST(GoesWithUs, ThroughADescriptor) {
  TemporaryDirectory top;
  for (const bool among_results : {true, false}) {
    const std::string place = top / ((among_results ? "results/sum-" : "kept/sum-") + name_of_our_own() + ".zarr");
    std::filesystem::create_directories(place);
    const Directory held(place);
    EXPECT_EQ(goes_with_us(held.self()), among_results);
    EXPECT_EQ(goes_with_us(held.file("zarr.json")), among_results);
  }
  EXPECT_FALSE(goes_with_us("/proc/self/fd/99999/zarr.json"));
}

TEST(GoesWithUs, AForkedChildHasItsOwn) {
  const std::string place = result_of(::getpid());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(goes_with_us(place) ? 1 : 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// What is asked for would fail: a descriptor that is none, a folder that is not there.
TEST(GoesWithUs, IsNotSynced) {
  const std::string ours = result_of(::getpid()), kept = "/s/kept.zarr";
  EXPECT_NO_THROW(sync_file(-1, ours));
  EXPECT_NO_THROW(sync_directory(ours));
  EXPECT_NO_THROW(sync_tree(ours));
  EXPECT_THROW(sync_file(-1, kept), StorageError);
  EXPECT_THROW(sync_directory(kept), StorageError);
}

}  // namespace
}  // namespace flagstone
