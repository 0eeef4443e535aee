#include "flagstone/cuda/bounce.hpp"

#include <algorithm>
#include <cstring>

#include "flagstone/base/thread.hpp"
#include "flagstone/cuda/status.hpp"
#include "flagstone/runtime/spaces/strided_rows.hpp"

namespace flagstone::cuda {

Hands::Hands(int more) {
  for (int hand = 1; hand <= more; ++hand) threads_.push_back(start_thread([this, hand] { work(hand); }));
}

Hands::~Hands() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  given_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Hands::work(int hand) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;; seen = turn_) {
    given_.wait(lock, [&] { return over_ || turn_ != seen; });
    if (over_) return;
    const auto* const task = task_;
    seen = turn_;
    lock.unlock();
    (*task)(hand);
    lock.lock();
    if (--at_work_ == 0) done_.notify_one();
  }
}

void Hands::each(const std::function<void(int)>& f) {
  {
    std::lock_guard lock(mutex_);
    task_ = &f, ++turn_, at_work_ = static_cast<int>(threads_.size());
  }
  given_.notify_all();
  f(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return at_work_ == 0; });
}

Bounce::Bounce(cudaStream_t stream)
    : stream_(stream), hands_(std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2 - 1, 0, 7)) {
  for (int i = 0; i < 2; ++i) {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, buffer_bytes, cudaHostAllocPortable), "locking host memory");
    buffers_[i] = static_cast<std::byte*>(memory);
    check(cudaEventCreateWithFlags(&free_[i], cudaEventBlockingSync | cudaEventDisableTiming), "making an event");
  }
}

Bounce::~Bounce() {
  for (int i = 0; i < 2; ++i) {
    (void)cudaFreeHost(buffers_[i]);
    (void)cudaEventDestroy(free_[i]);
  }
}

std::vector<Bounce::Block> Bounce::blocks_of(const Tile& from, const Tile& to) {
  std::vector<Block> blocks;
  const StridedRows rows = rows_of(from, to);
  const std::size_t width = std::min(rows.width, buffer_bytes), height = std::max<std::size_t>(1, buffer_bytes / width);
  each_block(rows, from, to, [&](std::byte* source, std::byte* target) {
    for (std::size_t y = 0; y < rows.height; y += height)
      for (std::size_t x = 0; x < rows.width; x += width)
        blocks.push_back({source + y * rows.from_pitch + x, target + y * rows.to_pitch + x,
                          std::min(width, rows.width - x), std::min(height, rows.height - y), rows.from_pitch,
                          rows.to_pitch});
  });
  return blocks;
}

/// Rows between the host and a buffer, a share of them, or of the one there is, for each hand.
void Bounce::move(const Block& rows, std::byte* buffer, bool fill) {
  const auto part = [&](int hand) {
    const auto share = [&](std::size_t n, int h) { return n * static_cast<std::size_t>(h) / hands_.count(); };
    const bool one = rows.height == 1;
    const std::size_t first = share(one ? rows.width : rows.height, hand),
                      end = share(one ? rows.width : rows.height, hand + 1);
    for (std::size_t y = one ? 0 : first; y < (one ? 1 : end); ++y) {
      const std::size_t x = one ? first : 0, n = one ? end - first : rows.width;
      std::byte* const packed = buffer + y * rows.width + x;
      if (fill)
        std::memcpy(packed, rows.from + y * rows.from_pitch + x, n);
      else
        std::memcpy(rows.to + y * rows.to_pitch + x, packed, n);
    }
  };
  if (rows.width * rows.height < std::size_t{1} << 18)  // not worth waking anybody
    for (int hand = 0; hand < hands_.count(); ++hand) part(hand);
  else
    hands_.each(part);
}

void Bounce::in(const Tile& host, const Tile& device) {
  int turn = 0;
  for (const Block& rows : blocks_of(host, device)) {
    const int i = turn++ % 2;
    check(cudaEventSynchronize(free_[i]), "a copy");
    move(rows, buffers_[i], true);
    check(cudaMemcpy2DAsync(rows.to, rows.height == 1 ? rows.width : rows.to_pitch, buffers_[i], rows.width, rows.width,
                            rows.height, cudaMemcpyHostToDevice, stream_),
          "a copy");
    check(cudaEventRecord(free_[i], stream_), "a copy");
  }
}

void Bounce::out(const Tile& device, const Tile& host) {
  const std::vector<Block> blocks = blocks_of(device, host);
  const auto begin = [&](std::size_t b) {
    const Block& rows = blocks[b];
    check(cudaMemcpy2DAsync(buffers_[b % 2], rows.width, rows.from, rows.height == 1 ? rows.width : rows.from_pitch,
                            rows.width, rows.height, cudaMemcpyDeviceToHost, stream_),
          "a copy");
    check(cudaEventRecord(free_[b % 2], stream_), "a copy");
  };
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (b == 0) begin(0);
    check(cudaEventSynchronize(free_[b % 2]), "a copy");
    if (b + 1 < blocks.size()) begin(b + 1);
    move(blocks[b], buffers_[b % 2], false);
  }
}

}  // namespace flagstone::cuda
