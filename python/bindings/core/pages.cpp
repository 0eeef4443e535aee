// Memory for the results of reads.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/base/thread.hpp"
#include "flagstone/storage/box/box.hpp"

namespace flagstone::python {
namespace {

/// Results that nobody looks at any more, for the next ones of the same size: a loop over slices does not fault its
/// memory in again for every slice (zeroing costs half of what a fast disk takes). Calls other than reads empty it, and
/// of large ones (MADV_FREE) the system takes back what somebody else needs, without asking.
class Shelf {
 public:
  Buffer take(std::size_t bytes) {
    Buffer found;
    {
      std::lock_guard lock(mutex_);
      auto place = find(bytes);
      if (place == kept_.end()) return found;
      found = std::move(*place);
      remove(place, bytes);
    }
    // What is free may be taken away until somebody writes there; a disk that fills it does not count everywhere.
    if (large(bytes))
      for (std::size_t at = 0; at < bytes; at += page_bytes) *const_cast<volatile std::byte*>(found.data() + at) = {};
    return found;
  }
  void give(Buffer buffer) {
    const std::size_t bytes = buffer.size();
    if (bytes > limit(bytes)) return;
    if (large(bytes) && ::madvise(buffer.data(), bytes, MADV_FREE) != 0) return;
    std::lock_guard lock(mutex_);
    if (jobs_ > 0) return;
    for (auto oldest = kept_.begin(); bytes_[large(bytes)] + bytes > limit(bytes);)
      large(oldest->size()) == large(bytes) ? remove(oldest, oldest->size()) : void(++oldest);
    bytes_[large(bytes)] += bytes;
    kept_.push_back(std::move(buffer));
  }
  /// While a job runs nothing is kept: its budget is what the limit left at its start.
  void job(bool begins) {
    std::lock_guard lock(mutex_);
    begins ? ++jobs_ : --jobs_;
  }
  bool has(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    return find(bytes) != kept_.end();
  }
  std::size_t clear() {
    std::lock_guard lock(mutex_);
    kept_.clear();
    return std::exchange(bytes_[0], 0) + std::exchange(bytes_[1], 0);
  }

 private:
  using Place = std::list<Buffer>::iterator;

  static bool large(std::size_t bytes) { return bytes >= 32 * MiB; }
  std::size_t limit(std::size_t bytes) const { return large(bytes) ? most_large_ : 128 * MiB; }
  Place find(std::size_t bytes) {
    return std::find_if(kept_.begin(), kept_.end(), [&](const Buffer& b) { return b.size() == bytes; });
  }
  void remove(Place& place, std::size_t bytes) {
    bytes_[large(bytes)] -= bytes;
    place = kept_.erase(place);
  }

  const std::size_t most_large_ = static_cast<std::size_t>(std::min<std::uint64_t>(GiB, allowed_memory() / 2));
  std::mutex mutex_;
  std::size_t bytes_[2] = {0, 0};  // kept: of small ones, of large ones
  int jobs_ = 0;
  std::list<Buffer> kept_;  // the oldest first
};

Shelf& shelf() {
  static auto* only = new Shelf;  // never destroyed: arrays may outlive everything
  return *only;
}

/// Faults fresh memory in, from its beginning, while the disk is already filling it.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : memory_(shelf().take(align_up(bytes))) {
    if (memory_) return;
    memory_ = Buffer(bytes);
#ifdef MADV_POPULATE_WRITE
    if (bytes < least_ahead) return;
    try {
      ahead_ = start_thread([this] { populate(); });
    } catch (const std::system_error&) {  // no thread to be had: the kernel faults when it writes
    }
#endif
  }
  ~Pages() {
    ended_ = true;
    if (ahead_.joinable()) process_ == ::getpid() ? ahead_.join() : ahead_.detach();
    if (process_ == ::getpid()) shelf().give(std::move(memory_));
  }
  std::byte* data() const { return memory_.data(); }
  std::size_t size() const { return memory_.size(); }

 private:
  static constexpr std::size_t least_ahead = 32 * MiB, step = 4 * MiB;

#ifdef MADV_POPULATE_WRITE
  void populate() {
    for (std::size_t at = 0; at < memory_.size() && !ended_; at += step)
      if (::madvise(memory_.data() + at, std::min(step, memory_.size() - at), MADV_POPULATE_WRITE) != 0) return;
  }
#endif

  Buffer memory_;
  std::thread ahead_;
  std::atomic<bool> ended_ = false;
  const pid_t process_ = ::getpid();
};

}  // namespace

BufferShelf shelf_of_reads() {
  return {.take = [](std::size_t bytes) { return shelf().take(bytes); },
          .give = [](Buffer buffer) { shelf().give(std::move(buffer)); }};
}

std::size_t release_kept_pages() { return shelf().clear(); }

void bind_pages(nb::module_& m) {
  m.def("pages", [](std::size_t bytes) {
    auto* memory = [&] {
      const nb::gil_scoped_release unlocked;
      return new Pages(bytes);
    }();
    const nb::capsule owner(memory, [](void* held) noexcept { delete static_cast<Pages*>(held); });
    return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(memory->data(), {memory->size()}, owner);
  });
  m.def("kept_pages", [](std::size_t bytes) { return shelf().has(align_up(bytes)) ? bytes : 0; });
  m.def("release_pages", &release_kept_pages);
  m.def("pages_of_job", [](bool begins) { shelf().job(begins); });
}

}  // namespace flagstone::python
