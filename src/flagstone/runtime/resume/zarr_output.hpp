#pragma once
// The array that an output with a record is to be.
#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/output/output.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {

/// The Zarr array at output.directory(): what a dead process had written of it, where the output was adopted; made now,
/// and synced, otherwise. ShapeError where it has another shape or dtype: the record did not tell them apart. Flush it
/// before the output is published.
Array zarr_output(const Output& output, const Shape& shape, Dtype dtype, const ZarrOptions& options = {});

}  // namespace flagstone
