#pragma once
// What the real machine and the planner have in common as graphs: the settings that an algorithm changes and asks for.
#include <algorithm>
#include <atomic>
#include <utility>

#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/graph/options.hpp"
#include "flagstone/runtime/graph/statistics.hpp"
#include "flagstone/runtime/spaces/device.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone {

class RunningGraph : public Graph {
 public:
  using Graph::add;
  void trust_order(bool trusted) final { trusted_ = trusted; }
  void look_ahead(std::size_t tasks, bool no_further) final {
    lookahead_ = no_further ? tasks : std::max(lookahead_.load(), tasks);
  }
  std::uint64_t device_budget() const final {
    std::uint64_t least = 0;
    for (const auto& device : options_.devices)
      least = least == 0 ? device->properties().memory : std::min(least, device->properties().memory);
    return least;
  }
  bool large_tiles() const final {
    return std::any_of(options_.devices.begin(), options_.devices.end(),
                       [](const auto& device) { return device->properties().kind == "cuda"; });
  }
  int workers() const final { return options_.workers; }
  int threads_per_task() const final { return options_.threads_per_task; }
  bool agree(bool mine) final { return mine; }
  std::span<const std::vector<int>> sockets() const final {
    return options_.sockets ? std::span<const std::vector<int>>(*options_.sockets)
                            : std::span<const std::vector<int>>();
  }
  Array temporary(const Shape& shape, Dtype dtype, const Shape& tile, Written written) final {
    return temporary_array(shape, dtype, tile, scratch_, written);
  }

 protected:
  RunningGraph(const RuntimeOptions& options, ScratchSpace scratch)
      : options_(options), scratch_(std::move(scratch)), lookahead_(static_cast<std::size_t>(options.lookahead)) {}

  const RuntimeOptions options_;
  const ScratchSpace scratch_;
  // Set by the builder, read by tasks that add tasks.
  std::atomic<std::size_t> lookahead_;
  std::atomic<bool> trusted_ = false;
};

}  // namespace flagstone
