#pragma once
// Rows of a decoded step against centres: the product of a batch of rows, in strips of the nearest cache, and what it
// leaves open in float64.
#include <cstdint>
#include <vector>

#include "flagstone/kernel/nearest/assign.hpp"
#include "flagstone/kernel/sparse/csr.hpp"

namespace flagstone::cluster {

/// Centres as rows of a sparse matrix meet them.
struct TurnedCentres {
  kernel::Centres seen;             // shift is zero
  Tile columns;                     // d x scores_width(k) float32: the centres' coordinates, beyond k zero
  const double* squares = nullptr;  // k: ‖c‖²
};

/// Some rows of a step, with what they need: values in float64 as decoded, and rounded.
class RowBatch {
 public:
  static constexpr Index most_rows = 256, most_values = Index{1} << 16;
  /// Memory for batches of a matrix with so many columns; no row has more stored values than that.
  static std::size_t bytes(Index cols, Index width);
  RowBatch(std::byte* memory, Index cols, Index width);

  /// Rows from `first` on, as many as one batch takes; `unit`: each divided by its length. Returns how many.
  Index load(const kernel::CsrRows& step, Index first, bool unit);
  Index rows() const { return rows_.rows; }
  /// NaN or Inf: the first row that holds one, or -1; its column.
  Index bad_row() const { return bad_row_; }
  Index bad_column() const;
  /// Labels and squared distances of all rows; returns how many float64 decided.
  Index assign(const TurnedCentres& centres);

  const std::int32_t* labels() const { return labels_; }
  /// In float64 what decides between centres, for row i and centre j: the square of their distance, by differences; of
  /// unit vectors -x·c.
  double key(Index i, const TurnedCentres& centres, Index j) const;
  const double* squares() const { return distances_; }
  /// The distance of row i from centre j; of unit vectors 1 - cos.
  double apart(Index i, const TurnedCentres& centres, Index j) const;
  /// Less so much of each row of the batch.
  void less(const double* beside);
  /// ‖x‖², after the division.
  double square(Index i) const { return squares_[i]; }
  /// to[column] += weight · value, for all stored values of row i, after the division.
  void add(Index i, double weight, double* to) const;

 private:
  template <class Use>
  void each(Index i, Use&& use) const;
  double product(Index i, const double* centre) const;
  double distance(Index i, const TurnedCentres& centres, Index j) const;
  double beside(Index i, const double* centre, Index d, double about) const;

  kernel::CsrRows rows_;
  const double* values_ = nullptr;
  float *rounded_, *scores_;
  double *squares_, *scales_, *distances_;
  std::int32_t* labels_;
  Index bad_row_ = -1;
};

}  // namespace flagstone::cluster
