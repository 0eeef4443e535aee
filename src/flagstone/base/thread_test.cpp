#include "flagstone/base/thread.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>

namespace flagstone {
namespace {

TEST(StartThread, NeverSeesSignals) {
  sigset_t before, there, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  start_thread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &there); }).join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    EXPECT_EQ(sigismember(&there, signal), 1);
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
  }
}

TEST(StartThread, RunsWhatCanOnlyBeMoved) {
  int found = 0;
  start_thread([&, value = std::make_unique<int>(7)] { found = *value; }).join();
  {
    auto ended = start_thread<std::jthread>([&] { ++found; });
  }
  EXPECT_EQ(found, 8);
}

}  // namespace
}  // namespace flagstone
