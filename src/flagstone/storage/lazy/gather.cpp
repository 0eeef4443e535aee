#include "flagstone/storage/lazy/gather.hpp"

#include <algorithm>
#include <utility>

#include "flagstone/base/bytes.hpp"

namespace flagstone {

Gather::Gather() : parts_(std::make_shared<std::vector<Part>>()) {}

void Gather::add(const Array& array, const Box& box) {
  Part& part = parts_->emplace_back();
  part.array = array;
  if (array.in_memory()) {
    part.tile = subtile({array.store().memory(), array.dtype(), array.shape(), array.store().memory_strides(), 0}, box);
    return;
  }
  part.transfer = array.store().read(box);
  Transfer& transfer = part.transfer;
  part.tile = {nullptr, array.dtype(), box.shape, transfer.strides, transfer.tile_bytes};
  part.buffer = staged_;
  staged_ += align_up(transfer.buffer_bytes);
  part.staging = staged_;
  staged_ += align_up(transfer.staging_bytes - transfer.work_bytes);
  const std::size_t base = transfer.staging_bytes > 0 ? part.staging : part.buffer;
  for (Segment& segment : std::exchange(transfer.segments, {})) {
    segment.at += base;
    segments_.push_back(std::move(segment));
  }
  work_ = std::max(work_, align_up(transfer.work_bytes));
  flops_ += transfer.flops, listed_ += transfer.list_bytes;
}

Transfer Gather::finish(Transfer geometry, std::size_t work_bytes, Compute compute) && {
  Transfer transfer = std::move(geometry);
  transfer.segments = std::move(segments_);
  transfer.work_bytes = align_up(work_bytes) + work_;
  transfer.staging_bytes = staged_ + transfer.work_bytes;
  transfer.flops += flops_, transfer.list_bytes = listed_;
  transfer.convert = [parts = std::shared_ptr<const std::vector<Part>>(std::move(parts_)), own = align_up(work_bytes),
                      compute = std::move(compute)](std::byte* buffer, std::byte* staging, std::byte* work) {
    std::vector<Tile> tiles;
    tiles.reserve(parts->size());
    for (const Part& part : *parts) {
      Tile& tile = tiles.emplace_back(part.tile);
      if (tile.data) continue;
      if (part.transfer.convert) part.transfer.convert(staging + part.buffer, staging + part.staging, work + own);
      tile.data = staging + part.buffer + part.transfer.origin;
    }
    compute(tiles, buffer, work);
  };
  return transfer;
}

Transfer dense_geometry(const Shape& box, std::size_t item, bool column_major) {
  Transfer transfer;
  transfer.tile_bytes = static_cast<std::size_t>(count(box)) * item;
  transfer.buffer_bytes = align_up(std::max<std::size_t>(transfer.tile_bytes, 1));
  Shape extents = box;
  if (column_major) std::reverse(extents.begin(), extents.end());
  transfer.strides = c_strides(extents, item);
  if (column_major) std::reverse(transfer.strides.begin(), transfer.strides.end());
  return transfer;
}

}  // namespace flagstone
