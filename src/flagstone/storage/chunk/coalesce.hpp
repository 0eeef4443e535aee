#pragma once
// Short ranges of files that lie close together, read or written by one request.
#include <cstdint>
#include <memory>
#include <vector>

#include "flagstone/storage/array/array.hpp"

namespace flagstone {

/// A request of so many bytes keeps a disk busy, and while one is put in place the disk works on the others: longer
/// ones made boxes of some MiB slower. Chunks as long as that travel alone.
inline constexpr std::size_t most_joined_bytes = std::size_t{128} << 10;

/// Bytes [begin, end) of a file.
struct Wanted {
  std::shared_ptr<File> file;
  std::uint64_t begin = 0, end = 0;
  std::uint64_t file_end = 0;
  std::uint64_t most_gap = 0;  // whole pages before it that are read rather than skipped
  std::size_t piece = 0;       // whose they are
};

/// Some of the wanted ranges in one request: whole pages, direct. `segment.at` is 0.
struct Joined {
  Segment segment;
  std::size_t first = 0, last = 0;  // of the ranges, as sorted
};

/// Sorts `wanted` by file and place. No request is longer than `most_bytes` but that of one range alone.
std::vector<Joined> join(std::vector<Wanted>& wanted, std::uint64_t most_bytes);

/// The requests of `transfer` that go on where another ends, in the file and in memory, become one. Of a write, after
/// it has got its places.
void join_neighbours(std::vector<Segment>& segments, std::size_t most_bytes);

}  // namespace flagstone
