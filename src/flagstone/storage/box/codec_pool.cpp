#include "flagstone/storage/box/codec_pool.hpp"

#include <utility>

namespace flagstone {

void Workspace::fit(std::size_t tile_bytes, std::size_t work_bytes) {
  if (tile.size() < tile_bytes) tile = Buffer(tile_bytes);
  if (work.size() < work_bytes) work = Buffer(work_bytes);
}

CodecPool::CodecPool(ThreadPool* pool, std::size_t hands, std::function<void()> tell)
    : pool_(hands > 1 ? pool : nullptr), tell_(std::move(tell)), workspaces_(pool_ ? hands : 1) {
  for (std::size_t i = workspaces_.size(); i-- > 0;) free_.push_back(i);
}

void CodecPool::stop() {
  std::unique_lock lock(mutex_);
  given_.clear();
  gone_.wait(lock, [&] { return free_.size() == workspaces_.size(); });
}

CodecPool::Done CodecPool::computed(Given given, Workspace& workspace) {
  Done done{given.number, {}};
  try {
    given.piece(workspace);
  } catch (...) {
    done.error = std::current_exception();
  }
  return done;
}

void CodecPool::give(std::size_t number, Piece piece, bool here) {
  std::unique_lock lock(mutex_);
  if (here || !pool_) {
    // Its last piece may be named by finished() before a thread of the pool has put its workspace back.
    gone_.wait(lock, [&] { return !free_.empty(); });
    Workspace& workspace = workspaces_[free_.back()];
    lock.unlock();
    Done done = computed({number, std::move(piece)}, workspace);
    lock.lock();
    done_.push_back(std::move(done));
    return;
  }
  given_.push_back({number, std::move(piece)});
  if (free_.empty()) return;  // those who work take it
  const std::size_t workspace = free_.back();
  free_.pop_back();
  lock.unlock();
  try {
    pool_->give([this, workspace](std::size_t) { work(workspace); });
  } catch (...) {  // it takes no more
    work(workspace);
  }
}

/// Until nothing is left: whoever is at it need not hear of the next piece from the giver.
void CodecPool::work(std::size_t workspace) {
  std::unique_lock lock(mutex_);
  while (!given_.empty()) {
    Given next = std::move(given_.front());
    given_.pop_front();
    const bool doing = !cancelled_;
    lock.unlock();
    Done done{next.number, {}};
    if (doing) done = computed(std::move(next), workspaces_[workspace]);
    lock.lock();
    done_.push_back(std::move(done));
    lock.unlock();
    tell_();
    lock.lock();
  }
  free_.push_back(workspace);
  gone_.notify_all();
}

std::vector<CodecPool::Done> CodecPool::finished() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void CodecPool::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

}  // namespace flagstone
