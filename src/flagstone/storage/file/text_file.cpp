#include "flagstone/storage/file/text_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/file.hpp"

namespace flagstone {

std::string read_text(const std::string& path, std::size_t most) {
  const auto file = File::open(path, File::Mode::read);
  const std::uint64_t size = file->size();
  if (size > most)
    throw FormatError("open: " + path + ": " + format_bytes(size) + " is too large for metadata; it is another file.");
  std::string text(size, '\0');
  read_exactly(*file, text.data(), text.size(), 0);
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".part";
  ::unlink(fresh.c_str());
  try {
    const auto file = File::open(fresh, File::Mode::create);
    write_exactly(file->buffered(), *file, text.data(), text.size(), 0);
    file->sync();
    if (::rename(fresh.c_str(), path.c_str()) != 0) throw StorageError("storage: cannot rename", errno, path);
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
  sync_directory(std::filesystem::path(path).parent_path().string());
}

}  // namespace flagstone
