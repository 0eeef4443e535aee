// A writer that ends at any step of a transaction leaves the old arrays or the new ones.
#include "flagstone/storage/transaction/transaction.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/maintenance/repair.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/temporary_directory.hpp"
#include "flagstone/testing/transaction_io.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using test::die_committed;
using test::expect_whole;
using test::expected;
using test::filled;
using test::make;
using test::make_alike;
using test::read_elements;
using test::Reference;
using test::shape;
using test::state_of;
using test::update;
using test::write_elements;

int steps_left = 0, steps_seen = 0;
void count_down(const char*) {
  ++steps_seen;
  if (steps_left-- == 0) ::_exit(9);
}

class Crash : public ::testing::TestWithParam<std::string> {};

TEST_P(Crash, AtEveryStepOfATransactionAndOfItsRecovery) {
  TemporaryDirectory directory;
  const std::string pristine = directory / "pristine", place = directory / "g";
  fs::create_directory(pristine);
  make(pristine + "/a", 1, GetParam());
  make(pristine + "/b", 2, GetParam());
  const auto ring = make_ring({.kind = "threads"});
  int before = 0, after = 0;
  for (int step = 0; step < 300; ++step) {
    fs::remove_all(place);
    fs::copy(pristine, place, fs::copy_options::recursive);
    const pid_t child = ::fork();
    if (child == 0) {
      steps_left = step;
      commit_step = &count_down;
      update(place);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const bool returned = WEXITSTATUS(status) == 0;
    const int found = state_of(place);
    ASSERT_NE(found, -1) << "a mix after step " << step;
    if (returned) {
      ASSERT_EQ(found, 1) << "lost after a returned commit";
    }
    (found == 1 ? after : before)++;
    // The recovery may die as well, at each of its steps in turn over the iterations.
    const pid_t second = ::fork();
    if (second == 0) {
      steps_left = step % 7;
      commit_step = &count_down;
      Transaction transaction;
      transaction.add(open_zarr_array(place + (step % 2 ? "/a" : "/b"), true));
      ::_exit(0);
    }
    ASSERT_EQ(::waitpid(second, &status, 0), second);
    ASSERT_EQ(state_of(place), found) << "recovery changed what was there, step " << step;
    {
      Transaction transaction;
      for (const std::string name : {"a", "b"}) transaction.add(open_zarr_array(place + "/" + name, true));
    }
    ASSERT_EQ(state_of(place), found);
    ASSERT_FALSE(committed(place + "/a"));
    for (const std::string name : {"/a", "/b"}) {
      if (!returned) {  // given back: what the dead writer had taken, and old versions; holes cost ext4 a page
        EXPECT_LE(bytes_on_disk(place + name + "/c"), bytes_on_disk(pristine + name + "/c") + 4096) << "step " << step;
      }
      const CheckReport report = check_array(*ring, place + name, 1 << 16);
      ASSERT_TRUE(report.damages.empty()) << report.damages[0].what << " after step " << step;
      if (GetParam() != "none") {
        ASSERT_EQ(report.verified, 6u) << "step " << step;
      }
    }
    if (returned) {
      EXPECT_GT(before, 10);
      EXPECT_GT(after, 5);
      return;
    }
  }
  FAIL() << "the transaction has more steps than were tried";
}

INSTANTIATE_TEST_SUITE_P(Checksums, Crash, ::testing::Values("sidecar", "inner", "none"));

TEST(Transaction, AShardThatWasCutKeepsWhatWasCommitted) {
  for (const std::uintmax_t lost : {1u, 60u, 3000u, 6000u}) {
    TemporaryDirectory directory;
    const std::string place = directory / "g";
    fs::create_directory(place);
    make(place + "/a", 1);
    make(place + "/b", 2);
    die_committed(place);
    const std::string shard = place + "/a/c/0/0";
    fs::resize_file(shard, fs::file_size(shard) - lost);
    {
      Transaction transaction;
      transaction.add(open_zarr_array(place + "/b", true));
    }
    expect_whole(place + "/b", expected(2, 12));
    if (lost < 6000) {
      expect_whole(place + "/a", expected(1, 11));
      continue;
    }
    const Array a = open_zarr_array(place + "/a");
    const Box first{{0, 0}, {32, 32}};
    Reference now(shape, Dtype::float32);
    now.data = expected(1, 11);
    EXPECT_EQ(read_elements(a, first), now.elements(first));
    EXPECT_THROW(read_elements(a, whole(shape)), FormatError);  // the chunk at the end
  }
}

TEST(Transaction, ABitThatFlippedInTheJournalIsNoticed) {
  TemporaryDirectory directory;
  fs::create_directory(directory / "g");
  make(directory / "g/a", 1);
  make(directory / "g/b", 2);
  update(directory / "g");
  const std::string journal = directory / "g/a/__flagstone/journal";
  const pid_t child = ::fork();
  if (child == 0) {  // dies between the commit and the indexes
    commit_step = [](const char* what) {
      if (std::string(what) == "index") ::_exit(9);
    };
    update(directory / "g");
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 9);
  const auto bytes = fs::file_size(journal);
  ASSERT_GT(bytes, 200u);
  for (std::uint64_t byte = 0; byte < bytes; byte += 3) {
    const auto flip = [&] {
      const auto file = File::open(journal, File::Mode::update);
      char value = 0;
      read_exactly(*file, &value, 1, byte);
      value = static_cast<char>(value ^ 4);
      write_exactly(file->buffered(), *file, &value, 1, byte);
    };
    flip();
    EXPECT_THROW(read_elements(open_zarr_array(directory / "g/a"), whole(shape)), FormatError) << byte;
    flip();
  }
  EXPECT_EQ(state_of(directory / "g"), 1);
}

TEST(Recovery, LeavesAnArrayAloneThatTookThePlaceOfAnother) {
  TemporaryDirectory directory;
  for (const bool link : {false, true}) {
    const std::string group = directory / (link ? "linked" : "replaced");
    fs::create_directory(group);
    make(group + "/a", 1);
    make(group + "/b", 2);
    make_alike(group + "/other");
    die_committed(group);
    ASSERT_EQ(fs::file_size(group + "/b/c/0/0"), fs::file_size(group + "/other/c/0/0"));
    fs::remove_all(group + "/b");
    if (link)
      fs::create_directory_symlink(group + "/other", group + "/b");
    else
      fs::rename(group + "/other", group + "/b");
    { Transaction().add(open_zarr_array(group + "/a", true)); }
    expect_whole(group + "/a", expected(1, 11));
    expect_whole(group + "/b", expected(3, 13));
    EXPECT_FALSE(committed(group + "/a"));
  }
}

TEST(Recovery, LeavesWhatASentRecordNamesAlone) {
  TemporaryDirectory directory;
  const std::string group = directory / "g";
  fs::create_directory(group);
  make(group + "/a", 1);
  make(group + "/b", 2);
  make_alike(directory / "victim");
  die_committed(group);
  {
    const auto place = std::make_shared<const Directory>(group + "/a");
    std::optional<Committed> found = committed(place);
    ASSERT_TRUE(found);
    found->record[1].path = "../../victim";
    Journal(*place).commit(Journal(*place).head(), found->id, found->record);
  }
  const RepairReport report = repair_array(group + "/a", false);
  ASSERT_EQ(report.lost.size(), 1u);
  EXPECT_EQ(report.lost[0].file, directory / "victim");
  expect_whole(directory / "victim", expected(3, 13));
  expect_whole(group + "/a", expected(1, 11));
}

TEST(Repair, EqualChunksThatMovedGetASlotEach) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  make(path, 1);
  const std::vector<std::byte> ones(shape[0] * shape[1] * 4, std::byte{1});
  for (int round = 0; round < 7; ++round) {
    const Array array = open_zarr_array(path, true);
    Transaction transaction;
    transaction.add(array);
    if (round % 2) {
      const Box box{{0, 0}, {32, 64}};
      write_elements(array, box, filled(static_cast<std::uint64_t>(round)).elements(box));
    } else {
      write_elements(array, whole(shape), ones);
    }
    transaction.commit();
  }
  const std::string shard = path + "/c/0/0";
  {
    const auto file = File::open(shard, File::Mode::update);
    const char wrong = 0x55;
    write_exactly(file->buffered(), *file, &wrong, 1, file->size() - 20);
  }
  EXPECT_THROW(read_elements(open_zarr_array(path), whole(shape)), FormatError);
  const RepairReport report = repair_array(path, false);
  EXPECT_TRUE(report.lost.empty());
  expect_whole(path, ones);
  const Array array = open_zarr_array(path, true);
  Transaction transaction;
  transaction.add(array);
  write_elements(array, whole(shape), filled(4).data);
  transaction.commit();
  expect_whole(path, filled(4).data);
}

}  // namespace
}  // namespace flagstone
