#pragma once
// How fast a disk is through our own ring: one nameless file, patterns of requests, each for a fraction of a second.
#include <cstdint>
#include <memory>
#include <string>

#include "flagstone/base/memory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone::gauge {

/// What the requests of one measurement look like.
struct Pattern {
  std::uint64_t request_bytes = std::uint64_t{1} << 20;  // whole pages
  unsigned depth = 8;                                    // requests in flight
  std::uint64_t stride = 0;                              // from one request to the next; 0: no gaps
  bool random = false;                                   // at random places instead
  double write_share = 0;                                // 0: reads; 1: writes; between: both at once
  double seconds = 0.25;                                 // new requests go out for so long,
  std::uint64_t bytes = std::uint64_t{1} << 40;          // or until so many bytes are under way
};

struct Moved {
  std::uint64_t bytes_read = 0, bytes_written = 0, requests = 0;
  double seconds = 0;          // from the first submission to the last completion
  double request_seconds = 0;  // median over the requests, waiting in the queue included
};

/// Holds depth x request_bytes of memory while it measures. Not thread-safe.
class Disk {
 public:
  /// Reserves `bytes` in `directory`; the space goes with this object. StorageError where that is not possible.
  Disk(const std::string& directory, std::uint64_t bytes, const std::string& io);

  /// Writes the next `bytes` of the file that were never written (fewer at its end): what a new output costs, and what
  /// makes reads real: they see only what was filled. Requests of 4 MiB.
  Moved fill(std::uint64_t bytes, unsigned depth = 2);
  /// ShapeError where requests are no whole pages, larger than what was filled, or more than 1 GiB at once.
  Moved measure(const Pattern& pattern);
  /// Seconds of a page written to a new file and its fdatasync: what a small output costs.
  double sync();

  std::uint64_t filled() const { return filled_; }
  bool direct() const { return file_->has_direct(); }
  std::string describe() const { return ring_->describe(); }

 private:
  Moved run(const Pattern& pattern, std::uint64_t first, std::uint64_t last);

  std::string directory_;
  std::shared_ptr<File> file_;
  std::unique_ptr<Ring> ring_;
  std::uint64_t bytes_, filled_ = 0, random_ = 0x9e3779b97f4a7c15;
};

}  // namespace flagstone::gauge
