#include "flagstone/storage/zarr/shard/shard_index.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/file/crc32c.hpp"

namespace flagstone {

namespace {

constexpr std::size_t entry_bytes = 16, sum_bytes = 4;

/// Indexes inside one file, from the outermost to the innermost, whose chunks are what is looked for.
class Reading {
 public:
  Reading(const File& file, const ArrayMetadata& metadata)
      : file_(file), levels_(metadata.foreign_levels), all_(static_cast<std::size_t>(metadata.entries())) {
    const std::size_t ndim = metadata.chunks.size();
    if (levels_.empty()) {
      ShardLevel ours{metadata.shards, {}};
      for (std::size_t d = 0; d < ndim; ++d) ours.grid[d] /= metadata.chunks[d], ours.order.push_back(d);
      levels_.push_back(std::move(ours));
    }
    // Steps of one along each dimension of the array, in the order of the innermost chunks of the whole shard.
    std::vector<std::size_t> step(ndim, 1);
    for (std::size_t d = ndim; d-- > 1;)
      step[d - 1] = step[d] * static_cast<std::size_t>(metadata.shards[d] / metadata.chunks[d]);
    steps_.resize(levels_.size());
    for (std::size_t i = levels_.size(); i-- > 0;) {
      for (std::size_t d = 0; d < ndim; ++d) {
        const std::size_t of_array = levels_[i].order[d];
        steps_[i].push_back(step[of_array]);
        step[of_array] *= static_cast<std::size_t>(levels_[i].grid[d]);
      }
    }
  }

  std::vector<ShardEntry> run() {
    const std::uint64_t size = file_.size();
    // Absent shards inside take no space in the file: what the metadata says must not decide alone.
    if (levels_.size() > 1 && entry_bytes * all_ > std::max<std::uint64_t>(size, 16 * MiB))
      throw FormatError("open: " + file_.path() + ": a shard of " + std::to_string(all_) + " chunks in " +
                        format_bytes(size) + " would need an index of " + format_bytes(entry_bytes * all_) +
                        " in memory; rewrite the array with smaller shards.");
    read(0, 0, size, 0);
    return std::move(entries_);
  }

 private:
  FormatError damaged(const std::string& what) const {
    return FormatError("open: " + file_.path() + ": " + what + "; the shard is damaged, write or copy it again.");
  }

  /// Where in the index, in words, the offset of each entry stands: a step along every dimension of its grid, and then
  /// from offset to length.
  static std::vector<std::size_t> word_steps(const ShardLevel& level) {
    const std::size_t n = level.grid.size() + 1;
    std::vector<std::size_t> steps(n);
    for (std::size_t i = n, words = 1; i-- > 0;) {
      const std::size_t d = level.index_order.empty() ? i : level.index_order[i];
      steps[d] = words;
      words *= d + 1 == n ? 2 : static_cast<std::size_t>(level.grid[d]);
    }
    return steps;
  }

  /// The index of a shard at [begin, begin + bytes) of the file, checked.
  std::vector<std::byte> text_of(const ShardLevel& level, std::uint64_t begin, std::uint64_t bytes) const {
    std::size_t n = 1;
    for (Index extent : level.grid) n *= static_cast<std::size_t>(extent);
    const std::size_t length = entry_bytes * n + sum_bytes * level.checksums;
    if (bytes < length)
      throw damaged("it has " + std::to_string(bytes) + " bytes, fewer than its index of " + std::to_string(length));
    std::vector<std::byte> text(length);
    read_exactly(file_, text.data(), length, level.index_at_end ? begin + bytes - length : begin);
    for (std::size_t i = level.checksums; i-- > 0;) {
      const std::size_t before = entry_bytes * n + sum_bytes * i;
      std::uint32_t stored = 0;
      std::memcpy(&stored, text.data() + before, sizeof stored);
      if (crc32c(text.data(), before) != stored)
        throw damaged("the checksum of its index does not match (a writer died, or the file was cut)");
    }
    return text;
  }

  /// `place`: of the shard's first chunk among all of the file.
  void read(std::size_t depth, std::uint64_t begin, std::uint64_t bytes, std::size_t place) {
    const ShardLevel& level = levels_[depth];
    const std::size_t ndim = level.grid.size();
    const std::vector<std::byte> text = text_of(level, begin, bytes);
    if (depth == 0) entries_.resize(all_);
    const std::vector<std::size_t> words = word_steps(level);
    const auto word = [&](std::size_t at) {
      std::uint64_t value = 0;
      std::memcpy(&value, text.data() + sizeof value * at, sizeof value);
      return level.big_endian ? __builtin_bswap64(value) : value;
    };
    Shape at(ndim, 0);
    for (std::size_t entry = 0, from = 0;; ++entry) {
      const ShardEntry found{word(from), word(from + words[ndim])};
      if (!found.absent()) {
        if (found.bytes == 0 || found.bytes > bytes || found.offset > bytes - found.bytes)
          throw damaged("chunk " + std::to_string(entry) + " lies outside the " + (depth ? "shard inside it" : "file"));
        if (depth + 1 < levels_.size())
          read(depth + 1, begin + found.offset, found.bytes, place);
        else
          entries_[place] = {begin + found.offset, found.bytes};
      }
      std::size_t d = ndim;
      for (; d-- > 0; at[d] = 0) {
        const auto extent = static_cast<std::size_t>(level.grid[d]);
        from += words[d], place += steps_[depth][d];
        if (++at[d] < level.grid[d]) break;
        from -= extent * words[d], place -= extent * steps_[depth][d];
      }
      if (d > ndim) return;  // it wrapped: there are no more
    }
  }

  const File& file_;
  std::vector<ShardLevel> levels_;
  std::vector<std::vector<std::size_t>> steps_;  // of the dimensions of each level's grid, among all_
  std::size_t all_;
  std::vector<ShardEntry> entries_;
};

}  // namespace

std::vector<ShardEntry> read_shard_index(const File& file, const ArrayMetadata& metadata) {
  return Reading(file, metadata).run();
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
