#pragma once
// Numbers out of text, whole lines at a time: MatrixMarket and SVMlight. No files, no state, bounds checked.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "flagstone/base/dtype.hpp"

namespace flagstone {

/// What stands behind the indices of an entry.
enum class TextField : std::uint8_t { pattern, integer, real, complex };

/// How far a parser came. Lines without an entry (empty, comments) count as lines.
struct ParsedText {
  std::size_t bytes = 0;  // consumed: whole lines only
  Index lines = 0;
  Index entries = 0;
  Index values = 0;   // SVMlight: stored values of those entries
  Index several = 0;  // SVMlight: how many of them have several labels
  std::string error;  // of the line after `lines`; empty: none
};

/// Where entries go: `most` of them have room. values: int64, double, or two doubles (complex); null for a pattern.
struct CoordinateTarget {
  Index most = 0;
  Index *rows = nullptr, *columns = nullptr;  // zero-based
  void* values = nullptr;
  /// What lies outside is an error.
  Index extent_rows = std::numeric_limits<Index>::max(), extent_columns = std::numeric_limits<Index>::max();
};
/// Lines of "row column [value]", one-based; '%' begins a comment. Stops at the last line end, or when the target is
/// full. Cost: about 10 ns a number.
ParsedText parse_coordinates(const char* text, std::size_t bytes, TextField field, const CoordinateTarget& to);

/// Lines of one value each (MatrixMarket's "array"). `values` as above, room for `most`.
ParsedText parse_values(const char* text, std::size_t bytes, TextField field, Index most, void* values);

/// Where rows go: room for most_rows rows (and pointers, one more) and most_values values.
struct SvmlightTarget {
  Index most_rows = 0, most_values = 0;
  double* labels = nullptr;
  Index *pointers = nullptr, *columns = nullptr;
  double* values = nullptr;
};
/// Lines of "label [qid:n] index:value ... [# comment]"; the first of several labels counts. Indices as they stand in
/// the file. Stops before a row that has no room.
ParsedText parse_svmlight(const char* text, std::size_t bytes, const SvmlightTarget& to);

/// Entries as lines of MatrixMarket, one-based; rows and columns null: values alone. values as above, shortest text
/// that reads back as the same number.
std::string format_entries(Index n, const Index* rows, const Index* columns, TextField field, const void* values);

/// Rows as lines of SVMlight, "label index:value ...": pointers has n + 1, from 0; `base` is added to the columns.
/// field: integer (values int64) or real (double). Shortest text that reads back as the same number.
std::string format_svmlight(Index n, const double* labels, const Index* pointers, const Index* columns, Index base,
                            TextField field, const void* values);

}  // namespace flagstone
