#include "flagstone/storage/ring/ring.hpp"

#include <algorithm>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/ring/request_progress.hpp"

namespace flagstone {
namespace {

constexpr unsigned most_threads = 16;  // beyond it a pool gains nothing on the disks tried, and costs stacks

}  // namespace

std::unique_ptr<Ring> make_ring(const RingOptions& options) {
  const unsigned depth = std::clamp(options.depth, 1u, 4096u);
  std::string why_not;
  if (options.kind == "auto" || options.kind == "uring") {
    if (auto ring = make_uring_ring(depth, why_not)) return ring;
    if (options.kind == "uring")
      throw Error("io: io_uring cannot be had here (" + why_not + "); use io=\"threads\" or io=\"auto\".");
  } else if (options.kind != "threads") {
    throw Error("io: '" + options.kind + "' is not a kind of ring; use auto, uring or threads.");
  }
  return make_thread_ring(std::min(depth, most_threads), why_not.empty() ? "" : "io_uring: " + why_not);
}

}  // namespace flagstone
