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

namespace {

/// Values alone, straight into the text: no number is longer than `most` with what ends it.
template <class T>
std::string format_values(Index n, const T* values, int together) {
  constexpr std::size_t most = 32;
  constexpr Index block = 1024;
  std::string text;
  text.reserve(static_cast<std::size_t>(n) * 22);
  char digits[block * most];
  for (Index first = 0; first < n; first += block) {
    char* at = digits;
    for (Index i = first; i < std::min(n, first + block); ++i) {
      at = std::to_chars(at, at + most, values[i]).ptr;
      *at++ = (i + 1) % together == 0 ? '\n' : ' ';
    }
    text.append(digits, at);
  }
  return text;
}

}  // namespace

std::string format_entries(Index n, const Index* rows, const Index* columns, TextField field, const void* values) {
  if (!rows && field == TextField::integer) return format_values(n, static_cast<const std::int64_t*>(values), 1);
  if (!rows && field == TextField::real) return format_values(n, static_cast<const double*>(values), 1);
  if (!rows && field == TextField::complex) return format_values(2 * n, static_cast<const double*>(values), 2);
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
