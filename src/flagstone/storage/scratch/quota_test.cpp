#include "flagstone/storage/scratch/quota.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/scratch/listing.hpp"
#include "flagstone/storage/scratch/names.hpp"
#include "flagstone/storage/scratch/scratch.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Reservation> promise(const std::string& who, const std::string& scratch,
                                     std::optional<std::uint64_t> quota, std::uint64_t bytes,
                                     const std::string& entry = {}) {
  auto made = std::make_unique<Reservation>(who, scratch, quota);
  made->take(bytes, entry);
  return made;
}

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const ScratchError& error) {
    EXPECT_EQ(error.number, EDQUOT);
    return error.what();
  }
  return "nothing was refused";
}

void fill(const std::string& place, std::uint64_t bytes) {
  fs::create_directories(place);
  std::ofstream(place + "/c", std::ios::app) << std::string(bytes, 'x');
}

std::vector<std::string> promises_in(const std::string& scratch) {
  std::vector<std::string> names;
  for (const std::string& path : scratch_names::ending(scratch + "/promises", ""))
    names.push_back(fs::path(path).filename().string());
  return names;
}

const std::vector<std::string> the_gate{"gate"};

TEST(Reservation, TwoAreNeverOfTheSameBytes) {
  TemporaryDirectory top;
  const std::string& place = top.path();
  auto one = promise("one", place, 10 * MiB, 6 * MiB);
  EXPECT_EQ(
      refusal([&] { promise("two", place, 10 * MiB, 5 * MiB); }),
      "two: needs 5 MiB of scratch, and '" + place +
          "' holds 6 MiB of its quota of 10 MiB. Clear it, let results there go, raise the quota (scratch_quota=, "
          "FLAGSTONE_SCRATCH_QUOTA) or name out=.");
  const std::string entry = place + "/results/r-1-a.zarr";
  auto two = promise("two", place, 10 * MiB, 4 * MiB, entry);
  EXPECT_EQ(two->path(), entry);
  fill(entry, 3 * MiB);  // what is written of it does not count twice
  EXPECT_EQ(scratch_held(place), 10 * MiB);
  EXPECT_NE(refusal([&] { promise("three", place, 10 * MiB, 1); }).find("holds 10 MiB"), std::string::npos);
  one->release();
  two->release();
  EXPECT_EQ(scratch_held(place), scratch_names::disk_bytes(entry));
  EXPECT_EQ(promises_in(place), the_gate);
}

TEST(Reservation, IsReadByEveryVersion) {
  TemporaryDirectory top;
  const auto one = promise("one", top.path(), {}, 5, top / "results/r.zarr");
  const std::vector<std::string> files = scratch_names::ending(top / "promises", ".lock");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(read_text(files[0]), "{\"bytes\": 5, \"for\": \"results/r.zarr\"}");
  EXPECT_TRUE(fs::path(files[0]).filename().string().starts_with(std::to_string(::getpid()) + "-"));
  std::ofstream(top / "promises/1-damaged.lock") << "{\"bytes\": ";
  const FileLock held = FileLock::take(top / "promises/1-damaged.lock");
  EXPECT_EQ(scratch_held(top.path()), 5u);
}

TEST(Reservation, IsRefusedInOneSentenceWhereTheQuotaIsSmallerThanWhatLiesThere) {
  TemporaryDirectory top;
  const ScratchResult result(top.path(), "r");
  fill(result.path(), 3 * MiB);
  fill(top / "imports/i.zarr", MiB);
  EXPECT_EQ(
      refusal([&] { promise("call", top.path(), 2 * MiB, 0); }),
      "call: '" + top.path() +
          "' holds 4 MiB already, 1 MiB of them imports and leftovers that 'flagstone scratch --clear' frees, which "
          "is more than its quota of 2 MiB; clear it, let results there go, raise the quota (scratch_quota=, "
          "FLAGSTONE_SCRATCH_QUOTA) or name out=.");
  EXPECT_EQ(promises_in(top.path()), the_gate);
}

