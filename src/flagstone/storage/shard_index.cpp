#include "flagstone/storage/shard_index.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/crc32c.hpp"

namespace flagstone {

void read_exactly(const File& file, void* to, std::size_t bytes, std::uint64_t offset) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file.buffered(), at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw StorageError("storage: cannot read", errno, file.path(), offset);
    if (got == 0)
      throw FormatError("open: " + file.path() + ": it ends at byte " + std::to_string(offset) +
                        "; the file is truncated, write or copy it again.");
    at += got, bytes -= static_cast<std::size_t>(got), offset += static_cast<std::uint64_t>(got);
  }
}

void write_exactly(int descriptor, const File& file, const void* from, std::size_t bytes, std::uint64_t offset) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(descriptor, at, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw StorageError("storage: cannot write", put < 0 ? errno : EIO, file.path(), offset);
    at += put, bytes -= static_cast<std::size_t>(put), offset += static_cast<std::uint64_t>(put);
  }
}

std::vector<ShardEntry> read_shard_index(const File& file, const ArrayMetadata& metadata) {
  const std::uint64_t size = file.size(), index_bytes = metadata.index_bytes();
  const auto refuse = [&](const std::string& what) {
    return FormatError("open: " + file.path() + ": " + what + "; the shard is damaged, write or copy it again.");
  };
  if (size < index_bytes)
    throw refuse("it has " + std::to_string(size) + " bytes, fewer than its index of " + std::to_string(index_bytes));
  std::vector<std::byte> text(index_bytes);
  read_exactly(file, text.data(), text.size(), metadata.index_at_end ? size - index_bytes : 0);
  const std::size_t n = static_cast<std::size_t>(metadata.entries());
  if (metadata.index_checksum) {
    std::uint32_t stored;
    std::memcpy(&stored, text.data() + 16 * n, sizeof stored);
    if (crc32c(text.data(), 16 * n) != stored)
      throw refuse("the checksum of its index does not match (a writer died, or the file was cut)");
  }
  std::vector<ShardEntry> entries(n);
  std::memcpy(entries.data(), text.data(), 16 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const ShardEntry& entry = entries[i];
    if (entry.absent()) continue;
    if (entry.bytes == 0 || entry.bytes > size || entry.offset > size - entry.bytes)
      throw refuse("chunk " + std::to_string(i) + " lies outside the file");
  }
  return entries;
}

/// In whole pages and by one direct request where that is possible: a process that is killed during a longer write
/// through the page cache leaves a part of it, and other programs could not read the shard until a writer comes.
void write_shard_index(const File& file, const std::vector<ShardEntry>& entries, std::uint64_t file_bytes) {
  static_assert(sizeof(ShardEntry) == 16);
  const std::size_t bytes = 16 * entries.size() + 4;
  const std::uint64_t first = file_bytes - bytes;
  const bool direct = file.has_direct() && file_bytes % page_bytes == 0;
  const std::uint64_t begin = direct ? align_down(first) : first;
  Buffer text(align_up(file_bytes - begin));
  if (first > begin) {  // what lies before it in its first page
    std::memset(text.data(), 0, first - begin);
    const std::uint64_t there = std::min(std::max(file.size(), begin), first);
    read_exactly(file, text.data(), there - begin, begin);
  }
  std::memcpy(text.data() + (first - begin), entries.data(), 16 * entries.size());
  const std::uint32_t checksum = crc_of(entries);
  std::memcpy(text.data() + (first - begin) + 16 * entries.size(), &checksum, sizeof checksum);
  write_exactly(direct ? file.direct() : file.buffered(), file, text.data(), file_bytes - begin, begin);
}

std::uint32_t crc_of(const std::vector<ShardEntry>& entries) { return crc32c(entries.data(), 16 * entries.size()); }

}  // namespace flagstone
