#include "flagstone/kernel/decode/lz4.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef FLAGSTONE_LZ4
#include <lz4.h>
#endif

namespace flagstone::kernel {
namespace {

constexpr std::size_t header_bytes = 16;
// Bits of the header's third byte; the upper three are the codec's number.
constexpr unsigned byte_shuffle = 0x01, stored = 0x02, bit_shuffle = 0x04, delta = 0x08, not_split = 0x10, lz4 = 1;
constexpr std::size_t most_streams = 16, least_stream = 128;  // else c-blosc leaves a block whole

std::size_t number_at(std::span<const std::byte> from, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

/// Elements [first, first + count) of a block whose streams hold `length` bytes each, one stream a byte of the element.
template <std::size_t Bytes>
void interleave(const std::byte* streams, std::size_t length, std::size_t first, std::size_t count, std::byte* to) {
  const std::byte* stream[Bytes];
  for (std::size_t k = 0; k < Bytes; ++k) stream[k] = streams + k * length + first;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < Bytes; ++k) to[i * Bytes + k] = stream[k][i];
}

void interleave(std::size_t type, const std::byte* streams, std::size_t length, std::size_t first, std::size_t count,
                std::byte* to) {
  switch (type) {
    case 2:
      return interleave<2>(streams, length, first, count, to);
    case 4:
      return interleave<4>(streams, length, first, count, to);
    case 8:
      return interleave<8>(streams, length, first, count, to);
    default:
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t k = 0; k < type; ++k) to[i * type + k] = streams[k * length + first + i];
  }
}

}  // namespace

std::optional<Lz4Chunk> Lz4Chunk::of(std::span<const std::byte> encoded) {
#ifdef FLAGSTONE_LZ4
  const auto flags = static_cast<unsigned>(encoded[2]);
  if (flags >> 5 != lz4 || (flags & (stored | bit_shuffle | delta)) != 0) return {};
  Lz4Chunk chunk;
  chunk.encoded_ = encoded;
  chunk.type_ = static_cast<std::size_t>(encoded[3]);
  chunk.content_ = number_at(encoded, 4);
  chunk.block_ = number_at(encoded, 8);
  if (chunk.type_ == 0 || chunk.block_ == 0 || chunk.block_ % chunk.type_ != 0) return {};
  chunk.shuffled_ = (flags & byte_shuffle) != 0 && chunk.type_ > 1;
  chunk.split_ = (flags & not_split) == 0 && chunk.type_ <= most_streams && chunk.block_ / chunk.type_ >= least_stream;
  return chunk;
#else
  static_cast<void>(encoded);
  return {};
#endif
}

bool Lz4Chunk::decode(std::size_t start, std::size_t bytes, std::byte* to, std::byte* workspace) const {
  for (std::size_t at = start; at < start + bytes;) {
    const std::size_t number = at / block_, first = number * block_;
    const std::size_t size = std::min(block_, content_ - first);
    const std::size_t end = std::min(start + bytes, first + size);
    std::byte* target = to + (at - start);
    if (!shuffled_ && at == first && end == first + size) {
      if (!decode_block(number, target)) return false;
    } else {
      if (!decode_block(number, workspace)) return false;
      const std::size_t length = size / type_, whole = length * type_;  // the bytes after `whole` are not shuffled
      const std::size_t mixed_end = shuffled_ ? std::clamp(end - first, at - first, whole) : at - first;
      if (mixed_end > at - first)
        interleave(type_, workspace, length, (at - first) / type_, (mixed_end - (at - first)) / type_, target);
      std::memcpy(target + (mixed_end - (at - first)), workspace + mixed_end, end - first - mixed_end);
    }
    at = end;
  }
  return true;
}

bool Lz4Chunk::decode_block(std::size_t number, std::byte* to) const {
#ifdef FLAGSTONE_LZ4
  const std::size_t size = std::min(block_, content_ - number * block_);
  const std::size_t streams = split_ && size == block_ ? type_ : 1, length = size / streams;
  if (header_bytes + 4 * (number + 1) > encoded_.size()) return false;
  std::size_t at = number_at(encoded_, header_bytes + 4 * number);
  for (std::size_t k = 0; k < streams; ++k, to += length) {
    if (at > encoded_.size() || encoded_.size() - at < 4) return false;
    const std::size_t packed = number_at(encoded_, at);
    at += 4;
    if (packed > encoded_.size() - at || packed > length) return false;
    const auto* from = reinterpret_cast<const char*>(encoded_.data() + at);
    const auto wanted = static_cast<int>(length);
    if (packed == length)
      std::memcpy(to, from, length);
    else if (LZ4_decompress_safe(from, reinterpret_cast<char*>(to), static_cast<int>(packed), wanted) != wanted)
      return false;
    at += packed;
  }
  return true;
#else
  static_cast<void>(number), static_cast<void>(to);
  return false;
#endif
}

}  // namespace flagstone::kernel
