#pragma once
// One stream: what is put onto it, in order, and who is told when it is done. A thread gives work to CUDA, for that may
// wait (a copy from memory that is not locked in place), and another one waits for it, asleep.
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "flagstone/cuda/strided.hpp"
#include "flagstone/runtime/spaces/device.hpp"

namespace flagstone::cuda {

/// What one job has for itself while it is under way: words that kernels write, and their copy on the host.
class Slot {
 public:
  static constexpr std::size_t words = 1024;

  /// The next word of the device, with nothing in it.
  Found* word();
  Found at(std::size_t word) const { return host_[word]; }
  std::size_t used() const noexcept { return used_; }
  /// Host memory until the job is done.
  std::byte* host_bytes(std::size_t bytes);

 private:
  friend class Queue;
  cudaStream_t stream_{};
  cudaEvent_t event_{};
  Found *device_ = nullptr, *host_ = nullptr;  // the latter locked in place
  std::size_t used_ = 0;
  std::vector<std::vector<std::byte>> memory_;
};

/// Whether the device still answers; said once, believed by all of its queues.
class Health {
 public:
  void lose(const std::exception_ptr& why);
  /// Null as long as all is well.
  std::exception_ptr lost() const;

 private:
  mutable std::mutex mutex_;
  std::exception_ptr why_;
};

class Queue {
 public:
  struct Job {
    std::function<void(Slot&)> begin;        // puts work onto the stream
    std::function<void(const Slot&)> check;  // once it is done; throws what the kernels found. May be empty
    Device::Done done;
  };
  static constexpr int slots = 8;
  static constexpr std::size_t device_bytes = slots * Slot::words * sizeof(Found);

  /// `memory`: device_bytes of the device.
  Queue(int ordinal, std::byte* memory, Health& health);
  /// When all jobs are done.
  ~Queue();
  Queue(const Queue&) = delete;

  cudaStream_t stream() const noexcept { return stream_; }
  void push(Job job);
  /// When all jobs are done; none may follow.
  void finish();

 private:
  struct Begun {
    Slot* slot;
    Job job;
    std::exception_ptr failed;
  };
  void begin_jobs();
  void await_jobs();
  void begin(Begun& begun);

  const int ordinal_;
  Health& health_;
  cudaStream_t stream_{};
  std::vector<Slot> all_;
  Found* host_words_ = nullptr;
  std::mutex mutex_;
  std::condition_variable given_, begun_, freed_;
  std::deque<Job> jobs_;
  std::deque<Begun> under_way_;
  std::vector<Slot*> free_;
  bool no_more_jobs_ = false, no_more_begun_ = false;
  std::thread beginner_, waiter_;
};

}  // namespace flagstone::cuda
