#include "flagstone/storage/metadata.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec.hpp"
#include "flagstone/storage/codec_text.hpp"
#include "flagstone/storage/metadata_json.hpp"

namespace flagstone {
namespace {

using namespace metadata_json;

void parse_order(const Json& codec, CodecChain& chain, std::size_t ndim, const std::string& file) {
  const Json& order = member(member(codec, "configuration", file), "order", file);
  std::vector<bool> seen(ndim, false);
  if (!order.is_array() || order.size() != ndim) refuse(file, "codec 'transpose' needs an order of every dimension.");
  for (const Json& axis : order) {
    if (!axis.is_number_unsigned() || axis.get<std::uint64_t>() >= ndim || seen[axis.get<std::size_t>()])
      refuse(file, "codec 'transpose' needs an order that names every dimension once.");
    seen[axis.get<std::size_t>()] = true;
    chain.order.push_back(axis.get<std::size_t>());
  }
}

/// The step that a v3 codec behind `bytes` stands for.
std::optional<Codec> step_named(const std::string& name) {
  if (name == "blosc") return Codec::blosc;
  if (name == "zstd") return Codec::zstd;
  if (name == "gzip") return Codec::gzip;
  if (name == "zlib" || name == "numcodecs.zlib") return Codec::zlib;
  if (name == "crc32c") return Codec::crc32c;
  return std::nullopt;
}

/// What a writer has to know; a reader needs none of it, so that whatever is odd stays unknown.
CodecStep with_settings(CodecStep step, const Json& codec) {
  const Json settings = codec.is_object() ? codec.value("configuration", Json::object()) : Json::object();
  if (!settings.is_object()) return step;
  const auto text = [&](const char* name) {
    return settings.contains(name) && settings[name].is_string() ? settings[name].get<std::string>() : "";
  };
  const char* level = step.codec == Codec::blosc ? "clevel" : "level";
  const auto packer = blosc_packer(text("cname"));
  const auto shuffle = blosc_shuffle(text("shuffle"));
  if (!settings.contains(level) || !settings[level].is_number_integer()) return step;
  if (step.codec == Codec::zstd && settings.value("checksum", Json(false)) != false) return step;
  if (step.codec == Codec::blosc && (!packer || !shuffle)) return step;
  step.packer = packer.value_or(step.packer);
  step.shuffle = shuffle.value_or(step.shuffle);
  step.level = static_cast<int>(std::clamp<std::int64_t>(settings[level].get<std::int64_t>(), -999, 999));
  return step;
}

Json settings_of(const CodecStep& step, Dtype dtype) {
  if (step.codec == Codec::crc32c) return {{"name", "crc32c"}};
  Json settings = {{"level", step.level}};
  if (step.codec == Codec::zstd) settings["checksum"] = false;
  if (step.codec == Codec::blosc)
    settings = {{"typesize", size_of(dtype)},
                {"cname", name_of(step.packer)},
                {"clevel", step.level},
                {"shuffle", name_of(step.shuffle)},
                {"blocksize", 0}};
  return {{"name", name_of(step.codec)}, {"configuration", settings}};
}

CodecChain parse_chain(const Json& codecs, const ArrayMetadata& metadata, const std::string& file) {
  if (!codecs.is_array()) refuse(file, "'codecs' must be a list.");
  CodecChain chain;
  bool bytes = false;
  for (const Json& codec : codecs) {
    const std::string name = codec.is_string() ? codec.get<std::string>() : name_in(codec, "name", file);
    if (name == "transpose" && !bytes && chain.order.empty()) {
      parse_order(codec, chain, metadata.shape.size(), file);
    } else if (name == "bytes" && !bytes) {
      bytes = true;
      const Json settings = codec.is_object() ? codec.value("configuration", Json::object()) : Json::object();
      chain.big_endian =
          size_of(metadata.dtype) > 1 && settings.is_object() && settings.value("endian", "little") == "big";
    } else if (const auto step = step_named(name); bytes && step) {
      add_step(chain, with_settings({*step}, codec), file);
    } else {
      refuse(file, "codec '" + name +
                       "' is not read here; rewrite the array with bytes, transpose, blosc, zstd, gzip or crc32c "
                       "(with zarr-python: compressors=zarr.codecs.BloscCodec()).");
    }
  }
  if (!bytes) refuse(file, "the codec 'bytes' is missing.");
  return chain;
}

void parse_codecs(const Json& codecs, ArrayMetadata& metadata, const std::string& file) {
  const bool sharded = codecs.is_array() && codecs.size() == 1 && codecs[0].is_object() &&
                       codecs[0].value("name", Json()) == "sharding_indexed";
  metadata.sharded = sharded;
  metadata.shards = metadata.chunks;
  if (!sharded) {
    metadata.codec = parse_chain(codecs, metadata, file);
    return;
  }
  const Json& settings = member(codecs[0], "configuration", file);
  metadata.chunks = extents_in(settings, "chunk_shape", 1, file);
  if (metadata.chunks.size() != metadata.shards.size()) refuse(file, "chunks and shards differ in dimensions.");
  for (std::size_t d = 0; d < metadata.chunks.size(); ++d)
    if (metadata.shards[d] % metadata.chunks[d] != 0)
      refuse(file, "shards of " + to_string(metadata.shards) + " are no multiple of chunks of " +
                       to_string(metadata.chunks) + ".");
  if (metadata.entries() > (Index{1} << 32)) refuse(file, "a shard of more than 2^32 chunks is not supported.");
  metadata.codec = parse_chain(member(settings, "codecs", file), metadata, file);
  ArrayMetadata index;
  index.dtype = Dtype::uint64;
  const CodecChain chain = parse_chain(member(settings, "index_codecs", file), index, file);
  if (chain.big_endian || !chain.order.empty() || chain.steps.size() > 1 ||
      (chain.steps.size() == 1 && chain.steps[0].codec != Codec::crc32c))
    refuse(file, "index codecs other than bytes (little) and crc32c are not read.");
  metadata.index_checksum = !chain.steps.empty();
  const std::string location = settings.contains("index_location") ? name_in(settings, "index_location", file) : "end";
  if (location != "end" && location != "start") refuse(file, "index_location '" + location + "' is unknown.");
  metadata.index_at_end = location == "end";
}

void parse_keys(const Json& root, ArrayMetadata& metadata, const std::string& file) {
  const Json& encoding = member(root, "chunk_key_encoding", file);
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

ArrayMetadata parse(const Json& root, const std::string& file) {
  ArrayMetadata metadata;
  if (member(root, "zarr_format", file) != 3) refuse(file, "only zarr_format 3 is read.");
  const std::string kind = name_in(root, "node_type", file);
  if (kind != "array") refuse(file, "it holds a " + kind + ", not an array; name the array inside it (key=).");
  metadata.shape = extents_in(root, "shape", 0, file);
  if (!member(root, "data_type", file).is_string())
    refuse(file, "data_type " + root["data_type"].dump() + " is not supported; use a plain number type.");
  metadata.dtype = dtype_from_name(name_in(root, "data_type", file));
  check_size(metadata.shape, metadata.dtype, "an array", file);
  const Json& grid = member(root, "chunk_grid", file);
  if (name_in(grid, "name", file) != "regular") refuse(file, "only a regular chunk_grid is read.");
  metadata.chunks = extents_in(member(grid, "configuration", file), "chunk_shape", 1, file);
  if (metadata.chunks.size() != metadata.shape.size()) refuse(file, "shape and chunk_shape differ in dimensions.");
  check_size(metadata.chunks, metadata.dtype, "a chunk", file);
  if (root.contains("storage_transformers") && !root["storage_transformers"].empty())
    refuse(file, "storage_transformers are not supported.");
  parse_keys(root, metadata, file);
  metadata.fill = parse_fill(member(root, "fill_value", file), metadata.dtype, file);
  parse_codecs(member(root, "codecs", file), metadata, file);
  if (root.contains("attributes")) metadata.attributes = root["attributes"].dump();
  if (root.contains("dimension_names") && root["dimension_names"].is_array())
    for (const Json& name : root["dimension_names"])
      metadata.dimension_names.push_back(name.is_string() ? name.get<std::string>() : "");
  return metadata;
}

}  // namespace

ArrayMetadata parse_array_metadata(const std::string& text, const std::string& file) {
  return parsed(text, file, &parse);
}

std::string to_json(const ArrayMetadata& metadata) {
  const Json little = {{"name", "bytes"}, {"configuration", {{"endian", "little"}}}};
  Json inner = Json::array();
  if (!metadata.codec.order.empty())
    inner.push_back({{"name", "transpose"}, {"configuration", {{"order", metadata.codec.order}}}});
  inner.push_back(little);
  for (const CodecStep& step : metadata.codec.steps) inner.push_back(settings_of(step, metadata.dtype));
  Json names = Json::array();
  for (const std::string& name : metadata.dimension_names) names.push_back(name.empty() ? Json() : Json(name));
  for (std::size_t d = names.size(); d < metadata.shape.size(); ++d) names.push_back("dim_" + std::to_string(d));
  const Json sharding = {{"chunk_shape", metadata.chunks},
                         {"codecs", inner},
                         {"index_codecs", Json::array({little, {{"name", "crc32c"}}})},
                         {"index_location", "end"}};
  const Json root = {{"zarr_format", 3},
                     {"node_type", "array"},
                     {"shape", metadata.shape},
                     {"data_type", name_of(metadata.dtype)},
                     {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", metadata.shards}}}}},
                     {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
                     {"fill_value", fill_json(metadata.fill, metadata.dtype)},
                     {"codecs", Json::array({{{"name", "sharding_indexed"}, {"configuration", sharding}}})},
                     {"attributes", Json::parse(metadata.attributes.empty() ? "{}" : metadata.attributes)},
                     {"dimension_names", names},
                     {"storage_transformers", Json::array()}};
  return root.dump(2) + "\n";
}

std::vector<std::size_t> transpose_order(std::size_t dimensions, bool column_major) {
  std::vector<std::size_t> order(column_major && dimensions > 1 ? dimensions : 0);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = dimensions - 1 - i;
  return order;
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

std::uint64_t ArrayMetadata::index_bytes() const {
  return 16 * static_cast<std::uint64_t>(entries()) + (index_checksum ? 4 : 0);
}

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
