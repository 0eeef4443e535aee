#pragma once
// Lines of MatrixMarket: entries and values.
#include <limits>
#include <string>

#include "flagstone/storage/formats/text_number.hpp"

namespace flagstone {

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

/// Entries as lines of MatrixMarket, one-based; rows and columns null: values alone. values as above, shortest text
/// that reads back as the same number.
/// Returns the bytes of the text; `to` has room for most_text_bytes.
std::size_t format_entries(Index n, const Index* rows, const Index* columns, TextField field, const void* values,
                           char* to);
std::size_t most_text_bytes(Index n, bool coordinates, TextField field);

}  // namespace flagstone
