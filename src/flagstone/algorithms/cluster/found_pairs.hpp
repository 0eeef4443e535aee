#pragma once
// Neighbours of some queries as tasks find them: in pages of one piece of memory, until their rows are whole.
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::cluster {

/// Pairs of some panels of queries. Pairs of one panel are appended by one task at a time, those of a row with
/// ascending columns; panels side by side.
class FoundPairs {
 public:
  static constexpr Index page = 1024;                // pairs
  static constexpr std::uint64_t bytes_a_pair = 34;  // row, column and value; both of these in order

  /// Charged to the run: room for `pairs`, up to whole pages; panels have at most `rows`, which is below 2^16.
  FoundPairs(Graph& graph, Index pairs, Index panels, Index rows);

  Index capacity() const { return pages_ * page; }
  /// Nothing found yet.
  void clear();
  /// Pairs of one row of a panel; where there is no room left, full() from then on.
  void append(Index panel, Index row, std::span<const std::int64_t> columns, const double* values);
  bool full() const { return full_.load(std::memory_order_relaxed); }
  /// Counts query-point pairs that were looked at, for the next guess.
  void looked(double pairs) { looked_.fetch_add(pairs, std::memory_order_relaxed); }
  double looked_at() const { return looked_.load(std::memory_order_relaxed); }
  Index found() const;

  struct Rows {
    std::span<const Index> pointers, columns;
    std::span<const double> values;
  };
  /// Rows [0, rows) of a panel in order, in memory that the next call uses again. Cost: two looks at its pairs.
  Rows in_order(Index panel, Index rows);

 private:
  struct Panel {
    std::vector<Index> pages;
    Index last = page;  // pairs in the last page
  };
  std::int64_t* columns(Index at) { return reinterpret_cast<std::int64_t*>(columns_.store().memory()) + at * page; }
  double* values(Index at) { return reinterpret_cast<double*>(values_.store().memory()) + at * page; }
  std::uint16_t* rows(Index at) { return reinterpret_cast<std::uint16_t*>(rows_.store().memory()) + at * page; }

  Index* counts(Index panel) { return reinterpret_cast<Index*>(counts_.store().memory()) + panel * most_rows_; }

  Index pages_, most_rows_;
  Array columns_, values_, rows_;           // pages
  Array counts_;                            // of each row
  Array ordered_columns_, ordered_values_;  // of one panel
  std::vector<Panel> panels_;
  std::vector<Index> pointers_;
  std::atomic<Index> taken_ = 0;
  std::atomic<bool> full_ = false;
  std::atomic<double> looked_ = 0;
};

}  // namespace flagstone::cluster
