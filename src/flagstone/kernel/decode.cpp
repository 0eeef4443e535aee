#include "flagstone/kernel/decode.hpp"

#include <blosc.h>

#include <climits>
#include <cstring>
#include <memory>
#include <new>

namespace flagstone::kernel {

const char* decode_blosc(const std::byte* encoded, std::size_t encoded_bytes, std::size_t item_bytes,
                         Index chunk_elements, Index first, Index count, std::byte* to) {
  if (count == 0) return nullptr;
  const std::size_t bytes = static_cast<std::size_t>(count) * item_bytes;
  const std::size_t start = static_cast<std::size_t>(first) * item_bytes;
  if (encoded_bytes == 0) {
    std::memset(to, 0, bytes);
    return nullptr;
  }
  std::size_t decoded_bytes = 0, packed = 0, block = 0, type = 0;
  if (encoded_bytes < BLOSC_MIN_HEADER_LENGTH) return "is shorter than a blosc header";
  blosc_cbuffer_sizes(encoded, &decoded_bytes, &packed, &block);
  int flags = 0;
  blosc_cbuffer_metainfo(encoded, &type, &flags);
  if (packed > encoded_bytes) return "is cut short";
  if (decoded_bytes != static_cast<std::size_t>(chunk_elements) * item_bytes) return "decodes to another length";
  if (blosc_cbuffer_validate(encoded, encoded_bytes, &decoded_bytes) < 0 || type == 0)
    return "has a damaged blosc header";
  if (first < 0 || start + bytes > decoded_bytes) return "is shorter than the range that is asked of it";
  if (bytes == decoded_bytes)
    return blosc_decompress_ctx(encoded, to, bytes, 1) == static_cast<int>(bytes) ? nullptr : "does not decode";
  if (start % type == 0 && bytes % type == 0)
    return blosc_getitem(encoded, static_cast<int>(start / type), static_cast<int>(bytes / type), to) ==
                   static_cast<int>(bytes)
               ? nullptr
               : "does not decode";
  // Packed as items of another width than the array's: rare, so the whole chunk is decoded aside.
  const std::unique_ptr<std::byte[]> aside(new (std::nothrow) std::byte[decoded_bytes]);
  if (!aside) return "is too large to be decoded in one piece";
  if (blosc_decompress_ctx(encoded, aside.get(), decoded_bytes, 1) != static_cast<int>(decoded_bytes))
    return "does not decode";
  std::memcpy(to, aside.get() + start, bytes);
  return nullptr;
}

}  // namespace flagstone::kernel
