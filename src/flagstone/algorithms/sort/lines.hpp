#pragma once
// Lines of an array along one dimension, each sorted by itself in memory.
#include <memory>

#include "flagstone/kernel/sort/order.hpp"
#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/storage/output/checkpoint.hpp"

namespace flagstone::sort {

struct LineJob {
  Array from, to;  // of one shape
  std::size_t axis = 0;
  std::shared_ptr<const kernel::RecordOrder> order;  // of an element, or of one and its place behind it
  bool places = false;                               // `to` gets the places, int64
  std::shared_ptr<Checkpoint> checkpoint = nullptr;  // where finished boxes are noted
};

/// Bytes of the least box that is sorted at once: the lines under one stored unit of `to`, read, sorted and written.
std::uint64_t least_bytes(const LineJob& job);

/// Adds the tasks. Bytes: the array read and written once; every task holds whole lines.
void run(Graph& graph, const LineJob& job);

}  // namespace flagstone::sort
