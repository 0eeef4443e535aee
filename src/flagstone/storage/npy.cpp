#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/codec.hpp"
#include "flagstone/storage/npy_header.hpp"
#include "flagstone/storage/shard_index.hpp"
#include "flagstone/storage/shard_layout.hpp"
#include "flagstone/storage/zarr.hpp"

namespace flagstone {
namespace {

constexpr std::uint64_t most_request_bytes = 2 * MiB;

/// What direct transfers of this file must be aligned to: the device's blocks (512) where that is allowed. Rows of a
/// .npy start anywhere, and every page around them is read twice.
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

class NpyStore final : public ArrayStore {
 public:
  NpyStore(std::shared_ptr<File> file, NpyHeader header, bool writable)
      : file_(std::move(file)), header_(std::move(header)), writable_(writable), granule_(direct_granule(*file_)) {
    stored_ = in_stored_order(header_.shape);
    stored_strides_ = c_strides(stored_, item());
    end_ = header_.data_offset + static_cast<std::uint64_t>(count(stored_)) * item();
    file_bytes_ = file_->size();
  }

  Transfer read(const Box& box) const override;
  Transfer write(const Box& box) override;
  std::size_t write_staging(const Box& box) override { return check_box(header_.shape, box), 0; }
  void flush() override { file_->sync(); }
  std::size_t run_bytes(const Shape& box) const override {
    return plan({Shape(box.size(), 0), intersect({Shape(box.size(), 0), box}, whole(header_.shape)).shape}).run;
  }

 private:
  std::size_t item() const { return size_of(header_.dtype); }
  Shape in_stored_order(Shape shape) const {
    if (header_.fortran_order) std::reverse(shape.begin(), shape.end());
    return shape;
  }
  Plan plan(const Box& box) const;
  void choose(Plan& plan) const;
  Transfer geometry(const Plan& plan) const;
  void add_read(Transfer& transfer, std::uint64_t begin, std::uint64_t end, std::size_t at) const;
  void add_write(Transfer& transfer, std::uint64_t begin, std::uint64_t end, std::size_t at) const;

