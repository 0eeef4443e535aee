// Together or not at all: what was written is seen by all at one moment, or taken back.
#include "flagstone/storage/transaction/transaction.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/temporary_directory.hpp"
#include "flagstone/testing/transaction_io.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using test::expect_whole;
using test::filled;
using test::make;
using test::read_elements;
using test::Reference;
using test::shape;
using test::write_elements;

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
