#include "flagstone/storage/formats/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace flagstone {
namespace {

/// What pandas takes for missing; nan in any spelling is a number to from_chars.
constexpr std::string_view missing_words[] = {"",     "NA",       "N/A",      "n/a",    "<NA>",
                                              "#N/A", "#N/A N/A", "#NA",      "NULL",   "null",
                                              "None", "-1.#IND",  "-1.#QNAN", "1.#IND", "1.#QNAN"};
constexpr std::size_t most_shown = 60;  // bytes of a text in a message

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

bool is_missing(std::string_view word) {
  if (word.size() > 9) return false;
  return std::find(std::begin(missing_words), std::end(missing_words), word) != std::end(missing_words);
}

/// 1, 0, or -1 where it is neither.
int truth(std::string_view word) {
  if (word == "True" || word == "true" || word == "TRUE") return 1;
  return word == "False" || word == "false" || word == "FALSE" ? 0 : -1;
}

struct Number {
  double real = 0;
  std::int64_t integer = 0;
  bool whole = false;    // no point and no exponent, and int64 holds it
  bool rounded = false;  // an integer that `real` is not
};

/// Digits alone that int64 does not hold: a real, and one that was rounded where 64 bits do hold it.
void large_integer(const char* at, const char* stop, Number& number) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(*at == '+' ? at + 1 : at, stop, value);
  if (error == std::errc{} && end == stop)
    number.rounded = static_cast<long double>(number.real) != static_cast<long double>(value);
}

/// Reads a number; where it ends, or null.
const char* read_number(const char* at, const char* end, Number& number) {
  const bool negative = *at == '-';
  const char* digits = at + (negative || *at == '+' ? 1 : 0);
  const char* p = digits;
  std::int64_t value = 0;
  while (p < end && is_digit(*p) && p - digits < 18) value = 10 * value + (*p++ - '0');
  const bool more = p < end && (is_digit(*p) || *p == '.' || *p == 'e' || *p == 'E');
  if (p > digits && !more) {
    number.integer = negative ? -value : value;
    number.real = negative ? -static_cast<double>(value) : static_cast<double>(value);
    number.whole = true;
    number.rounded = static_cast<std::int64_t>(number.real) != number.integer;
    return p;
  }
  const char* first = *at == '+' && digits < end && *digits != '-' ? digits : at;
  const auto [stop, error] = std::from_chars(first, end, number.real);
  if (error == std::errc::invalid_argument) return nullptr;
  if (error != std::errc{})  // 1e-400 is zero and 1e400 infinity, as everybody else reads them
    number.real = std::strtod(std::string(first, stop).c_str(), nullptr);
  if (p - digits == 18 && std::all_of(p, stop, is_digit)) {
    const auto [last, wrong] = std::from_chars(first, stop, number.integer);
    number.whole = wrong == std::errc{} && last == stop;
    if (number.whole)
      number.rounded = static_cast<long double>(number.real) != static_cast<long double>(number.integer);
    else
      large_integer(at, stop, number);
  }
  return stop;
}

