#include "flagstone/flash/flash_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"

namespace flagstone {

FlashFile::FlashFile(std::shared_ptr<File> file, std::string path, bool writable)
    : file_(std::move(file)), path_(std::move(path)), writable_(writable), bytes_(file_->size()) {
  struct stat status;
  if (::fstat(file_->buffered(), &status) != 0) throw StorageError("map_file: cannot stat", errno, path_);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  if (bytes_ == 0) return;
  void* at = ::mmap(nullptr, bytes_, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED | MAP_NORESERVE,
                    file_->buffered(), 0);
  if (at == MAP_FAILED) throw StorageError("map_file: cannot map", errno, path_);
  mapped_ = static_cast<std::byte*>(at);
}

std::uint64_t FlashFile::bytes_for(std::uint64_t offset, std::uint64_t elements, std::size_t item,
                                   const std::string& path) {
  constexpr std::uint64_t most = std::uint64_t{1} << 63;  // what off_t counts
  if (offset >= most || elements >= (most - offset) / item)
    throw StorageError("flash: " + std::to_string(elements) + " elements are more than a file holds", EFBIG, path);
  return offset + elements * item;
}

std::shared_ptr<FlashFile> FlashFile::open(const std::string& path, MapMode mode, std::uint64_t bytes) {
  const File::Mode modes[] = {File::Mode::read, File::Mode::update, File::Mode::create};
  auto file = File::open(path, modes[static_cast<int>(mode)]);
  if (mode == MapMode::create) try {
      file->allocate(bytes);
    } catch (...) {
      ::unlink(path.c_str());
      throw;
    }
  return std::shared_ptr<FlashFile>(new FlashFile(std::move(file), path, mode != MapMode::read));
}

std::shared_ptr<FlashFile> FlashFile::temporary(const std::string& directory, std::uint64_t bytes) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw StorageError("flash: cannot make the directory", error.value(), directory);
  auto file = File::temporary(directory);
  file->allocate(bytes);
  const std::string path = file->path();
  return std::shared_ptr<FlashFile>(new FlashFile(std::move(file), path, true));
}

std::shared_ptr<FlashFile> FlashFile::temporary(const ScratchSpace& space, std::uint64_t bytes) {
  auto promise = std::make_unique<Reservation>(space.who, space.directory, space.quota);
  promise->take(bytes);
  auto made = temporary(space.directory, bytes);
  made->promise_ = std::move(promise);
  return made;
}

FlashFile::~FlashFile() { close(); }

void FlashFile::close() {
  if (mapped_) ::munmap(mapped_, bytes_);
  mapped_ = nullptr;
  file_.reset();
  promise_.reset();
}

void FlashFile::check(std::uint64_t offset, std::uint64_t bytes, const char* who) const {
  if (!file_) throw Error(std::string(who) + ": " + path_ + " was unmapped or freed; map it again.");
  if (offset > bytes_ || bytes > bytes_ - offset)
    throw ShapeError(std::string(who) + ": " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                     " reach beyond the " + std::to_string(bytes_) + " bytes of " + path_ +
                     "; check the pointer and the sizes.");
}

Array FlashFile::array(const RawLayout& layout) {
  check(layout.offset, end_of(layout) - layout.offset, "flash_ptr");
  std::string key;
  for (const Index number : layout.shape) key += std::to_string(number) + ' ';
  key += std::to_string(layout.offset) + ' ' + std::to_string(layout.leading) + ' ' +
         std::string(name_of(layout.dtype)) + (layout.column_major ? " F" : "") + (layout.big_endian ? " >" : "");
  std::lock_guard lock(mutex_);
  if (auto known = arrays_[key].lock()) return Array(layout.shape, layout.dtype, layout.shape, std::move(known), path_);
  if (arrays_.size() > 1024) std::erase_if(arrays_, [](const auto& entry) { return entry.second.expired(); });
  Array array = open_raw(file_, layout, writable_, path_);
  arrays_[key] = array.shared_store();
  return array;
}

void FlashFile::read(void* to, std::uint64_t offset, std::uint64_t bytes) const {
  check(offset, bytes, "read_sync");
  for (auto* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t got = ::pread(file_->buffered(), at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw StorageError("read_sync: cannot read", errno, path_, offset);
    if (got == 0) throw FormatError("read_sync: " + path_ + " was truncated since it was mapped; map it again.");
    at += got, offset += static_cast<std::uint64_t>(got), bytes -= static_cast<std::uint64_t>(got);
  }
}

void FlashFile::write(const void* from, std::uint64_t offset, std::uint64_t bytes) {
  check(offset, bytes, "write_sync");
  if (!writable_) throw StorageError("write_sync: the file is mapped for reading; map it with update", EROFS, path_);
  for (const auto* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t put = ::pwrite(file_->buffered(), at, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw StorageError("write_sync: cannot write", errno, path_, offset);
    at += put, offset += static_cast<std::uint64_t>(put), bytes -= static_cast<std::uint64_t>(put);
  }
}

void FlashFile::sync() {
  check(0, 0, "flash_sync");
  if (!writable_) return;
  if (mapped_ && ::msync(mapped_, bytes_, MS_SYNC) != 0) throw StorageError("flash_sync: cannot sync", errno, path_);
  file_->sync();
}

}  // namespace flagstone
