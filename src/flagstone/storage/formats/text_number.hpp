#pragma once
// Numbers in lines of text: what MatrixMarket and SVMlight share. No files, no state, bounds checked.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>
#include <type_traits>

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

namespace text {

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

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

/// Writes a number and `end`, most_number_bytes at most; returns where that ends.
inline constexpr std::size_t most_number_bytes = 32;
template <class T>
char* put_number(char* to, T value, char end) {
  char* at = std::to_chars(to, to + most_number_bytes - 1, value).ptr;
  *at++ = end;
  return at;
}
template <class T>
void put_number(std::string& text, T value, char end) {
  char digits[most_number_bytes];
  text.append(digits, put_number(digits, value, end));
}

}  // namespace text

}  // namespace flagstone
