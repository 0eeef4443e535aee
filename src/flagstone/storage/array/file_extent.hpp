#pragma once
// Where in which file the elements of a box lie: what two handles of one array, or two arrays of one flat file, share.
#include <cstdint>
#include <optional>

#include "flagstone/base/shape.hpp"

namespace flagstone {

class Array;

/// A flat file and the layout of its elements; of a chunked array its directory, whose elements count as in C order.
struct FilePlace {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t offset = 0;
  Index leading = 0;
  bool column_major = false, big_endian = false;
};
/// Of an open descriptor; none where the system says no.
std::optional<FilePlace> file_place(int descriptor);

/// What stores implement whose elements somebody else may name as well.
class Located {
 public:
  virtual ~Located() = default;
  virtual std::optional<FilePlace> located() const = 0;
};
/// None: memory, scratch without a name, what is only planned.
std::optional<FilePlace> file_place(const Array& array);

/// Runs of equal length in increasing order, none overlapping: one for each index of `extents`.
struct ByteRuns {
  std::uint64_t first = 0;
  std::uint64_t run = 0;   // bytes; 0: no elements
  Shape extents, strides;  // slowest dimension first; bytes
  std::uint64_t end() const;
};
/// Of a box of an array that has `padded` extents from `offset` on, both in stored order (slowest dimension first).
ByteRuns byte_runs(const Shape& padded, std::uint64_t offset, std::size_t item, const Box& box);
/// Of a box of an array that lies at `place`.
ByteRuns byte_runs(const Array& array, const FilePlace& place, const Box& box);
/// Whether they share a byte. Cost: one step a run where their ends do not say it.
bool overlap(const ByteRuns& a, const ByteRuns& b);

}  // namespace flagstone
