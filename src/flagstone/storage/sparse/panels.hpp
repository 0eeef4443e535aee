#pragma once
// What ingest learned about a CSR group: panels and statistics, in private files that peers do not see.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "flagstone/storage/sparse/csr.hpp"

namespace flagstone {

/// Chooses the rows of a panel while the counts of rows stream by. Cost: about two additions a row.
class PanelChooser {
 public:
  void add(Index row_values);
  /// The largest power of two such that panels hold 2 Mi values on average and none more than 4 Mi; where a few long
  /// rows would make that fewer than 64 rows, the average alone counts. At most 65,536.
  Index panel_rows() const;

 private:  // plain values: a checkpoint keeps them as they are
  static constexpr int levels = 17;
  Index rows_ = 0, values_ = 0;
  std::array<Index, levels> half_{}, most_{};  // of 2^p rows: a half that waits for its other, the largest so far
};

/// Panels of so many rows each. Cost: one pass over indptr.
std::vector<CsrPanelRange> panels_of(const CsrMatrix& matrix, Index rows);
void save_panels(const CsrMatrix& matrix, const std::vector<CsrPanelRange>& panels);
void save_statistics(const CsrMatrix& matrix, const CsrStatistics& statistics);
/// Empty where there is none, or where the arrays changed since (size or time of a shard's file): unknown, not wrong.
std::optional<std::vector<CsrPanelRange>> load_panels(const CsrMatrix& matrix);
std::optional<CsrStatistics> load_statistics(const CsrMatrix& matrix);
/// Changes when they or the arrays do. Cost: one stat for every shard.
std::string statistics_stamp(const CsrMatrix& matrix);

/// Elements [first, first + n) of a 1-D integer array as 64-bit, read at once on this thread.
std::vector<Index> read_integers(const Array& array, Index first, Index n);

}  // namespace flagstone
