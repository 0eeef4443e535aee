#include "flagstone/base/bytes.hpp"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

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

std::uint64_t parse_bytes(std::string_view text) {
  const std::string given(text);
  char* end = nullptr;
  const double value = std::strtod(given.c_str(), &end);
  std::string unit;
  for (; *end; ++end)
    if (!std::isspace(static_cast<unsigned char>(*end)))
      unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*end)));
  double scale = 0;
  if (unit.empty() || unit == "b") scale = 1;
  const std::string letters = "kmgtp";
  if (const auto power = unit.empty() ? std::string::npos : letters.find(unit[0]); power != std::string::npos) {
    const std::string rest = unit.substr(1);
    if (rest.empty() || rest == "ib") scale = std::pow(1024.0, static_cast<double>(power + 1));
    if (rest == "b") scale = std::pow(1000.0, static_cast<double>(power + 1));
  }
  if (scale == 0 || !(value > 0) || end == given.c_str() || value * scale > 9e18)
    throw Error("memory: '" + given + "' is not a size; write for example 4GiB, 512MiB or 300MB.");
  return static_cast<std::uint64_t>(value * scale);
}

}  // namespace flagstone
