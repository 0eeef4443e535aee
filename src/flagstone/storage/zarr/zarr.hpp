#pragma once
// Zarr v3, sharded, aligned, raw (or blosc-packed): the format of everything that is written here.
#include <map>
#include <string>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

struct ZarrOptions {
  Shape chunks;               // empty: default_chunks
  std::string codec = "raw";  // codec_text.hpp
  bool column_major = false;  // elements of a chunk with the first index fastest: Zarr's transpose codec
  /// sidecar: beside the chunks, in a file of ours; inner: behind every chunk, Zarr's crc32c (packed and slower to
  /// read, but peers verify it too); none.
  std::string checksum = "sidecar";
  std::string attributes;  // JSON object text, empty for none
  std::vector<std::string> dimension_names;
};

/// Opens the array whose zarr.json (Zarr v2: .zarray) is in `directory`. FormatError / StorageError name the file and
/// what is wrong. `writable`: sharded arrays whose codecs are written here; what lies in slots otherwise is refused
/// when it is touched. `verify`: parts of chunks are read whole and verified.
Array open_zarr_array(const std::string& directory, bool writable = false, bool verify = false);
/// The same where its metadata or checksums are damaged, to look at it or mend it.
Array open_zarr_array_as_it_is(const std::string& directory);
/// Creates directory, zarr.json and no shards yet (absent chunks are zero).
Array create_zarr_array(const std::string& directory, const Shape& shape, Dtype dtype, const ZarrOptions& options = {});

/// Opens a .npy file in place: any alignment, both orders, no copy.
Array open_npy(const std::string& path, bool writable = false);
/// A new .npy, data at a page boundary, allocated at full length.
Array create_npy(const std::string& path, const Shape& shape, Dtype dtype);

/// The stored bytes of each chunk, undecoded: a 1-D uint8-chunk view; box {i} is chunk i (C order of the grid), with
/// Tile::bytes its exact length (0 when absent). For kernels that decode themselves.
Array encoded_chunks(const Array& zarr_array);
/// What those bytes are: elements as they are, one blosc buffer, or something that only read() unpacks.
enum class ChunkCoding : std::uint8_t { raw, blosc, other };
ChunkCoding chunk_coding(const Array& zarr_array);
/// The codec of an array's chunks as text (codec_text.hpp); "raw" for what has none.
std::string codec_of(const Array& array);
/// 'C' or 'F': which index is the fastest in a chunk, the last or the first; ' ' for another order of dimensions.
char order_of(const Array& array);
/// Bytes of one decoded chunk; equals count(chunks) * size_of(dtype).
std::size_t chunk_bytes(const Array& array);

/// A group: zarr.json with attributes (JSON object text) and its member arrays and groups.
struct GroupInfo {
  std::string attributes;
  std::vector<std::string> arrays;  // names of member arrays, links included, sorted
  std::vector<std::string> groups;
};
bool is_zarr_group(const std::string& directory);
bool is_zarr_array(const std::string& directory);
GroupInfo open_group(const std::string& directory);
void write_group(const std::string& directory, const std::string& attributes_json);

/// Dirty mark of slice assignment: set before the first write, cleared by a completed flush.
void mark_dirty(const Array& array, bool dirty);
bool is_dirty(const Array& array);

}  // namespace flagstone
