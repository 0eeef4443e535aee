#include "flagstone/base/bytes.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "flagstone/base/error.hpp"

namespace flagstone {

std::string format_bytes(std::uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1023.95 && unit < 5; ++unit) value /= 1024;
  char text[32];
  const bool round = std::fabs(value - std::round(value)) < 0.05;
  std::snprintf(text, sizeof text, round ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

namespace {

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// What a unit stands for, in any case; 0: it is none.
double bytes_of(std::string_view unit) {
  if (unit.empty() || unit == "b" || unit == "B") return 1;
  const std::size_t power = std::string_view("kmgtp").find(static_cast<char>(std::tolower(unit[0])));
  if (power == std::string_view::npos) return 0;
  std::string rest(unit.substr(1));
  std::transform(rest.begin(), rest.end(), rest.begin(), [](unsigned char c) { return std::tolower(c); });
  const double base = rest == "b" ? 1000 : rest.empty() || rest == "ib" ? 1024 : 0;
  return std::pow(base, static_cast<double>(power + 1));
}

}  // namespace

/// Without the program's locale: where that writes 1,5 a size is still 1.5GiB.
std::uint64_t parse_bytes(std::string_view text) {
  const std::string_view given = without_blanks(text);
  double value = -1;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  const double unit = bytes_of(without_blanks(given.substr(static_cast<std::size_t>(end - given.data()))));
  if (error != std::errc() || unit == 0 || !(value >= 0) || value * unit > 9e18)
    throw Error("memory: '" + std::string(text) + "' is not a size; write for example 4GiB, 512MiB or 300MB.");
  return static_cast<std::uint64_t>(value * unit);
}

}  // namespace flagstone
