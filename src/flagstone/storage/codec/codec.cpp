#include "flagstone/storage/codec/codec.hpp"

#include <algorithm>
#include <iterator>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {
constexpr std::string_view names[] = {"blosc", "zstd",    "gzip",   "zlib",       "bz2",
                                      "lzf",   "shuffle", "crc32c", "fletcher32", "flagstone.bitpacked"};
}

std::string_view name_of(Codec codec) noexcept { return names[static_cast<std::size_t>(codec)]; }

Codec codec_named(std::string_view name) {
  const auto at = std::find(std::begin(names), std::end(names), name);
  if (at == std::end(names)) throw FormatError("codec '" + std::string(name) + "' is not read here.");
  return static_cast<Codec>(at - std::begin(names));
}

std::vector<std::size_t> transpose_order(std::size_t dimensions, bool column_major) {
  std::vector<std::size_t> order(column_major && dimensions > 1 ? dimensions : 0);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = dimensions - 1 - i;
  return order;
}

}  // namespace flagstone
