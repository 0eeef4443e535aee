#pragma once
// Lines of SVMlight: labels and rows.
#include <string>

#include "flagstone/storage/formats/text_number.hpp"

namespace flagstone {

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

/// Rows as lines of SVMlight, "label index:value ...": pointers has n + 1, from 0; `base` is added to the columns.
/// field: integer (values int64) or real (double). Shortest text that reads back as the same number.
std::string format_svmlight(Index n, const double* labels, const Index* pointers, const Index* columns, Index base,
                            TextField field, const void* values);

}  // namespace flagstone
