#pragma once
// A range of a file from front to back, past the page cache, with its CRC-32 (that of zip files).
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flagstone/base/memory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {

/// Reads the bytes in order; what will be read next is read ahead, as much as the longest read so far. Direct I/O where
/// the file system has it: a copy through the page cache costs 0.2 ns a byte, a third of what an import may take. Holds
/// four times the longest read. One thread at a time.
class RangeReader {
 public:
  /// StorageError where the file cannot be opened.
  RangeReader(const std::string& path, std::uint64_t offset, std::uint64_t bytes);
  ~RangeReader();
  RangeReader(const RangeReader&) = delete;

  /// What was read lies in `held`, which others may keep; after one more read() it is overwritten.
  struct Read {
    std::shared_ptr<const Buffer> held;
    std::span<const std::byte> bytes;
  };
  /// The next bytes; fewer at the end of the range or of the file. StorageError says where it cannot be read.
  Read read(std::uint64_t count);
  /// Of everything that was read.
  std::uint32_t crc() const { return crc_; }

 private:
  // One is used, one was read before, one is on its way, one where that was too short.
  static constexpr std::size_t buffers = 4;
  // Requests for one read on their way at a time: two readers of 2 MiB each fill a disk.
  static constexpr std::size_t parts = 4;
  /// A read on its way: whole pages from `start` to `end` of the file.
  struct Coming {
    std::uint64_t start, end;
    std::shared_ptr<Buffer> buffer;
    std::uint64_t part(std::size_t i) const;  // where it begins, from `start`
  };

  void begin(std::uint64_t count);
  /// Waits for what is on its way: how many bytes there are of it without a gap.
  std::uint64_t arrived();

  std::shared_ptr<File> file_;
  std::unique_ptr<Ring> ring_;
  std::uint64_t at_, left_, longest_ = 0;
  std::uint32_t crc_ = 0;
  std::array<std::shared_ptr<Buffer>, buffers> buffers_;
  std::size_t turn_ = 0, waited_for_ = 0;  // requests that have not come back
  std::array<std::int64_t, parts> results_{};
  std::optional<Coming> next_;
};

}  // namespace flagstone
