#pragma once
// Sorting by the caller's comparison, on disk pointers, on plain pointers, or on both.
#include <cstddef>
#include <memory>
#include <span>

#include "flagstone/flash/flash_ptr.hpp"
#include "flagstone/flash/gemm.hpp"
#include "flagstone/kernel/sort/stable_merge.hpp"

namespace flagstone::flash {

/// Elements that are sorted, where they come from and where they go, which may be the same.
struct SortColumn {
  Place in, out;
  std::size_t bytes = 0;   // of an element
  std::size_t offset = 0;  // of it in a record
};

/// The function behind sort() and sort_by_key(): n records of the columns' elements, in place of `out`. ShapeError
/// where an input and an output overlap in part; StorageError, BudgetError before anything is written. Cost: one read
/// and one write where all fits into memory, else two of both, the one between to the runtime's scratch. Not atomic:
/// after an error or a crash what is sorted in place is part old, part new.
Statistics sort(Runtime& runtime, std::span<const SortColumn> columns, Index n,
                std::shared_ptr<const kernel::RecordOrder> order);

/// out[0, n) := in[0, n) in order, stably: equal elements keep theirs. T is any trivially copyable type; `in` and `out`
/// are each a flash_ptr<T> or a T*. A comparison that is no strict weak order gives the same elements in some order.
template <class In, class Out, class Less, class T = detail::element_t<Out>>
requires(!std::is_const_v<T> && std::is_trivially_copyable_v<T> &&
         std::is_same_v<T, std::remove_const_t<detail::element_t<In>>>) Statistics
    sort(Runtime& runtime, const In& in, const Out& out, Index n, Less less) {
  const SortColumn column{Place::of(in), Place::of(out), sizeof(T), 0};
  return sort(runtime, {&column, 1}, n, std::make_shared<kernel::TypedOrder<T, Less>>(std::move(less)));
}

/// The same of keys and of values that go with them.
template <class Keys, class Values, class KeysOut, class ValuesOut, class Less, class K = detail::element_t<KeysOut>,
          class V = detail::element_t<ValuesOut>>
requires(!std::is_const_v<K> && !std::is_const_v<V> && std::is_trivially_copyable_v<K> &&
         std::is_trivially_copyable_v<V> && std::is_same_v<K, std::remove_const_t<detail::element_t<Keys>>> &&
         std::is_same_v<V, std::remove_const_t<detail::element_t<Values>>>) Statistics
    sort_by_key(Runtime& runtime, const Keys& keys, const Values& values, const KeysOut& keys_out,
                const ValuesOut& values_out, Index n, Less less) {
  struct Pair {
    K key;
    V value;
  };
  const auto by_key = [less = std::move(less)](const Pair& a, const Pair& b) { return less(a.key, b.key); };
  const SortColumn columns[] = {{Place::of(keys), Place::of(keys_out), sizeof(K), offsetof(Pair, key)},
                                {Place::of(values), Place::of(values_out), sizeof(V), offsetof(Pair, value)}};
  return sort(runtime, columns, n, std::make_shared<kernel::TypedOrder<Pair, decltype(by_key)>>(by_key));
}

}  // namespace flagstone::flash
