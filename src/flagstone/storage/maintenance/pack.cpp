#include "flagstone/storage/maintenance/pack.hpp"

#include <cstring>
#include <filesystem>
#include <span>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/codec/codec_name.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/codec/fill_value.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

constexpr std::size_t sum_bytes = sizeof(std::uint32_t);

class Packing {
 public:
  Packing(Ring* ring, const std::string& source, const std::string& destination, const PackOptions& options,
          std::size_t staging, const Progress& progress)
      : ring_(ring),
        array_(open_zarr_array(source)),
        store_(*zarr_store(array_)),
        directory_(destination),
        staging_(staging),
        progress_(progress),
        metadata_(store_.metadata()) {
    CodecChain bare = metadata_.codec;
    sum_inside_ = bare.summed_inside();
    if (sum_inside_) bare.steps.pop_back();
    CodecChain wanted = can_encode(bare) ? bare : CodecChain{};
    if (!options.codec.empty()) wanted = codec_from_text(options.codec);
    as_stored_ = can_encode(bare) && wanted.steps == bare.steps && wanted.order == bare.order;
    if (options.checksum) wanted.steps.push_back({.codec = Codec::crc32c});
    adapt(std::move(wanted), source);
  }

  PackPlan planned() {
    PackPlan plan{.moved = report_, .again = !as_stored_, .codec = codec_text()};
    plan.memory = room();
    const std::uint64_t chunk = chunk_bytes(array_), sum = metadata_.codec.summed_inside() ? sum_bytes : 0;
    const ChunkLayout shards(metadata_.shape, metadata_.shards, metadata_.dtype);
    for (const Shape& shard : shards.touched(whole(metadata_.shape))) {
      const std::uint64_t before = plan.moved.stored;
      for (std::size_t i = 0; i < static_cast<std::size_t>(metadata_.entries()); ++i) {
        const Shape one = metadata_.chunk_of(shard, i);
        const StoredChunk stored = inside(one) ? store_.locate(one) : StoredChunk{};
        if (stored.bytes == 0) continue;
        ++plan.moved.stored;
        plan.unpacked += chunk;
        plan.moved.bytes_read += stored.bytes;
        plan.moved.bytes_written += (as_stored_ ? stored.bytes - (sum_inside_ ? sum_bytes : 0) : chunk) + sum;
      }
      if (plan.moved.stored > before) plan.moved.bytes_written += metadata_.index_bytes();
    }
    return plan;
  }

  PackReport run() {
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    if (error) throw StorageError("pack: cannot make the directory", error.value(), directory_);
    encoded_ = Buffer(encoded_bytes());
    if (!as_stored_) {
      decoded_ = Buffer(align_up(chunk_bytes(array_)));
      scratch_ = Buffer(scratch_bytes());
    }
    const ChunkLayout shards(metadata_.shape, metadata_.shards, metadata_.dtype);
    for (const Shape& shard : shards.touched(whole(metadata_.shape))) write_shard(shard);
    write_text(directory_ + "/zarr.json", to_json(metadata_));
    return report_;
  }

 private:
  /// What the copy says of itself; a foreign store becomes one that is sharded as ours are.
  void adapt(CodecChain wanted, const std::string& source) {
    const std::uint64_t chunk = static_cast<std::uint64_t>(chunk_bytes(array_));
    metadata_.codec = std::move(wanted);
    most_ = most_encoded(metadata_.codec, chunk);
    if (!metadata_.codec.raw() && chunk >= 2 * GiB)
      throw ShapeError("pack: chunks of " + format_bytes(chunk) + " cannot be packed; use codec raw without checksum.");
    if (!metadata_.sharded) metadata_.shards = default_shards(metadata_.shape, metadata_.chunks, align_up(chunk));
    const std::string attributes = source + "/.zattrs";
    if (metadata_.version == 2 && std::filesystem::exists(attributes))
      take_attributes_v2(read_text(attributes), attributes, metadata_);
    metadata_.sharded = metadata_.default_keys = true;
    metadata_.foreign_levels.clear();
    metadata_.version = 3;
    metadata_.separator = '/';
    report_.chunks = static_cast<std::uint64_t>(count(store_.layout().grid));
  }

  std::uint64_t encoded_bytes() const {
    return align_up(std::max<std::uint64_t>(most_, store_.layout().most_packed()) + page_bytes);
  }
  std::uint64_t scratch_bytes() const {
    return align_up(encode_scratch_bytes(metadata_.codec, chunk_bytes(array_)) + 1);
  }
  /// Most bytes that run() holds beside the staging of one chunk that is read.
  std::uint64_t room() const {
    if (as_stored_) return encoded_bytes();
    return encoded_bytes() + align_up(chunk_bytes(array_)) + scratch_bytes() + store_.unpack_bytes();
  }
  std::string codec_text() const {
    CodecChain bare = metadata_.codec;
    if (bare.summed_inside()) bare.steps.pop_back();
    return to_text(bare);
  }
  bool inside(const Shape& chunk) const {
    bool within = true;
    for (std::size_t d = 0; d < chunk.size(); ++d) within = within && chunk[d] < store_.layout().grid[d];
    return within;
  }

