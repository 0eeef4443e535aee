// All or nothing: a writer that ends at any step of a transaction leaves the old arrays or the new ones.
#include "flagstone/storage/transaction.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/array_test_io.hpp"
#include "flagstone/storage/integrity.hpp"
#include "flagstone/storage/metadata.hpp"
#include "flagstone/storage/ring.hpp"
#include "flagstone/storage/temporary_directory.hpp"
#include "flagstone/storage/zarr.hpp"
#include "flagstone/storage/zarr_store.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using test::read_elements;
using test::Reference;
using test::write_elements;

int steps_left = 0, steps_seen = 0;
void count_down(const char*) {
  ++steps_seen;
  if (steps_left-- == 0) ::_exit(9);
}

const Shape shape{96, 64};

Reference filled(std::uint64_t seed) {
  Reference reference(shape, Dtype::float32);
  std::mt19937_64 random(seed);
  reference.randomize(random);
  return reference;
}

void make(const std::string& path, std::uint64_t seed, const std::string& checksum = "sidecar") {
  const Array array = create_zarr_array(path, shape, Dtype::float32, {.chunks = {32, 32}, .checksum = checksum});
  write_elements(array, whole(shape), filled(seed).data);
  array.store().flush();
}

/// Two boxes of each array, one twice, in one transaction.
void update(const std::string& directory) {
  Transaction transaction;
  for (const std::string name : {"a", "b"}) {
    const Array array = open_zarr_array(directory + "/" + name, true);
    transaction.add(array);
    Reference fresh = filled(name == "a" ? 11 : 12);
    for (const Box& box : {Box{{0, 0}, {32, 64}}, Box{{64, 32}, {32, 32}}, Box{{0, 0}, {32, 32}}})
      write_elements(array, box, fresh.elements(box));
  }
  transaction.commit();
}

std::vector<std::byte> expected(std::uint64_t old_seed, std::uint64_t new_seed) {
  Reference reference = filled(old_seed), fresh = filled(new_seed);
  for (const Box& box : {Box{{0, 0}, {32, 64}}, Box{{64, 32}, {32, 32}}}) copy(fresh.tile(box), reference.tile(box));
  return reference.data;
}

/// 0: both old, 1: both new, -1: a mix.
int state_of(const std::string& directory) {
  const auto a = read_elements(open_zarr_array(directory + "/a"), whole(shape));
  const auto b = read_elements(open_zarr_array(directory + "/b"), whole(shape));
  if (a == filled(1).data && b == filled(2).data) return 0;
  return a == expected(1, 11) && b == expected(2, 12) ? 1 : -1;
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

TEST(Transaction, RolledBackIsAsIfItHadNotBeen) {
  TemporaryDirectory directory;
  make(directory / "a", 1);
  {
    const Array array = open_zarr_array(directory / "a", true);
    Transaction transaction;
    transaction.add(array);
    const Box box{{0, 0}, {64, 32}};
    write_elements(array, box, filled(5).elements(box));
    EXPECT_EQ(read_elements(array, box), filled(5).elements(box));  // it sees its own writes
    EXPECT_EQ(read_elements(open_zarr_array(directory / "a"), box), filled(1).elements(box));
    transaction.rollback();
    EXPECT_EQ(read_elements(array, whole(shape)), filled(1).data);
  }
  EXPECT_EQ(read_elements(open_zarr_array(directory / "a"), whole(shape)), filled(1).data);
}

TEST(Transaction, OneWriterAndAMessageAboutIt) {
  TemporaryDirectory directory;
  make(directory / "a", 1);
  const Array one = open_zarr_array(directory / "a", true), two = open_zarr_array(directory / "a", true);
  Transaction first, second;
  first.add(one);
  try {
    second.add(two);
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.number, EBUSY);
    EXPECT_NE(std::string(error.what()).find("another handle of this process (storage_test) since 2"),
              std::string::npos)
        << error.what();
  }
  const Box box{{0, 0}, {32, 32}};
  write_elements(one, box, filled(7).elements(box));
  first.commit();
  second.add(two);  // sees what was committed
  EXPECT_EQ(read_elements(two, box), filled(7).elements(box));
  const Box next{{32, 0}, {32, 32}};
  write_elements(two, next, filled(8).elements(next));
  second.commit();
  one.store().look();
  EXPECT_EQ(read_elements(one, next), filled(8).elements(next));
  EXPECT_EQ(read_elements(one, box), filled(7).elements(box));
}

