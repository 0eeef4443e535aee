#include "flagstone/storage/straight.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/crc32c.hpp"

namespace flagstone {
namespace {

/// A contiguous range of a chunk, and the rows of memory that it fills one after the other.
struct Run {
  std::size_t begin = 0;  // bytes of the chunk before it
  std::size_t row_bytes = 0, rows = 1, pitch = 0;
  std::size_t bytes() const { return row_bytes * rows; }
};

std::optional<Run> run_of(const ChunkLayout& layout, const Box& in_chunk, const Tile& to) {
  const std::size_t item = size_of(layout.dtype);
  std::vector<std::size_t> order(in_chunk.shape.size());  // fastest in storage first
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return layout.chunk_strides[a] < layout.chunk_strides[b]; });
  Run run{0, item, 1, 0};
  for (std::size_t d : order) {
    run.begin += static_cast<std::size_t>(in_chunk.start[d] * layout.chunk_strides[d]);
    const auto extent = static_cast<std::size_t>(in_chunk.shape[d]);
    if (extent == 1) continue;
    if (static_cast<std::size_t>(layout.chunk_strides[d]) != run.bytes() || to.strides[d] <= 0) return std::nullopt;
    const auto stride = static_cast<std::size_t>(to.strides[d]);
    if (run.rows == 1 && stride == run.row_bytes)
      run.row_bytes *= extent;
    else if (run.rows == 1 && stride > run.row_bytes)
      run.rows = extent, run.pitch = stride;
    else if (run.rows > 1 && stride == run.pitch * run.rows)
      run.rows *= extent;
    else
      return std::nullopt;
  }
  return run;
}

/// Sums a chunk while its rows arrive.
class Sum {
 public:
  Sum(const Run& run, std::uint32_t expected) : run_(run), expected_(expected) {}

  void reach(const std::byte* data, std::size_t arrived) {
    while (summed_ < arrived) {
      const std::size_t row = summed_ / run_.row_bytes, column = summed_ % run_.row_bytes;
      const std::size_t bytes = std::min(run_.row_bytes - column, arrived - summed_);
      crc_ = crc32c(data + row * run_.pitch + column, bytes, crc_);
      summed_ += bytes;
    }
  }
  bool right(const std::byte* data) {
    reach(data, run_.bytes());
    return crc_ == expected_;
  }
  std::uint32_t expected() const { return expected_; }

 private:
  const Run run_;
  const std::uint32_t expected_;
  std::size_t summed_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace

std::optional<Transfer> read_straight(const ChunkLayout& layout, const Box& box, const Tile& to,
                                      const ChunkLayout::Locate& locate) {
  if (layout.decode || count(box.shape) == 0) return std::nullopt;
  Shape chunk = box.start;
  for (std::size_t d = 0; d < chunk.size(); ++d) chunk[d] /= layout.chunks[d];
  const Box whole = layout.chunk_box(chunk);
  if (intersect(box, whole) != box) return std::nullopt;
  Box in_chunk = box;
  for (std::size_t d = 0; d < chunk.size(); ++d) in_chunk.start[d] -= whole.start[d];
  const auto run = run_of(layout, in_chunk, to);
  if (!run) return std::nullopt;

  Transfer transfer;
  transfer.strides = to.strides;
  transfer.tile_bytes = run->bytes();
  const StoredChunk stored = locate(chunk);
  if (stored.bytes == 0) {
    transfer.convert = [fill = layout.fill, to](std::byte*, std::byte*, std::byte*) {
      flagstone::fill(to, fill.data());
    };
    return transfer;
  }
  const std::size_t block = stored.file ? stored.file->direct_block() : page_bytes;
  const bool aligned =
      (stored.offset | run->begin | run->bytes() | reinterpret_cast<std::uintptr_t>(to.data)) % block == 0;
  if (!aligned || (run->rows > 1 && (run->row_bytes | run->pitch) % block != 0)) return std::nullopt;
  const bool all = run->bytes() == layout.chunk_bytes;
  if (layout.verify && !all && stored.crc) return std::nullopt;
  if (!all && box == whole && stored.crc) return std::nullopt;

  transfer.segments.push_back({.file = stored.file,
                               .offset = stored.offset + run->begin,
                               .row_bytes = run->row_bytes,
                               .rows = run->rows,
                               .pitch = run->pitch});
  if (!all || !stored.crc) return transfer;
  const auto sum = std::make_shared<Sum>(*run, *stored.crc);
  transfer.arriving = [sum](std::byte* data, std::size_t arrived) { sum->reach(data, arrived); };
  transfer.convert = [sum, chunk, mismatch = layout.mismatch](std::byte* data, std::byte*, std::byte*) {
    if (!sum->right(data)) mismatch(chunk, sum->expected());
  };
  return transfer;
}

}  // namespace flagstone