  void write_shard(const Shape& shard) {
    std::vector<ShardEntry> entries(static_cast<std::size_t>(metadata_.entries()));
    std::shared_ptr<File> file;
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Shape chunk = metadata_.chunk_of(shard, i);
      const std::size_t bytes = inside(chunk) ? fetch(chunk) : 0;
      if (bytes == 0) continue;
      if (!file) file = create(shard);
      write_exactly(file->buffered(), *file, encoded_.data(), bytes, at);
      entries[i] = {at, bytes};
      at += bytes;
      ++report_.stored;
      if (progress_) progress_(report_.bytes_read);
    }
    if (!file) return;
    at += metadata_.index_bytes();
    write_shard_index(*file, entries, at);
    file->sync();
    report_.bytes_written += at;
  }

  std::shared_ptr<File> create(const Shape& shard) const {
    const std::filesystem::path path(directory_ + "/" + metadata_.key(shard));
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) throw StorageError("pack: cannot create a directory", error.value(), path.parent_path().string());
    return File::open(path.string(), File::Mode::create);
  }

  /// A chunk as it is to be stored, in encoded_; 0: absent.
  std::size_t fetch(const Shape& chunk) {
    const StoredChunk stored = store_.locate(chunk);
    report_.bytes_read += stored.bytes;
    if (stored.bytes == 0) return 0;
    return as_stored_ ? copied(chunk, stored) : packed_again(chunk);
  }

  std::size_t copied(const Shape& chunk, const StoredChunk& stored) {
    const std::string where = stored.file->path();
    if (stored.bytes > encoded_.size() - page_bytes || (sum_inside_ && stored.bytes <= sum_bytes))
      throw FormatError("pack: " + where + ": a chunk has " + format_bytes(stored.bytes) +
                        "; it is damaged (fl.check lists all that are).");
    read_exactly(*stored.file, encoded_.data(), stored.bytes, stored.offset);
    if (stored.crc && crc32c(encoded_.data(), stored.bytes) != *stored.crc)
      store_.layout().mismatch(chunk, *stored.crc);
    std::size_t bytes = stored.bytes - (sum_inside_ ? sum_bytes : 0);
    const std::uint32_t sum = crc32c(encoded_.data(), bytes);
    if (sum_inside_ && std::memcmp(encoded_.data() + bytes, &sum, sizeof sum) != 0)
      throw FormatError("pack: " + where + ": chunk " + to_string(chunk) +
                        " does not match its checksum; it is damaged (fl.check lists all that are).");
    if (!metadata_.codec.summed_inside()) return bytes;
    std::memcpy(encoded_.data() + bytes, &sum, sizeof sum);
    return bytes + sizeof sum;
  }

  std::size_t packed_again(const Shape& chunk) {
    const std::size_t item = size_of(metadata_.dtype), bytes = chunk_bytes(array_);
    const Box box = store_.layout().chunk_box(chunk);
    const Shape strides = c_strides(metadata_.chunks, item);
    const Tile all{decoded_.data(), metadata_.dtype, metadata_.chunks, strides, bytes};
    if (box.shape != metadata_.chunks) fill(all, metadata_.fill.data());
    read_box(*ring_, array_, box, {decoded_.data(), metadata_.dtype, box.shape, strides, 0}, staging_);
    if (is_filled({decoded_.data(), bytes}, metadata_.fill)) return 0;
    return encode_chunk(metadata_.codec, {decoded_.data(), bytes}, item, {encoded_.data(), encoded_.size()},
                        scratch_.data());
  }

  Ring* ring_;  // none: nothing is read
  Array array_;
  ZarrStore& store_;
  std::string directory_;
  std::size_t staging_;
  const Progress progress_;
  ArrayMetadata metadata_;  // of the copy
  bool sum_inside_ = false, as_stored_ = false;
  std::uint64_t most_ = 0;
  Buffer encoded_, decoded_, scratch_;
  PackReport report_;
};

}  // namespace

PackReport pack_array(Ring& ring, const std::string& source, const std::string& destination, const PackOptions& options,
                      std::size_t staging, const Progress& progress) {
  return Packing(&ring, source, destination, options, staging, progress).run();
}

PackPlan plan_pack(const std::string& source, const PackOptions& options) {
  return Packing(nullptr, source, {}, options, 0, {}).planned();
}

}  // namespace flagstone
