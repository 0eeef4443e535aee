#include "flagstone/runtime/spaces/emulated_queues.hpp"

#include <utility>

#include "flagstone/base/thread.hpp"

namespace flagstone {

EmulatedQueues::EmulatedQueues(int queues, std::optional<std::uint64_t> reorder)
    : queues_(static_cast<std::size_t>(queues)), reordered_(reorder.has_value()) {
  if (reorder)
    threads_.push_back(start_thread([this, seed = *reorder] { serve_all(seed); }));
  else
    for (Queue& queue : queues_) threads_.push_back(start_thread([this, &queue] { serve(queue); }));
}

EmulatedQueues::~EmulatedQueues() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  any_.notify_all();
  for (Queue& queue : queues_) queue.more.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void EmulatedQueues::push(int queue, double seconds, Done done, std::function<void()> work) {
  Queue& to = queues_.at(static_cast<std::size_t>(queue));
  {
    std::lock_guard lock(mutex_);
    to.items.push_back({seconds, std::move(done), std::move(work)});
  }
  (reordered_ ? any_ : to.more).notify_one();
}

void EmulatedQueues::serve(Queue& queue) {
  std::unique_lock lock(mutex_);
  while (true) {
    queue.more.wait(lock, [&] { return stopping_ || !queue.items.empty(); });
    if (queue.items.empty()) return;
    Item item = std::move(queue.items.front());
    queue.items.pop_front();
    lock.unlock();
    carry_out(std::move(item));
    lock.lock();
  }
}

void EmulatedQueues::serve_all(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Queue*> ready;
  std::unique_lock lock(mutex_);
  while (true) {
    ready.clear();
    for (Queue& queue : queues_)
      if (!queue.items.empty()) ready.push_back(&queue);
    if (ready.empty() && stopping_) return;
    if (ready.empty()) {
      any_.wait(lock);
      continue;
    }
    Queue& queue = *ready[random() % ready.size()];
    Item item = std::move(queue.items.front());
    queue.items.pop_front();
    lock.unlock();
    carry_out(std::move(item));
    lock.lock();
  }
}

void EmulatedQueues::carry_out(Item item) {
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(item.seconds));
  std::exception_ptr thrown;
  try {
    item.work();
  } catch (...) {
    thrown = std::current_exception();
  }
  if (item.seconds > 0) {
    std::unique_lock lock(mutex_);
    while (deadline_.wait_until(lock, until) != std::cv_status::timeout) {
    }
  }
  item.work = nullptr;
  item.done(thrown);
}

}  // namespace flagstone
