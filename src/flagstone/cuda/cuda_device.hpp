#pragma once
// One of CUDA's devices: a part of its memory, taken once, two streams of copies and four of kernels.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "flagstone/cuda/bounce.hpp"
#include "flagstone/cuda/kernels.hpp"
#include "flagstone/cuda/queue.hpp"
#include "flagstone/runtime/spaces/device.hpp"

namespace flagstone::cuda {

class CudaDevice final : public Device {
 public:
  static constexpr int kernel_queues = 4;
  /// Of each kernel queue, for cuBLAS: a constant, for cuBLAS chooses its kernels, and so their bits, by it.
  static constexpr std::size_t blas_workspace = std::size_t{8} << 20;
  /// What is kept of the memory that is asked for; without kernels it comes on top of it.
  static constexpr std::size_t copies_reserve = 2 * Queue::device_bytes;
  static constexpr std::size_t reserve = kernel_queues * (blas_workspace + Queue::device_bytes) + copies_reserve;
  static constexpr std::uint64_t least = std::uint64_t{64} << 20;

  enum class Kernels { none, exact, tf32 };
  CudaDevice(int ordinal, std::uint64_t memory, Kernels kernels);
  ~CudaDevice() override;

  const DeviceProperties& properties() const noexcept override { return properties_; }
  std::byte* memory() const noexcept override { return memory_; }
  bool runs(const Call& call) const noexcept override { return !lanes_.empty() && static_cast<bool>(find(call)); }
  std::size_t workspace_bytes(std::span<const Call> calls, std::span<const Tile> tiles) const override;
  void copy_in(const Tile& host, const Tile& device, Done done) override;
  void copy_out(const Tile& device, const Tile& host, Done done) override;
  void launch(std::span<const DeviceWork> batch, int queue, Done done) override;
  void lock_pages(std::span<std::byte> host) override;
  void unlock_pages(std::span<std::byte> host) override;
  DeviceCounts counts() const override;

 private:
  struct Lane;  // a kernel queue and its libraries
  /// Of one launch: which word belongs to which call of which work.
  struct Question;
  /// Whether the card reaches this tile of the host.
  bool is_locked(const Tile& host) const;
  void take_memory(std::uint64_t bytes);
  void close();
  static void launch_on(Lane& lane, std::span<const DeviceWork> batch, Done done);
  static void run(const Lane& lane, std::span<const DeviceWork> batch, Slot& slot, std::vector<Question>& questions);

  const int ordinal_;
  DeviceProperties properties_;
  std::byte* memory_ = nullptr;
  Health health_;
  std::unique_ptr<Queue> in_, out_;
  std::unique_ptr<Bounce> bounce_in_, bounce_out_;  // made by the first copy that needs one, on its queue's thread
  std::vector<std::unique_ptr<Lane>> lanes_;
  mutable std::mutex sizes_mutex_;
  Libraries sizes_;  // for questions alone: handles are one thread's at a time
  mutable std::mutex locked_mutex_;
  std::map<std::byte*, std::size_t> locked_;
  std::atomic<std::uint64_t> copies_in_{0}, copies_out_{0}, bytes_in_{0}, bytes_out_{0}, launches_{0};
};

/// What there is; none: `why_not` says what is missing.
std::vector<DeviceProperties> devices(std::string* why_not);
std::shared_ptr<Device> open(int ordinal, std::uint64_t memory, const std::string& precision);
std::shared_ptr<Device> open_memory(int ordinal, std::uint64_t memory);

}  // namespace flagstone::cuda
