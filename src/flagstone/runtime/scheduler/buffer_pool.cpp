#include "flagstone/runtime/scheduler/buffer_pool.hpp"

#include "flagstone/base/bytes.hpp"

namespace flagstone {
namespace {

constexpr std::size_t least_registered = 64 * KiB;  // below, pinning at each request costs less than a registration

}  // namespace

BufferPool::~BufferPool() {
  for (auto& [size, kept] : kept_) destroy(std::move(kept));
}

void BufferPool::destroy(PooledBuffer buffer) {
  if (buffer.registered >= 0) ring_.unregister_buffer(buffer.registered);
}

bool BufferPool::holds(std::size_t bytes) const { return kept_.contains(align_up(bytes)); }

PooledBuffer BufferPool::take(std::size_t bytes, bool for_io) {
  bytes = align_up(bytes);
  auto found = kept_.find(bytes);
  if (found == kept_.end()) return {Buffer(bytes), -1};
  PooledBuffer taken = std::move(found->second);
  kept_bytes_ -= bytes;
  kept_.erase(found);
  if (for_io && bytes >= least_registered && taken.registered < 0)
    taken.registered = ring_.register_buffer(taken.data(), bytes);
  return taken;
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
