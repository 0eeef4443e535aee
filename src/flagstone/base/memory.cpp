#include "flagstone/base/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "flagstone/base/bytes.hpp"

namespace flagstone {
namespace {

constexpr std::size_t huge_page = 2 * MiB;

}  // namespace

Buffer::Buffer(std::size_t bytes) : size_(align_up(std::max<std::size_t>(bytes, 1))) {
  const bool large = size_ >= huge_page;
  const std::size_t reserved = large ? size_ + huge_page : size_;
  void* at = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(at);
  if (!large) return;
  // From a huge page's boundary on, and huge pages only where they lie whole inside: a partial one would hold memory
  // that nobody charged.
  const std::size_t before =
      align_up(reinterpret_cast<std::uintptr_t>(at), huge_page) - reinterpret_cast<std::uintptr_t>(at);
  data_ += before;
  if (before > 0) ::munmap(at, before);
  if (before < huge_page) ::munmap(data_ + size_, huge_page - before);
  ::madvise(data_, size_ / huge_page * huge_page, MADV_HUGEPAGE);
}

namespace {

struct Mapping {
  void* data;
  std::size_t size;
  Mapping(void* at, std::size_t bytes) : data(at), size(bytes) {}
  Mapping(const Mapping&) = delete;
  ~Mapping() { ::munmap(data, size); }
};

/// Addresses that somebody looks at, and the mapping around each once its Buffer is gone.
struct Kept {
  std::mutex mutex;
  std::multimap<const std::byte*, std::shared_ptr<Mapping>> places;
  std::atomic<std::size_t> number = 0;  // of places: the destructor's quick look
};
Kept& kept() {
  static auto* all = new Kept;  // never destroyed: views may outlive everything
  return *all;
}

}  // namespace

void keep_pages(const std::byte* inside) {
  std::lock_guard lock(kept().mutex);
  kept().places.emplace(inside, nullptr);
  ++kept().number;
}

void release_pages(const std::byte* inside) {
  std::shared_ptr<Mapping> last;  // unmapped without the lock
  std::lock_guard lock(kept().mutex);
  const auto found = kept().places.find(inside);
  if (found == kept().places.end()) return;
  last = std::move(found->second);
  kept().places.erase(found);
  --kept().number;
}

bool pages_kept(const Buffer& buffer) {
  if (kept().number == 0) return false;
  std::lock_guard lock(kept().mutex);
  const auto first = kept().places.lower_bound(buffer.data());
  return first != kept().places.end() && first->first < buffer.data() + buffer.size();
}

Buffer::~Buffer() {
  if (!data_) return;
  if (kept().number == 0) {
    ::munmap(data_, size_);
    return;
  }
  const auto mapping = std::make_shared<Mapping>(data_, size_);
  std::lock_guard lock(kept().mutex);
  auto place = kept().places.lower_bound(data_);
  for (; place != kept().places.end() && place->first < data_ + size_; ++place) place->second = mapping;
}

namespace {

std::uint64_t status_field(const char* field) {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (!file) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, file))
    if (std::strncmp(line, field, std::strlen(field)) == 0) {
      kib = std::strtoull(line + std::strlen(field) + 1, nullptr, 10);
      break;
    }
  std::fclose(file);
  return kib * KiB;
}

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : std::numeric_limits<std::uint64_t>::max();  // "max" is not a number: no limit
}

/// The least limit on the way from this process's cgroup to the root of its hierarchy.
std::uint64_t cgroup_limit() {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::ifstream cgroups("/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v1 = ("," + controllers + ",").find(",memory,") != std::string::npos;
    if (!v1 && !controllers.empty()) continue;
    const std::string root = v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    const std::string file = v1 ? "/memory.limit_in_bytes" : "/memory.max";
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      least = std::min(least, number_in(root + (path == "/" ? "" : path) + file));
      if (path.empty() || path == "/") break;
    }
  }
  return least;
}

}  // namespace

namespace {

std::atomic<std::uint64_t> bytes_aside = 0;

std::uint64_t without_aside(std::uint64_t bytes) {
  const std::uint64_t aside = bytes_aside;
  return bytes - std::min(bytes, aside);
}

}  // namespace

SetAside::SetAside(std::uint64_t bytes) : bytes_(bytes) { bytes_aside += bytes_; }
SetAside::~SetAside() { bytes_aside -= bytes_; }

/// Blocks are taken from the heap's end, emptied and freed, until one has no page.
void trim_thread_heap() {
#ifdef __GLIBC__
  std::array<void*, 64> blocks;
  std::size_t taken = 0;
  while (taken < blocks.size()) {
    char* block = static_cast<char*>(blocks[taken++] = std::malloc(MiB));
    if (!block) break;
    const auto first = align_up(reinterpret_cast<std::uintptr_t>(block));
    const auto end = align_down(reinterpret_cast<std::uintptr_t>(block) + MiB);
    void* const pages = reinterpret_cast<void*>(first + page_bytes);  // what the allocator notes lies before
    unsigned char there = 0;
    if (::mincore(pages, page_bytes, &there) != 0 || (there & 1) == 0) break;
    ::madvise(pages, end - first - page_bytes, MADV_DONTNEED);
  }
  while (taken > 0) std::free(blocks[--taken]);
#endif
}

std::uint64_t resident_bytes() { return without_aside(status_field("VmRSS")); }
std::uint64_t peak_resident_bytes() { return without_aside(status_field("VmHWM")); }

bool reset_peak_resident() {
  std::FILE* file = std::fopen("/proc/self/clear_refs", "w");
  if (!file) return false;
  const bool written = std::fputs("5", file) >= 0;
  return std::fclose(file) == 0 && written;
}

std::uint64_t allowed_memory() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return std::min(pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)), cgroup_limit());
}

}  // namespace flagstone