std::string_view trimmed(const char* at, const char* stop) {
  while (at < stop && (*at == ' ' || *at == '\t')) ++at;
  while (at < stop && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r')) --stop;
  return {at, static_cast<std::size_t>(stop - at)};
}

/// Behind the quote that closes the one at p, doubled ones skipped; null: nothing closes it.
const char* behind_quote(const char* p, const char* end) {
  for (++p; p < end; ++p) {
    p = static_cast<const char*>(std::memchr(p, '"', static_cast<std::size_t>(end - p)));
    if (!p) return nullptr;
    if (p + 1 == end || p[1] != '"') return p + 1;
    ++p;
  }
  return nullptr;
}

/// One text, from front to back. It ends in a line end, where every loop over a field stops.
class Parser {
 public:
  Parser(const char* text, std::size_t bytes, const CsvTarget& to)
      : text_(text), at_(text), end_(text + bytes), to_(to), was_rounded_(static_cast<std::size_t>(to.columns)) {}

  ParsedCsv run() {
    while (at_ < end_ && done_.stop == CsvStop::none) {
      lines_ = 1;
      if (!blank()) {
        if (done_.rows == to_.most) {
          done_.stop = CsvStop::room;
          break;
        }
        if (!row()) break;
        ++done_.rows;
      }
      done_.lines += lines_;
      done_.bytes = static_cast<std::size_t>(at_ - text_);
    }
    return std::move(done_);
  }

 private:
  /// Skips a line without content.
  bool blank() {
    const char* p = at_;
    while (*p == ' ' || (*p == '\t' && to_.delimiter != '\t')) ++p;
    if (*p == '\r') ++p;
    if (*p != '\n') return false;
    at_ = p + 1;
    return true;
  }

  bool row() {
    for (Index field = 0; field < to_.fields; ++field) {
      const std::int32_t column = to_.place[field];
      const char* stop = column < 0 ? skip(at_) : read(column, field);
      if (!stop) return false;
      const bool last = field + 1 == to_.fields;
      if (*stop == to_.delimiter && !last) {
        at_ = stop + 1;
        continue;
      }
      if (last && *stop == '\n') {
        at_ = stop + 1;
        return true;
      }
      done_.field = field + 1;
      for (; *stop != '\n'; ++done_.field) {
        stop = skip(stop + 1);
        if (!stop) return false;
      }
      done_.stop = CsvStop::ragged;
      return false;
    }
    return true;
  }

  /// Behind a field: its delimiter or its line end; null: a quote is open.
  const char* skip(const char* p) {
    if (*p == '"') {
      p = closed(p);
      if (!p) return nullptr;
    }
    while (*p != to_.delimiter && *p != '\n') ++p;
    return p;
  }

  /// Behind the quote that closes the one at p.
  const char* closed(const char* p) {
    const char* behind = behind_quote(p, end_);
    if (behind)
      lines_ += std::count(p, behind, '\n');
    else
      done_.stop = CsvStop::quote;
    return behind;
  }

  const char* read(std::int32_t column, Index field) {
    const char* p = at_;
    while (*p == ' ' || (*p == '\t' && to_.delimiter != '\t')) ++p;
    Number number;
    if (*p != to_.delimiter && *p != '"') {
      const char* stop = read_number(p, end_, number);
      if (stop) {
        while (*stop == ' ' || *stop == '\r' || (*stop == '\t' && to_.delimiter != '\t')) ++stop;
        if (*stop == to_.delimiter || *stop == '\n') return put(number, column, field, p, stop) ? stop : nullptr;
      }
    }
    return read_word(column, field);
  }

  /// What is no plain number: quoted, missing, a truth value; else it is wrong.
  const char* read_word(std::int32_t column, Index field) {
    const char* stop = skip(at_);
    if (!stop) return nullptr;
    std::string_view word = trimmed(at_, stop);
    if (word.size() > 1 && word.front() == '"' && word.back() == '"')
      word = trimmed(word.data() + 1, word.data() + word.size() - 1);
    Number number;
    if (is_missing(word)) {
      number.real = std::numeric_limits<double>::quiet_NaN();
      to_.seen[column] |= CsvSeen::missing;
      if (to_.integers) return wrong(CsvStop::not_integer, field, word);
      to_.reals[done_.rows * to_.columns + column] = number.real;
      return stop;
    }
    if (const int value = truth(word); value >= 0) {
      number.integer = value, number.real = value, number.whole = true;
      return put(number, column, field, word.data(), word.data() + word.size()) ? stop : nullptr;
    }
    if (read_number(word.data(), word.data() + word.size(), number) != word.data() + word.size())
      return wrong(CsvStop::text, field, word);
    return put(number, column, field, word.data(), word.data() + word.size()) ? stop : nullptr;
  }

  bool put(const Number& number, std::int32_t column, Index field, const char* at, const char* stop) {
    to_.seen[column] |= number.whole || number.rounded ? CsvSeen::integer : CsvSeen::real;
    const Index where = done_.rows * to_.columns + column;
    if (to_.integers) {
      if (!number.whole) return wrong(CsvStop::not_integer, field, trimmed(at, stop)) != nullptr;
      to_.integers[where] = number.integer;
      return true;
    }
    to_.reals[where] = number.real;
    if (number.rounded && !was_rounded_[static_cast<std::size_t>(column)]) {
      was_rounded_[static_cast<std::size_t>(column)] = true;
      done_.rounded.push_back({column, done_.lines + 1, std::string(trimmed(at, stop))});
    }
    return true;
  }

  const char* wrong(CsvStop why, Index field, std::string_view text) {
    done_.stop = why;
    done_.field = field;
    done_.text = std::string(text.substr(0, most_shown));
    return nullptr;
  }

  const char *text_, *at_, *end_;
  const CsvTarget& to_;
  std::vector<bool> was_rounded_;
  Index lines_ = 1;  // that the record at hand takes
  ParsedCsv done_;
};

}  // namespace

