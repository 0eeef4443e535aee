#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/formats/npy_header.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {

Array open_npy(const std::string& path, bool writable) {
  auto file = File::open(path, writable ? File::Mode::update : File::Mode::read);
  const NpyHeader header = read_npy_header(*file);
  const RawLayout layout{.shape = header.shape,
                         .dtype = header.dtype,
                         .column_major = header.fortran_order,
                         .big_endian = header.big_endian,
                         .offset = header.data_offset};
  return open_raw(std::move(file), layout, writable, path);
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
