#include "flagstone/storage/zarr/shard/chunk_checksums.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/file/sync.hpp"

namespace flagstone {
namespace {

constexpr char magic[8] = {'F', 'L', 'A', 'G', 'S', 'U', 'M', '\1'};
constexpr const char* folder = "__flagstone";
constexpr const char* name = "__flagstone/chunks.bin";
constexpr const char* carried = "__flagstone/chunks.next";

/// False where the file is shorter.
bool read_at(int file, void* to, std::size_t bytes, std::uint64_t offset, const std::string& path) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file, at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw StorageError("storage: cannot read the checksums", errno, path, offset);
    if (got == 0) return false;
    at += got, bytes -= static_cast<std::size_t>(got), offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

void write_at(int file, const void* from, std::size_t bytes, std::uint64_t offset, const std::string& path) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(file, at, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw StorageError("storage: cannot write the checksums", put < 0 ? errno : EIO, path, offset);
    at += put, bytes -= static_cast<std::size_t>(put), offset += static_cast<std::uint64_t>(put);
  }
}

/// Changes when chunks, shards, the type or the codecs do: then no block means what it says.
std::uint32_t print_of(const ArrayMetadata& metadata) {
  std::uint32_t sum = 0;
  const auto add = [&sum](const void* data, std::size_t bytes) { sum = crc32c(data, bytes, sum); };
  for (const Shape* shape : {&metadata.shape, &metadata.chunks, &metadata.shards})
    add(shape->data(), shape->size() * sizeof(Index));
  add(&metadata.dtype, sizeof metadata.dtype);
  for (const CodecStep& step : metadata.codec.steps) add(&step.codec, sizeof step.codec);
  return sum;
}

/// Whoever has the old file open finds no head in it: it tells no more what is stored (ChunkSums::never_stored). Only
/// once its name is gone from the disk too: after a power failure it may have it again. Returns an errno, or 0.
int replace_by_carried(int directory) {
  const Descriptor old(::openat(directory, name, O_WRONLY | O_CLOEXEC));
  if (::renameat(directory, carried, directory, name) != 0) return errno;
  const Descriptor parent(::openat(directory, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  constexpr char none[64] = {};
  if (old >= 0 && parent >= 0 && ::fsync(parent) == 0 && ::pwrite(old, none, sizeof none, 0) < 0) {
  }  // what it tells is true still, of the shape before
  return 0;
}

}  // namespace

struct ChunkSums::FileHead {
  char magic[8];
  std::uint64_t entries, blocks;
  std::uint32_t layout, unused[8];
  std::uint32_t crc;  // of all before it
};

struct ChunkSums::BlockHead {
  char magic[8];
  std::uint64_t bytes, inode;
  std::int64_t modified;
  std::uint32_t index, epoch, list, known;
  std::uint64_t before;  // a length that counts too: the file was about to grow
  std::uint32_t unused;
  std::uint32_t crc;  // of all before it
};

ChunkSums::ChunkSums(int directory, std::string path, const ArrayMetadata& metadata)
    : directory_(directory), path_(std::move(path) + "/" + name), grid_(metadata.shape), layout_(print_of(metadata)) {
  static_assert(sizeof(FileHead) == head_bytes && sizeof(BlockHead) == head_bytes && sizeof(ChunkSum) == 8);
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    grid_[d] = ceil_div(grid_[d], metadata.shards[d]);
    blocks_ *= static_cast<std::uint64_t>(grid_[d]);
  }
  entries_ = static_cast<std::uint64_t>(metadata.entries());
  stride_ = (head_bytes + 8 * entries_ + 63) / 64 * 64;  // a head never straddles two sectors
}

ChunkSums::~ChunkSums() {
  if (file_ >= 0) ::close(file_);
}

std::size_t ChunkSums::number_of(const Shape& shard) const {
  std::size_t number = 0;
  for (std::size_t d = 0; d < shard.size(); ++d)
    number = number * static_cast<std::size_t>(grid_[d]) + static_cast<std::size_t>(shard[d]);
  return number;
}

ChunkSums::FileHead ChunkSums::expected_head() const {
  FileHead head{};
  std::memcpy(head.magic, magic, sizeof magic);
  head.entries = entries_, head.blocks = blocks_, head.layout = layout_;
  head.crc = crc32c(&head, sizeof head - sizeof head.crc);
  return head;
}

/// False where there is none, or one for another layout of the array (it was resized by another program).
bool ChunkSums::open_existing(bool writable) {
  if (file_ >= 0 && (writable_ || !writable)) return true;
  if (file_ >= 0) ::close(file_);
  if (open_named(name, writable)) return true;
  const bool damaged = damaged_;
  // A resize that died after its commit left the sums of this shape beside the old ones.
  if (!open_named(carried, writable)) {
    damaged_ = damaged;
    return false;
  }
  if (writable) replace_by_carried(directory_);
  return true;
}

bool ChunkSums::open_named(const char* name, bool writable) {
  file_ = open_regular(directory_, name, writable ? O_RDWR : O_RDONLY, path_);
  if (file_ < 0 && errno != ENOENT && writable) throw StorageError("storage: cannot open the checksums", errno, path_);
  if (file_ < 0) return false;
  writable_ = writable;
  FileHead head;
  const FileHead expected = expected_head();
  bool whole = false;
  try {
    whole = read_at(file_, &head, sizeof head, 0, path_);
  } catch (const StorageError&) {
    ::close(std::exchange(file_, -1));
    throw;
  }
  if (whole && std::memcmp(&head, &expected, sizeof head) == 0) return true;
  damaged_ = !whole || std::memcmp(head.magic, magic, sizeof magic) != 0 ||
             head.crc != crc32c(&head, sizeof head - sizeof head.crc);
  ::close(file_);
  file_ = -1;
  return false;
}

bool ChunkSums::there() { return open_existing(false) || damaged_; }

void ChunkSums::make() {
  if (open_existing(true)) return;
  if (::mkdirat(directory_, folder, 0777) != 0 && errno != EEXIST)
    throw StorageError("storage: cannot make the directory of", errno, path_);
  file_ = ::openat(directory_, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) throw StorageError("storage: cannot create the checksums", errno, path_);
  writable_ = fresh_ = true;
  damaged_ = false;
  const FileHead head = expected_head();
  write_at(file_, &head, sizeof head, 0, path_);
}

ShardSums ChunkSums::load(std::size_t shard, const ShardStamp& stamp) { return read_block(shard, &stamp); }

ShardSums ChunkSums::last_known(std::size_t shard) { return read_block(shard, nullptr); }

bool ChunkSums::replaced() const {
  if (file_ < 0) return false;
  FileHead head;
  const FileHead expected = expected_head();
  return !read_at(file_, &head, sizeof head, 0, path_) || std::memcmp(&head, &expected, sizeof head) != 0;
}

bool ChunkSums::never_stored(std::size_t shard) {
  if (!open_existing(false) || replaced()) return false;
  BlockHead block{};
  const BlockHead none{};
  return !read_at(file_, &block, sizeof block, place(shard), path_) || std::memcmp(&block, &none, sizeof none) == 0;
}

ShardSums ChunkSums::read_block(std::size_t shard, const ShardStamp* stamp) {
  ShardSums sums;
  if (file_ < 0 && !looked_) {
    open_existing(false);
    looked_ = true;
  }
  if (damaged_) sums.state = ShardSums::State::damaged;
  BlockHead head;
  if (file_ < 0 || !read_at(file_, &head, sizeof head, place(shard), path_))
    return sums;  // short: no block was written
  const BlockHead none{};
  if (std::memcmp(&head, &none, sizeof head) == 0) return sums;
  sums.state = ShardSums::State::damaged;
  if (std::memcmp(head.magic, magic, sizeof magic) != 0 || head.crc != crc32c(&head, sizeof head - sizeof head.crc))
    return sums;
  sums.epoch = head.epoch;
  sums.stamp = {head.bytes, head.index, head.inode, head.modified};
  const bool fits =
      !stamp || (head.index == stamp->index && (stamp->bytes == head.bytes || stamp->bytes == head.before));
  if (!head.known || !fits) {
    sums.state = ShardSums::State::unknown;
    return sums;
  }
  sums.chunks.resize(entries_);
  if (!read_at(file_, sums.chunks.data(), 8 * entries_, place(shard) + head_bytes, path_) ||
      crc32c(sums.chunks.data(), 8 * entries_) != head.list) {
    sums.chunks.clear();
    return sums;
  }
  sums.state = ShardSums::State::known;
  return sums;
}

void ChunkSums::invalidate(std::size_t shard) {
  if (!open_existing(true)) return;
  BlockHead head{};
  if (!read_at(file_, &head, sizeof head, place(shard), path_) || !head.known) return;
  head.known = 0;
  head.crc = crc32c(&head, sizeof head - sizeof head.crc);
  write_at(file_, &head, sizeof head, place(shard), path_);
}

void ChunkSums::invalidate_all() {
  for (std::size_t shard = 0; shard < blocks_; ++shard) invalidate(shard);
}

void ChunkSums::growing(std::size_t shard, std::uint64_t from, std::uint64_t to) {
  if (!open_existing(true)) return;
  BlockHead head{};
  if (!read_at(file_, &head, sizeof head, place(shard), path_) || !head.known) return;
  head.bytes = to, head.before = from;
  head.crc = crc32c(&head, sizeof head - sizeof head.crc);
  write_at(file_, &head, sizeof head, place(shard), path_);
}

void ChunkSums::save(std::size_t shard, const ShardSums& sums) {
  make();
  write_at(file_, sums.chunks.data(), 8 * sums.chunks.size(), place(shard) + head_bytes, path_);
  BlockHead head{};
  std::memcpy(head.magic, magic, sizeof magic);
  head.bytes = sums.stamp.bytes, head.index = sums.stamp.index;
  head.inode = sums.stamp.inode, head.modified = sums.stamp.modified;
  head.epoch = sums.epoch, head.known = 1;
  head.list = crc32c(sums.chunks.data(), 8 * sums.chunks.size());
  head.crc = crc32c(&head, sizeof head - sizeof head.crc);
  write_at(file_, &head, sizeof head, place(shard), path_);
}

void ChunkSums::carry(int directory, const std::string& path, const ArrayMetadata& from, const ArrayMetadata& to,
                      const std::function<void(const std::function<void(const Shape&)>&)>& each_shard) {
  ChunkSums old(directory, path, from), fresh(directory, path, to);
  const bool known = old.open_existing(true);  // a resize that died may have left them under the other name
  ::unlinkat(directory, carried, 0);
  if (!known) {
    // For a third shape: it must not count again once the array has that shape.
    if (!old.damaged_ && ::unlinkat(directory, name, 0) == 0) sync_directory(path + "/" + folder);
    return;
  }
  fresh.file_ = ::openat(directory, carried, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fresh.file_ < 0) throw StorageError("resize: cannot create the checksums", errno, fresh.path_);
  const FileHead head = fresh.expected_head();
  write_at(fresh.file_, &head, sizeof head, 0, fresh.path_);
  Shape both = old.grid_;
  for (std::size_t d = 0; d < both.size(); ++d) both[d] = std::min(both[d], fresh.grid_[d]);
  std::vector<std::byte> block(old.stride_);
  const std::vector<std::byte> none(sizeof(BlockHead));
  each_shard([&](const Shape& at) {
    for (std::size_t d = 0; d < both.size(); ++d)
      if (at[d] >= both[d]) return;
    const std::size_t bytes = head_bytes + 8 * old.entries_;
    if (read_at(old.file_, block.data(), bytes, old.place(old.number_of(at)), old.path_) &&
        std::memcmp(block.data(), none.data(), none.size()) != 0)
      write_at(fresh.file_, block.data(), bytes, fresh.place(fresh.number_of(at)), fresh.path_);
  });
  sync_file(fresh.file_, fresh.path_, "resize: cannot sync the checksums");
  sync_directory(path + "/" + folder);  // before zarr.json says so: those of the old shape would count for a later one
}

void ChunkSums::adopt(int directory) {
  const int number = replace_by_carried(directory);
  if (number != 0 && number != ENOENT) throw StorageError("resize: cannot rename the checksums", number, name);
}

void ChunkSums::sync() {
  if (file_ < 0) return;
  sync_file(file_, path_);
  if (!fresh_) return;
  const std::string directory = path_.substr(0, path_.size() - std::strlen(name));
  sync_directory(directory + folder);
  sync_directory(directory);
  fresh_ = false;
}

ShardStamp stamp_of(const File& file, std::uint32_t index_crc) {
  struct stat status {};
  if (::fstat(file.buffered(), &status) != 0) throw StorageError("storage: cannot stat", errno, file.path());
  return {static_cast<std::uint64_t>(status.st_size), index_crc, static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace flagstone
