#include "flagstone/storage/formats/flat.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array/file_extent.hpp"
#include "flagstone/storage/chunk/chunk_layout.hpp"
#include "flagstone/storage/codec/decode.hpp"

namespace flagstone {
namespace {

/// Extents with their padding, slowest dimension first.
Shape padded_shape(const RawLayout& layout) {
  Shape padded = layout.shape;
  if (layout.column_major) std::reverse(padded.begin(), padded.end());
  if (layout.leading > 0) padded.back() = layout.leading;
  return padded;
}

[[noreturn]] void refuse(const RawLayout& layout, const std::string& what) {
  throw ShapeError("open_raw: shape " + to_string(layout.shape) + " with offset " + std::to_string(layout.offset) +
                   what);
}

void check(const RawLayout& layout) {
  for (Index extent : layout.shape)
    if (extent < 0) refuse(layout, "; extents must not be negative.");
  if (layout.leading == 0) return;
  if (layout.shape.size() < 2)
    refuse(layout,
           " and leading " + std::to_string(layout.leading) + "; one row needs no leading dimension, leave it out.");
  const Index least = layout.column_major ? layout.shape.front() : layout.shape.back();
  if (layout.leading < least)
    refuse(layout, " and leading " + std::to_string(layout.leading) + "; a " +
                       (layout.column_major ? "column" : "row") + " holds " + std::to_string(least) +
                       " elements, so leading must be at least that.");
}

/// What direct transfers of this file must be aligned to: the device's blocks (512) where that is allowed. Rows of a
/// flat file start anywhere, and every page around them is read twice.
std::uint64_t direct_granule(const File& file) {
  if (!file.has_direct()) return 512;
  const Buffer probe(page_bytes);
  const ssize_t got = ::pread(file.direct(), probe.data() + 512, 512, 512);
  return got < 0 && errno == EINVAL ? page_bytes : 512;
}

/// How the elements of a box lie in the tile's buffer.
enum class Placing {
  span,     // all bytes from its first to its last element, as in the file
  rows,     // every contiguous run with the blocks around it, one after the other
  staging,  // copied together
};

struct Plan {
  Placing placing = Placing::span;
  Box box;                          // stored order: slowest dimension first
  std::size_t split = 0;            // dimensions [0, split) enumerate runs, the others are one run
  std::uint64_t first = 0;          // file offset of the first element
  std::uint64_t run = 0;            // bytes of one run
  std::uint64_t span = 0;           // from the first to the last element
  std::uint64_t before = 0;         // rows: bytes from a slot's start to its run
  std::uint64_t pitch = 0;          // rows, staging: from one run to the next
  std::vector<std::uint64_t> runs;  // offsets of runs, from `first`
};

class RawStore final : public ArrayStore, public Located {
 public:
  RawStore(std::shared_ptr<File> file, RawLayout layout, bool writable)
      : file_(std::move(file)), layout_(std::move(layout)), writable_(writable), granule_(direct_granule(*file_)) {
    padded_ = padded_shape(layout_);
    stored_strides_ = c_strides(padded_, item());
    file_bytes_ = file_->size();
    place_ = file_place(file_->buffered());
    if (!place_) return;
    place_->offset = layout_.offset;
    place_->leading = layout_.leading;
    place_->column_major = layout_.column_major;
    place_->big_endian = layout_.big_endian;
  }

  Transfer read(const Box& box) const override;
  Transfer write(const Box& box) override;
  std::size_t write_staging(const Box& box) override;
  void flush() override { file_->sync(); }
  std::optional<FilePlace> located() const override { return place_; }
  std::size_t run_bytes(const Shape& box) const override {
    return plan({Shape(box.size(), 0), intersect({Shape(box.size(), 0), box}, whole(layout_.shape)).shape}).run;
  }

