#include "flagstone/cuda/queue.hpp"

#include <utility>

#include "flagstone/base/thread.hpp"
#include "flagstone/cuda/status.hpp"

namespace flagstone::cuda {

Found* Slot::word() {
  if (used_ == words)
    throw DeviceError("cuda: a launch looks at more than " + std::to_string(words) + " tiles; report it.");
  if (used_ == 0) check(cudaMemsetAsync(device_, 0xFF, words * sizeof(Found), stream_), "a kernel");
  return device_ + used_++;
}

std::byte* Slot::host_bytes(std::size_t bytes) { return memory_.emplace_back(bytes).data(); }

void Health::lose(const std::exception_ptr& why) {
  std::lock_guard lock(mutex_);
  if (!why_) why_ = why;
}

std::exception_ptr Health::lost() const {
  std::lock_guard lock(mutex_);
  return why_;
}

Queue::Queue(int ordinal, std::byte* memory, Health& health) : ordinal_(ordinal), health_(health), all_(slots) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  void* words = nullptr;
  check(cudaHostAlloc(&words, device_bytes, cudaHostAllocPortable), "locking host memory");
  host_words_ = static_cast<Found*>(words);
  for (int i = 0; i < slots; ++i) {
    check(cudaEventCreateWithFlags(&all_[i].event_, cudaEventBlockingSync | cudaEventDisableTiming), "making an event");
    all_[i].stream_ = stream_;
    all_[i].device_ = reinterpret_cast<Found*>(memory) + i * Slot::words;
    all_[i].host_ = host_words_ + i * Slot::words;
    free_.push_back(&all_[i]);
  }
  beginner_ = start_thread([this] { begin_jobs(); });
  waiter_ = start_thread([this] { await_jobs(); });
}

void Queue::finish() {
  if (!beginner_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    no_more_jobs_ = true;
  }
  given_.notify_one();
  beginner_.join();
  waiter_.join();
}

Queue::~Queue() {
  finish();
  // Where the device is lost these fail, too, and there is nobody to tell.
  for (Slot& slot : all_) (void)cudaEventDestroy(slot.event_);
  (void)cudaFreeHost(host_words_);
  (void)cudaStreamDestroy(stream_);
}

void Queue::push(Job job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  given_.notify_one();
}

void Queue::begin(Begun& begun) {
  Slot& slot = *begun.slot;
  slot.used_ = 0, slot.memory_.clear();
  if ((begun.failed = health_.lost())) return;
  try {
    begun.job.begin(slot);
    if (slot.used_ > 0)
      cuda::check(
          cudaMemcpyAsync(slot.host_, slot.device_, slot.used_ * sizeof(Found), cudaMemcpyDeviceToHost, stream_),
          "a copy");
  } catch (...) {
    begun.failed = std::current_exception();  // what was put onto the stream before is awaited all the same
  }
  (void)cudaEventRecord(slot.event_, stream_);  // its error is the next one's
}

void Queue::begin_jobs() {
  (void)cudaSetDevice(ordinal_);
  std::unique_lock lock(mutex_);
  while (true) {
    given_.wait(lock, [this] { return !jobs_.empty() || no_more_jobs_; });
    if (jobs_.empty()) break;
    freed_.wait(lock, [this] { return !free_.empty(); });
    Begun begun{free_.back(), std::move(jobs_.front()), nullptr};
    free_.pop_back(), jobs_.pop_front();
    lock.unlock();
    begin(begun);
    lock.lock();
    under_way_.push_back(std::move(begun));
    begun_.notify_one();
  }
  no_more_begun_ = true;
  begun_.notify_one();
}

void Queue::await_jobs() {
  (void)cudaSetDevice(ordinal_);
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [this] { return !under_way_.empty() || no_more_begun_; });
    if (under_way_.empty()) return;
    Begun begun = std::move(under_way_.front());
    under_way_.pop_front();
    lock.unlock();
    std::exception_ptr error = begun.failed;
    try {
      cuda::check(cudaEventSynchronize(begun.slot->event_), "a kernel or copy");
      if (!error && begun.job.check) begun.job.check(*begun.slot);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
    if (error) {
      try {
        std::rethrow_exception(error);
      } catch (const LostDevice&) {
        health_.lose(error);
      } catch (...) {  // of this job alone
      }
    }
    const Device::Done done = std::move(begun.job.done);
    begun.job = {};
    lock.lock();
    free_.push_back(begun.slot);
    lock.unlock();
    freed_.notify_one();
    if (done) done(error);
    lock.lock();
  }
}

}  // namespace flagstone::cuda
