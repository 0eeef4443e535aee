#include "flagstone/storage/csr_append.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec.hpp"

namespace flagstone {

ChunkAppender::ChunkAppender(std::string directory, Dtype dtype, Index chunk, bool may_stay_raw)
    : directory_(std::move(directory)),
      chunk_elements_(chunk),
      item_(size_of(dtype)),
      may_stay_raw_(may_stay_raw),
      chunk_(static_cast<std::size_t>(chunk) * item_),
      packed_(static_cast<std::size_t>(chunk) * item_ + page_bytes) {
  metadata_.dtype = dtype;
  metadata_.chunks = {chunk};
  metadata_.codec.steps = {{Codec::blosc}};
  std::error_code error;
  std::filesystem::create_directories(directory_ + "/c", error);
  if (error) throw StorageError("create: cannot make the directory", error.value(), directory_ + "/c");
}

std::uint64_t ChunkAppender::slot_bytes() const {
  return align_up(static_cast<std::uint64_t>(chunk_elements_) * item_ +
                  (metadata_.codec.blosc_alone() ? page_bytes : 0));
}

void ChunkAppender::open_shard() {
  per_shard_ = std::clamp<Index>(static_cast<Index>(GiB / slot_bytes()), 1, 4095);
  shard_ = File::open(directory_ + "/c/" + std::to_string(stored_ / per_shard_), File::Mode::create);
  entries_.clear();
}

/// The index goes behind the last slot in use; a matrix of one shard gets an index of just its chunks.
void ChunkAppender::close_shard(bool last) {
  if (!shard_) return;
  const std::uint64_t used = entries_.size() * slot_bytes();
  if (last && stored_ <= per_shard_) per_shard_ = stored_;
  entries_.resize(static_cast<std::size_t>(per_shard_));
  const std::uint64_t length = align_up(used + 16 * entries_.size() + 4);
  shard_->truncate(length);
  write_shard_index(*shard_, entries_, length);
  shard_->sync();
  shard_.reset();
}

void ChunkAppender::store() {
  if (filled_ == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(chunk_elements_) * item_;
  std::memset(next(), 0, bytes - static_cast<std::size_t>(filled_) * item_);
  const std::byte* from = chunk_.data();
  std::size_t stored_bytes = bytes;
  if (metadata_.codec.blosc_alone()) {
    stored_bytes = encode_blosc({chunk_.data(), bytes}, item_, {packed_.data(), packed_.size()});
    from = packed_.data();
    if (stored_ == 0 && may_stay_raw_ && stored_bytes > bytes - bytes * 2 / 5) {
      metadata_.codec.steps.clear();
      from = chunk_.data();
      stored_bytes = bytes;
    }
  }
  if (stored_ == 0 || stored_ % per_shard_ == 0) {
    close_shard(false);
    open_shard();
  }
  const std::size_t pages = align_up(stored_bytes);
  if (from == packed_.data()) std::memset(packed_.data() + stored_bytes, 0, pages - stored_bytes);
  const std::uint64_t offset = entries_.size() * slot_bytes();
  write_exactly(shard_->direct(), *shard_, from, pages, offset);
  entries_.push_back({offset, stored_bytes});
  ++stored_;
  filled_ = 0;
}

void ChunkAppender::finish(const std::string& attributes) {
  store();
  close_shard(true);
  metadata_.shape = {total_};
  metadata_.shards = {chunk_elements_ * std::max<Index>(1, per_shard_)};
  metadata_.fill.assign(item_, std::byte{});
  metadata_.attributes = attributes;
  write_text(directory_ + "/zarr.json", to_json(metadata_));
}

}  // namespace flagstone
