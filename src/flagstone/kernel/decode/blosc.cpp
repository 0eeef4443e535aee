#include "flagstone/kernel/decode/blosc.hpp"

#include <blosc.h>

#include <cstring>
#include <memory>
#include <new>

#include "flagstone/kernel/decode/lz4.hpp"

namespace flagstone::kernel {
namespace {

/// Null, or what is wrong with the header of a chunk that should hold `content` bytes.
const char* check(std::span<const std::byte> encoded, std::size_t content) {
  if (encoded.size() < BLOSC_MIN_HEADER_LENGTH) return "is shorter than a blosc header";
  std::size_t decoded = 0, packed = 0, block = 0, type = 0;
  blosc_cbuffer_sizes(encoded.data(), &decoded, &packed, &block);
  int flags = 0;
  blosc_cbuffer_metainfo(encoded.data(), &type, &flags);
  if (packed > encoded.size()) return "is cut short";
  if (decoded != content) return "decodes to another length";
  if (blosc_cbuffer_validate(encoded.data(), encoded.size(), &decoded) < 0 || type == 0)
    return "has a damaged blosc header";
  return nullptr;
}

/// Any chunk, by libblosc.
const char* decode_any(std::span<const std::byte> encoded, std::size_t content, std::size_t start, std::size_t bytes,
                       std::byte* to) {
  constexpr const char* damaged = "does not decode";
  const auto wanted = static_cast<int>(bytes);
  if (bytes == content) return blosc_decompress_ctx(encoded.data(), to, bytes, 1) == wanted ? nullptr : damaged;
  const auto type = static_cast<std::size_t>(encoded[3]);
  if (start % type == 0 && bytes % type == 0) {
    const auto first = static_cast<int>(start / type), count = static_cast<int>(bytes / type);
    return blosc_getitem(encoded.data(), first, count, to) == wanted ? nullptr : damaged;
  }
  // Packed as items of another width than the array's: rare, so the whole chunk is decoded aside.
  const std::unique_ptr<std::byte[]> aside(new (std::nothrow) std::byte[content]);
  if (!aside) return "is too large to be decoded in one piece";
  if (blosc_decompress_ctx(encoded.data(), aside.get(), content, 1) != static_cast<int>(content)) return damaged;
  std::memcpy(to, aside.get() + start, bytes);
  return nullptr;
}

}  // namespace

const char* decode_blosc(std::span<const std::byte> encoded, std::size_t item_bytes, Index chunk_elements, Index first,
                         Index count, std::byte* to, std::span<std::byte> workspace) {
  if (count == 0) return nullptr;
  const std::size_t content = static_cast<std::size_t>(chunk_elements) * item_bytes;
  const std::size_t start = static_cast<std::size_t>(first) * item_bytes;
  const std::size_t bytes = static_cast<std::size_t>(count) * item_bytes;
  if (encoded.empty()) {
    std::memset(to, 0, bytes);
    return nullptr;
  }
  if (const char* wrong = check(encoded, content)) return wrong;
  if (first < 0 || start + bytes > content) return "is shorter than the range that is asked of it";
  const auto chunk = Lz4Chunk::of(encoded);
  if (!chunk || chunk->block_bytes() > workspace.size() || start % chunk->type_bytes() != 0 ||
      bytes % chunk->type_bytes() != 0)
    return decode_any(encoded, content, start, bytes, to);
  return chunk->decode(start, bytes, to, workspace.data()) ? nullptr : "does not decode";
}

}  // namespace flagstone::kernel
