#pragma once
// One flat file behind disk pointers: open for direct I/O, and mapped.
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/scratch/quota.hpp"

namespace flagstone {

enum class MapMode {
  read,    // the file is there and stays as it is
  update,  // read and write in place
  create,  // a new file of the length that is asked for, zeros
};

/// Shared by the pointers into it. Pages that are touched through the mapping are resident memory of the process and
/// count towards every limit; transfers of graphs and of read_sync, write_sync are not made through it.
class FlashFile {
 public:
  /// `bytes`: the length of a new file; else ignored. StorageError when it cannot be opened, reserved or mapped.
  static std::shared_ptr<FlashFile> open(const std::string& path, MapMode mode, std::uint64_t bytes = 0);
  /// Without a name in `directory` (made when missing): gone with its last pointer.
  static std::shared_ptr<FlashFile> temporary(const std::string& directory, std::uint64_t bytes);
  /// The same in scratch: its bytes are promised before it is made, until close(). ScratchError (EDQUOT) where the
  /// quota does not hold them.
  static std::shared_ptr<FlashFile> temporary(const ScratchSpace& space, std::uint64_t bytes);
  /// Of a file of so many elements behind `offset` bytes. StorageError (EFBIG) where no file is so long.
  static std::uint64_t bytes_for(std::uint64_t offset, std::uint64_t elements, std::size_t item,
                                 const std::string& path);
  ~FlashFile();
  FlashFile(const FlashFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  bool writable() const { return writable_; }
  std::byte* mapped() const { return mapped_; }
  bool same_file(const FlashFile& other) const { return device_ == other.device_ && inode_ == other.inode_; }

  /// The elements of a layout. Equal layouts give the same array as long as anybody holds it, so that tasks that name
  /// equal regions depend on each other. Error after close().
  Array array(const RawLayout& layout);
  /// All of it, synchronously, on the calling thread, through the page cache.
  void read(void* to, std::uint64_t offset, std::uint64_t bytes) const;
  void write(const void* from, std::uint64_t offset, std::uint64_t bytes);
  /// fdatasync, of what was stored through the mapping too.
  void sync();
  /// Unmaps; every use afterwards is an Error. Idempotent.
  void close();

 private:
  FlashFile(std::shared_ptr<File> file, std::string path, bool writable);
  void check(std::uint64_t offset, std::uint64_t bytes, const char* who) const;

  std::shared_ptr<File> file_;
  std::unique_ptr<Reservation> promise_;  // of its bytes, where they count
  std::string path_;
  bool writable_;
  std::uint64_t bytes_ = 0, device_ = 0, inode_ = 0;
  std::byte* mapped_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<ArrayStore>> arrays_;
};

}  // namespace flagstone
