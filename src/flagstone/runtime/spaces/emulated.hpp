#pragma once
// A device without a device: memory of its own that host code cannot follow, queues of its own, copies that are counted
// and may be slow, and failures by script. Its kernels are the host's, so it gives the host's bits. All that moves
// tiles between memories is exercised on it wherever there is no other.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/runtime/spaces/device.hpp"

namespace flagstone {

/// The `at`-th (from 1) of one thing that is asked of a device fails. A copy that fails has spoilt what it copied to.
struct EmulatedFault {
  enum class Step { allocation, copy_in, copy_out, launch };  // allocation: the memory, when the device is opened
  Step step = Step::copy_in;
  std::uint64_t at = 1;
  bool lost = false;  // and all that is asked of it from then on
};

struct EmulatedOptions {
  std::string name = "emulated:0";
  std::uint64_t memory = 0;
  int kernel_queues = 2;
  double bytes_per_second = 0;  // of either link, each for itself; 0: as fast as memory is
  double latency_seconds = 0;   // of each copy
  /// One queue at a time goes on, chosen at random from this seed: every order that the contract permits may be seen.
  std::optional<std::uint64_t> reorder;
  std::vector<EmulatedFault> faults;
  std::vector<Kernel> lacks;            // kernels that it does not have, of those that an emulated device has
  std::size_t bytes_per_workspace = 0;  // of each work; a launch overwrites it
};

/// Takes the memory, and touches all of it: it belongs to this process from then on. DeviceError where the memory is
/// not to be had; Error for options that make no sense.
std::shared_ptr<Device> open_emulated(EmulatedOptions options);

/// Which kernels an emulated device has: those that devices are for. Others (searching, sorting, labels, topics, random
/// numbers, decoding) run on the host.
bool emulated_has(Kernel kernel) noexcept;

}  // namespace flagstone
