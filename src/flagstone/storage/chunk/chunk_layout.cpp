#include "flagstone/storage/chunk/chunk_layout.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/chunk/chunk_geometry.hpp"
#include "flagstone/storage/chunk/coalesce.hpp"
#include "flagstone/storage/codec/encode.hpp"

namespace flagstone {

ChunkLayout::ChunkLayout(Shape array_shape, Shape chunk_shape, Dtype array_dtype)
    : shape(std::move(array_shape)),
      chunks(std::move(chunk_shape)),
      grid(grid_of(shape, chunks)),
      dtype(array_dtype),
      chunk_bytes(static_cast<std::size_t>(count(chunks)) * size_of(dtype)),
      chunk_strides(c_strides(chunks, size_of(dtype))),
      fill(size_of(dtype)) {}

void ChunkLayout::decode_with(const CodecChain& chain, const std::string& where) {
  const std::size_t n = chunks.size(), item = size_of(dtype);
  if (chain.order.size() == n) {
    Shape stored(n);
    for (std::size_t i = 0; i < n; ++i) stored[i] = chunks[chain.order[i]];
    const Shape strides = c_strides(stored, item);
    for (std::size_t i = 0; i < n; ++i) chunk_strides[chain.order[i]] = strides[i];
  }
  if (chain.raw()) return;
  decode_scratch = decode_scratch_bytes(chain, chunk_bytes);
  decode = [chain, dtype = dtype, bytes = chunk_bytes, where](const EncodedChunk& encoded, std::byte* decoded,
                                                              std::byte* scratch) {
    decode_chunk(chain, dtype, encoded, {decoded, bytes}, scratch, where);
  };
}

void ChunkLayout::pack_with(const CodecChain& chain, const std::string& where) {
  decode_with(chain, where);
  if (chain.raw()) return;
  encode_scratch = encode_scratch_bytes(chain, chunk_bytes);
  encode = [chain, item = size_of(dtype)](std::span<const std::byte> decoded, std::span<std::byte> encoded,
                                          std::byte* scratch) {
    return encode_chunk(chain, decoded, item, encoded, scratch);
  };
}

std::uint64_t ChunkLayout::most_packed() const { return chunk_bytes + chunk_bytes / 16 + 64 * KiB; }

std::uint64_t ChunkLayout::unpack_bytes() const {
  return decode ? align_up(most_packed()) + page_bytes + align_up(chunk_bytes) + decode_scratch : 0;
}

std::uint64_t ChunkLayout::pack_bytes() const {
  return encode ? slot_bytes() + align_up(chunk_bytes) + encode_scratch : 0;
}

std::uint64_t ChunkLayout::slot_bytes() const { return align_up(chunk_bytes + (encode || decode ? page_bytes : 0)); }

bool ChunkLayout::covers_whole_chunks(const Box& box) const {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Index end = box.start[d] + box.shape[d];
    if (box.start[d] % chunks[d] != 0 || (end % chunks[d] != 0 && end != shape[d])) return false;
  }
  return true;
}

std::vector<Shape> ChunkLayout::touched(const Box& box) const {
  std::vector<Shape> all;
  visit_touched(box, [&](const Shape& chunk) { all.push_back(chunk); });
  return all;
}

std::size_t ChunkLayout::touched_count(const Box& box) const {
  if (count(box.shape) == 0) return 0;
  Index all = 1;
  for (std::size_t d = 0; d < box.start.size(); ++d)
    all *= ceil_div(box.start[d] + box.shape[d], chunks[d]) - box.start[d] / chunks[d];
  return static_cast<std::size_t>(all);
}

void ChunkLayout::visit_touched(const Box& box, const std::function<void(const Shape& chunk)>& visit) const {
  if (count(box.shape) == 0) return;
  Shape first = box.start, end = box.start;
  for (std::size_t d = 0; d < first.size(); ++d) {
    first[d] /= chunks[d];
    end[d] = ceil_div(box.start[d] + box.shape[d], chunks[d]);
  }
  Shape at = first;
  do visit(at);
  while (advance(at, first, end));
}

Box ChunkLayout::chunk_box(const Shape& chunk) const {
  Box box{chunk, chunks};
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    box.start[d] *= chunks[d];
    box.shape[d] = std::min(chunks[d], shape[d] - box.start[d]);
  }
  return box;
}

bool ChunkLayout::short_chunks() const { return chunk_bytes < most_joined_bytes; }

std::size_t ChunkLayout::run_bytes(const Shape& box) const {
  const std::size_t item = size_of(dtype);
  if (decode) return chunk_bytes;
  Box part{Shape(box.size(), 0), box};
  for (std::size_t d = 0; d < box.size(); ++d)
    part.shape[d] = std::max<Index>(1, std::min(box[d], std::min(chunks[d], shape[d])));
  return byte_range(part, chunk_strides, item).end;
}

}  // namespace flagstone
