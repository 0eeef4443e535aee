#include "flagstone/storage/array/file_extent.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {
namespace {

/// Goes over the runs in order.
class Walk {
 public:
  explicit Walk(const ByteRuns& runs) : runs_(runs), index_(runs.extents.size(), 0), at_(runs.first) {}
  bool more() const { return more_; }
  std::uint64_t begin() const { return at_; }
  std::uint64_t end() const { return at_ + runs_.run; }
  void next() {
    std::size_t d = index_.size();
    for (; d > 0; --d) {
      at_ += static_cast<std::uint64_t>(runs_.strides[d - 1]);
      if (++index_[d - 1] < runs_.extents[d - 1]) return;
      at_ -= static_cast<std::uint64_t>(runs_.strides[d - 1] * runs_.extents[d - 1]);
      index_[d - 1] = 0;
    }
    more_ = false;
  }

 private:
  const ByteRuns& runs_;
  Shape index_;
  std::uint64_t at_;
  bool more_ = true;
};

Shape in_stored_order(Shape shape, const FilePlace& place) {
  if (place.column_major) std::reverse(shape.begin(), shape.end());
  return shape;
}

}  // namespace

std::optional<FilePlace> file_place(int descriptor) {
  struct stat status;
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) return std::nullopt;
  FilePlace place;
  place.device = status.st_dev;
  place.inode = status.st_ino;
  return place;
}

std::optional<FilePlace> file_place(const Array& array) {
  const auto* located = array ? dynamic_cast<const Located*>(&array.store()) : nullptr;
  return located ? located->located() : std::nullopt;
}

std::uint64_t ByteRuns::end() const {
  if (run == 0) return first;
  std::uint64_t last = first + run;
  for (std::size_t d = 0; d < extents.size(); ++d) last += static_cast<std::uint64_t>((extents[d] - 1) * strides[d]);
  return last;
}

ByteRuns byte_runs(const Shape& padded, std::uint64_t offset, std::size_t item, const Box& box) {
  const Shape strides = c_strides(padded, item);
  ByteRuns runs{offset, item, {}, {}};
  for (std::size_t d = 0; d < padded.size(); ++d) runs.first += static_cast<std::uint64_t>(box.start[d] * strides[d]);
  std::size_t split = padded.size();
  for (bool contiguous = true; split > 0 && contiguous;) {
    --split;
    runs.run *= static_cast<std::uint64_t>(box.shape[split]);
    contiguous = box.shape[split] == padded[split];
  }
  while (split > 0 && box.shape[split - 1] == 1) --split;
  for (std::size_t d = 0; d < split; ++d) {
    if (box.shape[d] == 0) runs.run = 0;
    runs.extents.push_back(box.shape[d]);
    runs.strides.push_back(strides[d]);
  }
  return runs;
}

ByteRuns byte_runs(const Array& array, const FilePlace& place, const Box& box) {
  Shape padded = in_stored_order(array.shape(), place);
  if (place.leading > 0) padded.back() = place.leading;
  const Box stored{in_stored_order(box.start, place), in_stored_order(box.shape, place)};
  return byte_runs(padded, place.offset, size_of(array.dtype()), stored);
}

bool overlap(const ByteRuns& a, const ByteRuns& b) {
  if (a.run == 0 || b.run == 0 || a.end() <= b.first || b.end() <= a.first) return false;
  for (Walk i(a), j(b); i.more() && j.more();) {
    if (i.end() <= j.begin())
      i.next();
    else if (j.end() <= i.begin())
      j.next();
    else
      return true;
  }
  return false;
}

}  // namespace flagstone
