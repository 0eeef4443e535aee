#pragma once
// What becomes of a matrix's values while its panels are decoded: scaled, mapped, some columns left out. Nothing is
// written; every product sees the matrix as it would be.
#include <memory>
#include <optional>
#include <vector>

#include "flagstone/kernel/elementwise/verbs.hpp"
#include "flagstone/kernel/sparse/csr.hpp"
#include "flagstone/storage/array/array.hpp"

namespace flagstone::sparse {

/// Steps apply in order. Maps keep zero zero: values that are not stored stay so.
struct Transform {
  struct Step {
    enum class Kind : std::uint8_t {
      rows,
      columns,
      scale,
      map,
      frequencies,  // counts c := A = c factors[0] / lengths; with thresholds: sqrt(zeta) where round(A) >= zeta, else
                    // 0
      power,        // to factors[0], more than 0
      single,       // rounded to float32
      truth,        // 1 where it is not zero (NaN is not)
    } kind;
    std::vector<double> factors;  // one for each row that is seen, each stored column, or one
    kernel::Verb verb{};          // map
    Array lengths, thresholds;    // frequencies: float64 in memory, one for each row that is seen, each stored column
  };
  std::vector<Step> steps;
  std::vector<Index> place;    // of each stored column among those that stay, or -1; empty: all stay
  std::optional<Dtype> dtype;  // what the values count as; empty: as stored
};

/// A stretch of decoded values, as yet without whole rows: element i of it is value `first` + i of the rows that are
/// seen, in the panel's numbering: stored values, or where rows are chosen those of them from 0.
struct Stretch {
  Index count = 0;
  std::byte* values;   // float32 or float64
  std::byte* columns;  // unsigned integers
  Dtype real, column;
  Index first;
  const Index* pointers;  // of the panel's rows that are seen, in these values
  Index row;              // among them: the one that holds the first element
  Index first_row;        // the number of the first of them in the matrix
};

/// Columns [first, last) of those that stay; they count from 0 again.
struct ColumnRange {
  Index first = 0, last = 0;
};

/// Applies the steps in place (null: none) and drops columns that do not stay, or lie outside `between`. `kept`: for
/// each row of the panel that ends in this stretch, its end in values that stay (kept[row + 1] := ...), counting from
/// `before`. Returns how many stay.
Index apply(const Transform* transform, const std::optional<ColumnRange>& between, const Stretch& stretch, Index before,
            Index* kept, std::byte* scratch);

}  // namespace flagstone::sparse
