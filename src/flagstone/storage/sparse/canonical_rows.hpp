#pragma once
// Checks and sums over CSR rows while they are written: the typed loops of the writer.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "flagstone/base/dtype.hpp"

namespace flagstone {

struct ColumnTotals {
  double sum = 0, squares = 0;
};

/// A number that may lie anywhere: neither NumPy nor a file promises alignment.
template <class T>
struct Loose {
  std::byte bytes[sizeof(T)];
  operator T() const {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
};

/// Column indices as they arrive.
struct ColumnsView {
  const Loose<Index>* wide = nullptr;
  const Loose<std::int32_t>* narrow = nullptr;  // where `wide` is null

  ColumnsView() = default;
  explicit ColumnsView(const Index* columns) : wide(reinterpret_cast<const Loose<Index>*>(columns)) {}
  explicit ColumnsView(const std::int32_t* columns) : narrow(reinterpret_cast<const Loose<std::int32_t>*>(columns)) {}

  Index operator[](Index i) const { return wide ? Index{wide[i]} : Index{narrow[i]}; }
  ColumnsView from(Index i) const {
    ColumnsView rest;
    if (wide)
      rest.wide = wide + i;
    else
      rest.narrow = narrow + i;
    return rest;
  }
};

/// The first row in [row, rows) whose columns do not increase strictly; `rows` if all do.
Index canonical_until(const Index* pointers, ColumnsView columns, Index row, Index rows);
/// Converts to the stored index dtype (uint8, uint16, uint32 or int64); the caller has checked the range.
void store_columns(ColumnsView columns, Index n, Dtype dtype, std::byte* to);
/// Values of `dtype` as bytes; false, with `to` of no use, when one is not an integer from 0 to 255 (-0.0 is none).
bool narrow_values(const std::byte* values, Dtype dtype, Index n, std::byte* to);
/// The inverse: `n` bytes as values of `dtype`.
void widen_values(const Index* narrow, Index n, Dtype dtype, std::byte* to);
/// Adds value and value² to its column's totals, columns as stored; returns the position of the first NaN or Inf, or
/// -1.
Index add_totals(const std::byte* values, Dtype dtype, const std::byte* columns, Dtype index, Index n,
                 ColumnTotals* totals);

/// The same without columns: all squares are added to one number.
Index add_squares(const std::byte* values, Dtype dtype, Index n, double& squares);

/// One row, sorted by column, equal columns summed (booleans or-ed) in the order they were given.
struct CanonicalRow {
  std::vector<Index> columns;
  std::vector<std::byte> values;
};
/// False when an integer sum does not fit its dtype.
bool make_canonical(ColumnsView columns, const std::byte* values, Dtype dtype, Index n, CanonicalRow& row);

/// Values that a CSR group can hold: real numbers that C++ computes with.
bool is_csr_value(Dtype dtype);

}  // namespace flagstone
