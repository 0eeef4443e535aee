#include "flagstone/storage/file/space.hpp"

#include <sys/statvfs.h>

namespace flagstone {

std::uint64_t free_bytes(const std::string& path) {
  struct statvfs space;
  if (::statvfs(path.c_str(), &space) != 0) return ~std::uint64_t{0};
  return static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
}

}  // namespace flagstone
