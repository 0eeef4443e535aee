#include "flagstone/storage/zarr/metadata/checksum.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/descriptor.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"

namespace flagstone {
namespace {

constexpr char magic[8] = {'F', 'L', 'A', 'G', 'M', 'E', 'T', '\1'};

struct Stamp {
  char magic[8];
  std::uint64_t bytes, inode;
  std::int64_t seconds, nanoseconds;
  std::uint32_t text, crc;  // of the text; of all before it
};

/// False where the file is not there.
bool fill_in(Stamp& stamp, const std::string& file, const std::string& text) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return false;
  std::memcpy(stamp.magic, magic, sizeof magic);
  stamp.bytes = text.size(), stamp.inode = status.st_ino;
  stamp.seconds = status.st_mtim.tv_sec, stamp.nanoseconds = status.st_mtim.tv_nsec;
  stamp.text = crc32c(text.data(), text.size());
  stamp.crc = crc32c(&stamp, offsetof(Stamp, crc));
  return static_cast<std::uint64_t>(status.st_size) == text.size();
}

}  // namespace

void stamp_metadata(const std::string& file, const std::string& text, const std::string& stamp) {
  Stamp now{};
  if (!fill_in(now, file, text)) return;
  const std::string folder = stamp.substr(0, stamp.rfind('/'));
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    throw StorageError("storage: cannot make the directory of", errno, stamp);
  const Descriptor to(open_regular(stamp, O_WRONLY | O_CREAT));
  if (to < 0) throw StorageError("storage: cannot create", errno, stamp);
  const ssize_t written = ::pwrite(to, &now, sizeof now, 0);
  if (written != static_cast<ssize_t>(sizeof now))
    throw StorageError("storage: cannot write", written < 0 ? errno : EIO, stamp);
}

bool metadata_damaged(const std::string& file, const std::string& text, const std::string& stamp) {
  const Descriptor from(open_regular(stamp, O_RDONLY));
  if (from < 0) return false;
  Stamp then{};
  const ssize_t got = ::pread(from, &then, sizeof then, 0);
  if (got != static_cast<ssize_t>(sizeof then) || std::memcmp(then.magic, magic, sizeof magic) != 0 ||
      then.crc != crc32c(&then, offsetof(Stamp, crc)))
    return false;
  Stamp now{};
  const bool other = fill_in(now, file, text) && now.inode == then.inode && now.bytes == then.bytes &&
                     now.seconds == then.seconds && now.nanoseconds == then.nanoseconds && now.text != then.text;
  return other && read_text(file) == text;  // else another array took its place since `text` was read
}

void check_metadata(const std::string& file, const std::string& text, const std::string& stamp) {
  if (metadata_damaged(file, text, stamp))
    throw FormatError("open: " + file +
                      " is damaged: it is not what was written, and nobody has written it since; restore it from a "
                      "copy, or let it be as it is with fl.repair(path, accept=True).");
}

std::string array_stamp(const std::string& directory) { return directory + "/__flagstone/metadata"; }
std::string group_stamp(const std::string& data_directory) { return data_directory + "/__flagstone/group"; }

}  // namespace flagstone
