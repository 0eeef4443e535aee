#pragma once
// Page-aligned memory outside malloc (given back to the system at once), and what the kernel says of this process.
#include <cstddef>
#include <cstdint>
#include <utility>

namespace flagstone {

/// Private anonymous pages; move-only. Large buffers ask for huge pages.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);  // rounded up to pages; throws std::bad_alloc
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  void swap(Buffer& other) noexcept { std::swap(data_, other.data_), std::swap(size_, other.size_); }
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Somebody outside still looks at the memory around `inside`: it stays mapped, and is not used for anything else, when
/// its Buffer goes. Each call is undone by one of release_pages. Costs nothing while nothing is kept.
void keep_pages(const std::byte* inside);
void release_pages(const std::byte* inside);
/// Is anybody looking at this buffer?
bool pages_kept(const Buffer& buffer);

/// Gives back what this thread has freed: a thread's last deed. malloc_trim() leaves the end of its heap, up to
/// M_TRIM_THRESHOLD, which grows to twice the largest block that was freed (4 MiB a thread behind functions of NumPy on
/// tiles of 1 MiB). Cost: a microsecond where nothing is to be given back.
void trim_thread_heap();

std::uint64_t resident_bytes();       ///< VmRSS of this process, without what is set aside
std::uint64_t peak_resident_bytes();  ///< VmHWM of this process, without what is set aside now

/// Bytes of this process, resident as long as this lives, that have a limit of their own: an emulated device's memory.
class SetAside {
 public:
  explicit SetAside(std::uint64_t bytes);
  ~SetAside();
  SetAside(const SetAside&) = delete;

 private:
  std::uint64_t bytes_;
};
/// Starts VmHWM again from the present; false where the kernel refuses.
bool reset_peak_resident();
/// What the machine or its cgroup (v1 or v2) allows this process, the smaller of the two.
std::uint64_t allowed_memory();

}  // namespace flagstone
