// The ring proper: io_uring. Any thread submits under the mutex; one thread waits for completions without it.
#include "flagstone/storage/ring/request_progress.hpp"

#if FLAGSTONE_HAVE_LIBURING
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

constexpr unsigned table_slots = 16384;         // registered buffers at most; an empty slot costs the kernel 8 bytes
constexpr std::size_t most_unsent = 512 * KiB;  // the disk works on the first requests while the next are prepared
constexpr std::size_t most_registered_bytes = std::size_t{1} << 30;  // the kernel's limit for one buffer

class UringRing final : public Ring {
 public:
  UringRing(unsigned depth, std::string& why_not) : depth_(depth) {
    io_uring_params params{};
    params.flags = IORING_SETUP_CLAMP;
    // One entry more than the depth: a wake() always finds room.
    if (const int result = ::io_uring_queue_init_params(depth + 1, &ring_, &params); result < 0) {
      why_not = std::strerror(-result);
      return;
    }
    open_ = true;
    if (!supported(why_not)) return;
    depth_ = std::min<std::size_t>(depth, params.sq_entries - 1);
    slots_.resize(depth_);
    for (auto i = static_cast<unsigned>(depth_); i-- > 0;) free_slots_.push_back(i);
    refused_ = -::io_uring_register_buffers_sparse(&ring_, table_slots);
    if (refused_ == 0)
      for (unsigned i = table_slots; i-- > 0;) free_buffers_.push_back(static_cast<int>(i));
    usable_ = true;
  }

  ~UringRing() override {
    if (!open_) return;
    // The kernel must not write into memory whose owner has gone: wait for what is in flight. A forked child has
    // nothing in flight; what it sees there is its parent's.
    waiting_.clear();
    Completion ignored[64];
    const bool ours = usable_ && process_ == ::getpid();
    while (ours && free_slots_.size() < depth_ && ::io_uring_sq_ready(&ring_) == 0) take_completions(ignored);
    ::io_uring_queue_exit(&ring_);
  }

  bool usable() const { return usable_; }

