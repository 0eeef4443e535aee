#pragma once
// A few threads that do jobs begun in the order in which they were given; the giver waits when it is too far ahead.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace flagstone {

class Crew {
 public:
  using Job = std::function<void(std::size_t thread)>;  // `thread`: 0 to threads - 1

  /// At most `waiting` jobs wait beside those that are being done.
  Crew(std::size_t threads, std::size_t waiting);
  /// Does what was given; its errors are lost: drain() first.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Returns once the job has a place. Throws the first error of a job before it; after one, nothing more is begun.
  void give(Job job);
  /// Returns when all is done; throws the first error.
  void drain();

 private:
  void work(std::size_t thread);

  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable given_, taken_;
  std::deque<Job> jobs_;
  std::size_t busy_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace flagstone
