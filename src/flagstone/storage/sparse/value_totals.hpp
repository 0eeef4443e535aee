#pragma once
// Sums over the values of a matrix while chunks of them are packed by threads.
#include <condition_variable>
#include <mutex>
#include <vector>

#include "flagstone/storage/output/state_bytes.hpp"
#include "flagstone/storage/sparse/canonical_rows.hpp"
#include "flagstone/storage/sparse/csr.hpp"

namespace flagstone {

/// Sums by column, chunk after chunk whatever thread brings them: the order of additions is that of the values. Of more
/// columns than are counted, only the squares of all of them.
class ValueTotals {
 public:
  /// cols < 0: not known yet.
  explicit ValueTotals(Index cols) { make_room(cols); }

  /// Waits for the chunks before `number`. `widest`: columns are below it.
  void add(Index number, const std::byte* values, Dtype dtype, const std::byte* columns, Dtype index, Index n,
           Index widest);

  /// Read when nobody adds.
  void into(CsrStatistics& statistics, Index cols);
  Index bad_position() const { return bad_position_; }  // of the first NaN or Inf among all values, or -1

  void save(StateWriter& to) const;
  void restore(StateReader& from);

 private:
  void make_room(Index widest);

  std::mutex mutex_;
  std::condition_variable turned_;
  std::vector<ColumnTotals> columns_;
  bool counted_ = true;
  double squares_ = 0;  // of what is not in columns_
  Index turn_ = 0, before_ = 0, bad_position_ = -1;
};

}  // namespace flagstone
