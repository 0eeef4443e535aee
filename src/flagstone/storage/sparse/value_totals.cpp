#include "flagstone/storage/sparse/value_totals.hpp"

#include <algorithm>

namespace flagstone {

void ValueTotals::add(Index number, const std::byte* values, Dtype dtype, const std::byte* columns, Dtype index,
                      Index n, Index widest) {
  std::unique_lock lock(mutex_);
  turned_.wait(lock, [&] { return turn_ >= number; });
  turn_ = number + 1;  // whatever happens: others wait for it, once this lock is free
  turned_.notify_all();
  make_room(widest);
  const Index bad = counted_ ? add_totals(values, dtype, columns, index, n, columns_.data())
                             : add_squares(values, dtype, n, squares_);
  if (bad >= 0 && bad_position_ < 0) bad_position_ = before_ + bad;
  before_ += n;
}

void ValueTotals::into(CsrStatistics& statistics, Index cols) {
  statistics.sum_squares = squares_;
  if (!counted_) return;
  columns_.resize(static_cast<std::size_t>(cols));
  for (const ColumnTotals& column : columns_) {
    statistics.column_sums.push_back(column.sum);
    statistics.column_squares.push_back(column.squares);
    statistics.sum_squares += column.squares;
  }
}

void ValueTotals::save(StateWriter& to) const {
  to.put(columns_), to.put(counted_), to.put(squares_), to.put(turn_), to.put(before_), to.put(bad_position_);
}

void ValueTotals::restore(StateReader& from) {
  from.get(columns_), from.get(counted_), from.get(squares_), from.get(turn_), from.get(before_);
  from.get(bad_position_);
}

/// For columns below `widest`, as long as they are counted.
void ValueTotals::make_room(Index widest) {
  if (!counted_ || widest <= static_cast<Index>(columns_.size())) return;
  if (counted_ = widest <= most_counted_columns; counted_) {
    const auto twice = std::min(2 * columns_.size(), static_cast<std::size_t>(most_counted_columns));
    return columns_.resize(std::max(static_cast<std::size_t>(widest), twice));
  }
  for (const ColumnTotals& column : columns_) squares_ += column.squares;
  std::vector<ColumnTotals>().swap(columns_);
}

}  // namespace flagstone
