#pragma once
// Buffers of tiles, scratch and staging, registered with the ring and kept for the next tile that fits.
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/runtime/spaces/device.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {

/// A buffer and the ring's number for it (-1: not registered).
struct PooledBuffer {
  Buffer buffer;
  int registered = -1;
  bool locked = false;  // in place, for the run's devices

  std::byte* data() const noexcept { return buffer.data(); }
  explicit operator bool() const noexcept { return static_cast<bool>(buffer); }
};

/// Not thread-safe: the executor's lock covers it.
class BufferPool {
 public:
  explicit BufferPool(Ring& ring, std::vector<std::shared_ptr<Device>> devices = {})
      : ring_(ring), devices_(std::move(devices)) {}
  ~BufferPool();

  /// `for_io`: worth registering with the ring and locking for devices, when it is taken for the second time:
  /// registering fresh memory would fault in every page of it under the executor's lock (1.1 s before the first task of
  /// a product in 1 GiB, measured). Where none of the size is at hand, one that is a third longer at most, without the
  /// pages at its end: columns of a factorization are all of different heights, and fresh pages for each were an eighth
  /// of its time.
  PooledBuffer take(std::size_t bytes, bool for_io);
  void put(PooledBuffer buffer);
  /// Gives the pages of a buffer that was taken back to the system.
  void forget_pages(PooledBuffer& buffer);
  /// Gives buffers back to the system until `used` bytes elsewhere and the kept ones stay within `peak`: the process
  /// never holds more than was charged at some time.
  void trim(std::uint64_t used, std::uint64_t peak);
  /// Is a buffer for this size at hand?
  bool holds(std::size_t bytes) const { return find(align_up(bytes)) != kept_.end(); }

 private:
  using Kept = std::multimap<std::size_t, PooledBuffer>;
  Kept::const_iterator find(std::size_t bytes) const;
  void destroy(PooledBuffer buffer);
  void let_go(PooledBuffer& buffer);
  void lock(PooledBuffer& buffer);
  void unlock(PooledBuffer& buffer);

  Ring& ring_;
  const std::vector<std::shared_ptr<Device>> devices_;
  Kept kept_;
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace flagstone
