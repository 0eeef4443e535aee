#include "flagstone/storage/sparse/chunk_appender.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/bitpacked.hpp"
#include "flagstone/storage/codec/codec_name.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/codec/encode.hpp"
#include "flagstone/storage/codec/fill_value.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/zarr/metadata/checksum.hpp"

namespace flagstone {

ChunkAppender::ChunkAppender(std::string directory, Dtype dtype, Index chunk, bool may_stay_raw)
    : directory_(std::move(directory)),
      chunk_elements_(chunk),
      item_(size_of(dtype)),
      fill_(item_),
      may_stay_raw_(may_stay_raw) {
  chunk_ = Buffer(chunk_bytes());
  metadata_.dtype = dtype;
  metadata_.chunks = {chunk};
  metadata_.codec = codec_from_text("blosc-lz4");
  std::error_code error;
  std::filesystem::create_directories(directory_ + "/c", error);
  if (error) throw StorageError("create: cannot make the directory", error.value(), directory_ + "/c");
}

void ChunkAppender::bitpack() {
  metadata_.codec.steps = {{.codec = Codec::bitpacked, .item = item_}};
  may_stay_raw_ = false;
}

void ChunkAppender::set_fill(const std::byte* element) { fill_.assign(element, element + item_); }

std::size_t ChunkAppender::packed_bytes() const {
  const bool bits = !metadata_.codec.steps.empty() && metadata_.codec.steps[0].codec == Codec::bitpacked;
  return bits ? align_up(most_bitpacked(chunk_bytes(), item_)) : chunk_bytes() + page_bytes;
}

std::uint64_t ChunkAppender::slot_bytes() const {
  return align_up(metadata_.codec.steps.empty() ? chunk_bytes() : packed_bytes());
}

/// The first chunk, padded, is in memory.
void ChunkAppender::decide() {
  if (!may_stay_raw_) return;
  Buffer packed(packed_bytes());
  const std::size_t bytes = encode_blosc({chunk_.data(), chunk_bytes()}, item_, {packed.data(), packed.size()});
  if (bytes > chunk_bytes() - chunk_bytes() * 2 / 5) metadata_.codec.steps.clear();
}

void ChunkAppender::open_shard() {
  per_shard_ = std::clamp<Index>(static_cast<Index>(GiB / slot_bytes()), 1, 4095);
  const std::string path = directory_ + "/c/" + std::to_string(left_ / per_shard_);
  ::unlink(path.c_str());  // of a dead writer that came further than its last checkpoint
  shard_ = File::open(path, File::Mode::create);
  entries_.assign(static_cast<std::size_t>(per_shard_), {});
  sums_.assign(static_cast<std::size_t>(per_shard_), {});
}

/// The index goes behind the last slot in use; a matrix of one shard gets an index of just its chunks.
void ChunkAppender::close_shard(bool last) {
  if (!shard_) return;
  const Index before = (left_ - 1) / per_shard_ * per_shard_;
  const std::uint64_t used = static_cast<std::uint64_t>(left_ - before) * slot_bytes();
  if (last && left_ <= per_shard_) per_shard_ = left_;
  entries_.resize(static_cast<std::size_t>(per_shard_));
  const std::uint64_t length = align_up(used + 16 * entries_.size() + 4);
  shard_->truncate(length);
  write_shard_index(*shard_, entries_, length);
  shard_->sync();
  sums_.resize(entries_.size());
  blocks_.push_back({ShardSums::State::known, 1, stamp_of(*shard_, crc_of(entries_)), std::exchange(sums_, {})});
  shard_.reset();
}

ChunkAppender::Filled ChunkAppender::leave(Buffer empty) {
  for (std::byte* at = next(); at < chunk_.data() + chunk_bytes(); at += item_) std::memcpy(at, fill_.data(), item_);
  if (left_ == 0) decide();
  if (left_ % per_shard_ == 0 || !shard_) {
    close_shard(false);
    open_shard();
  }
  Filled filled{std::move(chunk_), filled_, static_cast<std::size_t>(left_ % per_shard_), shard_};
  chunk_ = empty ? std::move(empty) : Buffer(chunk_bytes());
  filled_ = 0;
  ++left_;
  return filled;
}

void ChunkAppender::store(const Filled& filled, Buffer& packed) {
  const std::byte* from = filled.memory.data();
  std::size_t bytes = chunk_bytes();
  if (is_filled({from, bytes}, {fill_.data(), item_})) return;  // absent: nothing is stored of it
  if (!metadata_.codec.steps.empty()) {
    if (packed.size() < packed_bytes()) packed = Buffer(packed_bytes());
    const std::span<std::byte> to{packed.data(), packed.size()};
    bytes =
        metadata_.codec.blosc_alone() ? encode_blosc({from, bytes}, item_, to) : pack_bits({from, bytes}, item_, to);
    from = packed.data();
    std::memset(packed.data() + bytes, 0, align_up(bytes) - bytes);
  }
  const std::uint64_t offset = filled.entry * slot_bytes();
  write_exactly(filled.file->direct(), *filled.file, from, align_up(bytes), offset);
  entries_[filled.entry] = {offset, bytes};
  sums_[filled.entry] = {crc32c(from, bytes), 1};
}

void ChunkAppender::store() {
  if (filled_ == 0) return;
  Filled filled = leave();
  store(filled, packed_);
  chunk_ = std::move(filled.memory);
}

/// Behind the last shard: only then is it known how many chunks the shards have.
void ChunkAppender::save_sums() const {
  const Descriptor directory(::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory < 0) throw StorageError("create: cannot open the directory", errno, directory_);
  ChunkSums file(directory, directory_, metadata_);
  file.make();
  for (std::size_t i = 0; i < blocks_.size(); ++i) file.save(i, blocks_[i]);
  file.sync();
}

void ChunkAppender::save(StateWriter& to) const {
  if (shard_) shard_->sync();
  sync_directory(directory_ + "/c");
  sync_directory(directory_);
  to.put(metadata_.codec.steps.empty());
  to.put(filled_), to.put(total_), to.put(left_), to.put(per_shard_);
  to.raw(chunk_.data(), static_cast<std::size_t>(filled_) * item_);
  to.put(shard_ != nullptr);
  to.put(entries_), to.put(sums_);
  to.put(blocks_.size());
  for (const ShardSums& block : blocks_) to.put(block.stamp), to.put(block.chunks);
}

void ChunkAppender::restore(StateReader& from) {
  bool raw = false, open = false;
  from.get(raw);
  if (raw) metadata_.codec.steps.clear();
  from.get(filled_), from.get(total_), from.get(left_), from.get(per_shard_);
  if (filled_ < 0 || filled_ > chunk_elements_ || per_shard_ < 1)
    throw FormatError("resume: what was noted of " + directory_ + " is damaged; make the call again.");
  from.raw(chunk_.data(), static_cast<std::size_t>(filled_) * item_);
  from.get(open);
  from.get(entries_), from.get(sums_);
  std::size_t blocks = 0;
  from.get(blocks);
  for (; blocks > 0; --blocks) {
    ShardSums block{ShardSums::State::known, 1, {}, {}};
    from.get(block.stamp), from.get(block.chunks);
    blocks_.push_back(std::move(block));
  }
  if (open) shard_ = File::open(directory_ + "/c/" + std::to_string((left_ - 1) / per_shard_), File::Mode::update);
}

void ChunkAppender::finish(const std::string& attributes) {
  store();
  close_shard(true);
  metadata_.shape = {total_};
  metadata_.shards = {chunk_elements_ * std::max<Index>(1, per_shard_)};
  metadata_.fill = fill_;
  metadata_.attributes = attributes;
  save_sums();
  const std::string file = directory_ + "/zarr.json", text = to_json(metadata_);
  write_text(file, text);
  stamp_metadata(file, text, array_stamp(directory_));
}

}  // namespace flagstone
