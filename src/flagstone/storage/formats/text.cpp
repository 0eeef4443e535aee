#include "flagstone/storage/formats/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace flagstone {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// One line being read from front to back.
class Line {
 public:
  Line(const char* at, const char* end) : at_(at), end_(end) {}

  void skip_blanks() {
    while (at_ < end_ && is_blank(*at_)) ++at_;
  }
  bool done() {
    skip_blanks();
    return at_ == end_;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  char peek() const { return at_ < end_ ? *at_ : '\0'; }
  void skip_to(char c) { at_ = std::find(at_, end_, c); }
  bool at_word_end() const { return at_ == end_ || is_blank(*at_); }

  template <class T>
  bool number(T& value) {
    skip_blanks();
    if (peek() == '+' && end_ - at_ > 1 && at_[1] != '-') ++at_;
    const auto [stop, error] = std::from_chars(at_, end_, value);
    if (error != std::errc{}) return std::is_floating_point_v<T> && out_of_range(stop, error, value);
    at_ = stop;
    if constexpr (std::is_floating_point_v<T>)
      if (peek() == 'd' || peek() == 'D') return fortran_exponent(value);
    return true;
  }

 private:
  /// 1e-400 is zero and 1e400 infinity, as everybody else reads them.
  template <class T>
  bool out_of_range(const char* stop, std::errc error, T& value) {
    if (error != std::errc::result_out_of_range) return false;
    value = static_cast<T>(std::strtod(std::string(at_, stop).c_str(), nullptr));
    at_ = stop;
    return true;
  }
  /// 1.5D+03
  template <class T>
  bool fortran_exponent(T& value) {
    ++at_;
    if (peek() == '+') ++at_;
    int exponent = 0;
    const auto [stop, error] = std::from_chars(at_, end_, exponent);
    if (error != std::errc{} || exponent < -5000 || exponent > 5000) return false;
    char text[64];
    const int n = std::snprintf(text, sizeof text, "%.17ge%d", static_cast<double>(value), exponent);
    if (n <= 0 || n >= static_cast<int>(sizeof text)) return false;
    value = static_cast<T>(std::strtod(text, nullptr));
    at_ = stop;
    return true;
  }

  const char *at_, *end_;
};

/// Calls entry(line) for every line with content; it returns what is wrong (null: nothing) and clears `room`
/// to stop before this line.
template <class Entry>
ParsedText each_line(const char* text, std::size_t bytes, char comment, Entry&& entry) {
  ParsedText parsed;
  const char *at = text, *end = text + bytes;
  while (at < end) {
    const auto* stop = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    if (!stop) break;
    Line line(at, stop);
    if (!line.done() && line.peek() != comment) {
      bool room = true;
      const char* wrong = entry(line, room, parsed);
      if (!room) break;
      if (wrong) parsed.error = wrong;
      if (!parsed.error.empty()) break;
      ++parsed.entries;
    }
    ++parsed.lines;
    at = stop + 1;
    parsed.bytes = static_cast<std::size_t>(at - text);
  }
  return parsed;
}

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

/// One row of SVMlight behind its label; what is wrong, or null.
const char* svmlight_values(Line& line, const SvmlightTarget& to, Index& filled, bool& room) {
  while (!line.done() && line.peek() != '#') {
    if (line.peek() == 'q') {  // a query's number: of no use here
      line.skip_to(':');
      Index query = 0;
      if (!line.take(':') || !line.number(query)) return "after 'qid' ':' and a whole number are needed";
      continue;
    }
    if (filled == to.most_values) {
      room = false;
      return nullptr;
    }
    if (!line.number(to.columns[filled]) || !line.take(':') || !line.number(to.values[filled]) || !line.at_word_end())
      return "'index:value' is needed";
    ++filled;
  }
  return nullptr;
}

/// Appends a number and `end`.
template <class T>
void put_number(std::string& text, T value, char end) {
  char digits[40];
  const auto done = std::to_chars(digits, digits + sizeof digits, value);
  text.append(digits, done.ptr);
  text += end;
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

ParsedText parse_svmlight(const char* text, std::size_t bytes, const SvmlightTarget& to) {
  to.pointers[0] = 0;
  return each_line(text, bytes, '#', [&](Line& line, bool& room, ParsedText& so_far) -> const char* {
    if (so_far.entries == to.most_rows) {
      room = false;
      return nullptr;
    }
    if (!line.number(to.labels[so_far.entries])) return "a label (a number) is needed first";
    bool several = false;
    for (double more = 0; line.take(','); several = true)
      if (!line.number(more)) return "after ',' another label is needed";
    if (!line.at_word_end()) return "a blank is needed behind the label";
    Index filled = so_far.values;
    const char* wrong = svmlight_values(line, to, filled, room);
    if (wrong || !room) return wrong;
    so_far.values = filled;
    so_far.several += several ? 1 : 0;
    to.pointers[so_far.entries + 1] = filled;
    return nullptr;
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

std::string format_svmlight(Index n, const double* labels, const Index* pointers, const Index* columns, Index base,
                            TextField field, const void* values) {
  std::string text;
  text.reserve(static_cast<std::size_t>(pointers[n]) * 20 + static_cast<std::size_t>(n) * 8);
  for (Index row = 0; row < n; ++row) {
    put_number(text, labels[row], ' ');
    for (Index i = pointers[row]; i < pointers[row + 1]; ++i) {
      put_number(text, columns[i] + base, ':');
      if (field == TextField::integer)
        put_number(text, static_cast<const std::int64_t*>(values)[i], ' ');
      else
        put_number(text, static_cast<const double*>(values)[i], ' ');
    }
    text.back() = '\n';
  }
  return text;
}

}  // namespace flagstone
