#include "flagstone/runtime/scheduler/buffer_pool.hpp"

#include <sys/mman.h>

namespace flagstone {
namespace {

constexpr std::size_t least_registered = 64 * KiB;  // below, pinning at each request costs less than a registration

}  // namespace

BufferPool::~BufferPool() {
  for (auto& [size, kept] : kept_) destroy(std::move(kept));
}

void BufferPool::destroy(PooledBuffer buffer) {
  if (buffer.registered >= 0) ring_.unregister_buffer(buffer.registered);
  unlock(buffer);
}

void BufferPool::lock(PooledBuffer& buffer) {
  if (devices_.empty() || std::exchange(buffer.locked, true)) return;
  for (const auto& device : devices_) device->lock_pages({buffer.data(), buffer.buffer.size()});
}

void BufferPool::unlock(PooledBuffer& buffer) {
  if (!std::exchange(buffer.locked, false)) return;
  for (const auto& device : devices_) device->unlock_pages({buffer.data(), buffer.buffer.size()});
}

/// The shortest that is long enough, and not so long that a later tile would miss its pages.
BufferPool::Kept::const_iterator BufferPool::find(std::size_t bytes) const {
  const auto found = kept_.lower_bound(bytes);
  return found != kept_.end() && found->first <= bytes + bytes / 3 ? found : kept_.end();
}

PooledBuffer BufferPool::take(std::size_t bytes, bool for_io) {
  bytes = align_up(bytes);
  const auto found = find(bytes);
  if (found == kept_.end()) return {Buffer(bytes)};
  PooledBuffer taken = std::move(kept_.extract(found).mapped());
  const std::size_t size = taken.buffer.size();
  kept_bytes_ -= size;
  if (size > bytes) {
    let_go(taken);
    ::madvise(taken.data() + bytes, size - bytes, MADV_DONTNEED);
    return taken;
  }
  if (for_io && bytes >= least_registered) lock(taken);
  if (for_io && bytes >= least_registered && taken.registered < 0)
    taken.registered = ring_.register_buffer(taken.data(), bytes);
  return taken;
}

/// What is registered is pinned: requests would go to pages that are mapped no more.
void BufferPool::let_go(PooledBuffer& buffer) {
  if (buffer.registered >= 0) ring_.unregister_buffer(std::exchange(buffer.registered, -1));
  unlock(buffer);
}

void BufferPool::forget_pages(PooledBuffer& buffer) {
  let_go(buffer);
  ::madvise(buffer.data(), buffer.buffer.size(), MADV_DONTNEED);
}

void BufferPool::put(PooledBuffer buffer) {
  if (pages_kept(buffer.buffer)) return destroy(std::move(buffer));  // not for the next tile
  const std::size_t size = buffer.buffer.size();
  kept_bytes_ += size;
  kept_.emplace(size, std::move(buffer));
}

void BufferPool::trim(std::uint64_t used, std::uint64_t peak) {
  while (!kept_.empty() && used + kept_bytes_ > peak) {
    const auto largest = std::prev(kept_.end());
    kept_bytes_ -= largest->first;
    destroy(std::move(largest->second));
    kept_.erase(largest);
  }
}

}  // namespace flagstone
