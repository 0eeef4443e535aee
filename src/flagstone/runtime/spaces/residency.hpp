#pragma once
// One device's memory: what lies in it, and which copy leaves first when room is needed.
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>

#include "flagstone/runtime/graph/statistics.hpp"
#include "flagstone/runtime/spaces/arena.hpp"
#include "flagstone/runtime/spaces/copies.hpp"

namespace flagstone {

/// No threads and no I/O: the same under the real machine and under the planner's clock.
class Residency {
 public:
  Residency(std::string name, std::uint64_t capacity) : arena_(capacity) { counts.name = std::move(name); }

  std::uint64_t free() const { return arena_.capacity() - arena_.used(); }
  std::uint64_t capacity() const { return arena_.capacity(); }
  const std::string& name() const { return counts.name; }
  SpaceStatistics statistics() const;

  /// Memory for blocks of these sizes, all or none.
  std::optional<std::vector<std::uint64_t>> take(std::span<const std::uint64_t> sizes) {
    return arena_.take_all(sizes);
  }
  void give(std::uint64_t offset) { arena_.give(offset); }
  /// The block at its offset is this copy's.
  void settle(Copy& copy) { at_[copy.offset] = &copy; }
  /// The copy's memory is free.
  void drop(Copy& copy);

  /// Into the order of eviction, or out of it. `next_use`: of the tile by any task in sight, `unused` if there is none.
  static constexpr std::uint64_t unused = ~std::uint64_t{0};
  void queue(Copy& copy, std::uint64_t next_use, bool dirty);
  void dequeue(Copy& copy);
  /// The copy whose next use is farthest, of those that lie elsewhere too; among equals the one used last (passes are
  /// cyclic scans). Null: none may leave.
  Copy* clean_victim() const { return clean_.empty() ? nullptr : *clean_.rbegin(); }
  /// The same of those that have to be copied out first.
  Copy* dirty_victim() const { return dirty_.empty() ? nullptr : *dirty_.rbegin(); }
  /// Copies whose going leaves a hole for so many bytes: where there is room enough, in pieces. Empty: none may go.
  /// Without `dirty_too` only those that need not be copied out: blocks of C that are in use are what memory is for.
  std::vector<Copy*> window(std::uint64_t bytes, bool dirty_too) const;

  std::uint64_t admitted = 0;       // tasks that hold memory here
  std::uint64_t leaving_bytes = 0;  // of copies that are copied out for their room
  std::uint64_t least = 0;          // what the largest task so far needs by itself
  SpaceStatistics counts;

 private:
  struct Later {
    bool operator()(const Copy* a, const Copy* b) const {
      return a->queued_at != b->queued_at ? a->queued_at < b->queued_at : a->queued_as < b->queued_as;
    }
  };
  using ByNextUse = std::set<Copy*, Later>;

  Arena arena_;
  ByNextUse clean_, dirty_;
  std::uint64_t queued_ = 0;
  std::unordered_map<std::uint64_t, Copy*> at_;  // by offset; workspaces are not among them
};

}  // namespace flagstone
