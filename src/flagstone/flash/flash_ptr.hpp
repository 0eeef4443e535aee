#pragma once
// Typed pointers to elements on disk, with the arithmetic of pointers; the shape of the API is that of BLAS-on-flash
// (Subramanya et al., NSDI 2019), the code is ours.
#include <compare>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "flagstone/base/element_type.hpp"
#include "flagstone/flash/flash_file.hpp"
#include "flagstone/runtime/runtime.hpp"

namespace flagstone {

/// Points at an element in a flat file. Copies share the file. Arithmetic counts elements and is not checked; every use
/// is (ShapeError beyond the file's end, Error after unmap_file or flash_free).
template <class T>
class flash_ptr {
 public:
  /// The same element through the memory mapping. What is touched there is resident memory of this process and counts
  /// towards the limit of every call, until unmap_file. Coherent with graphs and with read_sync and write_sync that run
  /// before and after, not at the same time. Where the file's offset is no multiple of the element, use read_sync.
  T* ptr = nullptr;

  flash_ptr() = default;
  flash_ptr(std::nullptr_t) {}
  flash_ptr(std::shared_ptr<FlashFile> file, std::uint64_t offset)
      : ptr(reinterpret_cast<T*>(file->mapped() + offset)), file_(std::move(file)), offset_(offset) {}
  /// To const, as for pointers; to another type explicitly, as with reinterpret_cast.
  template <class U>
  requires(std::is_same_v<T, const U>) flash_ptr(const flash_ptr<U>& other) : flash_ptr(other.file(), other.offset()) {}
  template <class U>
  requires(!std::is_same_v<T, const U> && !std::is_same_v<T, U>) explicit flash_ptr(const flash_ptr<U>& other)
      : flash_ptr(other.file(), other.offset()) {}

  explicit operator bool() const { return file_ != nullptr; }
  const std::shared_ptr<FlashFile>& file() const { return file_; }
  /// Bytes from the file's start.
  std::uint64_t offset() const { return offset_; }

  flash_ptr& operator+=(std::ptrdiff_t n) {
    offset_ += static_cast<std::uint64_t>(n) * sizeof(T);
    ptr += n;
    return *this;
  }
  flash_ptr& operator-=(std::ptrdiff_t n) { return *this += -n; }
  flash_ptr& operator++() { return *this += 1; }
  flash_ptr& operator--() { return *this -= 1; }
  friend flash_ptr operator+(flash_ptr p, std::ptrdiff_t n) { return p += n; }
  friend flash_ptr operator+(std::ptrdiff_t n, flash_ptr p) { return p += n; }
  friend flash_ptr operator-(flash_ptr p, std::ptrdiff_t n) { return p -= n; }
  /// Of pointers into one file.
  friend std::ptrdiff_t operator-(const flash_ptr& a, const flash_ptr& b) {
    return static_cast<std::ptrdiff_t>(a.offset_ - b.offset_) / static_cast<std::ptrdiff_t>(sizeof(T));
  }
  friend bool operator==(const flash_ptr& a, const flash_ptr& b) {
    return a.file_ == b.file_ && a.offset_ == b.offset_;
  }
  friend auto operator<=>(const flash_ptr& a, const flash_ptr& b) { return a.offset_ <=> b.offset_; }

 private:
  std::shared_ptr<FlashFile> file_;
  std::uint64_t offset_ = 0;
};

// ---- where the elements are ----------------------------------------------------------------------------------------

/// Pointer to the elements that begin `offset` bytes into a file. create: a new file of `elements` elements.
template <class T>
flash_ptr<T> map_file(const std::string& path, MapMode mode = MapMode::read, std::uint64_t elements = 0,
                      std::uint64_t offset = 0) {
  return {FlashFile::open(path, mode, FlashFile::bytes_for(offset, elements, sizeof(T), path)), offset};
}
/// Makes what was written durable and lets go of the mapping; every pointer into the file is dead.
template <class T>
void unmap_file(flash_ptr<T>& p) {
  if (!p) return;
  if (p.file()->mapped()) p.file()->sync();
  p.file()->close();
  p = nullptr;
}
/// Zeros on disk, in a nameless file in the runtime's scratch directory; StorageError (ENOSPC, EDQUOT) when they do not
/// fit the disk or the quota.
template <class T>
flash_ptr<T> flash_malloc(Runtime& runtime, std::uint64_t elements) {
  const ScratchSpace space = runtime.scratch("flash_malloc");
  return {FlashFile::temporary(space, FlashFile::bytes_for(0, elements, sizeof(T), space.directory)), 0};
}
template <class T>
void flash_free(flash_ptr<T>& p) {
  if (p) p.file()->close();
  p = nullptr;
}
/// fdatasync: results that graphs and gemm wrote in place survive a power failure from here on.
template <class T>
void flash_sync(const flash_ptr<T>& p) {
  p.file()->sync();
}

// ---- which elements ------------------------------------------------------------------------------------------------

/// `elements` elements in a row.
struct Contiguous {
  Index elements = 0;
};
/// `rows` rows of `elements` elements; row i starts at i * stride elements.
struct Strided {
  Index rows = 0, elements = 0, stride = 0;
};

/// What a task touches: read(region(p, Strided{...})), or input(region(...)) in a Task. Regions with the same pointer
/// and the same specifier depend on each other; others must be disjoint, unless all are read: ShapeError from add().
/// Graphs write in place: not atomic, see flash's README.
template <class T>
Region region(const flash_ptr<T>& p, Contiguous part) {
  const RawLayout layout{.shape = {part.elements}, .dtype = dtype_of<T>(), .offset = p.offset()};
  return {p.file()->array(layout), {{0}, {part.elements}}};
}
template <class T>
Region region(const flash_ptr<T>& p, Strided part) {
  const RawLayout layout{
      .shape = {part.rows, part.elements}, .dtype = dtype_of<T>(), .offset = p.offset(), .leading = part.stride};
  return {p.file()->array(layout), {{0, 0}, {part.rows, part.elements}}};
}
/// All of a matrix whose tiles tasks then name by box: rows x cols elements, row i at i * leading.
template <class T>
Array matrix(const flash_ptr<T>& p, Index rows, Index cols, Index leading) {
  return p.file()->array({.shape = {rows, cols}, .dtype = dtype_of<T>(), .offset = p.offset(), .leading = leading});
}

// ---- without a graph -----------------------------------------------------------------------------------------------

/// Returns when all has arrived, packed in `to`; on the calling thread, through the page cache, no memory of its own.
template <class T>
void read_sync(std::remove_const_t<T>* to, const flash_ptr<T>& from, Contiguous part) {
  from.file()->read(to, from.offset(), static_cast<std::uint64_t>(part.elements) * sizeof(T));
}
template <class T>
void read_sync(std::remove_const_t<T>* to, const flash_ptr<T>& from, Strided part) {
  for (Index i = 0; i < part.rows; ++i)
    read_sync(to + i * part.elements, from + i * part.stride, Contiguous{part.elements});
}
/// Writes packed elements in place; bytes beside them keep their values.
template <class T>
void write_sync(const flash_ptr<T>& to, const T* from, Contiguous part) {
  to.file()->write(from, to.offset(), static_cast<std::uint64_t>(part.elements) * sizeof(T));
}
template <class T>
void write_sync(const flash_ptr<T>& to, const T* from, Strided part) {
  for (Index i = 0; i < part.rows; ++i)
    write_sync(to + i * part.stride, from + i * part.elements, Contiguous{part.elements});
}

}  // namespace flagstone
