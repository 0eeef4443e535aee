#include "flagstone/storage/codec.hpp"

#include <blosc.h>

#include <algorithm>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/crc32c.hpp"

namespace flagstone {

void swap_bytes(std::byte* data, std::size_t bytes, Dtype dtype) {
  const std::size_t item = size_of(real_part_of(dtype));
  for (std::byte* end = data + bytes; data < end && item > 1; data += item) std::reverse(data, data + item);
}

void decode_chunk(const CodecChain& chain, Dtype dtype, const std::byte* encoded, std::size_t bytes,
                  std::span<std::byte> decoded, const std::string& where) {
  const auto damaged = [&](const std::string& what) {
    return FormatError("read: " + where + ": " + what + "; the chunk is damaged, write or copy it again.");
  };
  if (chain.crc32c) {
    std::uint32_t stored = 0;
    if (bytes < sizeof stored) throw damaged("it is too short for its checksum");
    bytes -= sizeof stored;
    std::memcpy(&stored, encoded + bytes, sizeof stored);
    if (crc32c(encoded, bytes) != stored) throw damaged("its checksum does not match");
  }
  if (chain.blosc) {
    std::size_t unpacked = 0;
    if (bytes < BLOSC_MIN_HEADER_LENGTH || blosc_cbuffer_validate(encoded, bytes, &unpacked) < 0 ||
        unpacked != decoded.size() ||
        blosc_decompress_ctx(encoded, decoded.data(), decoded.size(), 1) != static_cast<int>(decoded.size()))
      throw damaged("blosc cannot unpack its " + std::to_string(bytes) + " bytes to " + std::to_string(decoded.size()));
  } else {
    if (bytes != decoded.size())
      throw damaged("it has " + std::to_string(bytes) + " bytes and needs " + std::to_string(decoded.size()));
    std::memcpy(decoded.data(), encoded, bytes);
  }
  if (chain.big_endian) swap_bytes(decoded.data(), decoded.size(), dtype);
}

std::size_t encode_blosc(std::span<const std::byte> decoded, std::size_t item_bytes, std::span<std::byte> encoded) {
  const int packed = blosc_compress_ctx(5, BLOSC_SHUFFLE, item_bytes, decoded.size(), decoded.data(), encoded.data(),
                                        encoded.size(), "lz4", 0, 1);
  if (packed <= 0) throw Error("blosc: cannot pack " + format_bytes(decoded.size()) + "; use chunks below 2 GiB.");
  return static_cast<std::size_t>(packed);
}

}  // namespace flagstone
