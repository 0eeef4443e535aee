#pragma once
// The order of records of one width: what an external sort knows of what it sorts.
#include <cstddef>
#include <span>

#include "flagstone/base/dtype.hpp"

namespace flagstone::kernel {

/// Records are as many bytes, one after the other. An order that contradicts itself must still return what it was
/// given, in whatever order.
class RecordOrder {
 public:
  explicit RecordOrder(std::size_t width) : width_(width) {}
  virtual ~RecordOrder() = default;
  /// Bytes of a record.
  std::size_t width() const { return width_; }
  /// Bytes that sorting n records takes beside them.
  virtual std::size_t work_bytes(Index n) const = 0;
  /// Sorts n records stably; returns where they lie then, at `records` or in `work`.
  virtual std::byte* sort(std::byte* records, Index n, std::byte* work) const = 0;
  /// The same of runs that are sorted; `ends`: where each ends.
  virtual std::byte* merge(std::byte* records, std::span<const Index> ends, std::byte* work) const {
    return sort(records, ends.empty() ? 0 : ends.back(), work);
  }
  virtual bool less(const std::byte* a, const std::byte* b) const = 0;

 private:
  std::size_t width_;
};

}  // namespace flagstone::kernel
