#include "flagstone/storage/formats/matrixmarket.hpp"

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

std::string format_entries(Index n, const Index* rows, const Index* columns, TextField field, const void* values) {
  std::string text;
  text.reserve(static_cast<std::size_t>(n) * 24);
  for (Index i = 0; i < n; ++i) {
    if (rows) {
      put_number(text, rows[i] + 1, ' ');
      put_number(text, columns[i] + 1, field == TextField::pattern ? '\n' : ' ');
    }
    if (field == TextField::integer) put_number(text, static_cast<const std::int64_t*>(values)[i], '\n');
    const auto* reals = static_cast<const double*>(values);
    if (field == TextField::real) put_number(text, reals[i], '\n');
    if (field != TextField::complex) continue;
    put_number(text, reals[2 * i], ' ');
    put_number(text, reals[2 * i + 1], '\n');
  }
  return text;
}

}  // namespace flagstone
