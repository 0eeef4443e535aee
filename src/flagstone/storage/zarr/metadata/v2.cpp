// .zarray of Zarr v2, told in the words of v3.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/codec_name.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/metadata/fields.hpp"

namespace flagstone {
namespace {

using namespace metadata_json;

/// "<f4" as NumPy writes it: byte order, kind, bytes. Whether it counts time: datetime64, timedelta64.
bool parse_dtype(const Json& root, ArrayMetadata& metadata, const std::string& file) {
  if (!member(root, "dtype", file).is_string())
    refuse(file, "dtype " + root["dtype"].dump() + " is a structure; plain numbers are read.");
  const std::string text = name_in(root, "dtype", file);
  const auto known = [&](char kind, const char* digits) {
    return text.size() >= 3 && text[1] == kind && text.substr(2) == digits;
  };
  static constexpr struct {
    char kind;
    const char* digits;
    Dtype dtype;
  } table[] = {{'b', "1", Dtype::boolean},   {'i', "1", Dtype::int8},       {'i', "2", Dtype::int16},
               {'i', "4", Dtype::int32},     {'i', "8", Dtype::int64},      {'u', "1", Dtype::uint8},
               {'u', "2", Dtype::uint16},    {'u', "4", Dtype::uint32},     {'u', "8", Dtype::uint64},
               {'f', "2", Dtype::float16},   {'f', "4", Dtype::float32},    {'f', "8", Dtype::float64},
               {'c', "8", Dtype::complex64}, {'c', "16", Dtype::complex128}};
  for (const auto& row : table) {
    if (!known(row.kind, row.digits)) continue;
    metadata.dtype = row.dtype;
    metadata.codec.big_endian = text[0] == '>' && size_of(row.dtype) > 1;
    return false;
  }
  if (text.size() > 3 && (text[1] == 'M' || text[1] == 'm') && text[2] == '8') {  // counts of the unit behind it
    metadata.dtype = Dtype::int64;
    metadata.codec.big_endian = text[0] == '>';
    return true;
  }
  refuse(file, "dtype '" + text + "' is not supported; use a plain number type.");
}

/// What a writer has to know; a reader needs none of it, so that whatever is odd stays unknown.
void take_settings(CodecStep& step, const Json& codec, Dtype dtype) {
  const auto number = [&](const char* name, int otherwise) {
    const Json value = codec.value(name, Json());
    return value.is_number_integer() ? static_cast<int>(std::clamp<std::int64_t>(value.get<std::int64_t>(), -999, 999))
                                     : otherwise;
  };
  if (step.codec == Codec::zstd && !(codec.value("checksum", Json(false)) == false)) return;
  if (step.codec == Codec::blosc) {
    const Json name = codec.value("cname", Json());
    const auto packer = name.is_string() ? blosc_packer(name.get<std::string>()) : std::nullopt;
    int shuffle = number("shuffle", 1);
    if (shuffle == -1) shuffle = size_of(dtype) == 1 ? 2 : 1;  // numcodecs' AUTOSHUFFLE
    if (!packer || shuffle < 0 || shuffle > 2) return;
    step.packer = *packer;
    step.shuffle = static_cast<BloscShuffle>(shuffle);
    step.level = number("clevel", 5);
  } else if (step.codec == Codec::zstd || step.codec == Codec::gzip) {
    step.level = number("level", 1);
  }
}

/// A numcodecs configuration, {"id": "zstd", ...}.
void parse_codec(const Json& codec, bool filter, ArrayMetadata& metadata, const std::string& file) {
  const std::string id = name_in(codec, "id", file);
  CodecStep step;
  if (id == "shuffle" && filter) {
    step.codec = Codec::shuffle;
    const Json item = member(codec, "elementsize", file);
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() < 1 || item.get<std::uint64_t>() > 256)
      refuse(file, "the filter 'shuffle' needs an elementsize of 1 to 256.");
    step.item = item.get<std::size_t>();
  } else if (id == "blosc" && !filter) {
    step.codec = Codec::blosc;
  } else if (id == "zstd" && !filter) {
    step.codec = Codec::zstd;
  } else if (id == "gzip" && !filter) {
    step.codec = Codec::gzip;
  } else if (id == "zlib" && !filter) {
    step.codec = Codec::zlib;
  } else if (id == "bz2" && !filter) {
    step.codec = Codec::bz2;
  } else {
    refuse(file, std::string(filter ? "filter '" : "compressor '") + id +
                     "' is not read here; rewrite the array with blosc, zstd, gzip, zlib or bz2.");
  }
  take_settings(step, codec, metadata.dtype);
  add_step(metadata.codec, step, file);
}

/// A number that stands in quotes, which v2 allows and v3 does not; all else as it is.
Json number_in(const Json& value) {
  if (!value.is_string()) return value;
  const auto text = value.get<std::string>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number) ? Json(number) : value;
}

