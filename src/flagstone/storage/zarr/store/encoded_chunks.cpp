#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/zarr/store/encoded_chunks.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {
namespace {

/// The chunks of another store as they are stored: box {i} is chunk i.
class EncodedStore final : public ArrayStore {
 public:
  explicit EncodedStore(const Array& array) : array_(array), store_(*zarr_store(array)) {}

  Transfer read(const Box& box) const override {
    const Shape chunks{count(store_.layout().grid)};
    check_box(chunks, box);
    if (box.shape[0] != 1)
      throw ShapeError("encoded_chunks: a box of " + std::to_string(box.shape[0]) + " chunks; ask for one at a time.");
    const StoredChunk stored = store_.locate(coordinates(box.start[0]));
    Transfer transfer;
    transfer.strides = {1};
    transfer.tile_bytes = stored.bytes;
    transfer.buffer_bytes = page_bytes;
    if (stored.bytes == 0) return transfer;
    Segment segment;
    segment.file = stored.file;
    const std::uint64_t before = stored.offset % page_bytes;
    if (before % 16 == 0) {  // kernels look at raw values where they lie
      segment.offset = stored.offset - before;
      segment.row_bytes = align_up(before + stored.bytes);
      const std::uint64_t there = before + stored.available;
      segment.slack = segment.row_bytes > there ? segment.row_bytes - there : 0;
      transfer.origin = before;
    } else {
      segment.offset = stored.offset;
      segment.row_bytes = stored.bytes;
      segment.direct = false;
    }
    transfer.buffer_bytes = align_up(segment.row_bytes);
    if (stored.crc)
      transfer.convert = [this, chunk = coordinates(box.start[0]), crc = *stored.crc, bytes = stored.bytes,
                          at = transfer.origin](std::byte* buffer, std::byte*, std::byte*) {
        if (crc32c(buffer + at, bytes) != crc) store_.layout().mismatch(chunk, crc);
      };
    transfer.segments.push_back(std::move(segment));
    return transfer;
  }
  Transfer write(const Box&) override {
    throw ShapeError("encoded_chunks: stored chunks are for reading; write through the array itself.");
  }
  std::size_t run_bytes(const Shape&) const override { return store_.layout().chunk_bytes; }

 private:
  Shape coordinates(Index chunk) const {
    const Shape& grid = store_.layout().grid;
    Shape at(grid.size());
    for (std::size_t d = grid.size(); d-- > 0; chunk /= grid[d]) at[d] = chunk % grid[d];
    return at;
  }
  Array array_;  // keeps the store
  ZarrStore& store_;
};

}  // namespace

Array encoded_chunks(const Array& zarr_array) {
  const ZarrStore* store = zarr_store(zarr_array);
  if (!store) throw FormatError("encoded_chunks: " + zarr_array.path() + " is no Zarr array; there are no chunks.");
  return Array({count(store->layout().grid)}, Dtype::uint8, {1}, std::make_shared<EncodedStore>(zarr_array),
               zarr_array.path());
}

std::vector<std::byte> element_of_absent_chunks(const Array& zarr_array) {
  const ZarrStore* store = zarr_store(zarr_array);
  return store ? store->metadata().fill : std::vector<std::byte>(size_of(zarr_array.dtype()));
}

bool is_bitpacked(const Array& array) {
  const ZarrStore* store = zarr_store(array);
  return store && !store->metadata().codec.steps.empty() && store->metadata().codec.steps[0].codec == Codec::bitpacked;
}

ChunkCoding chunk_coding(const Array& zarr_array) {
  const ZarrStore* store = zarr_store(zarr_array);
  if (!store) return ChunkCoding::other;
  const CodecChain& chain = store->metadata().codec;
  if (chain.blosc_alone()) return ChunkCoding::blosc;
  return chain.raw() && chain.order.empty() ? ChunkCoding::raw : ChunkCoding::other;
}

}  // namespace flagstone
