#pragma once
// Calls of the kernels of factorizations. What the call changes comes last; nothing is computed here.
#include <optional>
#include <string>

#include "flagstone/base/pivot_error.hpp"
#include "flagstone/kernel/factor/trsm.hpp"
#include "flagstone/runtime/graph/call.hpp"

namespace flagstone::call {

using flagstone::Whose;

/// Whose matrix a tile is part of, and where its first element lies: for errors that name a row, a column, a minor.
struct Place {
  std::string who;  // "cholesky"; empty: nothing is looked for
  Index row = 0, col = 0;
  Whose whose = Whose::matrix;
  bool turned = false;  // what was given is the transpose: rows are its columns
};

/// The value of these calls: what they take beside parts and scalars.
struct Factor : CallValue {
  kernel::Part part = kernel::Part::all;
  kernel::Uplo uplo = kernel::Uplo::lower;
  kernel::Side side = kernel::Side::left;
  bool unit = false;     // of laswp: backwards
  bool flushed = false;  // of herk: as call::flushed of a product
  Place place;           // of laswp: origin and first row
};

// What take, potrf and trsm found, as it is thrown; for every memory's kernels. `row`, `col`, `minor`: within the tile.
[[noreturn]] void refuse_not_finite(const Place& place, Index row, Index col);
[[noreturn]] void refuse_minor(const Place& place, Index minor);
[[noreturn]] void refuse_zero_pivot(const Place& place, Index row);

/// to := op(from), or a triangle of it with zeros beside it; `shift` is added to its diagonal. Run, it throws
/// PivotError with the place of the first NaN or Inf; index: the order of the least leading minor that has it, of
/// right-hand sides the row, from 1.
Call take(Dtype dtype, kernel::Part part, TilePart from, double shift, TilePart to, Place place);
/// PivotError with the place of the first NaN or Inf in a tile, or in a triangle of it; `unit`: its diagonal does not
/// count. A take to nowhere.
Call look(Dtype dtype, kernel::Part part, bool unit, TilePart from, Place place);
/// The named triangle of C := alpha op(A) op(A)ᴴ + beta C, of C as it is used (transposed, where its part says so).
/// `scratch`: the access with room for a conjugated copy of A (kernel::herk_scratch), where one is needed. `flushed`:
/// as call::flushed of a product; trsm, potrf and getrf always are.
Call herk(Dtype dtype, kernel::Uplo uplo, double alpha, TilePart a, double beta, TilePart c,
          std::optional<std::uint32_t> scratch = {}, bool flushed = false);
/// B := alpha op(A)⁻¹ B or alpha B op(A)⁻¹. `uplo`: the triangle of op(A). Where the place names somebody it throws
/// PivotError for a zero, a NaN or Inf on the diagonal of A. `diagonal`: where that is copied to, a vector of A's
/// dtype.
Call trsm(Dtype dtype, kernel::Side side, kernel::Uplo uplo, bool unit, std::complex<double> alpha, TilePart a,
          TilePart b, Place place = {}, std::optional<TilePart> diagonal = {});
/// The named triangle of A := its Cholesky factor. Run, it throws PivotError with the order of the leading minor
/// that is not positive, where it is not; place: of the tile on the diagonal.
Call potrf(Dtype dtype, kernel::Uplo uplo, TilePart a, Place place);

/// P A = L U of a panel, whose first row is `first` of its matrix; pivots (int64, one a column) are rows of the matrix.
/// `work`: the scratch access with kernel::getrf_work_bytes.
Call getrf(Dtype dtype, Index first, TilePart a, TilePart pivots, std::uint32_t work);
/// Rows `first` and following of what `upper` and `lower` are, one above the other, exchanged with those that the
/// pivots name; the first row of both is `origin` of the matrix. Without `upper` there is `lower` alone.
Call laswp(Dtype dtype, Index origin, Index first, bool backwards, TilePart pivots, TilePart lower,
           std::optional<TilePart> upper = {});

}  // namespace flagstone::call
