#pragma once
// What a run is given: its limit and workers, and the rates that plans take.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/runtime/graph/place.hpp"

namespace flagstone {

class Device;

struct RuntimeOptions {
  std::uint64_t memory = 0;  // most resident bytes of the whole process during a call; 0: 60 % of what is allowed
  int workers = 0;           // 0: processors available
  int threads_per_task = 1;
  std::string scratch;  // directory; empty: $FLAGSTONE_SCRATCH, else ~/.cache/flagstone/scratch (never tmpfs)
  std::optional<std::uint64_t> scratch_quota = {};    // most bytes that may lie there; none: as much as the disk holds
  std::string io = "auto";                            // auto | uring | threads
  int lookahead = 4096;                               // tasks seen ahead
  bool chains = false;                                // plans follow the longest chain of tasks too
  std::vector<std::shared_ptr<Device>> devices = {};  // their memories hold tiles beside the host's
  bool strict = false;                                // refuse tasks whose kernels their device lacks
  Place place = {};                                   // none: columns of tiles, cyclic over the devices
  bool place_waits = false;  // where it is first asked of a tile, for a lock of its own: asked without the run's
  /// Processors of each socket whose workers are bound to it (sockets.hpp); none: what the system says.
  std::optional<std::vector<std::vector<int>>> sockets = {};
};

/// How fast one kernel is on tiles of edge b, as a share of the flop rate of its precision: most · b / (b + half_edge).
struct KernelRate {
  double most = 1, half_edge = 0;
};

/// One device of a machine, for plans: by the name of the Device, else of its kind.
struct SpaceProfile {
  double bytes_in_per_second = 2.5e10, bytes_out_per_second = 2.5e10, copy_seconds = 10e-6;
  double launch_seconds = 10e-6;
  double flops_float32 = 2e13, flops_float64 = 1e13;  // of all its queues together
  double memory_bytes_per_second = 1e12;
  std::map<std::string, KernelRate> kernels_float32 = {}, kernels_float64 = {};
};

/// Several nodes, for plans of what ranks do on them side by side: a link each, and what it costs to meet.
struct ClusterProfile {
  int nodes = 1;
  double link_bytes_per_second = 1e10;  // of a node, each way
  double message_seconds = 2e-6;        // latency of one message
  double barrier_seconds = 0;           // until all nodes know that all are there
  /// Of the disk of each, times that of MachineProfile: reads, writes; none: alike.
  std::vector<std::pair<double, double>> disks = {};
};

/// Rates of this machine, for plans only: never for arithmetic.
struct MachineProfile {
  double read_bytes_per_second = 1.5e9, write_bytes_per_second = 1.2e9;
  double request_seconds = 60e-6;          // latency of one request
  double request_overhead_seconds = 4e-6;  // what one more request costs at depth, beyond its bytes
  double mixed_penalty = 1;                // reads and writes at once ÷ the sum of their times alone
  double sync_seconds = 2e-3;              // one fdatasync
  double flops_float32 = 1e11;             // one worker while all are busy, as what follows
  double flops_float64 = 5e10;
  double memory_bytes_per_second = 28e9;  // read plus written by a copy
  double decode_bytes_per_second = 2e9;   // unpacked bytes of blosc lz4
  /// By the kernel's name; the flop rate itself where there is none.
  std::map<std::string, KernelRate> kernels_float32, kernels_float64;
  std::map<std::string, SpaceProfile> spaces = {};
  /// Memories of a node, each with its share of the workers: memory_bytes_per_second is a worker's to its own, this one
  /// to another's. Tasks that have no socket find their buffers in the first one's memory, which serves all of them.
  int sockets = 1;
  double remote_bytes_per_second = 14e9;
  ClusterProfile cluster = {};
};

}  // namespace flagstone
