#pragma once
// An N-d array on disk or in memory: a cheap handle that knows how any box of it travels between disk and memory.

#include <cstdint>
#include <memory>
#include <string>

#include "flagstone/base/shape.hpp"
#include "flagstone/storage/array/array_store.hpp"

namespace flagstone {

/// shape, dtype, chunks and where the elements are. Copies share everything: as cheap as a pointer.
class Array {
 public:
  Array() = default;
  Array(Shape shape, Dtype dtype, Shape chunks, std::shared_ptr<ArrayStore> store, std::string path = {});

  explicit operator bool() const noexcept { return about().store != nullptr; }
  const Shape& shape() const noexcept { return about().shape; }
  Dtype dtype() const noexcept { return about().dtype; }
  /// The stored unit; the whole shape for flat files and memory.
  const Shape& chunks() const noexcept { return about().chunks; }
  std::size_t ndim() const noexcept { return shape().size(); }
  std::uint64_t nbytes() const noexcept { return static_cast<std::uint64_t>(count(shape())) * size_of(dtype()); }
  const std::string& path() const noexcept { return about().path; }  // empty: memory or planned
  ArrayStore& store() const noexcept { return *about().store; }
  const std::shared_ptr<ArrayStore>& shared_store() const noexcept { return about().store; }
  const void* id() const noexcept { return about().store.get(); }  // equal for handles of one array
  bool in_memory() const { return store().memory() != nullptr; }

 private:
  struct About {
    Shape shape;
    Dtype dtype = Dtype::float64;
    Shape chunks;
    std::shared_ptr<ArrayStore> store;
    std::string path;
  };
  static const About nothing;
  const About& about() const noexcept { return about_ ? *about_ : nothing; }
  std::shared_ptr<const About> about_;
};

/// Error where an array is a shape alone, for plans (planned_array), or computed from such.
void check_has_elements(const Array& array);

/// Whether boxes are best read without regard to chunks: memory, flat files, one chunk that has no checksum. One that
/// has is read whole where a few buffers hold it (4 MiB), as everybody's chunks are.
bool reads_any_box(const Array& array);

/// Default chunk shape: the largest power-of-two near-square (over the last two dimensions) of at most 4 MiB.
Shape default_chunks(const Shape& shape, Dtype dtype);

/// Bytes of ordinary memory for the places, checksums and slots of all chunks while an array is written (50 to 55 each,
/// measured), in whole pages: those of a few are part of what a run holds back.
std::uint64_t place_bytes(const Array& array);

/// Bytes of one decoded chunk; equals count(chunks) * size_of(dtype).
std::size_t chunk_bytes(const Array& array);

}  // namespace flagstone