TEST(Reservation, OfAnEntryOfUnknownLengthGrowsWithIt) {
  TemporaryDirectory top;
  const std::string entry = top / "imports/i.zarr";
  const auto made = promise("open", top.path(), 4 * MiB, 0, entry);
  fill(entry, 3 * MiB);
  made->wrote(1);  // too little to look
  EXPECT_EQ(made->bytes(), 0u);
  made->wrote(MiB);
  EXPECT_EQ(made->bytes(), 3 * MiB);
  EXPECT_NE(refusal([&] { made->grow(2 * MiB); }).find("open: needs 5 MiB"), std::string::npos);
  made->grow(MiB / 2);
  EXPECT_EQ(made->bytes(), 3 * MiB + MiB / 2);
  fill(entry, 2 * MiB);
  EXPECT_NE(refusal([&] { made->look(); }).find("open: needs 5 MiB"), std::string::npos);
}

TEST(Reservation, ADeadProcessPromisesNothing) {
  TemporaryDirectory top;
  const pid_t child = ::fork();
  if (child == 0) {
    promise("it", top.path(), {}, 64 * MiB).release();
    ::_exit(scratch_held(top.path()) == 64 * MiB ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(promises_in(top.path()).size(), 2u);
  EXPECT_EQ(scratch_held(top.path()), 0u);
  promise("next", top.path(), MiB, MiB)->release();
  EXPECT_EQ(promises_in(top.path()), the_gate);
}

TEST(Reservation, AForkedChildGivesNothingBack) {
  TemporaryDirectory top;
  const auto made = promise("parent", top.path(), {}, MiB);
  const pid_t child = ::fork();
  if (child == 0) {
    made->release();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(scratch_held(top.path()), MiB);
}

TEST(Reservation, ManyThatAskAtOnceAreNotPromisedMoreThanTheQuota) {
  TemporaryDirectory top;
  std::vector<std::unique_ptr<Reservation>> made(8);
  std::vector<std::thread> threads;
  for (auto& one : made)
    threads.emplace_back([&] {
      try {
        one = promise("thread", top.path(), 4 * MiB, MiB);
      } catch (const ScratchError&) {
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(made.begin(), made.end(), nullptr), 4);
  EXPECT_EQ(scratch_held(top.path()), 4 * MiB);
}

/// What Flagstone's Python wrote and locked before the core did, with the standard library alone: sweeps what the dead
/// left, makes a result of 1 MiB and promises it 3 MiB, tells what others promised and whether `result` is in use.
const char* python_process = R"(
import fcntl, glob, json, os, shutil, sys, time
scratch, result = sys.argv[1:]
def locked(path):
    with open(path, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
swept = 0
for lock in glob.glob(f"{scratch}/results/*.lock"):
    if not locked(lock):
        shutil.rmtree(lock.replace(".lock", ".zarr"), ignore_errors=True)
        os.unlink(lock)
        swept += 1
others = sum(json.load(open(p))["bytes"] for p in glob.glob(f"{scratch}/promises/*.lock") if locked(p))
name = f"theirs-{os.getpid()}-0a1b2c3d"
lock = open(f"{scratch}/results/{name}.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
os.mkdir(f"{scratch}/results/{name}.zarr")
open(f"{scratch}/results/{name}.zarr/c", "wb").write(b"x" * (1 << 20))
promise = open(f"{scratch}/promises/{os.getpid()}-0a1b2c3d.lock", "w")
fcntl.flock(promise, fcntl.LOCK_EX)
json.dump({"bytes": 3 << 20, "for": f"results/{name}.zarr"}, promise)
promise.flush()
print(os.getpid(), swept, others, int(locked(result)), flush=True)
time.sleep(60)
)";

TEST(Reservation, IsSharedWithAProcessOfAnotherLanguageAndEachSweepsAfterTheOther) {
  TemporaryDirectory top;
  const std::string& place = top.path();
  const pid_t dying = ::fork();  // what it leaves the other sweeps
  if (dying == 0) {
    fill((new ScratchResult(place, "left"))->path(), MiB);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(dying, &status, 0), dying);
  EXPECT_EQ(scratch_entries(place).size(), 1u);
  const auto ours = promise("ours", place, {}, 2 * MiB);
  const std::string held = place + "/results/held-" + std::to_string(::getpid()) + "-0.lock";
  const FileLock in_use = FileLock::make(held);

  std::ofstream(top / "process.py") << python_process;
  const std::string command = "exec python3 " + top / "process.py" + " " + place + " " + held;
  std::FILE* process = ::popen(command.c_str(), "r");
  ASSERT_NE(process, nullptr);
  int pid = 0, swept = 0, locked = 0;
  unsigned long others = 0;
  if (std::fscanf(process, "%d %d %lu %d", &pid, &swept, &others, &locked) != 4) {
    ::pclose(process);
    GTEST_SKIP() << "no Python here";
  }
  EXPECT_EQ(swept, 1);
  EXPECT_EQ(others, 2 * MiB);
  EXPECT_EQ(locked, 1);
  EXPECT_EQ(scratch_held(place), 5 * MiB);
  EXPECT_NE(refusal([&] { promise("next", place, 10 * MiB, 6 * MiB); }).find("holds 5 MiB of its quota"),
            std::string::npos);
  std::vector<ScratchEntry> entries = scratch_entries(place);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].source, "process " + std::to_string(pid));
  EXPECT_FALSE(entries[0].clearable);

  ::kill(pid, SIGKILL);
  ::pclose(process);
  entries = scratch_entries(place);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].source, "process " + std::to_string(pid) + ", ended");
  { const ScratchResult sweeping(place, "next"); }
  EXPECT_TRUE(scratch_entries(place).empty());
  EXPECT_EQ(scratch_held(place), 2 * MiB);
  promise("next", place, 10 * MiB, 8 * MiB);
  EXPECT_EQ(promises_in(place).size(), 2u);  // ours and the gate
}

TEST(Listing, TellsWhatLivesAndClearsTheRest) {
  TemporaryDirectory top;
  const ScratchResult result(top.path(), "product");
  fill(result.path(), 5000);
  fill(top / "results/old-one-77-abcd.zarr", 5000);  // its process has gone
  std::ofstream(top / "results/old-one-77-abcd.lock");
  fill(top / "imports/1-2-3-4.zarr", 5000);
  std::ofstream(top / "imports/1-2-3-4.json") << "{\"source\": \"/data/m.npz\", \"seconds\": 1.0}";
  fill(top / "imports/.5-6.zarr.flagstone-tmp-0123", 5000);
  fill(top / "imports/.7-8.zarr.flagstone-tmp-4567", 5000);
  const FileLock building = FileLock::make(top / "imports/.7-8.zarr.flagstone-tmp-4567.lock");
  std::vector<std::string> told;
  for (const ScratchEntry& entry : scratch_entries(top.path()))
    told.push_back(std::string(name_of(entry.kind)) + ", " + entry.source + (entry.bytes >= 5000 ? "" : ", empty"));
  EXPECT_EQ(told, (std::vector<std::string>{"import, /data/m.npz", "left behind, an unfinished import",
                                            "import, in progress", "left behind, process 77, ended",
                                            "result, process " + std::to_string(::getpid())}));
  const std::uint64_t clearable = clearable_scratch(top.path());
  const ScratchCleared cleared = clear_scratch(top.path());
  EXPECT_EQ(cleared.entries, 3u);
  EXPECT_EQ(cleared.bytes, clearable);
  EXPECT_EQ(scratch_entries(top.path()).size(), 2u);
  EXPECT_EQ(clearable_scratch(top.path()), 0u);
  EXPECT_FALSE(fs::exists(top / "results/old-one-77-abcd.lock"));
  EXPECT_TRUE(scratch_entries(top / "not/there").empty());
}

}  // namespace
}  // namespace flagstone
