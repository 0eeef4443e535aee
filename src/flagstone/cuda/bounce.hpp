#pragma once
// Copies of host memory that is not locked in place, and so is beyond the card's reach: through two locked buffers,
// which several threads fill or empty while the link works on the other one.
#include <cuda_runtime_api.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::cuda {

/// So many threads at one thing, the caller being one of them.
class Hands {
 public:
  explicit Hands(int more);
  ~Hands();
  Hands(const Hands&) = delete;
  int count() const noexcept { return static_cast<int>(threads_.size()) + 1; }
  /// f(hand) of each, at once; returns when all have.
  void each(const std::function<void(int)>& f);

 private:
  void work(int hand);
  std::mutex mutex_;
  std::condition_variable given_, done_;
  const std::function<void(int)>* task_ = nullptr;
  std::uint64_t turn_ = 0;
  int at_work_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

/// For one stream, whose copies its own thread begins.
class Bounce {
 public:
  static constexpr std::size_t buffer_bytes = std::size_t{8} << 20;

  explicit Bounce(cudaStream_t stream);
  ~Bounce();
  Bounce(const Bounce&) = delete;
  void in(const Tile& host, const Tile& device);
  /// Returns when all elements lie on the host.
  void out(const Tile& device, const Tile& host);

 private:
  /// Rows of one width that fit a buffer: where they begin on either side.
  struct Block {
    std::byte *from, *to;
    std::size_t width, height, from_pitch, to_pitch;
  };
  static std::vector<Block> blocks_of(const Tile& from, const Tile& to);
  void move(const Block& rows, std::byte* buffer, bool fill);

  cudaStream_t stream_;
  std::array<std::byte*, 2> buffers_{};
  std::array<cudaEvent_t, 2> free_{};
  Hands hands_;
};

}  // namespace flagstone::cuda
