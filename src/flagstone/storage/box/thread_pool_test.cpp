#include "flagstone/storage/box/thread_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"

namespace flagstone {
namespace {

TEST(ThreadPool, ItsThreadsGiveBackWhatJobsFree) {
  void* volatile large = std::malloc(16 * MiB);  // volatile: what nobody looks at is left out
  std::free(large);  // from here on blocks below that come from the heap of a thread, which keeps 32 MiB
  const std::uint64_t before = resident_bytes();
  {
    ThreadPool pool(2, 2);
    for (int i = 0; i < 8; ++i)
      pool.give([](std::size_t) {
        std::array<volatile char*, 6> blocks;
        for (volatile char*& block : blocks) {
          block = static_cast<volatile char*>(std::malloc(4 * MiB));
          for (std::size_t at = 0; at < 4 * MiB; at += page_bytes) block[at] = 1;
        }
        for (volatile char* block : blocks) std::free(const_cast<char*>(block));
      });
    pool.drain();
    EXPECT_GT(resident_bytes(), before + 16 * MiB) << "else nothing is shown below";
  }
  EXPECT_LT(resident_bytes(), before + 2 * MiB);
}

TEST(ThreadPool, DoesEveryJobOnceAndBeginsThemInOrder) {
  std::atomic<int> sum{0};
  std::mutex mutex;
  std::vector<int> begun;
  ThreadPool pool(1, 2);
  for (int i = 1; i <= 100; ++i)
    pool.give([&, i](std::size_t) {
      const std::lock_guard lock(mutex);
      begun.push_back(i);
      sum += i;
    });
  pool.drain();
  EXPECT_EQ(sum, 5050);
  EXPECT_TRUE(std::is_sorted(begun.begin(), begun.end()));
  pool.give([&](std::size_t) { sum = 7; });  // goes on after a drain
  pool.drain();
  EXPECT_EQ(sum, 7);
}

TEST(ThreadPool, ThreadsWorkSideBySideAndKnowWhoTheyAre) {
  std::mutex mutex;
  std::condition_variable met;
  std::size_t here = 0, seen = 0;
  ThreadPool pool(2, 0);
  for (int i = 0; i < 2; ++i)
    pool.give([&](std::size_t thread) {  // ends only when both have begun
      std::unique_lock lock(mutex);
      seen |= std::size_t{1} << thread;
      ++here;
      met.notify_all();
      met.wait(lock, [&] { return here == 2; });
    });
  pool.drain();
  EXPECT_EQ(seen, std::size_t{3});
}

TEST(ThreadPool, TheFirstErrorLeavesAndNothingMoreIsBegun) {
  std::atomic<int> done{0};
  ThreadPool pool(1, 100);
  pool.give([](std::size_t) { throw std::runtime_error("first"); });
  const auto more = [&] {
    for (int i = 0; i < 50; ++i) pool.give([&](std::size_t) { ++done; });
    pool.drain();
  };
  try {
    more();
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_THROW(pool.drain(), std::runtime_error);
  EXPECT_EQ(done, 0);
}

TEST(ThreadPool, WhatWasGivenIsDoneBeforeItGoes) {
  std::atomic<int> done{0};
  {
    ThreadPool pool(2, 10);
    for (int i = 0; i < 9; ++i) pool.give([&](std::size_t) { ++done; });
  }
  EXPECT_EQ(done, 9);
}

}  // namespace
}  // namespace flagstone
