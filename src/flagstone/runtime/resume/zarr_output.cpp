#include "flagstone/runtime/resume/zarr_output.hpp"

#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/sync.hpp"

namespace flagstone {

Array zarr_output(const Output& output, const Shape& shape, Dtype dtype, const ZarrOptions& options) {
  const std::filesystem::path place = output.directory();
  if (output.adopted() && std::filesystem::exists(place / "zarr.json")) {
    const Array left = open_zarr_array(place.string(), true);
    if (left.shape() != shape || left.dtype() != dtype)
      throw ShapeError("zarr_output: a killed process had begun '" + place.string() + "' as " +
                       to_string(left.shape()) + " " + std::string(name_of(left.dtype())) + " and now it is to be " +
                       to_string(shape) + " " + std::string(name_of(dtype)) +
                       "; give the record an argument that tells them apart.");
    left.store().adopt();
    return left;
  }
  const Array made = create_zarr_array(place.string(), shape, dtype, options);
  sync_tree(place.string());
  sync_directory(place.parent_path().string());
  return made;
}

}  // namespace flagstone
