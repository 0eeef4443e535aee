#include "flagstone/storage/box/thread_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace flagstone {
namespace {

TEST(Crew, DoesEveryJobOnceAndBeginsThemInOrder) {
  std::atomic<int> sum{0};
  std::mutex mutex;
  std::vector<int> begun;
  Crew crew(1, 2);
  for (int i = 1; i <= 100; ++i)
    crew.give([&, i](std::size_t) {
      const std::lock_guard lock(mutex);
      begun.push_back(i);
      sum += i;
    });
  crew.drain();
  EXPECT_EQ(sum, 5050);
  EXPECT_TRUE(std::is_sorted(begun.begin(), begun.end()));
  crew.give([&](std::size_t) { sum = 7; });  // goes on after a drain
  crew.drain();
  EXPECT_EQ(sum, 7);
}

TEST(Crew, ThreadsWorkSideBySideAndKnowWhoTheyAre) {
  std::mutex mutex;
  std::condition_variable met;
  std::size_t here = 0, seen = 0;
  Crew crew(2, 0);
  for (int i = 0; i < 2; ++i)
    crew.give([&](std::size_t thread) {  // ends only when both have begun
      std::unique_lock lock(mutex);
      seen |= std::size_t{1} << thread;
      ++here;
      met.notify_all();
      met.wait(lock, [&] { return here == 2; });
    });
  crew.drain();
  EXPECT_EQ(seen, std::size_t{3});
}

TEST(Crew, TheFirstErrorLeavesAndNothingMoreIsBegun) {
  std::atomic<int> done{0};
  Crew crew(1, 100);
  crew.give([](std::size_t) { throw std::runtime_error("first"); });
  const auto more = [&] {
    for (int i = 0; i < 50; ++i) crew.give([&](std::size_t) { ++done; });
    crew.drain();
  };
  try {
    more();
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_THROW(crew.drain(), std::runtime_error);
  EXPECT_EQ(done, 0);
}

TEST(Crew, WhatWasGivenIsDoneBeforeItGoes) {
  std::atomic<int> done{0};
  {
    Crew crew(2, 10);
    for (int i = 0; i < 9; ++i) crew.give([&](std::size_t) { ++done; });
  }
  EXPECT_EQ(done, 9);
}

}  // namespace
}  // namespace flagstone
