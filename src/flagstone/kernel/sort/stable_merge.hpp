#pragma once
// Merge sort by any comparison. Every index stays inside the runs that are merged, whatever the comparison says: one
// that contradicts itself gives some order of the same elements (std::sort's unguarded partition leaves the array).
#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "flagstone/kernel/sort/order.hpp"

namespace flagstone::kernel {

/// [a, b) and [b, c) of `from`, sorted, into `to` at the same places.
template <class T, class Less>
void merge_two(const T* from, T* to, Index a, Index b, Index c, const Less& less) {
  Index i = a, j = b, k = a;
  if (i < b && j < c && !less(from[j], from[b - 1])) i = c;  // in order already
  if (i == c) {
    std::copy(from + a, from + c, to + a);
    return;
  }
  while (i < b && j < c) {
    const bool second = less(from[j], from[i]);
    to[k++] = second ? from[j] : from[i];
    j += second, i += !second;
  }
  std::copy(from + i, from + b, to + k);
  std::copy(from + j, from + c, to + k + (b - i));
}

/// Merges runs that end at `ends`, neighbours first, log2(runs) times over; returns `records` or `work`.
template <class T, class Less>
T* merge_runs(T* records, std::vector<Index> ends, T* work, const Less& less) {
  while (ends.size() > 1) {
    std::vector<Index> next;
    Index begin = 0;
    for (std::size_t r = 0; r < ends.size(); r += 2) {
      const Index middle = ends[r], end = r + 1 < ends.size() ? ends[r + 1] : middle;
      merge_two(records, work, begin, middle, end, less);
      next.push_back(begin = end);
    }
    ends = std::move(next);
    std::swap(records, work);
  }
  return records;
}

template <class T, class Less>
T* merge_sort(T* records, Index n, T* work, const Less& less) {
  constexpr Index run = 16;
  std::vector<Index> ends;
  for (Index begin = 0; begin < n; begin += run) {
    const Index end = std::min(begin + run, n);
    for (Index i = begin + 1; i < end; ++i) {
      T moved = records[i];
      Index j = i;
      for (; j > begin && less(moved, records[j - 1]); --j) records[j] = records[j - 1];
      records[j] = moved;
    }
    ends.push_back(end);
  }
  return merge_runs(records, std::move(ends), work, less);
}

/// The order of a program's own type.
template <class T, class Less>
requires std::is_trivially_copyable_v<T>
class TypedOrder final : public RecordOrder {
 public:
  explicit TypedOrder(Less less) : RecordOrder(sizeof(T)), less_(std::move(less)) {}
  std::size_t work_bytes(Index n) const override { return static_cast<std::size_t>(n) * sizeof(T); }
  std::byte* sort(std::byte* records, Index n, std::byte* work) const override {
    return bytes(merge_sort(typed(records), n, typed(work), less_));
  }
  std::byte* merge(std::byte* records, std::span<const Index> ends, std::byte* work) const override {
    return bytes(merge_runs(typed(records), {ends.begin(), ends.end()}, typed(work), less_));
  }
  bool less(const std::byte* a, const std::byte* b) const override {
    T x, y;
    std::memcpy(static_cast<void*>(&x), a, sizeof(T)), std::memcpy(static_cast<void*>(&y), b, sizeof(T));
    return less_(x, y);
  }

 private:
  static T* typed(std::byte* p) { return reinterpret_cast<T*>(p); }
  static std::byte* bytes(T* p) { return reinterpret_cast<std::byte*>(p); }
  Less less_;
};

}  // namespace flagstone::kernel
