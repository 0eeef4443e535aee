#pragma once
// Flat files in place: elements one after the other, in rows or columns, at any offset and any pitch. A .npy is one, so
// is a contiguous data set of HDF5.
#include <memory>
#include <string>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Where the elements lie in the file. `leading`: elements from the start of one row (column_major: column) to the
/// next; 0: they are contiguous. What lies between rows belongs to others and is never written.
struct RawLayout {
  Shape shape;
  Dtype dtype = Dtype::float64;
  bool column_major = false;  // the first dimension is the fastest ("Fortran order")
  bool big_endian = false;
  std::uint64_t offset = 0;  // bytes before the first element; need not be a multiple of anything
  Index leading = 0;
};

/// Bytes from the file's start to the end of the last element; ShapeError when shape and leading do not conform, or
/// the end is beyond 2^63.
std::uint64_t end_of(const RawLayout& layout);

/// FormatError, which names what is there and what is needed, when the file is too short.
Array open_raw(const std::string& path, const RawLayout& layout, bool writable = false);
/// The same in a file that is open already; several arrays may share it. `path` is what Array::path says.
Array open_raw(std::shared_ptr<File> file, const RawLayout& layout, bool writable, const std::string& path);
/// A new file, allocated at full length: zeros. StorageError(EEXIST) where one exists.
Array create_raw(const std::string& path, const RawLayout& layout);

}  // namespace flagstone
