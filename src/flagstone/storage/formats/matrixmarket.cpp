#include "flagstone/storage/formats/matrixmarket.hpp"

#include <algorithm>
#include <charconv>

namespace flagstone {
namespace {

using text::each_line;
using text::Line;
using text::put_number;

bool put_value(Line& line, TextField field, void* values, Index at) {
  switch (field) {
    case TextField::pattern:
      return true;
    case TextField::integer:
      return line.number(static_cast<std::int64_t*>(values)[at]);
    case TextField::real:
      return line.number(static_cast<double*>(values)[at]);
    default:
      return line.number(static_cast<double*>(values)[2 * at]) && line.number(static_cast<double*>(values)[2 * at + 1]);
  }
}

}  // namespace

ParsedText parse_coordinates(const char* text, std::size_t bytes, TextField field, const CoordinateTarget& to) {
  return each_line(text, bytes, '%', [&](Line& line, bool& room, ParsedText& so_far) -> const char* {
    const Index i = so_far.entries;
    if (i == to.most) {
      room = false;
      return nullptr;
    }
    if (!line.number(to.rows[i]) || !line.number(to.columns[i])) return "a row and a column number are needed";
    if (to.rows[i] < 1 || to.rows[i] > to.extent_rows || to.columns[i] < 1 || to.columns[i] > to.extent_columns) {
      so_far.error = "row " + std::to_string(to.rows[i]) + ", column " + std::to_string(to.columns[i]) +
                     " (counted from 1) lies outside the " + std::to_string(to.extent_rows) + " x " +
                     std::to_string(to.extent_columns) + " that the header says";
      return nullptr;
    }
    --to.rows[i], --to.columns[i];
    if (!put_value(line, field, to.values, i)) return "a value is missing or no number";
    return line.done() ? nullptr : "there is more on the line than the header says";
  });
}

ParsedText parse_values(const char* text, std::size_t bytes, TextField field, Index most, void* values) {
  return each_line(text, bytes, '%', [&](Line& line, bool& room, const ParsedText& so_far) -> const char* {
    if (so_far.entries == most) {
      room = false;
      return nullptr;
    }
    if (!put_value(line, field, values, so_far.entries)) return "a value is missing or no number";
    return line.done() ? nullptr : "there is more on the line than the header says";
  });
}

std::size_t most_text_bytes(Index n, bool coordinates, TextField field) {
  const int values = field == TextField::pattern ? 0 : field == TextField::complex ? 2 : 1;
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(values + (coordinates ? 2 : 0)) *
         text::most_number_bytes;
}

std::size_t format_entries(Index n, const Index* rows, const Index* columns, TextField field, const void* values,
                           char* to) {
  char* at = to;
  const auto* integers = static_cast<const std::int64_t*>(values);
  const auto* reals = static_cast<const double*>(values);
  for (Index i = 0; i < n; ++i) {
    if (rows) {
      at = put_number(at, rows[i] + 1, ' ');
      at = put_number(at, columns[i] + 1, field == TextField::pattern ? '\n' : ' ');
    }
    if (field == TextField::integer) at = put_number(at, integers[i], '\n');
    if (field == TextField::real) at = put_number(at, reals[i], '\n');
    if (field != TextField::complex) continue;
    at = put_number(at, reals[2 * i], ' ');
    at = put_number(at, reals[2 * i + 1], '\n');
  }
  return static_cast<std::size_t>(at - to);
}

}  // namespace flagstone
