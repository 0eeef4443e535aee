#pragma once
// An array that grows or shrinks in place (scheme D): the replacement of zarr.json is the commit.
#include <string>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// Gives the Zarr array in `directory` another shape, with chunks and shards as they are. Every dimension may grow or
/// shrink; what was never written, or was cut off once, reads as the fill value.
///
/// Before zarr.json is replaced, what lies outside the old shape and inside the new one is made absent or filled (a
/// process that died while it shrank the array may have left it); nobody sees it by then. After it, what lies outside
/// the new shape is: shards go, chunks become absent, the outside of chunks at the edge is filled. A process that dies
/// at any step leaves the old shape or the new one with all their elements, and either can be resized again.
///
/// One writer, by the array's lock. Handles that are open keep the old shape: those that read go on (unless it shrank:
/// then they are told at their next request), those that write are told at their next write.
/// Cost: reads the stored chunks at the edges of dimensions that change, and writes those that are to be filled; 8
/// bytes for every chunk of shards that exist (checksums); lists directories, and never asks for what is not there.
/// What `options.pulse` throws ends it as a crash would. Memory: two chunks, `staging`, and the names of a directory.
/// StorageError; FormatError where the array cannot be written in place; ShapeError.
void resize_array(Ring& ring, const std::string& directory, const Shape& shape, const BoxOptions& options);

}  // namespace flagstone
