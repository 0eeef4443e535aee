#pragma once
// Who touched and computed blocks that were placed on sockets, as the system says it.
#include <mutex>
#include <span>
#include <vector>

namespace flagstone::stencil {

/// Of one socket: blocks that are its own, points that they updated, and how many of them a processor of another
/// socket began (touched their buffers first) or ended.
struct SocketShare {
  double blocks = 0, updates = 0, strayed = 0;
};

class SocketCounts {
 public:
  /// Blocks are placed on these from now on; what was counted before stays.
  void begin(std::span<const std::vector<int>> sockets);
  /// By the worker: a processor's number when it first touched the block's buffers, and when it was done
  /// (sched_getcpu).
  void add(int socket, double updates, int touched, int computed);
  std::vector<SocketShare> shares() const;

 private:
  bool has(int socket, int processor) const;

  mutable std::mutex mutex_;
  std::vector<std::vector<int>> sockets_;
  std::vector<SocketShare> shares_;
};

}  // namespace flagstone::stencil
