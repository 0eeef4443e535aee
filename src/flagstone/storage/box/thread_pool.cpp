#include "flagstone/storage/box/thread_pool.hpp"

#include <utility>

#include "flagstone/base/thread.hpp"

namespace flagstone {

ThreadPool::ThreadPool(std::size_t threads, std::size_t waiting) : most_(waiting) {
  threads_.reserve(threads);
  try {
    for (std::size_t i = 0; i < threads; ++i) threads_.push_back(start_thread([this, i] { work(i); }));
  } catch (...) {  // no thread to be had: those that there are do
    if (threads_.empty()) throw;
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  given_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::give(Job job) {
  std::unique_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  jobs_.push_back(std::move(job));
  given_.notify_one();
  taken_.wait(lock, [&] { return error_ || jobs_.size() <= most_; });
}

void ThreadPool::drain() {
  std::unique_lock lock(mutex_);
  taken_.wait(lock, [&] { return jobs_.empty() && busy_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::work(std::size_t thread) {
  std::unique_lock lock(mutex_);
  while (true) {
    given_.wait(lock, [&] { return ended_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const bool doing = !error_;
    ++busy_;
    lock.unlock();
    taken_.notify_all();
    std::exception_ptr error;
    if (doing) {
      try {
        job(thread);
      } catch (...) {
        error = std::current_exception();
      }
    }
    job = nullptr;  // what it holds goes before anybody hears that it is done
    lock.lock();
    if (error && !error_) error_ = error;
    --busy_;
    taken_.notify_all();
  }
}

}  // namespace flagstone
