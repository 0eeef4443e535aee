#pragma once
// Some rows of a stored matrix, in the order in which they are stored.
#include <cstdint>
#include <span>
#include <vector>

#include "flagstone/base/shape.hpp"

namespace flagstone::sparse {

/// A stretch of rows, or any of them: a bit a row, and a number for every 512.
class RowChoice {
 public:
  /// Rows [first, last). ShapeError where there are none such.
  RowChoice(Index first, Index last);
  /// The rows of increasing numbers. ShapeError where they do not increase.
  explicit RowChoice(std::span<const Index> rows);

  Index count() const { return bits_.empty() ? last_ - first_ : ranks_.back(); }
  /// How many chosen rows come before `row`.
  Index before(Index row) const;
  /// How many of the rows [row, row_end) are chosen.
  Index count_in(Index row, Index row_end) const { return before(row_end) - before(row); }
  /// Writes the chosen ones of the rows [row, row_end), counted from `row`: count_in() numbers.
  void list(Index row, Index row_end, Index* to) const;

 private:
  static constexpr Index word_rows = 64, block_words = 8;

  Index first_ = 0, last_ = 0;
  std::vector<std::uint64_t> bits_;  // of the rows from first_ on; empty: all of [first_, last_)
  std::vector<Index> ranks_;         // chosen rows before every block of words; then all
};

}  // namespace flagstone::sparse
