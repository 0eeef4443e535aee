#include "flagstone/algorithms/cluster/sparse_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "flagstone/base/bytes.hpp"

namespace flagstone::cluster {
namespace {

std::size_t room(Index numbers, std::size_t item) { return align_up(static_cast<std::size_t>(numbers) * item, 64); }

}  // namespace

std::size_t RowBatch::bytes(Index cols, Index width) {
  return room(most_values + cols, 4) + room(most_rows * width, 4) + 3 * room(most_rows, 8) + room(most_rows, 4);
}

RowBatch::RowBatch(std::byte* memory, Index cols, Index width) {
  const auto take = [&](std::size_t size) { return std::exchange(memory, memory + size); };
  rounded_ = reinterpret_cast<float*>(take(room(most_values + cols, 4)));
  scores_ = reinterpret_cast<float*>(take(room(most_rows * width, 4)));
  squares_ = reinterpret_cast<double*>(take(room(most_rows, 8)));
  scales_ = reinterpret_cast<double*>(take(room(most_rows, 8)));
  distances_ = reinterpret_cast<double*>(take(room(most_rows, 8)));
  labels_ = reinterpret_cast<std::int32_t*>(take(room(most_rows, 4)));
}

template <class Use>
void RowBatch::each(Index i, Use&& use) const {
  const Index first = rows_.pointers[i] - rows_.pointers[0], last = rows_.pointers[i + 1] - rows_.pointers[0];
  const auto walk = [&](const auto* columns) {
    for (Index p = first; p < last; ++p) use(static_cast<Index>(columns[p]), values_[p], p);
  };
  if (rows_.column_dtype == Dtype::uint16)
    walk(reinterpret_cast<const std::uint16_t*>(rows_.columns));
  else if (rows_.column_dtype == Dtype::uint32)
    walk(reinterpret_cast<const std::uint32_t*>(rows_.columns));
  else
    walk(reinterpret_cast<const std::uint64_t*>(rows_.columns));
}

Index RowBatch::load(const kernel::CsrRows& step, Index first, bool unit) {
  Index last = first + 1;
  const auto values = [&](Index end) { return step.pointers[end] - step.pointers[first]; };
  while (last < step.rows && last - first < most_rows && values(last + 1) <= most_values) ++last;
  const Index at = step.pointers[first] - step.pointers[0];
  rows_ = step;
  rows_.rows = last - first, rows_.pointers = step.pointers + first;
  values_ = reinterpret_cast<const double*>(step.values) + at;
  rows_.columns = step.columns + at * static_cast<Index>(size_of(step.column_dtype));
  rows_.values = reinterpret_cast<const std::byte*>(rounded_);
  bad_row_ = -1;
  for (Index i = 0; i < rows_.rows; ++i) {
    double square = 0;
    each(i, [&](Index, double value, Index) { square += value * value; });
    if (!std::isfinite(square) && bad_row_ < 0)
      each(i, [&](Index, double value, Index) { bad_row_ = std::isfinite(value) ? bad_row_ : i; });
    const Index begin = rows_.pointers[i] - rows_.pointers[0], stored = rows_.pointers[i + 1] - rows_.pointers[i];
    scales_[i] = unit ? kernel::inverse_length(values_ + begin, stored, square) : 1;
    squares_[i] = unit ? (scales_[i] > 0 ? 1 : 0) : square;
    each(i, [&](Index, double value, Index p) { rounded_[p] = static_cast<float>(scales_[i] * value); });
  }
  return rows_.rows;
}

Index RowBatch::bad_column() const {
  Index found = -1;
  each(bad_row_, [&](Index column, double value, Index) {
    if (!std::isfinite(value) && (found < 0 || column < found)) found = column;
  });
  return found;
}

double RowBatch::product(Index i, const double* centre) const {
  double sum = 0;
  each(i, [&](Index column, double value, Index) { sum += value * centre[column]; });
  return sum * scales_[i];
}

double RowBatch::key(Index i, const TurnedCentres& centres, Index j) const {
  return centres.seen.unit ? -product(i, centres.seen.exact + j * centres.seen.d) : distance(i, centres, j);
}

/// Differences where values are stored; what the centre has beside them is ‖c‖² less its part there, or where that
/// costs digits (a row like its centre), its own sum.
double RowBatch::distance(Index i, const TurnedCentres& centres, Index j) const {
  const Index d = centres.seen.d, stored = rows_.pointers[i + 1] - rows_.pointers[i];
  const double *centre = centres.seen.exact + j * d, square = centres.squares[j];
  double near = 0, there = 0;
  each(i, [&](Index column, double value, Index) {
    const double difference = scales_[i] * value - centre[column];
    near += difference * difference, there += centre[column] * centre[column];
  });
  const double beside = square - there;
  if (beside > std::max(0x1p-10, static_cast<double>(stored + d) * 0x1p-53) * square) return near + beside;
  return near + this->beside(i, centre, d, std::max(0.0, beside));
}

/// Squares of a centre's coordinates that row i does not store; `about`, where its columns are in no order.
double RowBatch::beside(Index i, const double* centre, Index d, double about) const {
  double sum = 0;
  Index next = 0;
  bool sorted = true;
  const auto add_until = [&](Index end) {
    for (; next < end; ++next) sum += centre[next] * centre[next];
  };
  each(i, [&](Index column, double, Index) {
    sorted = sorted && column >= next;
    add_until(column);
    next = std::max(next, column + 1);
  });
  add_until(d);
  return sorted ? sum : about;
}

double RowBatch::apart(Index i, const TurnedCentres& centres, Index j) const {
  if (!centres.seen.unit) return std::sqrt(distance(i, centres, j));
  const double length = std::sqrt(centres.squares[j]);
  return length > 0 ? std::max(0.0, 1 - product(i, centres.seen.exact + j * centres.seen.d) / length) : 1;
}

Index RowBatch::assign(const TurnedCentres& centres) {
  const kernel::RowTable& loops = kernel::row_loops();
  const Index k = centres.seen.k, width = centres.columns.shape[1];
  const Tile scores{reinterpret_cast<std::byte*>(scores_),
                    Dtype::float32,
                    {rows_.rows, width},
                    {width * 4, 4},
                    static_cast<std::size_t>(rows_.rows * width) * 4};
  kernel::csr_multiply(rows_, centres.columns, nullptr, scores);
  Index decided = 0;
  for (Index i = 0; i < rows_.rows; ++i) {
    const float* row = scores_ + i * width;
    const double length = std::sqrt(squares_[i]), longest = centres.seen.longest;
    const Index stored = rows_.pointers[i + 1] - rows_.pointers[i];
    const double bound = static_cast<double>(loops.least(centres.seen.half, row, width)) +
                         2 * kernel::score_error(stored, length, longest);
    const float most = std::nextafter(static_cast<float>(bound), std::numeric_limits<float>::infinity());
    const kernel::Below found = loops.below(centres.seen.half, row, most, width);
    Index best = found.place;
    const bool all = !(length + longest < kernel::most_length) || found.count == 0;
    if (found.count != 1 || all) {
      decided += k > 1 ? 1 : 0;
      double least = std::numeric_limits<double>::infinity();
      best = 0;
      for (Index j = 0; j < k; ++j) {
        if (!all && !(centres.seen.half[j] - row[j] <= most)) continue;
        const double key = this->key(i, centres, j);
        if (key < least) least = key, best = j;
      }
    }
    labels_[i] = static_cast<std::int32_t>(best);
    distances_[i] = distance(i, centres, best);
  }
  return decided;
}

void RowBatch::less(const double* beside) {
  for (Index i = 0; i < rows_.rows; ++i) distances_[i] = std::max(0.0, distances_[i] - beside[i]);
}

void RowBatch::add(Index i, double weight, double* to) const {
  each(i, [&](Index column, double value, Index) { to[column] += weight * scales_[i] * value; });
}

}  // namespace flagstone::cluster
