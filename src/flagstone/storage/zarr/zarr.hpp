#pragma once
// Zarr v3, sharded, aligned, raw (or blosc-packed): the format of everything that is written here.
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

struct ZarrOptions {
  Shape chunks;               // empty: default_chunks
  std::string codec = "raw";  // codec_name.hpp
  bool column_major = false;  // elements of a chunk with the first index fastest: Zarr's transpose codec
  /// sidecar: beside the chunks, in a file of ours; inner: behind every chunk, Zarr's crc32c (packed and slower to
  /// read, but peers verify it too); none.
  std::string checksum = "sidecar";
  std::string attributes;  // JSON object text, empty for none
  std::vector<std::string> dimension_names;
  std::vector<std::byte> fill = {};  // one element: what was never written reads as; empty for zero
};

/// Opens the array whose zarr.json (Zarr v2: .zarray) is in `directory`. FormatError / StorageError name the file and
/// what is wrong. `writable`: arrays whose codecs are written here; of sharded ones what lies in slots otherwise is
/// refused when it is touched, and of others every chunk is a file that is replaced by a rename. `verify`: parts of
/// chunks are read whole and verified.
Array open_zarr_array(const std::string& directory, bool writable = false, bool verify = false);
/// The same where its metadata or checksums are damaged, to look at it or mend it.
Array open_zarr_array_as_it_is(const std::string& directory);
/// One slot of a ring of epochs: written in place, without transactions. For Epochs, which says when.
Array open_epoch_array(const std::string& directory, bool writable);
/// Creates directory, zarr.json and no shards yet (absent chunks are zero).
Array create_zarr_array(const std::string& directory, const Shape& shape, Dtype dtype, const ZarrOptions& options = {});

/// The codec of an array's chunks as text (codec_name.hpp); "raw" for what has none.
std::string codec_of(const Array& array);
/// 'C' or 'F': which index is the fastest in a chunk, the last or the first; ' ' for another order of dimensions.
char order_of(const Array& array);

}  // namespace flagstone
