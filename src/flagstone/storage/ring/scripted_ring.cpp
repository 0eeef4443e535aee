#include "flagstone/storage/ring/scripted_ring.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/ring/request_progress.hpp"

namespace flagstone {
namespace {

class MemoryRing final : public Ring {
 public:
  explicit MemoryRing(const RingScript& script) : script_(script), random_(script.seed) {}

  void submit(std::span<const Request> requests) override {
    {
      std::lock_guard lock(mutex_);
      for (const Request& request : requests)
        waiting_.push_back({count_++, RequestProgress(request), reaps_ + script_.delay});
    }
    arrived_.notify_one();
  }

  std::size_t reap(std::span<Completion> out) override {
    std::unique_lock lock(mutex_);
    for (;;) {
      arrived_.wait(lock, [&] { return !waiting_.empty() || woken_; });
      if (woken_) {
        woken_ = false;
        return 0;
      }
      if (ready(reaps_++) == 0) return 0;
      if (step(out[0])) return 1;
    }
  }

  void wake() override {
    {
      std::lock_guard lock(mutex_);
      woken_ = true;
    }
    arrived_.notify_one();
  }

  std::string describe() const override { return "memory"; }

 private:
  struct Waiting {
    std::uint64_t number;
    RequestProgress progress;
    std::uint64_t due;  // the call of reap() from which on it may proceed; never falls along the queue
  };

  /// How many requests, from the front, may proceed.
  std::size_t ready(std::uint64_t now) const {
    const auto end = std::partition_point(waiting_.begin(), waiting_.end(),
                                          [&](const Waiting& waiting) { return waiting.due <= now; });
    return static_cast<std::size_t>(end - waiting_.begin());
  }

  /// One transfer of one request that need not wait; true when that completed it.
  bool step(Completion& completion) {
    if (script_.reorder) std::swap(waiting_.front(), waiting_[random_() % ready(reaps_ - 1)]);
    Waiting& waiting = waiting_.front();
    RequestProgress& progress = waiting.progress;
    if (!progress.finished(result_of(waiting))) return false;
    completion = progress.completion();
    waiting_.pop_front();
    return true;
  }

  std::int64_t result_of(Waiting& waiting) {
    for (auto& fault : script_.faults)
      if (fault.request == waiting.number && fault.times > 0) {
        --fault.times;
        return -fault.error;
      }
    const Request& request = waiting.progress.request();
    std::size_t most = script_.step_bytes ? script_.step_bytes : RequestProgress::most_step_bytes;
    if (::fcntl(request.fd, F_GETFL) & O_DIRECT) most = align_up(most);  // the kernel's are never smaller
    if (request.write) {
      if (script_.space == 0) return -ENOSPC;
      most = std::min<std::uint64_t>(most, script_.space);
    }
    const auto step = waiting.progress.step();
    const auto moved = transfer_now(request, most < step.bytes ? shortened(step, most) : step);
    if (request.write && moved > 0) script_.space -= static_cast<std::uint64_t>(moved);
    return moved;
  }

  RequestProgress::Step shortened(RequestProgress::Step step, std::size_t most) {
    step.bytes = most;
    auto& vectors = *step.vectors;
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      vectors[i].iov_len = std::min(vectors[i].iov_len, most);
      most -= vectors[i].iov_len;
      if (most == 0) vectors.resize(i + 1);
    }
    return step;
  }

  RingScript script_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Waiting> waiting_;
  std::uint64_t count_ = 0, reaps_ = 0;
  bool woken_ = false;
};

}  // namespace

std::unique_ptr<Ring> make_memory_ring(const RingScript& script) { return std::make_unique<MemoryRing>(script); }

}  // namespace flagstone
