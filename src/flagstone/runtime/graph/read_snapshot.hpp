#pragma once
// The moment that a run sees of every array it reads.
#include <cstdint>
#include <unordered_map>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone {

/// An array that another handle or process commits to has several moments: a run is of one, or an error.
class Moments {
 public:
  /// Notes the moment of each array that `task` reads and no task before it read.
  void watch(const TaskSpec& task);
  /// StorageError (EAGAIN) where somebody committed to one of them since.
  void check() const;

 private:
  struct Seen {
    Array array;
    std::uint64_t moment;
  };
  std::unordered_map<const ArrayStore*, Seen> seen_;
};

}  // namespace flagstone
