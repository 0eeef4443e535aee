#include "flagstone/storage/shard_index.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "flagstone/base/error.hpp"
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

void write_shard_index(const File& file, const std::vector<ShardEntry>& entries, std::uint64_t file_bytes) {
  static_assert(sizeof(ShardEntry) == 16);
  std::vector<std::byte> text(16 * entries.size() + 4);
  std::memcpy(text.data(), entries.data(), 16 * entries.size());
  const std::uint32_t checksum = crc_of(entries);
  std::memcpy(text.data() + 16 * entries.size(), &checksum, sizeof checksum);
  write_exactly(file.buffered(), file, text.data(), text.size(), file_bytes - text.size());
}

std::uint32_t crc_of(const std::vector<ShardEntry>& entries) { return crc32c(entries.data(), 16 * entries.size()); }

}  // namespace flagstone