 private:
  std::size_t item() const { return size_of(layout_.dtype); }
  Shape in_stored_order(Shape shape) const {
    if (layout_.column_major) std::reverse(shape.begin(), shape.end());
    return shape;
  }
  Plan plan(const Box& box) const;
  void choose(Plan& plan) const;
  Transfer geometry(const Plan& plan) const;
  std::size_t swap_staging(const Plan& plan) const;
  void swap_on_the_way(Transfer& transfer, const Plan& plan, std::size_t tile_at, std::size_t tile_pitch) const;
  void add_read(Transfer& transfer, std::uint64_t begin, std::uint64_t end, std::size_t at) const;
  void add_write(Transfer& transfer, std::uint64_t begin, std::uint64_t end, std::size_t at) const;

  std::shared_ptr<File> file_;
  RawLayout layout_;
  bool writable_;
  std::uint64_t granule_ = 512, file_bytes_ = 0;
  Shape padded_, stored_strides_;  // slowest dimension first
  std::optional<FilePlace> place_;
};

/// Splits a box into contiguous runs. Cost: one entry a run.
Plan RawStore::plan(const Box& box) const {
  Plan plan;
  plan.box = {in_stored_order(box.start), in_stored_order(box.shape)};
  const ByteRuns runs = byte_runs(padded_, layout_.offset, item(), plan.box);
  plan.first = runs.first;
  plan.run = runs.run;
  plan.split = runs.extents.size();
  if (count(box.shape) > 0) plan.span = runs.end() - runs.first;
  return plan;
}

void RawStore::choose(Plan& plan) const {
  Shape at(plan.split, 0);
  do {  // offsets of all runs, C order
    std::uint64_t offset = 0;
    for (std::size_t d = 0; d < plan.split; ++d) offset += static_cast<std::uint64_t>(at[d] * stored_strides_[d]);
    plan.runs.push_back(offset);
  } while (advance(at, plan.box.shape));
  const std::uint64_t n = plan.runs.size(), content = n * plan.run;
  const bool same =
      std::all_of(plan.runs.begin(), plan.runs.end(), [&](std::uint64_t offset) { return offset % granule_ == 0; });
  const std::uint64_t before = plan.first % granule_;
  const std::uint64_t slot = same ? align_up(before + plan.run, granule_) : align_up(plan.run, granule_) + granule_;
  const bool span_pays = plan.span <= n * slot + n * slot / 4;
  // BLAS cannot work on elements that are not naturally aligned.
  const bool in_place = plan.first % size_of(real_part_of(layout_.dtype)) == 0;
  if (in_place && (n == 1 || (span_pays && plan.span <= 2 * content))) {
    plan.placing = Placing::span;
  } else if (in_place && same && !span_pays) {
    plan.placing = Placing::rows;
    plan.before = before;
    plan.pitch = slot;
  } else {
    plan.placing = Placing::staging;
    plan.pitch = plan.run;
  }
}

Transfer RawStore::geometry(const Plan& plan) const {
  const std::size_t content = static_cast<std::size_t>(count(plan.box.shape)) * item();
  Transfer transfer;
  transfer.tile_bytes = content;
  Shape strides = c_strides(plan.box.shape, item());
  transfer.buffer_bytes = align_up(std::max<std::size_t>(content, 1));
  if (content > 0 && plan.placing == Placing::span) {
    strides = stored_strides_;
    transfer.origin = plan.first % page_bytes;
    transfer.buffer_bytes = align_up(transfer.origin + plan.span);
  } else if (content > 0 && plan.placing == Placing::rows) {
    Index step = static_cast<Index>(plan.pitch);
    for (std::size_t d = plan.split; d-- > 0; step *= plan.box.shape[d]) strides[d] = step;
    transfer.origin = plan.before;
    transfer.buffer_bytes = align_up(plan.pitch * plan.runs.size());
  }
  transfer.strides = in_stored_order(strides);
  return transfer;
}

/// A direct request for [begin, end) and the blocks around it; `at`: where `begin` goes (aligned alike).
void RawStore::add_read(Transfer& transfer, std::uint64_t begin, std::uint64_t end, std::size_t at) const {
  Segment segment;
  segment.file = file_;
  segment.offset = align_down(begin, granule_);
  segment.at = at - (begin - segment.offset);
  segment.row_bytes = align_up(end, granule_) - segment.offset;
  const std::uint64_t stop = segment.offset + segment.row_bytes;
  segment.slack = stop > file_bytes_ ? stop - file_bytes_ : 0;
  transfer.segments.push_back(std::move(segment));
}

Transfer RawStore::read(const Box& box) const {
  check_box(layout_.shape, box);
  Plan p = plan(box);
  if (count(box.shape) == 0) return geometry(p);
  choose(p);
  Transfer transfer = geometry(p);
  const bool swap = layout_.big_endian;
  if (p.placing == Placing::span) {
    add_read(transfer, p.first, p.first + p.span, transfer.origin);
    if (swap)
      transfer.convert = [at = transfer.origin, bytes = p.span, dtype = layout_.dtype](
                             std::byte* buffer, std::byte*, std::byte*) { swap_bytes(buffer + at, bytes, dtype); };
    return transfer;
  }
  if (p.placing == Placing::rows) {
    for (std::size_t i = 0; i < p.runs.size(); ++i)
      add_read(transfer, p.first + p.runs[i], p.first + p.runs[i] + p.run, p.before + i * p.pitch);
    if (swap)
      transfer.convert = [p, dtype = layout_.dtype](std::byte* buffer, std::byte*, std::byte*) {
        for (std::size_t i = 0; i < p.runs.size(); ++i) swap_bytes(buffer + p.before + i * p.pitch, p.run, dtype);
      };
    return transfer;
  }
  std::vector<std::size_t> at;  // of every run in the staging buffer
  const std::uint64_t slot = align_up(p.run, granule_) + granule_;
  if (p.span <= p.runs.size() * slot + p.runs.size() * slot / 4) {
    const std::uint64_t before = p.first % granule_;
    add_read(transfer, p.first, p.first + p.span, before);
    for (std::uint64_t offset : p.runs) at.push_back(before + offset);
    transfer.staging_bytes = align_up(before + p.span + granule_);
  } else {
    for (std::size_t i = 0; i < p.runs.size(); ++i) {
      const std::uint64_t begin = p.first + p.runs[i];
      at.push_back(i * slot + begin % granule_);
      add_read(transfer, begin, begin + p.run, at.back());
    }
    transfer.staging_bytes = align_up(p.runs.size() * slot);
  }
  transfer.convert = [at = std::move(at), run = p.run, swap, dtype = layout_.dtype](std::byte* buffer,
                                                                                    std::byte* staging, std::byte*) {
    for (std::size_t i = 0; i < at.size(); ++i) std::memcpy(buffer + i * run, staging + at[i], run);
    if (swap) swap_bytes(buffer, at.size() * run, dtype);
  };
  return transfer;
}

/// Bytes [begin, end) of the file from `at`: whole pages directly, what is left over at both ends through the page
/// cache, because the bytes around it belong to others.
void RawStore::add_write(Transfer& transfer, std::uint64_t begin, std::uint64_t end, std::size_t at) const {
  std::uint64_t from = align_up(begin), to = align_down(end);
  const bool alike = at % page_bytes == begin % page_bytes;
  if (!alike || from >= to) from = to = end;
  const auto add = [&](std::uint64_t first, std::uint64_t last, bool direct) {
    if (first == last) return;
    Segment segment;
    segment.file = file_;
    segment.offset = first;
    segment.at = at + (first - begin);
    segment.row_bytes = last - first;
    segment.direct = direct;
    transfer.segments.push_back(std::move(segment));
  };
  add(begin, from, false);
  add(from, to, true);
  add(to, end, false);
}

/// Elements of the machine's byte order become the file's, in staging: the tile stays as it is.
void RawStore::swap_on_the_way(Transfer& transfer, const Plan& p, std::size_t tile_at, std::size_t tile_pitch) const {
  const std::size_t first = p.runs.size() == 1 ? p.first % page_bytes : 0;  // one run is as aligned as in the file
  transfer.staging_bytes = swap_staging(p);
  transfer.convert = [=, runs = p.placing == Placing::span ? p.runs : std::vector<std::uint64_t>(p.runs.size()),
                      run = p.run, dtype = layout_.dtype](std::byte* buffer, std::byte* staging, std::byte*) {
    for (std::size_t i = 0; i < runs.size(); ++i)
      std::memcpy(staging + first + i * run, buffer + tile_at + runs[i] + i * tile_pitch, run);
    swap_bytes(staging + first, runs.size() * run, dtype);
  };
  for (std::size_t i = 0; i < p.runs.size(); ++i) {
    const std::uint64_t begin = p.first + p.runs[i];
    add_write(transfer, begin, begin + p.run, first + i * p.run);
  }
}

std::size_t RawStore::swap_staging(const Plan& p) const {
  return align_up((p.runs.size() == 1 ? p.first % page_bytes : 0) + p.runs.size() * p.run);
}

std::size_t RawStore::write_staging(const Box& box) {
  check_box(layout_.shape, box);
  if (!layout_.big_endian || count(box.shape) == 0) return 0;
  Plan p = plan(box);
  choose(p);
  return swap_staging(p);
}

Transfer RawStore::write(const Box& box) {
  if (!writable_)
    throw StorageError("write: the array is open for reading only; open it with mode r+", EROFS, file_->path());
  check_box(layout_.shape, box);
  Plan p = plan(box);
  if (count(box.shape) == 0) return geometry(p);
  choose(p);
  Transfer transfer = geometry(p);
  const bool span = p.placing == Placing::span;
  const std::size_t tile_at = span ? transfer.origin : p.before, tile_pitch = span ? 0 : p.pitch;
  if (layout_.big_endian) {
    swap_on_the_way(transfer, p, tile_at, tile_pitch);
    return transfer;
  }
  for (std::size_t i = 0; i < p.runs.size(); ++i) {
    const std::uint64_t begin = p.first + p.runs[i];
    add_write(transfer, begin, begin + p.run, tile_at + (span ? p.runs[i] : 0) + i * tile_pitch);
  }
  return transfer;
}

}  // namespace

std::uint64_t end_of(const RawLayout& layout) {
  check(layout);
  if (std::find(layout.shape.begin(), layout.shape.end(), 0) != layout.shape.end()) return layout.offset;
  const Shape padded = padded_shape(layout);
  Index end = static_cast<Index>(size_of(layout.dtype)), stride = end;
  bool over = layout.offset > static_cast<std::uint64_t>(std::numeric_limits<Index>::max());
  for (std::size_t d = padded.size(); d-- > 0;) {
    const std::size_t axis = layout.column_major ? padded.size() - 1 - d : d;
    Index way = 0;
    over |= __builtin_mul_overflow(stride, layout.shape[axis] - 1, &way) || __builtin_add_overflow(end, way, &end) ||
            __builtin_mul_overflow(stride, padded[d], &stride);
  }
  over |= __builtin_add_overflow(end, static_cast<Index>(layout.offset), &end);
  if (over) refuse(layout, " ends beyond 2^63 bytes; give the shape that the file has.");
  return static_cast<std::uint64_t>(end);
}

Array open_raw(std::shared_ptr<File> file, const RawLayout& layout, bool writable, const std::string& path) {
  const std::uint64_t needed = end_of(layout), there = file->size();
  if (there < needed)
    throw FormatError("open_raw: " + path + " has " + std::to_string(there) + " bytes and " + to_string(layout.shape) +
                      " of " + std::string(name_of(layout.dtype)) + " from offset " + std::to_string(layout.offset) +
                      (layout.leading ? " with leading " + std::to_string(layout.leading) : "") + " needs " +
                      std::to_string(needed) + "; check shape, dtype and offset.");
  auto store = std::make_shared<RawStore>(std::move(file), layout, writable);
  return Array(layout.shape, layout.dtype, layout.shape, std::move(store), path);
}

Array open_raw(const std::string& path, const RawLayout& layout, bool writable) {
  end_of(layout);  // a layout that cannot be is refused before the file is looked at
  return open_raw(File::open(path, writable ? File::Mode::update : File::Mode::read), layout, writable, path);
}

Array create_raw(const std::string& path, const RawLayout& layout) {
  const std::uint64_t bytes = end_of(layout);
  const auto file = File::open(path, File::Mode::create);
  file->allocate(bytes);
  return open_raw(file, layout, true, path);
}

}  // namespace flagstone
