// The ring where io_uring is missing: threads that wait in pread and pwrite.
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "flagstone/base/thread.hpp"
#include "flagstone/storage/ring/request_progress.hpp"

namespace flagstone {
namespace {

class ThreadRing final : public Ring {
 public:
  ThreadRing(unsigned threads, std::string note) : note_(std::move(note)) {
    for (unsigned i = 0; i < threads; ++i) threads_.push_back(start_thread([this] { work(); }));
  }

  ~ThreadRing() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      waiting_.clear();
    }
    work_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void submit(std::span<const Request> requests) override {
    {
      std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), requests.begin(), requests.end());
    }
    if (requests.size() == 1)
      work_.notify_one();
    else
      work_.notify_all();
  }

  std::size_t reap(std::span<Completion> out) override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return !completed_.empty() || woken_; });
    woken_ = false;
    const std::size_t n = std::min(out.size(), completed_.size());
    std::copy_n(completed_.begin(), n, out.begin());
    completed_.erase(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(n));
    return n;
  }

  void wake() override {
    {
      std::lock_guard lock(mutex_);
      woken_ = true;
    }
    done_.notify_one();
  }

  std::string describe() const override {
    return std::to_string(threads_.size()) + " threads" + (note_.empty() ? "" : " (" + note_ + ")");
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      RequestProgress progress(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      while (!progress.finished(transfer_now(progress.request(), progress.step()))) {
      }
      lock.lock();
      completed_.push_back(progress.completion());
      done_.notify_one();
    }
  }

  std::string note_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<Request> waiting_;
  std::deque<Completion> completed_;
  bool stop_ = false, woken_ = false;
  std::vector<std::thread> threads_;
};

/// In a forked child the threads are gone and a lock may be held for ever: there the pool is left as it is.
class OwnedThreadRing final : public Ring {
 public:
  OwnedThreadRing(unsigned threads, const std::string& note) : ring_(std::make_unique<ThreadRing>(threads, note)) {}
  ~OwnedThreadRing() override {
    if (process_ != ::getpid()) static_cast<void>(ring_.release());
  }
  void submit(std::span<const Request> requests) override { ring_->submit(requests); }
  std::size_t reap(std::span<Completion> out) override { return ring_->reap(out); }
  void wake() override { ring_->wake(); }
  std::string describe() const override { return ring_->describe(); }

 private:
  std::unique_ptr<ThreadRing> ring_;
  const pid_t process_ = ::getpid();
};

}  // namespace

std::unique_ptr<Ring> make_thread_ring(unsigned threads, const std::string& note) {
  return std::make_unique<OwnedThreadRing>(threads, note);
}

}  // namespace flagstone