  void submit(std::span<const Request> requests) override {
    std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), requests.begin(), requests.end());
    send_or_throw();
  }

  std::size_t reap(std::span<Completion> out) override {
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        send_or_throw();
      }
      const std::size_t n = take_completions(out);
      if (n > 0 || std::exchange(woken_, false)) return n;
    }
  }

  void wake() override {
    std::lock_guard lock(mutex_);
    if (wake_in_flight_) return;  // one is on its way and has not been seen
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    ::io_uring_prep_nop(entry);
    ::io_uring_sqe_set_data64(entry, wake_mark);
    wake_in_flight_ = true;
    send_or_throw();
  }

  int register_buffer(std::byte* memory, std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    // A refusal costs as much as a success (the kernel pins first and counts then): wait until something is given back.
    if (exhausted_ || free_buffers_.empty() || bytes > most_registered_bytes) return -1;
    const int slot = free_buffers_.back();
    const iovec vector{memory, bytes};
    const int result = ::io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(slot), &vector, nullptr, 1);
    if (result < 0) {
      refused_ = -result;  // usually the locked-memory limit
      exhausted_ = true;
      return -1;
    }
    free_buffers_.pop_back();
    ++registered_;
    return slot;
  }

  void unregister_buffer(int slot) override {
    if (slot < 0) return;
    std::lock_guard lock(mutex_);
    const iovec nothing{};
    ::io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(slot), &nothing, nullptr, 1);
    free_buffers_.push_back(slot);
    --registered_;
    exhausted_ = false;
  }

  std::string describe() const override {
    std::lock_guard lock(mutex_);
    std::string text = "io_uring, depth " + std::to_string(depth_);
    if (registered_ > 0) text += refused_ == 0 ? ", registered buffers" : ", some registered buffers";
    if (refused_ != 0)
      text += std::string(registered_ > 0 ? " (" : ", buffers not registered (") + std::strerror(refused_) + ")";
    return text;
  }

 private:
  static constexpr std::uint64_t wake_mark = ~std::uint64_t{0};

  bool supported(std::string& why_not) {
    io_uring_probe* probe = ::io_uring_get_probe_ring(&ring_);
    const bool all = probe && ::io_uring_opcode_supported(probe, IORING_OP_READ) &&
                     ::io_uring_opcode_supported(probe, IORING_OP_WRITE);
    if (probe) ::io_uring_free_probe(probe);
    if (!all) why_not = "the kernel is older than 5.6";
    return all;
  }

  /// Waits without the mutex, then takes what has completed; 0 when requests only made progress, or at a wake.
  std::size_t take_completions(std::span<Completion> out) {
    io_uring_cqe* entry = nullptr;
    if (const int result = ::io_uring_wait_cqe(&ring_, &entry); result < 0) {
      if (result == -EINTR || result == -EAGAIN) return 0;
      throw StorageError("io: cannot wait for completions", -result, "io_uring");
    }
    std::lock_guard lock(mutex_);
    std::size_t n = 0;
    while (n < out.size() && ::io_uring_peek_cqe(&ring_, &entry) == 0) {
      const std::uint64_t mark = ::io_uring_cqe_get_data64(entry);
      const std::int32_t result = entry->res;
      ::io_uring_cqe_seen(&ring_, entry);
      if (mark == wake_mark) {
        wake_in_flight_ = false;
        woken_ = true;
      } else if (const auto slot = static_cast<unsigned>(mark); slots_[slot].finished(result)) {
        out[n++] = slots_[slot].completion();
        free_slots_.push_back(slot);
      } else {
        start(slot);
      }
    }
    send();
    return n;
  }

  // The functions below hold the mutex.

  /// Fills free slots with waiting requests and hands them to the kernel. Returns 0, or why the kernel takes none now
  /// (it is out of memory): they stay in the queue, which has room for every slot, until the next call.
  int send() {
    std::size_t bytes = 0;  // since the last that the kernel was told of
    while (!free_slots_.empty() && !waiting_.empty()) {
      const unsigned slot = free_slots_.back();
      free_slots_.pop_back();
      slots_[slot] = RequestProgress(waiting_.front());
      waiting_.pop_front();
      bytes += slots_[slot].request().bytes();
      start(slot);
      if (bytes < most_unsent) continue;
      if (const int refused = tell_kernel()) return refused;
      bytes = 0;
    }
    return tell_kernel();
  }

  int tell_kernel() {
    while (::io_uring_sq_ready(&ring_) > 0)
      if (const int result = ::io_uring_submit(&ring_); result < 0 && result != -EINTR) return -result;
    return 0;
  }

  /// While something is in the kernel its completion brings the next try; else nobody would ever try again.
  void send_or_throw() {
    const int refused = send();
    if (refused == 0) return;
    const std::size_t in_use = depth_ - free_slots_.size() + (wake_in_flight_ ? 1 : 0);
    if (in_use == ::io_uring_sq_ready(&ring_))
      throw StorageError("io: the kernel takes no requests", refused, "io_uring");
  }

  void start(unsigned slot) {
    const RequestProgress::Step step = slots_[slot].step();
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    prepare(entry, slots_[slot].request(), step);
    ::io_uring_sqe_set_data64(entry, slot);
  }

  static void prepare(io_uring_sqe* entry, const Request& request, const RequestProgress::Step& step) {
    const auto& vectors = *step.vectors;
    const int fd = request.fd, fixed = request.registered;
    if (vectors.empty()) return ::io_uring_prep_nop(entry);
    if (vectors.size() > 1) {
      const auto count = static_cast<unsigned>(vectors.size());
      if (request.write) return ::io_uring_prep_writev(entry, fd, vectors.data(), count, step.offset);
      return ::io_uring_prep_readv(entry, fd, vectors.data(), count, step.offset);
    }
    void* memory = vectors[0].iov_base;
    const auto bytes = static_cast<unsigned>(vectors[0].iov_len);
    if (fixed >= 0 && request.write) return ::io_uring_prep_write_fixed(entry, fd, memory, bytes, step.offset, fixed);
    if (fixed >= 0) return ::io_uring_prep_read_fixed(entry, fd, memory, bytes, step.offset, fixed);
    if (request.write) return ::io_uring_prep_write(entry, fd, memory, bytes, step.offset);
    ::io_uring_prep_read(entry, fd, memory, bytes, step.offset);
  }

  mutable std::mutex mutex_;
  io_uring ring_{};
  std::size_t depth_;
  bool open_ = false, usable_ = false;
  const pid_t process_ = ::getpid();
  std::deque<Request> waiting_;         // beyond the depth
  std::vector<RequestProgress> slots_;  // one for each request in flight
  std::vector<unsigned> free_slots_;
  std::vector<int> free_buffers_;  // of the table of registered buffers
  int registered_ = 0;             // how many are
  int refused_ = 0;                // errno of the last refusal
  bool exhausted_ = false;         // no more can be registered for now
  bool wake_in_flight_ = false;
  bool woken_ = false;  // the reaper's alone
};

}  // namespace

std::unique_ptr<Ring> make_uring_ring(unsigned depth, std::string& why_not) {
  auto ring = std::make_unique<UringRing>(depth, why_not);
  if (!ring->usable()) return nullptr;
  return ring;
}

}  // namespace flagstone

#else

namespace flagstone {

std::unique_ptr<Ring> make_uring_ring(unsigned, std::string& why_not) {
  why_not = "this build is without liburing";
  return nullptr;
}

}  // namespace flagstone
#endif
