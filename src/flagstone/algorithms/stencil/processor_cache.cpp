#include "flagstone/algorithms/stencil/processor_cache.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <sstream>
#include <string>

#include "flagstone/base/bytes.hpp"

namespace flagstone::stencil {
namespace {

std::string word(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string text;
  stream >> text;
  return text;
}

/// "2048K", "32M".
std::uint64_t size_in(const std::string& text) {
  std::istringstream stream(text);
  std::uint64_t number = 0;
  char unit = 0;
  stream >> number >> unit;
  return number * (unit == 'K' ? KiB : unit == 'M' ? MiB : 1);
}

/// How many processors a mask like "ff,00000003" names.
int processors_in(const std::string& mask) {
  int bits = 0;
  for (const char digit : mask) {
    const int value = digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : 0;
    bits += std::popcount(static_cast<unsigned>(value));
  }
  return std::max(1, bits);
}

}  // namespace

std::uint64_t worker_cache(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (int i = 0; i < 8; ++i) {
    const auto cache = folder / ("index" + std::to_string(i));
    const std::string level = word(cache / "level");
    if ((level != "2" && level != "3") || word(cache / "type") == "Instruction") continue;
    bytes += size_in(word(cache / "size")) / static_cast<std::uint64_t>(processors_in(word(cache / "shared_cpu_map")));
  }
  return bytes;
}

std::uint64_t worker_cache() {
  static const std::uint64_t found = worker_cache("/sys/devices/system/cpu/cpu0/cache");
  return found == 0 ? 4 * MiB : std::clamp<std::uint64_t>(found, 1 * MiB, 6 * MiB);
}

}  // namespace flagstone::stencil
