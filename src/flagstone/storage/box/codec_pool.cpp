#include "flagstone/storage/box/codec_pool.hpp"

#include <utility>

namespace flagstone {

void Desk::fit(std::size_t tile_bytes, std::size_t work_bytes) {
  if (tile.size() < tile_bytes) tile = Buffer(tile_bytes);
  if (work.size() < work_bytes) work = Buffer(work_bytes);
}

CrewWork::CrewWork(Crew* crew, std::size_t hands, std::function<void()> tell)
    : crew_(hands > 1 ? crew : nullptr), tell_(std::move(tell)), desks_(crew_ ? hands : 1) {
  for (std::size_t i = desks_.size(); i-- > 0;) free_.push_back(i);
}

void CrewWork::stop() {
  std::unique_lock lock(mutex_);
  given_.clear();
  gone_.wait(lock, [&] { return free_.size() == desks_.size(); });
}

CrewWork::Done CrewWork::computed(Given given, Desk& desk) {
  Done done{given.number, {}};
  try {
    given.piece(desk);
  } catch (...) {
    done.error = std::current_exception();
  }
  return done;
}

void CrewWork::give(std::size_t number, Piece piece, bool here) {
  std::unique_lock lock(mutex_);
  if (here || !crew_) {
    Desk& desk = desks_[free_.back()];
    lock.unlock();
    Done done = computed({number, std::move(piece)}, desk);
    lock.lock();
    done_.push_back(std::move(done));
    return;
  }
  given_.push_back({number, std::move(piece)});
  if (free_.empty()) return;  // those who work take it
  const std::size_t desk = free_.back();
  free_.pop_back();
  lock.unlock();
  try {
    crew_->give([this, desk](std::size_t) { work(desk); });
  } catch (...) {  // it takes no more
    work(desk);
  }
}

/// Until nothing is left: whoever is at it need not hear of the next piece from the giver.
void CrewWork::work(std::size_t desk) {
  std::unique_lock lock(mutex_);
  while (!given_.empty()) {
    Given next = std::move(given_.front());
    given_.pop_front();
    const bool doing = !cancelled_;
    lock.unlock();
    Done done{next.number, {}};
    if (doing) done = computed(std::move(next), desks_[desk]);
    lock.lock();
    done_.push_back(std::move(done));
    lock.unlock();
    tell_();
    lock.lock();
  }
  free_.push_back(desk);
  gone_.notify_all();
}

std::vector<CrewWork::Done> CrewWork::finished() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void CrewWork::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

}  // namespace flagstone
