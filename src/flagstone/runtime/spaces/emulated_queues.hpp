#pragma once
// The queues of an emulated device: each does one thing after the other, and all of them at the same time.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace flagstone {

class EmulatedQueues {
 public:
  using Done = std::function<void(std::exception_ptr)>;

  /// One thread a queue. With `reorder` a single thread for all: which of the queues that have work goes on is drawn,
  /// so that one runs ahead of another in every way.
  EmulatedQueues(int queues, std::optional<std::uint64_t> reorder);
  /// When everything that was pushed is done.
  ~EmulatedQueues();
  EmulatedQueues(const EmulatedQueues&) = delete;

  /// `work` runs, and done hears what it threw, `seconds` after its queue came to it at the earliest.
  void push(int queue, double seconds, Done done, std::function<void()> work);

 private:
  using Clock = std::chrono::steady_clock;
  struct Item {
    double seconds;
    Done done;
    std::function<void()> work;
  };
  struct Queue {
    std::deque<Item> items;
    std::condition_variable more;
  };
  void serve(Queue& queue);
  void serve_all(std::uint64_t seed);
  void carry_out(Item item);

  std::mutex mutex_;
  std::vector<Queue> queues_;
  std::condition_variable any_;       // with `reorder`
  std::condition_variable deadline_;  // of slow things: nobody notifies it
  bool reordered_, stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace flagstone
