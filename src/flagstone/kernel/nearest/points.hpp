#pragma once
// Points as the searches take them: in float64, and rounded to float32 about a shift for one product of BLAS.
#include <cstddef>

#include "flagstone/base/shape.hpp"
#include "flagstone/kernel/nearest/row_loops.hpp"

namespace flagstone::kernel {

/// Rows of some points: x as given, and scale x - shift. Memory of others.
struct Points {
  Index rows = 0, d = 0;
  double* exact = nullptr;    // rows x d, as given
  double* scales = nullptr;   // 1, or 1 / ‖x‖ of unit rows (0 of a row of zeros)
  float* rounded = nullptr;   // rows x d
  double* squares = nullptr;  // ‖scale x - shift‖²

  const double* row(Index i) const { return exact + i * d; }
  /// float32 as a tile.
  Tile rounded_tile() const;
};

/// Bytes of memory for so many, and the points in such memory.
std::size_t points_bytes(Index rows, Index d);
Points points_at(std::byte* memory, Index rows, Index d);

/// Fills `to` with rows of a tile of any real dtype and strides; `unit`: each is divided by its length. shift: d
/// numbers. Returns the first row that holds NaN or Inf, or -1; where it is one `to` is of no use.
Index load_points(const Tile& from, bool unit, const double* shift, const Points& to);
/// 1 / ‖x‖ of a row whose square was summed, scaled first by its largest element where that square is not normal; 0
/// of zeros, of what is not finite, and where the quotient is beyond float64.
double inverse_length(const double* x, Index n, double square);
/// The first of n numbers that is NaN or Inf, or -1.
Index first_bad(const double* x, Index n);

/// By how much half ‖c‖² - x·c, computed in float32 of rounded points, may miss what it stands for; lengths of x and c
/// after the shift. Sums of d terms may miss by a unit a term: of equal terms all roundings of a binade have one sign,
/// so errors do grow like d, and not like √d as those of rows at random. Four more units for the points, and for what
/// is done with the sum.
double score_error(Index d, double length_x, double length_c);
/// Beyond it float32 may overflow: such pairs are decided in float64.
inline constexpr double most_length = 1e17;

}  // namespace flagstone::kernel
