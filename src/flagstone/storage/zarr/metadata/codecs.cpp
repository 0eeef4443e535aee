// The codecs of a Zarr v3 array: what is done to its chunks, and how shards lie in shards.
#include <algorithm>
#include <numeric>
#include <optional>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/codec_name.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/zarr/metadata/fields.hpp"

namespace flagstone::metadata_json {
namespace {

using Order = std::vector<std::size_t>;

Order as_it_is(std::size_t dimensions) {
  Order order(dimensions);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::string name_of_codec(const Json& codec, const std::string& file) {
  return codec.is_string() ? codec.get<std::string>() : name_in(codec, "name", file);
}

/// `before`: which dimension of the array each dimension is that a transpose codec is given; the same of what it makes.
Order transposed(const Order& before, const Json& codec, const std::string& file) {
  const Json order = member(member(codec, "configuration", file), "order", file);
  const std::size_t ndim = before.size();
  std::vector<bool> seen(ndim, false);
  if (!order.is_array() || order.size() != ndim) refuse(file, "codec 'transpose' needs an order of every dimension.");
  Order after;
  for (const Json& axis : order.elements()) {
    if (!axis.is_number_unsigned() || axis.get<std::uint64_t>() >= ndim || seen[axis.get<std::size_t>()])
      refuse(file, "codec 'transpose' needs an order that names every dimension once.");
    seen[axis.get<std::size_t>()] = true;
    after.push_back(before[axis.get<std::size_t>()]);
  }
  return after;
}

/// Goes through the transposes that a list of codecs begins with; returns how many.
std::size_t take_transposes(const Json& codecs, Order& order, const std::string& file) {
  if (!codecs.is_array()) refuse(file, "'codecs' must be a list.");
  std::size_t taken = 0;
  for (; taken < codecs.size() && name_of_codec(codecs[taken], file) == "transpose"; ++taken)
    order = transposed(order, codecs[taken], file);
  return taken;
}

/// The step that a v3 codec behind `bytes` stands for.
std::optional<Codec> step_named(const std::string& name) {
  if (name == "blosc") return Codec::blosc;
  if (name == "zstd") return Codec::zstd;
  if (name == "gzip") return Codec::gzip;
  if (name == "zlib" || name == "numcodecs.zlib") return Codec::zlib;
  if (name == "crc32c") return Codec::crc32c;
  if (name == name_of(Codec::bitpacked)) return Codec::bitpacked;
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
  if (step.codec == Codec::zstd && !(settings.value("checksum", Json(false)) == false)) return step;
  if (step.codec == Codec::blosc && (!packer || !shuffle)) return step;
  step.packer = packer.value_or(step.packer);
  step.shuffle = shuffle.value_or(step.shuffle);
  step.level = static_cast<int>(std::clamp<std::int64_t>(settings[level].get<std::int64_t>(), -999, 999));
  return step;
}

/// The codecs behind `taken` transposes, after which the dimensions stand in `order`.
CodecChain parse_chain(const Json& codecs, std::size_t taken, const Order& order, Dtype dtype,
                       const std::string& file) {
  CodecChain chain;
  if (!std::is_sorted(order.begin(), order.end())) chain.order = order;
  bool bytes = false;
  for (std::size_t i = taken; i < codecs.size(); ++i) {
    const Json codec = codecs[i];
    const std::string name = name_of_codec(codec, file);
    if (name == "bytes" && !bytes) {
      bytes = true;
      const Json settings = codec.is_object() ? codec.value("configuration", Json::object()) : Json::object();
      chain.big_endian =
          size_of(dtype) > 1 && settings.is_object() && settings.value("endian", std::string("little")) == "big";
    } else if (const auto step = step_named(name); bytes && step) {
      add_step(chain, with_settings({*step, size_of(dtype)}, codec), file);
    } else {
      refuse(file, "codec '" + name + "' is not read " + (name == "sharding_indexed" ? "there" : "here") +
                       "; rewrite the array with sharding_indexed, bytes, transpose, blosc, zstd, gzip or crc32c "
                       "(with zarr-python: compressors=zarr.codecs.BloscCodec()).");
    }
  }
  if (!bytes) refuse(file, "the codec 'bytes' is missing.");
  return chain;
}

/// The index of a shard: an array of its grid x 2, in either byte order, perhaps transposed, perhaps with checksums.
void parse_index_codecs(const Json& codecs, ShardLevel& level, const std::string& file) {
  Order order = as_it_is(level.grid.size() + 1);
  const std::size_t taken = take_transposes(codecs, order, file);
  const CodecChain chain = parse_chain(codecs, taken, order, Dtype::uint64, file);
  for (const CodecStep& step : chain.steps)
    if (step.codec != Codec::crc32c)
      refuse(file, "index codec '" + std::string(name_of(step.codec)) +
                       "' is not read; rewrite the array with index codecs bytes and crc32c.");
  level.index_order = chain.order;
  level.big_endian = chain.big_endian;
  level.checksums = chain.steps.size();
}

/// One level of sharding, whose shards metadata.chunks are so far; its chunks are they from then on.
ShardLevel parse_level(const Json& settings, const Order& order, ArrayMetadata& metadata, const std::string& file) {
  const Shape given = extents_in(settings, "chunk_shape", 1, file);
  if (given.size() != metadata.chunks.size()) refuse(file, "chunks and shards differ in dimensions.");
  Shape chunks = given;
  for (std::size_t d = 0; d < given.size(); ++d) chunks[order[d]] = given[d];
  ShardLevel level{given, order};
  for (std::size_t d = 0; d < given.size(); ++d) {
    if (metadata.chunks[order[d]] % given[d] != 0)
      refuse(file,
             "shards of " + to_string(metadata.chunks) + " are no multiple of chunks of " + to_string(chunks) + ".");
    level.grid[d] = metadata.chunks[order[d]] / given[d];
  }
  metadata.chunks = chunks;
  parse_index_codecs(member(settings, "index_codecs", file), level, file);
  const std::string location = settings.contains("index_location") ? name_in(settings, "index_location", file) : "end";
  if (location != "end" && location != "start") refuse(file, "index_location '" + location + "' is unknown.");
  level.index_at_end = location == "end";
  return level;
}

}  // namespace

Json settings_of(const CodecStep& step, Dtype dtype) {
  if (step.codec == Codec::crc32c) return Json::object({{"name", "crc32c"}});
  if (step.codec == Codec::bitpacked) return Json::object({{"name", name_of(step.codec)}});
  Json settings = Json::object({{"level", step.level}});
  if (step.codec == Codec::zstd) settings.set("checksum", false);
  if (step.codec == Codec::blosc)
    settings = Json::object({{"typesize", size_of(dtype)},
                             {"cname", name_of(step.packer)},
                             {"clevel", step.level},
                             {"shuffle", name_of(step.shuffle)},
                             {"blocksize", 0}});
  return Json::object({{"name", name_of(step.codec)}, {"configuration", settings}});
}

void parse_codecs(const Json& codecs, ArrayMetadata& metadata, const std::string& file) {
  constexpr std::size_t most_levels = 8;
  metadata.shards = metadata.chunks;
  Order order = as_it_is(metadata.shape.size());
  std::vector<ShardLevel> levels;
  Json list = codecs;
  for (;;) {
    const std::size_t taken = take_transposes(list, order, file);
    if (taken == list.size() || name_of_codec(list[taken], file) != "sharding_indexed") {
      metadata.codec = parse_chain(list, taken, order, metadata.dtype, file);
      break;
    }
    if (list.size() > taken + 1)
      refuse(file, "codec '" + name_of_codec(list[taken + 1], file) +
                       "' behind 'sharding_indexed' is not read; rewrite the array with it inside the shards.");
    if (levels.size() == most_levels) refuse(file, "shards in shards are read eight deep.");
    const Json settings = member(list[taken], "configuration", file);
    levels.push_back(parse_level(settings, order, metadata, file));
    list = member(settings, "codecs", file);
  }
  metadata.sharded = !levels.empty();
  if (metadata.entries() > (Index{1} << 32)) refuse(file, "a shard of more than 2^32 chunks is not supported.");
  if (levels.size() != 1 || !levels[0].as_written_here()) metadata.foreign_levels = std::move(levels);
}

}  // namespace flagstone::metadata_json
