#include "flagstone/storage/metadata.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw FormatError("open: " + file + ": " + what);
}

const Json& member(const Json& object, const char* name, const std::string& file) {
  if (!object.is_object() || !object.contains(name))
    refuse(file, std::string("'") + name + "' is missing; it is not the metadata of a Zarr v3 array.");
  return object[name];
}

std::string name_in(const Json& object, const char* name, const std::string& file) {
  const Json& value = member(object, name, file);
  if (!value.is_string()) refuse(file, std::string("'") + name + "' must be a string.");
  return value.get<std::string>();
}

Shape extents_in(const Json& object, const char* name, Index least, const std::string& file) {
  const Json& list = member(object, name, file);
  Shape shape;
  if (!list.is_array()) refuse(file, std::string("'") + name + "' must be a list of extents.");
  for (const Json& extent : list) {
    if (!extent.is_number_integer() || extent.get<Index>() < least ||
        (extent.is_number_unsigned() && extent.get<std::uint64_t>() > std::numeric_limits<Index>::max()))
      refuse(file, std::string("'") + name + "' must hold integers of at least " + std::to_string(least) + ".");
    shape.push_back(extent.get<Index>());
  }
  if (shape.size() > 64) refuse(file, std::string("'") + name + "' has more than 64 dimensions.");
  return shape;
}

/// Bytes of an array of this shape; refuses what 63 bits cannot count.
void check_size(const Shape& shape, Dtype dtype, const char* what, const std::string& file) {
  Index bytes = static_cast<Index>(size_of(dtype));
  for (Index extent : shape)  // an empty dimension does not excuse the others: strides are products too
    if (__builtin_mul_overflow(bytes, extent == 0 ? 1 : extent, &bytes))
      refuse(file, std::string(what) + " of " + to_string(shape) + " elements is larger than 2^63 bytes.");
}

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
    } else if (name == "blosc" && bytes && !chain.blosc && !chain.crc32c) {
      chain.blosc = true;
    } else if (name == "crc32c" && bytes && !chain.crc32c) {
      chain.crc32c = true;
    } else {
      refuse(file, "codec '" + name +
                       "' is not read yet here; rewrite the array with bytes or blosc (with zarr-python: "
                       "compressors=zarr.codecs.BloscCodec()).");
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
  if (chain.big_endian || chain.blosc || !chain.order.empty())
    refuse(file, "index codecs other than bytes (little) and crc32c are not read.");
  metadata.index_checksum = chain.crc32c;
  const std::string location = settings.contains("index_location") ? name_in(settings, "index_location", file) : "end";
  if (location != "end" && location != "start") refuse(file, "index_location '" + location + "' is unknown.");
  metadata.index_at_end = location == "end";
}

template <class T>
void put(std::vector<std::byte>& to, std::size_t at, T value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}

std::uint16_t to_half(double value) {  // enough for fill values: round to nearest, subnormals become zero
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7E00;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520) return sign | 0x7C00;
  if (magnitude < 0x1p-14) return sign;
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<int>(std::lrint((fraction * 2 - 1) * 1024));
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + mantissa));
}

double real_value(const Json& value, const std::string& file) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  refuse(file, "fill_value " + value.dump() + " is no number of the array's type.");
}

void put_real(std::vector<std::byte>& to, std::size_t at, Dtype dtype, const Json& value, const std::string& file) {
  const std::size_t item = size_of(dtype);
  if (value.is_string() && value.get<std::string>().rfind("0x", 0) == 0) {  // the bits of a NaN
    const auto text = value.get<std::string>();
    std::uint64_t bits = 0;
    if (text.size() != 2 + 2 * item || text.find_first_not_of("0123456789abcdefABCDEF", 2) != std::string::npos)
      refuse(file, "fill_value " + value.dump() + " is no number of the array's type.");
    bits = std::stoull(text.substr(2), nullptr, 16);
    std::memcpy(to.data() + at, &bits, item);
    return;
  }
  const double number = real_value(value, file);
  if (item == 8) put(to, at, number);
  if (item == 4) put(to, at, static_cast<float>(number));
  if (item == 2) put(to, at, to_half(number));
}

std::vector<std::byte> parse_fill(const Json& value, Dtype dtype, const std::string& file) {
  std::vector<std::byte> fill(size_of(dtype));
  if (value.is_null()) return fill;
  if (is_complex(dtype)) {
    if (!value.is_array() || value.size() != 2)
      refuse(file, "fill_value of a complex array must be [real, imaginary].");
    put_real(fill, 0, real_part_of(dtype), value[0], file);
    put_real(fill, fill.size() / 2, real_part_of(dtype), value[1], file);
  } else if (!is_integer(dtype)) {
    put_real(fill, 0, dtype, value, file);
  } else if (value.is_boolean()) {
    fill[0] = std::byte{value.get<bool>()};
  } else if (value.is_number_integer()) {
    const std::int64_t number = value.get<std::int64_t>();  // two's complement: the low bytes are right for all widths
    std::memcpy(fill.data(), &number, fill.size());
  } else {
    refuse(file, "fill_value " + value.dump() + " is no number of the array's type.");
  }
  return fill;
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
  try {
    return parse(Json::parse(text), file);
  } catch (const Json::exception&) {
    refuse(file, text.empty() ? "the file is empty; the array was not written whole."
                              : "it is not valid Zarr metadata (JSON); the file is damaged.");
  } catch (const FormatError& error) {
    const std::string what = error.what();
    if (what.rfind("open: ", 0) == 0) throw;
    refuse(file, what);  // a dtype's complaint does not know the file
  }
}

std::string to_json(const ArrayMetadata& metadata) {
  const Json little = {{"name", "bytes"}, {"configuration", {{"endian", "little"}}}};
  Json inner = Json::array({little});
  if (metadata.codec.blosc)
    inner.push_back({{"name", "blosc"},
                     {"configuration",
                      {{"typesize", size_of(metadata.dtype)},
                       {"cname", "lz4"},
                       {"clevel", 5},
                       {"shuffle", "shuffle"},
                       {"blocksize", 0}}}});
  Json fill = 0;
  if (metadata.dtype == Dtype::boolean) fill = false;
  if (!is_integer(metadata.dtype)) fill = 0.0;
  if (is_complex(metadata.dtype)) fill = Json::array({0.0, 0.0});
  std::vector<std::string> names = metadata.dimension_names;
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
                     {"fill_value", fill},
                     {"codecs", Json::array({{{"name", "sharding_indexed"}, {"configuration", sharding}}})},
                     {"attributes", Json::parse(metadata.attributes.empty() ? "{}" : metadata.attributes)},
                     {"dimension_names", names},
                     {"storage_transformers", Json::array()}};
  return root.dump(2) + "\n";
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
