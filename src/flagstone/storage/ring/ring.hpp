#pragma once
// One queue to the operating system: submit, reap. Three backends: io_uring, a pool of threads, and one for tests.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace flagstone {

/// One transfer between a file range and memory. `rows` > 1 scatters (gathers) a contiguous file range over rows of
/// memory that lie `pitch` bytes apart: a chunk goes straight into its place in a larger tile.
struct Request {
  bool write = false;
  int fd = -1;
  std::uint64_t offset = 0;  // in the file, bytes
  std::byte* memory = nullptr;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t pitch = 0;  // used when rows > 1
  int registered = -1;    // what register_buffer gave for the buffer that holds `memory`, or -1
  std::uint64_t tag = 0;  // comes back in the completion

  std::size_t bytes() const { return row_bytes * rows; }
};

struct Completion {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes moved, or -errno
};

/// Short transfers, EINTR and EAGAIN are re-queued inside the ring: a completion is the whole request, fewer bytes
/// only where a read met the end of the file, or an error.
class Ring {
 public:
  virtual ~Ring() = default;
  /// Thread-safe; never waits for the disk. Requests beyond the queue's depth are held back inside and go out as
  /// earlier ones complete.
  virtual void submit(std::span<const Request> requests) = 0;
  /// Waits for at least one completion (or for wake()), stores up to out.size() of them and returns how many.
  /// One thread reaps.
  virtual std::size_t reap(std::span<Completion> out) = 0;
  /// Makes a waiting (or the next) reap return, with 0 if nothing completed.
  virtual void wake() = 0;
  /// Pins a buffer with the kernel once instead of at every request; -1 where that is not allowed.
  virtual int register_buffer(std::byte*, std::size_t) { return -1; }
  virtual void unregister_buffer(int) {}
  /// What is in use, for stats().io: "io_uring, registered buffers", "4 threads".
  virtual std::string describe() const = 0;
};

struct RingOptions {
  std::string kind = "auto";  // auto | uring | threads
  unsigned depth = 32;        // requests in flight
};
/// auto: io_uring where the kernel and the build allow it, else threads. Throws Error when `kind` cannot be had.
std::unique_ptr<Ring> make_ring(const RingOptions& options = {});

}  // namespace flagstone
