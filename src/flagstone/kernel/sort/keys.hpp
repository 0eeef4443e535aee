#pragma once
// The order of records by elements inside them: NumPy's order of each dtype, either way.
#include <vector>

#include "flagstone/kernel/sort/order.hpp"

namespace flagstone::kernel {

/// An element of a record that its place is decided by.
struct Key {
  Dtype dtype = Dtype::float64;
  std::size_t offset = 0;  // bytes from the record's begin
  bool descending = false;
};

/// Words of 64 bits whose order as unsigned integers is that of an element: one, three of a complex one. −0.0 and 0.0
/// have one word; NaN has the largest, either way. Complex numbers as NumPy has them: those without NaN, then with one
/// in the imaginary part, in the real part, in both; among these by the parts that are numbers.
int words_of(Dtype dtype) noexcept;
std::uint64_t word(const Key& key, int which, const std::byte* record);

/// By the first key, ties by the next one, then by place. Radix sort on the words, the last one first, a byte at a time
/// (bytes that are equal everywhere are skipped): moves an element 2 sizeof times, records once.
class KeyOrder final : public RecordOrder {
 public:
  KeyOrder(std::size_t width, std::vector<Key> keys);
  std::size_t work_bytes(Index n) const override;
  std::byte* sort(std::byte* records, Index n, std::byte* work) const override;
  bool less(const std::byte* a, const std::byte* b) const override;
  const std::vector<Key>& keys() const { return keys_; }

 private:
  /// Whether records are elements: then they are moved themselves.
  bool alone() const;
  std::vector<Key> keys_;
};

}  // namespace flagstone::kernel
