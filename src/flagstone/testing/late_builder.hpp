#pragma once
// A builder that adds each task when the one before it is done: all that follows is always out of sight.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone {

/// What a machine does when its builder is not given time: a tile that a later task changes must not be written before.
class LateBuilder final : public Graph {
 public:
  using Graph::add;
  explicit LateBuilder(Graph& graph) : graph_(graph) {}
  TaskId add(TaskSpec task) override {
    const TaskId id = graph_.add(std::move(task));
    graph_.barrier();
    return id;
  }
  void await(std::vector<Access> accesses, const std::function<void(std::span<const Tile>)>& body) override {
    graph_.await(std::move(accesses), body);
  }
  void barrier() override { graph_.barrier(); }
  void drain() override { graph_.drain(); }
  Array allocate(const Shape& shape, Dtype dtype) override { return graph_.allocate(shape, dtype); }
  Charge charge(std::uint64_t bytes) override { return graph_.charge(bytes); }
  Array temporary(const Shape& shape, Dtype dtype, const Shape& tile, Written written) override {
    return graph_.temporary(shape, dtype, tile, written);
  }
  void trust_order(bool trusted) override { graph_.trust_order(trusted); }
  void look_ahead(std::size_t tasks, bool no_further) override { graph_.look_ahead(tasks, no_further); }
  bool planning() const override { return graph_.planning(); }
  std::uint64_t budget() const override { return graph_.budget(); }
  int workers() const override { return graph_.workers(); }
  int threads_per_task() const override { return graph_.threads_per_task(); }
  bool agree(bool mine) override { return graph_.agree(mine); }
  void distribute(const Array& array, const Distribution& distribution) override {
    graph_.distribute(array, distribution);
  }
  void host_work(const std::string& name, Cost cost) override { graph_.host_work(name, cost); }

 private:
  Graph& graph_;
};

}  // namespace flagstone