  std::shared_ptr<File> file_;
  NpyHeader header_;
  bool writable_;
  std::uint64_t granule_ = 512, end_ = 0, file_bytes_ = 0;
  Shape stored_, stored_strides_;
};

/// Splits a box into contiguous runs. Cost: one entry a run.
Plan NpyStore::plan(const Box& box) const {
  Plan plan;
  plan.box = {in_stored_order(box.start), in_stored_order(box.shape)};
  plan.first = header_.data_offset;
  plan.run = item();
  std::uint64_t last = 0;
  for (std::size_t d = 0; d < stored_.size(); ++d) {
    plan.first += static_cast<std::uint64_t>(plan.box.start[d] * stored_strides_[d]);
    last += static_cast<std::uint64_t>((plan.box.shape[d] - 1) * stored_strides_[d]);
  }
  plan.split = stored_.size();
  bool contiguous = true;
  while (plan.split > 0 && contiguous) {
    const std::size_t d = --plan.split;
    plan.run *= static_cast<std::uint64_t>(plan.box.shape[d]);
    contiguous = plan.box.shape[d] == stored_[d];
  }
  while (plan.split > 0 && plan.box.shape[plan.split - 1] == 1) --plan.split;  // leading dimensions of extent 1
  if (count(box.shape) == 0) return plan;
  plan.span = last + item();
  return plan;
}

void NpyStore::choose(Plan& plan) const {
  Shape at(plan.split, 0);
  for (;;) {  // offsets of all runs, C order
    std::uint64_t offset = 0;
    for (std::size_t d = 0; d < plan.split; ++d) offset += static_cast<std::uint64_t>(at[d] * stored_strides_[d]);
    plan.runs.push_back(offset);
    std::size_t d = plan.split;
    while (d > 0 && ++at[d - 1] == plan.box.shape[d - 1]) at[d - 1] = 0, --d;
    if (d == 0) break;
  }
  const std::uint64_t n = plan.runs.size(), content = n * plan.run;
  const bool same =
      std::all_of(plan.runs.begin(), plan.runs.end(), [&](std::uint64_t offset) { return offset % granule_ == 0; });
  const std::uint64_t before = plan.first % granule_;
  const std::uint64_t slot = same ? align_up(before + plan.run, granule_) : align_up(plan.run, granule_) + granule_;
  const bool span_pays = plan.span <= n * slot + n * slot / 4;
  // BLAS cannot work on elements that are not naturally aligned.
  const bool in_place = plan.first % size_of(real_part_of(header_.dtype)) == 0;
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

Transfer NpyStore::geometry(const Plan& plan) const {
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

/// Direct requests for [begin, end) and the blocks around it; `at`: where `begin` goes (aligned alike). In pieces, so
/// that tiles arrive one after the other in the order they were asked for, each at the disk's full depth.
void NpyStore::add_read(Transfer& transfer, std::uint64_t begin, std::uint64_t end, std::size_t at) const {
  const std::uint64_t first = align_down(begin, granule_), last = align_up(end, granule_);
  for (std::uint64_t from = first; from < last; from += most_request_bytes) {
    Segment segment;
    segment.file = file_;
    segment.offset = from;
    segment.at = at - (begin - first) + (from - first);
    segment.row_bytes = std::min(most_request_bytes, last - from);
    const std::uint64_t stop = from + segment.row_bytes;
    segment.slack = stop > file_bytes_ ? stop - file_bytes_ : 0;
    transfer.segments.push_back(std::move(segment));
  }
}

Transfer NpyStore::read(const Box& box) const {
  check_box(header_.shape, box);
  Plan p = plan(box);
  if (count(box.shape) == 0) return geometry(p);
  choose(p);
  Transfer transfer = geometry(p);
  const bool swap = header_.big_endian;
  if (p.placing == Placing::span) {
    add_read(transfer, p.first, p.first + p.span, transfer.origin);
    if (swap)
      transfer.convert = [at = transfer.origin, bytes = p.span, dtype = header_.dtype](std::byte* buffer, std::byte*) {
        swap_bytes(buffer + at, bytes, dtype);
      };
    return transfer;
  }
  if (p.placing == Placing::rows) {
    for (std::size_t i = 0; i < p.runs.size(); ++i)
      add_read(transfer, p.first + p.runs[i], p.first + p.runs[i] + p.run, p.before + i * p.pitch);
    if (swap)
      transfer.convert = [p, dtype = header_.dtype](std::byte* buffer, std::byte*) {
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
  transfer.convert = [at = std::move(at), run = p.run, swap, dtype = header_.dtype](std::byte* buffer,
                                                                                    std::byte* staging) {
    for (std::size_t i = 0; i < at.size(); ++i) std::memcpy(buffer + i * run, staging + at[i], run);
    if (swap) swap_bytes(buffer, at.size() * run, dtype);
  };
  return transfer;
}

/// Bytes [begin, end) of the file from `at`: whole pages directly, what is left over at both ends through the page
/// cache, because the bytes around it belong to others.
void NpyStore::add_write(Transfer& transfer, std::uint64_t begin, std::uint64_t end, std::size_t at) const {
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

Transfer NpyStore::write(const Box& box) {
  if (!writable_)
    throw StorageError("write: the array is open for reading only; open it with mode r+", EROFS, file_->path());
  check_box(header_.shape, box);
  Plan p = plan(box);
  if (count(box.shape) == 0) return geometry(p);
  choose(p);
  Transfer transfer = geometry(p);
  for (std::size_t i = 0; i < p.runs.size(); ++i) {
    const std::uint64_t begin = p.first + p.runs[i];
    const std::size_t at = p.placing == Placing::span ? transfer.origin + p.runs[i] : p.before + i * p.pitch;
    add_write(transfer, begin, begin + p.run, at);
  }
  return transfer;
}

}  // namespace

Array open_npy(const std::string& path, bool writable) {
  auto file = File::open(path, writable ? File::Mode::update : File::Mode::read);
  NpyHeader header = read_npy_header(*file);
  if (writable && header.big_endian)
    throw FormatError("open: " + path + ": a big-endian array cannot be opened for writing; convert it with " +
                      "a.astype(a.dtype.newbyteorder('<')).");
  const Shape shape = header.shape;
  const Dtype dtype = header.dtype;
  return Array(shape, dtype, shape, std::make_shared<NpyStore>(std::move(file), std::move(header), writable), path);
}

Array create_npy(const std::string& path, const Shape& shape, Dtype dtype) {
  for (Index extent : shape)
    if (extent < 0) throw ShapeError("create: shape " + to_string(shape) + "; extents must not be negative.");
  {
    const auto file = File::open(path, File::Mode::create);
    const std::string header = make_npy_header(shape, dtype);
    file->allocate(header.size() + static_cast<std::uint64_t>(count(shape)) * size_of(dtype));
    write_exactly(file->buffered(), *file, header.data(), header.size(), 0);
  }
  return open_npy(path, true);
}

}  // namespace flagstone
