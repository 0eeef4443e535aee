#pragma once
// .npy files in place; their header is read with bounds, and written so that the data starts at a page.
#include <string>

#include "flagstone/base/shape.hpp"
#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/file/file.hpp"

namespace flagstone {

struct NpyHeader {
  Shape shape;
  Dtype dtype = Dtype::float64;
  bool fortran_order = false;
  bool big_endian = false;
  std::uint64_t data_offset = 0;
};

/// Versions 1 to 3. FormatError names the file and what is not as NumPy writes it.
NpyHeader read_npy_header(const File& file);
/// `page_bytes` of magic, version and header.
std::string make_npy_header(const Shape& shape, Dtype dtype);

/// Opens a .npy file in place: any alignment, both orders, no copy.
Array open_npy(const std::string& path, bool writable = false);
/// A new .npy, data at a page boundary, allocated at full length.
Array create_npy(const std::string& path, const Shape& shape, Dtype dtype);

}  // namespace flagstone
