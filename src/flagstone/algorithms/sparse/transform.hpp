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

/// Steps apply in order, to real or complex numbers. Maps keep zero zero: values that are not stored stay so.
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
      turn,         // times factors[0] + i factors[1]: complex from here on
      conjugate,    // of real numbers themselves
      real_part,    // these three: real from here on
      imaginary_part,
      magnitude,
      half_diagonal,  // exact, but for the least of numbers: what a triangle's two products then add up to
    } kind;
    std::vector<double> factors;  // one for each row that is seen, each stored column, or one
    kernel::Verb verb{};          // map
    Array lengths, thresholds;    // frequencies: float64 in memory, one for each row that is seen, each stored column
  };
  std::vector<Step> steps;
  std::vector<Index> place;    // of each stored column among those that stay, or -1; empty: all stay
  std::optional<Dtype> dtype;  // what the values count as; empty: as stored
};

/// Whether values are complex after all steps.
bool ends_complex(const Transform* transform, bool begins);
/// Whether they are at some time.
bool ever_complex(const Transform* transform, bool begins);

/// A stretch of decoded values, as yet without whole rows: element i of it is value `first` + i of the rows that are
/// seen, in the panel's numbering: stored values, or where rows are chosen those of them from 0.
struct Stretch {
  Index count = 0;
  std::byte* values;    // room for complex ones where they are complex at some time
  std::byte* columns;   // unsigned integers
  Dtype dtype, column;  // of the values as they come: float32, float64, int64 (no steps then) or complex
  Index first;
  const Index* pointers;  // of the panel's rows that are seen, in these values
  Index row;              // among them: the one that holds the first element
  Index first_row;        // the number of the first of them in the matrix
};

/// Columns [first, last) of those that stay; they count from 0 again.
struct ColumnRange {
  Index first = 0, last = 0;
};

/// Applies the steps in place (null: none), makes what came of them `dtype` (real numbers may become complex ones), and
/// drops columns that do not stay, or lie outside `between`. `kept`: for each row of the panel that ends in this
/// stretch, its end in values that stay (kept[row + 1] := ...), counting from `before`. Returns how many stay.
Index apply(const Transform* transform, const std::optional<ColumnRange>& between, const Stretch& stretch, Dtype dtype,
            Index before, Index* kept, std::byte* scratch);

}  // namespace flagstone::sparse
