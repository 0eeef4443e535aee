#include "flagstone/storage/chunk/zero_copy.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/file/crc32c.hpp"

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

/// What happens to a chunk while it arrives: it is summed, and its rows go to their places where it came through
/// staging.
class Arrival {
 public:
  Arrival(const Run& run, std::byte* rows, bool staged, std::optional<std::uint32_t> expected)
      : run_(run), rows_(rows), staged_(staged), expected_(expected) {}

  /// `data`: where the requests go; the first `arrived` bytes of the chunk are there.
  void reach(const std::byte* data, std::size_t arrived) {
    while (done_ < arrived) staged_ ? spread(data, arrived) : sum(data, arrived);
  }
  bool right(const std::byte* data) {
    reach(data, run_.bytes());
    return !expected_ || crc_ == *expected_;
  }
  std::uint32_t expected() const { return *expected_; }

 private:
  static constexpr std::size_t cached = 32 * KiB;  // read twice, the second time from the nearest cache

  void sum(const std::byte* data, std::size_t arrived) {
    const std::size_t row = done_ / run_.row_bytes, column = done_ % run_.row_bytes;
    const std::size_t bytes = std::min(run_.row_bytes - column, arrived - done_);
    if (expected_) crc_ = crc32c(data + row * run_.pitch + column, bytes, crc_);
    done_ += bytes;
  }
  void spread(const std::byte* data, std::size_t arrived) {
    const std::size_t end = std::min(arrived, done_ + cached);
    if (expected_) crc_ = crc32c(data + done_, end - done_, crc_);
    while (done_ < end) {
      const std::size_t row = done_ / run_.row_bytes, column = done_ % run_.row_bytes;
      const std::size_t bytes = std::min(run_.row_bytes - column, end - done_);
      std::memcpy(rows_ + row * run_.pitch + column, data + done_, bytes);
      done_ += bytes;
    }
  }

  const Run run_;
  std::byte* const rows_;
  const bool staged_;
  const std::optional<std::uint32_t> expected_;
  std::size_t done_ = 0;
  std::uint32_t crc_ = 0;
};

/// A row that the disk puts into its place takes an entry of the device's queue (256 in all behind virtio): short rows
/// keep so little under way that copying them is faster, in the time in which the disk works on what follows.
constexpr std::size_t least_scattered = 32 * KiB;
/// Shorter ones take longer to copy row by row than by `copy`.
constexpr std::size_t least_copied = 512;
/// Longer chunks would take the memory of all that are under way.
constexpr std::size_t most_staged = 4 * MiB;

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
  const auto at_blocks = [&](std::size_t places) { return places % block == 0; };
  if (!at_blocks(stored.offset | run->begin | run->bytes())) return std::nullopt;
  const bool all = run->bytes() == layout.chunk_bytes;
  if (layout.verify && !all && stored.crc) return std::nullopt;
  if (!all && box == whole && stored.crc) return std::nullopt;

  const bool straight = at_blocks(reinterpret_cast<std::uintptr_t>(to.data)) &&
                        (run->rows == 1 || at_blocks(run->row_bytes | run->pitch));
  const bool can_be_staged = run->row_bytes >= least_copied && run->bytes() <= most_staged;
  const bool staged = can_be_staged && (!straight || (run->rows > 1 && run->row_bytes < least_scattered));
  if (!straight && !staged) return std::nullopt;

  Segment segment{.file = stored.file, .offset = stored.offset + run->begin, .row_bytes = run->bytes()};
  if (staged)
    transfer.staging_bytes = align_up(run->bytes());
  else
    segment.row_bytes = run->row_bytes, segment.rows = run->rows, segment.pitch = run->pitch;
  transfer.segments.push_back(std::move(segment));
  const auto expected = all ? stored.crc : std::nullopt;
  if (!staged && !expected) return transfer;
  const auto arrival = std::make_shared<Arrival>(*run, to.data, staged, expected);
  transfer.arriving = [arrival](std::byte* data, std::size_t arrived) { arrival->reach(data, arrived); };
  transfer.convert = [arrival, chunk, staged, mismatch = layout.mismatch](std::byte* data, std::byte* staging,
                                                                          std::byte*) {
    if (!arrival->right(staged ? staging : data)) mismatch(chunk, arrival->expected());
  };
  return transfer;
}

}  // namespace flagstone
