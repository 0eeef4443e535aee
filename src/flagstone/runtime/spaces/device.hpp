#pragma once
// A memory beside the host's, with processors of its own: what it does by itself. Which tile is where, and when one
// moves, the scheduler decides; a Device carries that out and reports back. The emulated one and CUDA's are two of
// them.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>

#include "flagstone/base/shape.hpp"
#include "flagstone/runtime/graph/call.hpp"

namespace flagstone {

struct DeviceProperties {
  std::string kind;          // "emulated", "cuda": tiles and kernels may depend on it, never on the memory
  std::string name;          // "cuda:0", unique in a run: for statistics and messages
  std::string description;   // "NVIDIA H200, driver 580.159": for people
  std::uint64_t memory = 0;  // bytes that were taken, once: operands, results and workspaces all lie in them
  int kernel_queues = 4;     // what launches at the same time
  int host_workers = 0;      // threads of this process that compute for it with the host's kernels
  // Of the link, where the device itself says it (an emulated one does): for plans. 0: as fast as memory is.
  double bytes_per_second = 0, latency_seconds = 0;
};

/// One task's share of a launch. Its tiles lie in the device's memory, in the order of the task's accesses; they and
/// the calls live until the launch is done.
struct DeviceWork {
  std::span<const Call> calls;  // one after the other
  std::span<const Tile> tiles;
  std::byte* workspace = nullptr;  // of Device::workspace_bytes, for this work alone
};

/// How often what was asked for since the device was opened.
struct DeviceCounts {
  std::uint64_t copies_in = 0, copies_out = 0, bytes_in = 0, bytes_out = 0;
  std::uint64_t launches = 0;                 // batches, whatever they hold
  std::uint64_t synchronizing = 0;            // calls that waited for the device
  std::uint64_t locked = 0, most_locked = 0;  // bytes of host memory in place now, and at most
};

class Device {
 public:
  /// Called once, from any thread and not from within the call that it was given to: null, or what failed.
  using Done = std::function<void(std::exception_ptr)>;

  virtual ~Device() = default;  // when everything that was begun is done

  virtual const DeviceProperties& properties() const noexcept = 0;
  /// First byte of the memory that was taken, aligned to 256; host code that follows it dies.
  virtual std::byte* memory() const noexcept = 0;

  /// Whether it has the kernel of this call. By kernel, dtype, semiring and value; never by extents.
  virtual bool runs(const Call& call) const noexcept = 0;
  /// Bytes of its memory that a work of these calls needs beside its tiles (extents as in `tiles`, whose data may be
  /// null). A function of the arguments alone: plans ask it, too.
  virtual std::size_t workspace_bytes(std::span<const Call> calls, std::span<const Tile> tiles) const = 0;

  // None of these waits; a run's lock may be held. Each is in order with nothing: who needs an order waits for `done`.
  /// Elements of one dtype and shape, strides of either side as they are: no packed copy is made on the host.
  virtual void copy_in(const Tile& host, const Tile& device, Done done) = 0;
  virtual void copy_out(const Tile& device, const Tile& host, Done done) = 0;
  /// Works of equal calls (kernel, dtype, flags, scalars, extents), in one launch where the kernel can; 0 <= queue <
  /// kernel_queues, each of which runs one launch after the other.
  virtual void launch(std::span<const DeviceWork> batch, int queue, Done done) = 0;

  /// Host memory that will be copied from or to often (whole pages): a device may lock it in place. unlock() before the
  /// memory is given back.
  virtual void lock_pages(std::span<std::byte> host) = 0;
  virtual void unlock_pages(std::span<std::byte> host) = 0;

  virtual DeviceCounts counts() const = 0;

 protected:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
};

}  // namespace flagstone