ParsedCsv parse_csv(const char* text, std::size_t bytes, const CsvTarget& to) {
  if (bytes == 0 || text[bytes - 1] != '\n') return {};
  if (const void* zero = std::memchr(text, 0, bytes)) {
    ParsedCsv none;
    none.stop = CsvStop::zero;
    none.lines = std::count(text, static_cast<const char*>(zero), '\n');
    return none;
  }
  return Parser(text, bytes, to).run();
}

std::size_t csv_records(const char* text, std::size_t bytes, char delimiter, Index most, Index* records) {
  const char *at = text, *last = text, *end = text + bytes;
  const auto next = [end](const char* from, char c) {
    const void* found = from < end ? std::memchr(from, c, static_cast<std::size_t>(end - from)) : nullptr;
    return found ? static_cast<const char*>(found) : end;
  };
  const char *quote = next(at, '"'), *stop = next(at, '\n');
  Index count = 0;
  while (count < most) {
    if (quote < stop) {
      const bool opens = quote == text || quote[-1] == delimiter || quote[-1] == '\n';
      at = opens ? behind_quote(quote, end) : quote + 1;
      if (!at) break;
      quote = next(at, '"');
      if (stop < at) stop = next(at, '\n');
      continue;
    }
    if (stop == end) break;
    ++count;
    at = last = stop + 1;
    stop = next(at, '\n');
  }
  if (records) *records = count;
  return static_cast<std::size_t>(last - text);
}

template <class T>
char* format_csv(Index rows, Index columns, const T* values, char delimiter, char* text) {
  for (Index row = 0; row < rows; ++row) {
    for (Index column = 0; column < columns; ++column) {
      const T value = *values++;
      if constexpr (std::is_same_v<T, bool>) {
        const std::string_view word = value ? "True" : "False";
        text = std::copy(word.begin(), word.end(), text);
      } else {
        char* const begin = text;
        text = std::to_chars(begin, begin + most_csv - 3, value).ptr;
        if constexpr (std::is_floating_point_v<T>)
          if (std::none_of(begin, text, [](char c) { return c == '.' || c == 'e' || c == 'n'; }))
            *text++ = '.', *text++ = '0';
      }
      *text++ = column + 1 < columns ? delimiter : '\n';
    }
  }
  return text;
}

template char* format_csv(Index, Index, const bool*, char, char*);
template char* format_csv(Index, Index, const std::int64_t*, char, char*);
template char* format_csv(Index, Index, const std::uint64_t*, char, char*);
template char* format_csv(Index, Index, const float*, char, char*);
template char* format_csv(Index, Index, const double*, char, char*);

}  // namespace flagstone
