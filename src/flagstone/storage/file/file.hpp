#pragma once
// An open file, with direct I/O where the file system honours it.
#include <cstdint>
#include <memory>
#include <string>

namespace flagstone {

/// Two descriptors for one file: `direct` (O_DIRECT) for transfers whose offset, length and memory are aligned to
/// pages, `buffered` for the rest. Where O_DIRECT is refused both are buffered. Closed by the destructor.
class File {
 public:
  enum class Mode { read, update, create };
  /// Throws StorageError with errno; create makes an empty file and fails where one exists.
  static std::shared_ptr<File> open(const std::string& path, Mode mode);
  /// A nameless file in `directory` that disappears with its last handle (O_TMPFILE, else unlinked at once).
  static std::shared_ptr<File> temporary(const std::string& directory);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int buffered() const noexcept { return buffered_; }
  int direct() const noexcept { return direct_ < 0 ? buffered_ : direct_; }
  bool has_direct() const noexcept { return direct_ >= 0; }
  /// What offsets, lengths and memory of direct transfers are multiples of; 512 where the kernel does not say.
  std::size_t direct_block() const noexcept { return block_; }
  const std::string& path() const noexcept { return path_; }
  std::uint64_t size() const;
  /// Whether it has no name any more.
  bool removed() const;
  /// Reserves blocks (fallocate) and sets the length. False where the file system cannot reserve: it was looked whether
  /// so much is free, no more. StorageError(ENOSPC, EDQUOT).
  bool allocate(std::uint64_t bytes);
  void truncate(std::uint64_t bytes);
  void sync();  // fdatasync

 private:
  File() = default;
  int buffered_ = -1, direct_ = -1;
  std::size_t block_ = 512;
  std::string path_;
};

/// open(2) of what must be a file of bytes, without waiting: a pipe would wait for whoever is at its other end. -1 with
/// errno; FormatError, which calls it `said`, for a pipe, a socket or a device. `name` is looked for in `directory`.
int open_regular(int directory, const char* name, int flags, const std::string& said, unsigned mode = 0666);
int open_regular(const std::string& path, int flags, unsigned mode = 0666);

/// pread and pwrite of everything, through the buffered descriptor; StorageError, FormatError at the end of the file.
void read_exactly(const File& file, void* to, std::size_t bytes, std::uint64_t offset);
void write_exactly(int descriptor, const File& file, const void* from, std::size_t bytes, std::uint64_t offset);

/// False, with errno, where something has that name already (EEXIST) or the system says no. Where the file system has
/// no RENAME_NOREPLACE it is looked first, which others may slip through.
bool rename_to_new(const std::string& from, const std::string& to);

}  // namespace flagstone
