#pragma once
// The header of a .npy file: read with bounds, written so that the data starts at a page.
#include <string>

#include "flagstone/base/shape.hpp"
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

}  // namespace flagstone
