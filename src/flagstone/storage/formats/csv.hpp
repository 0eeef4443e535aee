#pragma once
// Lines of separated values (RFC 4180): rows of numbers, and back.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "flagstone/base/dtype.hpp"

namespace flagstone {

/// Where rows of numbers go.
struct CsvTarget {
  char delimiter = ',';
  Index fields = 0;                     // that every line has
  const std::int32_t* place = nullptr;  // of each field: its column in the rows; below 0: it is left out
  Index columns = 0;                    // of the rows
  Index most = 0;                       // rows that have room
  double* reals = nullptr;              // rows x columns; null: all numbers are integers
  std::int64_t* integers = nullptr;     // rows x columns; null: they are reals
  std::uint8_t* seen = nullptr;         // of each column: bits of CsvSeen, which are added
};

/// What was seen in a column.
struct CsvSeen {
  static constexpr std::uint8_t real = 1, missing = 2, integer = 4;
};

/// Why a parser stopped in front of a line.
enum class CsvStop : std::uint8_t { none, room, ragged, text, not_integer, quote, zero };

/// An integer among reals that float64 does not hold: the first of its column.
struct CsvRounded {
  Index column = 0, line = 0;
  std::string text;
};

/// How far it came.
struct ParsedCsv {
  std::size_t bytes = 0;  // consumed: whole lines only
  Index lines = 0, rows = 0;
  CsvStop stop = CsvStop::none;
  Index field = 0;   // which one is wrong; of a ragged line, how many it has
  std::string text;  // what stands there
  std::vector<CsvRounded> rounded;
};

/// Rows of a text of whole records (it ends in a line end). Empty lines are skipped; what is missing (nothing, NA, nan,
/// null, ...) is NaN; True and False are 1 and 0. With integers wanted it stops at the first number that is none.
/// Cost: about 25 ns a number of 17 digits, 5 ns one of four.
ParsedCsv parse_csv(const char* text, std::size_t bytes, const CsvTarget& to);

/// How many bytes the first `most` whole records take, or all whole ones that are there: line ends in quotes end none.
std::size_t csv_records(const char* text, std::size_t bytes, char delimiter, Index most, Index* records = nullptr);

/// Rows of numbers as lines. Shortest text that reads back as the same number; what is no integer has a point, an
/// exponent or is nan or inf.
/// `text` has room for most_csv bytes a value; where it ends.
template <class T>
char* format_csv(Index rows, Index columns, const T* values, char delimiter, char* text);
inline constexpr std::size_t most_csv = 32;  // -2.2250738585072014e-308 and a delimiter are 25

}  // namespace flagstone
