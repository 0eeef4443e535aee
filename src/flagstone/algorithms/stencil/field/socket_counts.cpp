#include "flagstone/algorithms/stencil/field/socket_counts.hpp"

#include <algorithm>

namespace flagstone::stencil {

void SocketCounts::begin(std::span<const std::vector<int>> sockets) {
  const std::lock_guard lock(mutex_);
  sockets_.assign(sockets.begin(), sockets.end());
  shares_.resize(sockets_.size());
}

bool SocketCounts::has(int socket, int processor) const {
  return std::ranges::binary_search(sockets_[static_cast<std::size_t>(socket)], processor);
}

void SocketCounts::add(int socket, double updates, int touched, int computed) {
  const std::lock_guard lock(mutex_);
  SocketShare& share = shares_[static_cast<std::size_t>(socket)];
  ++share.blocks, share.updates += updates;
  if (!has(socket, touched) || !has(socket, computed)) ++share.strayed;
}

std::vector<SocketShare> SocketCounts::shares() const {
  const std::lock_guard lock(mutex_);
  return shares_;
}

}  // namespace flagstone::stencil