void parse_codecs(const Json& root, ArrayMetadata& metadata, const std::string& file) {
  const std::string order = root.contains("order") ? name_in(root, "order", file) : "C";
  if (order != "C" && order != "F") refuse(file, "order '" + order + "' is unknown; C and F are.");
  if (order == "F" && metadata.shape.size() > 1)
    for (std::size_t d = metadata.shape.size(); d-- > 0;) metadata.codec.order.push_back(d);
  if (root.contains("filters") && root["filters"].is_array())
    for (const Json& filter : root["filters"].elements()) parse_codec(filter, true, metadata, file);
  if (!member(root, "compressor", file).is_null()) parse_codec(root["compressor"], false, metadata, file);
}

ArrayMetadata parse(const Json& root, const std::string& file) {
  ArrayMetadata metadata;
  metadata.version = 2;
  if (member(root, "zarr_format", file) != 2) refuse(file, "a .zarray must say zarr_format 2.");
  metadata.shape = extents_in(root, "shape", 0, file);
  const bool times = parse_dtype(root, metadata, file);
  check_size(metadata.shape, metadata.dtype, "an array", file);
  metadata.chunks = extents_in(root, "chunks", 1, file);
  if (metadata.chunks.size() != metadata.shape.size()) refuse(file, "shape and chunks differ in dimensions.");
  check_size(metadata.chunks, metadata.dtype, "a chunk", file);
  metadata.shards = metadata.chunks;
  metadata.sharded = false;
  metadata.default_keys = false;
  metadata.separator = '.';
  if (root.contains("dimension_separator")) {
    const std::string separator = name_in(root, "dimension_separator", file);
    if (separator != "/" && separator != ".") refuse(file, "dimension_separator must be '/' or '.'.");
    metadata.separator = separator[0];
  }
  metadata.fill_known = !member(root, "fill_value", file).is_null();
  const Json fill = number_in(member(root, "fill_value", file));
  metadata.fill = parse_fill(times ? fill_of_times(fill) : fill, metadata.dtype, file);
  parse_codecs(root, metadata, file);
  return metadata;
}

}  // namespace

void take_attributes_v2(const std::string& text, const std::string& file, ArrayMetadata& metadata) {
  Json attributes;
  try {
    attributes = Json::parse(text);
  } catch (const JsonError&) {  // null is no object either
  }
  if (!attributes.is_object()) refuse(file, "the attributes are not a JSON object; mend or remove the file.");
  std::vector<std::string> names;
  const Json given = attributes.value("_ARRAY_DIMENSIONS", Json());
  for (const Json& name : given.elements())
    if (name.is_string()) names.push_back(name.get<std::string>());
  if (given.is_array() && names.size() == given.size() && names.size() == metadata.shape.size()) {
    metadata.dimension_names = names;
    attributes.erase("_ARRAY_DIMENSIONS");
  }
  metadata.attributes = attributes.dump();
}

ArrayMetadata parse_array_metadata_v2(const std::string& text, const std::string& file) {
  return parsed(text, file, &parse);
}

}  // namespace flagstone
