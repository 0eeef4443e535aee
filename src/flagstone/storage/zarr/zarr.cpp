#include "flagstone/storage/zarr/zarr.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/codec_name.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/codec/encode.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/zarr/metadata/checksum.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {
namespace {

Array array_of(const std::string& directory, ArrayMetadata metadata, const ZarrStore::Options& options) {
  const Shape shape = metadata.shape, chunks = metadata.chunks;
  const Dtype dtype = metadata.dtype;
  return Array(shape, dtype, chunks, std::make_shared<ZarrStore>(directory, std::move(metadata), options), directory);
}

/// Why an array cannot be written in place; null when it can.
const char* not_writable(const ArrayMetadata& metadata, bool in_place) {
  if (!metadata.sharded && in_place) return "it is not sharded";
  if (!metadata.sharded) return can_encode(metadata.codec) ? nullptr : "its codecs are not those that are written here";
  if (!metadata.foreign_levels.empty()) return "the index of its shards is not as it is written here";
  if (!can_encode(metadata.codec)) return "its codecs are not those that are written here";
  if (!metadata.default_keys || metadata.separator != '/') return "its chunk keys are not the default ones";
  return nullptr;
}

/// zarr.json; where that is absent and Zarr v2's .zarray is there, that.
std::string metadata_file(const std::string& directory) {
  struct stat status;
  const std::string v3 = directory + "/zarr.json", v2 = directory + "/.zarray";
  return ::stat(v3.c_str(), &status) != 0 && ::stat(v2.c_str(), &status) == 0 ? v2 : v3;
}

void check_new(const std::string& directory, const Shape& shape, Dtype dtype, const Shape& chunks,
               const ZarrOptions& options) {
  if (options.checksum != "sidecar" && options.checksum != "inner" && options.checksum != "none")
    throw FormatError("create: checksum '" + options.checksum + "' is unknown; use sidecar, inner or none.");
  if (chunks.size() != shape.size())
    throw ShapeError("create: chunks of " + to_string(chunks) + " do not fit an array of " + to_string(shape) +
                     "; give one extent for each dimension.");
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] < 0 || chunks[d] < 1)
      throw ShapeError("create: shape " + to_string(shape) + " with chunks " + to_string(chunks) +
                       "; extents must not be negative and chunks at least 1.");
  if (!options.fill.empty() && options.fill.size() != size_of(dtype))
    throw ShapeError("create: the fill value has " + std::to_string(options.fill.size()) + " bytes and an element " +
                     std::to_string(size_of(dtype)) + "; give one element.");
  if (options.dimension_names.size() > shape.size()) throw ShapeError("create: more dimension names than dimensions.");
  struct stat status;
  if (::stat((directory + "/zarr.json").c_str(), &status) == 0)
    throw StorageError("create: an array is already there; choose another path or overwrite=True", EEXIST, directory);
}

}  // namespace

namespace {

Array open_with(const std::string& directory, const ZarrStore::Options& options) {
  const bool writable = options.writable;
  const std::string file = metadata_file(directory);
  const std::string text = read_text(file);
  ArrayMetadata metadata =
      file.ends_with(".zarray") ? parse_array_metadata_v2(text, file) : parse_array_metadata(text, file);
  if (!options.ignore_damage) check_metadata(file, text, array_stamp(directory));
  if (writable)
    if (const char* reason = not_writable(metadata, options.in_place))
      throw FormatError("open: " + file + ": cannot be opened for writing: " + reason +
                        "; open it for reading, or copy it.");
  return array_of(directory, std::move(metadata), options);
}

}  // namespace

Array open_zarr_array(const std::string& directory, bool writable, bool verify) {
  return open_with(directory, {.writable = writable, .verify = verify});
}

Array open_zarr_array_as_it_is(const std::string& directory) { return open_with(directory, {.ignore_damage = true}); }

Array open_epoch_array(const std::string& directory, bool writable) {
  return open_with(directory, {.writable = writable, .in_place = true});
}

Array create_zarr_array(const std::string& directory, const Shape& shape, Dtype dtype, const ZarrOptions& options) {
  ArrayMetadata metadata;
  metadata.shape = shape;
  metadata.dtype = dtype;
  metadata.chunks = options.chunks.empty() ? default_chunks(shape, dtype) : options.chunks;
  check_new(directory, shape, dtype, metadata.chunks, options);
  metadata.codec = codec_from_text(options.codec);
  metadata.codec.order = transpose_order(shape.size(), options.column_major);
  if (options.checksum == "inner") metadata.codec.steps.push_back({Codec::crc32c});
  metadata.fill = options.fill;
  if (options.fill.empty()) metadata.fill.assign(size_of(dtype), std::byte{});
  metadata.attributes = options.attributes.empty() ? "{}" : options.attributes;
  metadata.dimension_names = options.dimension_names;
  for (std::size_t d = metadata.dimension_names.size(); d < shape.size(); ++d)
    metadata.dimension_names.push_back("dim_" + std::to_string(d));
  const std::string name = directory + "/zarr.json";
  std::string text;
  metadata.shards = metadata.chunks;
  parse_array_metadata(to_json(metadata), name);  // refuses what overflows before anything divides by it
  const std::uint64_t chunk = static_cast<std::uint64_t>(count(metadata.chunks)) * size_of(dtype);
  if (!metadata.codec.raw() && (chunk >= 2 * GiB || most_encoded(metadata.codec, chunk) > chunk + page_bytes))
    throw ShapeError("create: chunks of " + format_bytes(chunk) + " are too long for codec " + options.codec +
                     ", whose worst case would not fit their slots; use smaller ones (40 MiB always fit).");
  metadata.shards = default_shards(shape, metadata.chunks, align_up(chunk + (!metadata.codec.raw() ? page_bytes : 0)));
  text = to_json(metadata);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw StorageError("create: cannot make the directory", error.value(), directory);
  write_text(name, text);
  if (options.checksum == "sidecar") stamp_metadata(name, text, array_stamp(directory));
  return array_of(directory, std::move(metadata), {.writable = true, .new_sums = options.checksum == "sidecar"});
}

std::string codec_of(const Array& array) {
  const ZarrStore* store = zarr_store(array);
  return store ? to_text(store->metadata().codec) : "raw";
}

char order_of(const Array& array) {
  const ZarrStore* store = zarr_store(array);
  if (!store) return 'C';
  const auto& order = store->metadata().codec.order;
  if (std::is_sorted(order.begin(), order.end())) return 'C';
  return order == transpose_order(order.size(), true) ? 'F' : ' ';
}

}  // namespace flagstone
