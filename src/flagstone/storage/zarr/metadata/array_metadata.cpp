#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr/metadata/fields.hpp"

namespace flagstone {
namespace {

using namespace metadata_json;

void parse_keys(const Json& root, ArrayMetadata& metadata, const std::string& file) {
  const Json encoding = member(root, "chunk_key_encoding", file);
  const std::string name = name_in(encoding, "name", file);
  if (name != "default" && name != "v2") refuse(file, "chunk_key_encoding '" + name + "' is unknown.");
  metadata.default_keys = name == "default";
  metadata.separator = metadata.default_keys ? '/' : '.';
  if (encoding.contains("configuration") && encoding["configuration"].contains("separator")) {
    const std::string separator = name_in(encoding["configuration"], "separator", file);
    if (separator != "/" && separator != ".") refuse(file, "the separator of chunk keys must be '/' or '.'.");
    metadata.separator = separator[0];
  }
}

/// zarr-python's extension types of NumPy's datetime64 and timedelta64: int64 counts of a unit.
bool counts_time(const Json& type) {
  if (!type.is_object() || !type.contains("name") || !type["name"].is_string()) return false;
  const auto name = type["name"].get<std::string>();
  return name == "numpy.datetime64" || name == "numpy.timedelta64";
}

ArrayMetadata parse(const Json& root, const std::string& file) {
  ArrayMetadata metadata;
  if (member(root, "zarr_format", file) != 3) refuse(file, "only zarr_format 3 is read.");
  const std::string kind = name_in(root, "node_type", file);
  if (kind != "array") refuse(file, "it holds a " + kind + ", not an array; name the array inside it (key=).");
  check_known(root,
              {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value",
               "codecs", "attributes", "dimension_names", "storage_transformers"},
              file);
  metadata.shape = extents_in(root, "shape", 0, file);
  const Json type = member(root, "data_type", file);
  const bool times = counts_time(type);
  if (!type.is_string() && !times)
    refuse(file, "data_type " + type.dump() + " is not supported; use a plain number type.");
  metadata.dtype = times ? Dtype::int64 : dtype_from_name(name_in(root, "data_type", file));
  check_size(metadata.shape, metadata.dtype, "an array", file);
  const Json grid = member(root, "chunk_grid", file);
  if (name_in(grid, "name", file) != "regular") refuse(file, "only a regular chunk_grid is read.");
  metadata.chunks = extents_in(member(grid, "configuration", file), "chunk_shape", 1, file);
  if (metadata.chunks.size() != metadata.shape.size()) refuse(file, "shape and chunk_shape differ in dimensions.");
  check_size(metadata.chunks, metadata.dtype, "a chunk", file);
  if (root.contains("storage_transformers") && !root["storage_transformers"].empty())
    refuse(file, "storage_transformers are not supported.");
  parse_keys(root, metadata, file);
  const Json fill = member(root, "fill_value", file);
  metadata.fill = parse_fill(times ? fill_of_times(fill) : fill, metadata.dtype, file);
  parse_codecs(member(root, "codecs", file), metadata, file);
  if (root.contains("attributes")) metadata.attributes = root["attributes"].dump();
  if (root.contains("dimension_names") && root["dimension_names"].is_array())
    for (const Json& name : root["dimension_names"].elements())
      metadata.dimension_names.push_back(name.is_string() ? name.get<std::string>() : "");
  return metadata;
}

}  // namespace

ArrayMetadata parse_array_metadata(const std::string& text, const std::string& file) {
  return parsed(text, file, &parse);
}

std::string to_json(const ArrayMetadata& metadata) {
  const auto named = [](const char* name, const Json& configuration) {
    return Json::object({{"name", name}, {"configuration", configuration}});
  };
  const Json little = named("bytes", Json::object({{"endian", "little"}}));
  const Json inner = Json::array();
  if (!metadata.codec.order.empty())
    inner.push_back(named("transpose", Json::object({{"order", metadata.codec.order}})));
  inner.push_back(little);
  for (const CodecStep& step : metadata.codec.steps) inner.push_back(settings_of(step, metadata.dtype));
  const Json names = Json::array();
  for (const std::string& name : metadata.dimension_names) names.push_back(name.empty() ? Json() : Json(name));
  for (std::size_t d = names.size(); d < metadata.shape.size(); ++d) names.push_back("dim_" + std::to_string(d));
  const Json sharding = Json::object({{"chunk_shape", metadata.chunks},
                                      {"codecs", inner},
                                      {"index_codecs", Json::array({little, Json::object({{"name", "crc32c"}})})},
                                      {"index_location", "end"}});
  const Json root = Json::object({{"zarr_format", 3},
                                  {"node_type", "array"},
                                  {"shape", metadata.shape},
                                  {"data_type", name_of(metadata.dtype)},
                                  {"chunk_grid", named("regular", Json::object({{"chunk_shape", metadata.shards}}))},
                                  {"chunk_key_encoding", named("default", Json::object({{"separator", "/"}}))},
                                  {"fill_value", fill_json(metadata.fill, metadata.dtype)},
                                  {"codecs", Json::array({named("sharding_indexed", sharding)})},
                                  {"attributes", Json::parse(metadata.attributes.empty() ? "{}" : metadata.attributes)},
                                  {"dimension_names", names},
                                  {"storage_transformers", Json::array()}});
  return root.dump(2) + "\n";
}

bool ShardLevel::as_written_here() const {
  return index_at_end && !big_endian && checksums == 1 && index_order.empty() &&
         std::is_sorted(order.begin(), order.end());
}

std::string ArrayMetadata::key(const Shape& shard) const {
  std::string text = default_keys ? "c" : "";
  for (std::size_t d = 0; d < shard.size(); ++d) {
    if (default_keys || d > 0) text += separator;
    text += std::to_string(shard[d]);
  }
  return text.empty() ? "0" : text;
}

Index ArrayMetadata::entries() const {
  Index n = 1;
  for (std::size_t d = 0; d < chunks.size(); ++d) n *= shards[d] / chunks[d];
  return n;
}

Shape ArrayMetadata::chunk_of(const Shape& shard, std::size_t entry) const {
  Shape chunk = shard;
  for (std::size_t d = shard.size(); d-- > 0;) {
    const Index per_shard = shards[d] / chunks[d];
    chunk[d] = shard[d] * per_shard + static_cast<Index>(entry) % per_shard;
    entry /= static_cast<std::size_t>(per_shard);
  }
  return chunk;
}

std::uint64_t ArrayMetadata::index_bytes() const { return 16 * static_cast<std::uint64_t>(entries()) + 4; }

Shape default_shards(const Shape& shape, const Shape& chunks, std::uint64_t slot_bytes) {
  Shape grid = shape;
  for (std::size_t d = 0; d < grid.size(); ++d) grid[d] = std::max<Index>(1, ceil_div(shape[d], chunks[d]));
  const Index most = std::clamp<Index>(static_cast<Index>(GiB / slot_bytes), 1, 4095);
  Shape part = grid;
  for (;;) {
    double product = 1;  // a count of chunks may not fit 64 bits before it is cut down
    for (Index extent : part) product *= static_cast<double>(extent);
    if (product <= static_cast<double>(most)) break;
    auto largest = std::max_element(part.begin(), part.end());
    *largest = ceil_div(*largest, 2);
  }
  for (std::size_t d = 0; d < part.size(); ++d) {
    part[d] = ceil_div(grid[d], ceil_div(grid[d], part[d]));  // even parts
    part[d] *= chunks[d];
  }
  return part;
}

}  // namespace flagstone