TEST(Transaction, ManyOfThemAgreeWithAModelAndSpaceStaysBounded) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  Reference model = filled(1);
  make(path, 1);
  std::mt19937_64 random(5);
  std::uint64_t most = 0;
  for (int i = 0; i < 120; ++i) {
    const Array array = open_zarr_array(path, true);
    Reference attempt = model;
    {
      Transaction transaction;
      transaction.add(array);
      for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
        const Box box = test::random_chunk_box(shape, {32, 32}, random);
        Reference fresh(shape, Dtype::float32);
        fresh.randomize(random);
        write_elements(array, box, fresh.elements(box));
        copy(fresh.tile(box), attempt.tile(box));
        ASSERT_EQ(read_elements(array, whole(shape)), attempt.data);
      }
      if (random() % 3) {
        transaction.commit();
        model = attempt;
      }
    }
    ASSERT_EQ(read_elements(array, whole(shape)), model.data) << i;
    ASSERT_EQ(read_elements(open_zarr_array(path), whole(shape)), model.data) << i;
    most = std::max<std::uint64_t>(most, fs::file_size(path + "/c/0/0"));
  }
  EXPECT_LE(most, 18 * 4096u);  // six chunks: six more at most are being written, and a copy of the index or two
}

TEST(Transaction, AFullDiskIsAnErrorAndTheOldElementsStay) {
  TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!mount_small(directory.path(), 200 << 10)) ::_exit(2);
    make(directory / "a", 1);  // about 60 KiB
    bool refused = false;
    for (int i = 0; i < 40 && !refused; ++i) try {
        const std::string other = directory / ("filler" + std::to_string(i));
        if (i > 0) write_text(other, std::string(8 << 10, 'x'));
        const Array array = open_zarr_array(directory / "a", true);
        Transaction transaction;
        transaction.add(array);
        Transfer transfer = array.store().write({{0, 0}, {32, 32}});
        const Buffer buffer = test::dirty_buffer(transfer.buffer_bytes);
        make_ready(transfer, buffer.data(), nullptr);
        if (::pwrite(transfer.segments[0].file->buffered(), buffer.data(), 4096,
                     static_cast<off_t>(transfer.segments[0].offset)) != 4096)
          throw StorageError("full", ENOSPC, "a");
        transaction.rollback();
      } catch (const StorageError& error) {
        refused = error.number == ENOSPC;
      }
    ::_exit(refused && read_elements(open_zarr_array(directory / "a"), whole(shape)) == filled(1).data ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Transaction, AShardThatFoundNoSpaceLeavesNothingBehind) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  const pid_t child = ::fork();
  if (child == 0) {
    const Array array = create_zarr_array(path, shape, Dtype::float32, {.chunks = {32, 32}});
    std::string said;
    {
      Transaction transaction;
      transaction.add(array);
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit least{8192, 8192};
      ::setrlimit(RLIMIT_FSIZE, &least);
      try {
        write_elements(array, {{0, 0}, {32, 32}}, filled(3).elements({{0, 0}, {32, 32}}));
      } catch (const StorageError& error) {
        said = error.what();
      }
    }
    const bool named = said.find(path + "/c/0/0") != std::string::npos;
    ::_exit(named && !fs::exists(path + "/c/0/0") ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_elements(open_zarr_array(path), whole(shape)), Reference(shape, Dtype::float32).data);
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

/// Dies in an update of a and b in `directory` once its record is written.
void die_committed(const std::string& directory) {
  const pid_t child = ::fork();
  if (child == 0) {
    commit_step = [](const char* what) {
      if (std::string(what) == "index") ::_exit(9);
    };
    update(directory);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 9);
}

/// As a shard of a or b looks after one update: the same length, other elements (those of expected(3, 13)).
void make_alike(const std::string& path) {
  make(path, 3);
  const Array array = open_zarr_array(path, true);
  Transaction transaction;
  transaction.add(array);
  for (const Box& box : {Box{{0, 0}, {32, 64}}, Box{{64, 32}, {32, 32}}})
    write_elements(array, box, filled(13).elements(box));
  transaction.commit();
}

void expect_whole(const std::string& path, const std::vector<std::byte>& elements) {
  EXPECT_EQ(read_elements(open_zarr_array(path), whole(shape)), elements);
  const auto ring = make_ring({.kind = "threads"});
  const CheckReport report = check_array(*ring, path, 1 << 16);
  EXPECT_TRUE(report.damages.empty()) << report.damages[0].what;
  EXPECT_EQ(report.verified, 6u);
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

TEST(Transaction, RollbackLeavesAnArrayAloneThatTookItsPlace) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  const Array array = create_zarr_array(path, shape, Dtype::float32, {.chunks = {32, 32}});
  {
    Transaction transaction;
    transaction.add(array);
    write_elements(array, whole(shape), filled(5).data);
    make(directory / "fresh", 7);
    fs::rename(path, directory / "old");
    fs::rename(directory / "fresh", path);
    EXPECT_THROW(transaction.commit(), StorageError);
  }
  expect_whole(path, filled(7).data);
  EXPECT_FALSE(fs::exists(directory / "old/c/0/0"));  // that one was taken back
}

int journal_syncs_that_fail = 0;
void fail_journal(const char* what) {
  if (std::string(what) == "journal sync" && journal_syncs_that_fail-- > 0)
    throw StorageError("commit: cannot sync the journal", EIO, "a");
}

TEST(Transaction, ACommitThatRaisedIsTakenBackOrSaysThatItMayBeStored) {
  for (const bool shards_are_new : {true, false})
    for (const int failures : {1, 2}) {
      TemporaryDirectory directory;
      const std::string path = directory / "a";
      if (!shards_are_new) make(path, 1);
      const Array array = shards_are_new ? create_zarr_array(path, shape, Dtype::float32, {.chunks = {32, 32}})
                                         : open_zarr_array(path, true);
      const auto before = read_elements(array, whole(shape));
      {
        Transaction transaction;
        transaction.add(array);
        write_elements(array, whole(shape), filled(5).data);
        journal_syncs_that_fail = failures;
        commit_step = &fail_journal;
        std::string said;
        try {
          transaction.commit();
        } catch (const StorageError& error) {
          said = error.what();
        }
        commit_step = [](const char*) {};
        EXPECT_NE(said.find(failures == 1 ? "cannot sync the journal" : "may be stored, all of it or nothing"),
                  std::string::npos)
            << said;
      }
      const auto now = read_elements(array, whole(shape));
      EXPECT_EQ(now, read_elements(open_zarr_array(path), whole(shape)));
      // The second failure comes after the journal was cleared in the page cache: the old elements, all of them.
      EXPECT_EQ(now, before) << failures;
      Transaction next;
      next.add(array);
      const Box box{{0, 0}, {32, 32}};
      write_elements(array, box, filled(6).elements(box));
      next.commit();
      EXPECT_EQ(read_elements(open_zarr_array(path), box), filled(6).elements(box));
      EXPECT_EQ(read_elements(array, {{32, 32}, {64, 32}}), read_elements(open_zarr_array(path), {{32, 32}, {64, 32}}));
    }
}

TEST(Transaction, WhatFailsAfterTheCommitSaysThatItIsStored) {
  TemporaryDirectory directory;
  make(directory / "a", 1);
  const Array array = open_zarr_array(directory / "a", true);
  Transaction transaction;
  transaction.add(array);
  write_elements(array, whole(shape), filled(5).data);
  commit_step = [](const char* what) {
    if (std::string(what) == "index sync") throw StorageError("sync", EIO, "a");
  };
  std::string said;
  try {
    transaction.commit();
  } catch (const StorageError& error) {
    said = error.what();
  }
  commit_step = [](const char*) {};
  EXPECT_NE(said.find("the update is stored"), std::string::npos) << said;
  EXPECT_EQ(read_elements(array, whole(shape)), filled(5).data);
  expect_whole(directory / "a", filled(5).data);
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

TEST(Transaction, InPlaceOverAQuarterOfTheChunksWritesLittleMore) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  const Shape large{2048, 2048};
  const Array array = create_zarr_array(path, large, Dtype::float32, {.chunks = {256, 256}});
  Reference reference(large, Dtype::float32);
  write_elements(array, whole(large), reference.data);
  array.store().flush();
  const auto written_so_far = [] {
    std::ifstream file("/proc/self/io");
    std::string name;
    for (std::uint64_t value = 0; file >> name >> value;)
      if (name == "wchar:") return value;
    return std::uint64_t{0};
  };
  Transaction transaction;
  transaction.add(array);
  const std::uint64_t before = written_so_far();
  std::uint64_t changed = 0;
  for (Index i = 0; i < 64; i += 4) {
    const Box box{{i / 8 * 256, i % 8 * 256}, {256, 256}};
    write_elements(array, box, reference.elements(box));
    changed += 256 * 256 * 4;
  }
  transaction.commit();
  EXPECT_LE(static_cast<double>(written_so_far() - before) / static_cast<double>(changed), 1.05);
}

TEST(Transaction, ReadersSeeOneMomentWhileAWriterCommits) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  {
    const Array array = create_zarr_array(path, shape, Dtype::float32, {.chunks = {32, 32}});
    write_elements(array, whole(shape), Reference(shape, Dtype::float32).data);
    array.store().flush();
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const Array array = open_zarr_array(path, true);
    for (int round = 1; round <= 60; ++round) {
      Transaction transaction;
      transaction.add(array);
      Reference fresh(shape, Dtype::float32);
      std::fill(fresh.data.begin(), fresh.data.end(), static_cast<std::byte>(round));
      write_elements(array, whole(shape), fresh.data);
      transaction.commit();
    }
    ::_exit(0);
  }
  const auto ring = make_ring({.kind = "threads"});
  const Array reader = open_zarr_array(path);
  Reference seen(shape, Dtype::float32);
  int status = 0, changes = 0;
  std::byte last{};
  while (::waitpid(child, &status, WNOHANG) == 0) {
    read_box(*ring, reader, whole(shape), seen.tile(whole(shape)), 1 << 20);
    for (const std::byte value : seen.data) ASSERT_EQ(value, seen.data[0]) << "a mix";
    ASSERT_GE(seen.data[0], last) << "time went back";
    changes += seen.data[0] != last;
    last = seen.data[0];
  }
  read_box(*ring, reader, whole(shape), seen.tile(whole(shape)), 1 << 20);
  EXPECT_EQ(seen.data[0], std::byte{60});
  EXPECT_GT(changes, 0);
}

TEST(Transaction, ARequestOverSeveralShardsSeesOneMoment) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  const Shape tall{3 * 4095, 8};
  const std::vector<Box> rows{{{0, 0}, {1, 8}}, {{5000, 0}, {1, 8}}, {{3 * 4095 - 1, 0}, {1, 8}}};
  const auto values = [](int round) { return std::vector<std::byte>(32, static_cast<std::byte>(round)); };
  {
    const Array array = create_zarr_array(path, tall, Dtype::float32, {.chunks = {1, 8}, .codec = "raw"});
    for (const Box& row : rows) write_elements(array, row, values(0));
    array.store().flush();
  }
  const Array reader = open_zarr_array(path);
  std::uint64_t moment = reader.store().look();
  const pid_t child = ::fork();
  if (child == 0) {
    const Array array = open_zarr_array(path, true);
    for (int round = 1; round <= 40; ++round) {
      Transaction transaction;
      transaction.add(array);
      for (const Box& row : rows) write_elements(array, row, values(round));
      transaction.commit();
      std::this_thread::sleep_for(
          std::chrono::milliseconds(20));  // a request of twelve thousand chunks takes about as long
    }
    ::_exit(0);
  }
  const auto ring = make_ring({.kind = "threads"});
  Reference seen(tall, Dtype::float32);
  int status = 0, moments = 0;
  const auto look = [&] {
    read_box(*ring, reader, whole(tall), seen.tile(whole(tall)), 1 << 20);
    const std::uint64_t now = reader.store().look();
    moments += now != moment;
    moment = now;
    for (const Box& row : rows) ASSERT_EQ(seen.elements(row), seen.elements(rows[0])) << "a mix";
  };
  while (::waitpid(child, &status, WNOHANG) == 0) try {
      look();
    } catch (const StorageError& error) {  // on a busy machine commits come faster than requests end
      ASSERT_EQ(error.number, EAGAIN) << error.what();
    }
  look();
  EXPECT_EQ(seen.elements(rows[0]), values(40));
  EXPECT_GT(moments, 0);
}

}  // namespace
}  // namespace flagstone
