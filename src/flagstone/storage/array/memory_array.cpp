#include "flagstone/storage/array/memory_array.hpp"

#include <algorithm>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array/array.hpp"

namespace flagstone {
namespace {

/// Memory that somebody owns. Tiles are views of it; whoever asks for a transfer all the same gets a copy.
class MemoryStore final : public ArrayStore {
 public:
  MemoryStore(Tile whole, std::shared_ptr<void> owner) : whole_(std::move(whole)), owner_(std::move(owner)) {}

  Transfer read(const Box& box) const override {
    Transfer transfer = geometry(box);
    transfer.convert = [part = subtile(whole_, box), strides = transfer.strides, owner = owner_](
                           std::byte* buffer, std::byte*, std::byte*) {
      copy(part, {buffer, part.dtype, part.shape, strides, part.bytes});
    };
    return transfer;
  }
  Transfer write(const Box& box) override {
    Transfer transfer = geometry(box);
    transfer.convert = [part = subtile(whole_, box), strides = transfer.strides, owner = owner_](
                           std::byte* buffer, std::byte*, std::byte*) {
      copy({buffer, part.dtype, part.shape, strides, part.bytes}, part);
    };
    return transfer;
  }
  std::size_t run_bytes(const Shape& box) const override {
    return static_cast<std::size_t>(count(box)) * size_of(whole_.dtype);
  }
  std::byte* memory() const override { return whole_.data; }
  Shape memory_strides() const override { return whole_.strides; }

 private:
  Transfer geometry(const Box& box) const {
    check_box(whole_.shape, box);
    Transfer transfer;
    transfer.tile_bytes = static_cast<std::size_t>(count(box.shape)) * size_of(whole_.dtype);
    transfer.buffer_bytes = align_up(std::max<std::size_t>(transfer.tile_bytes, 1));
    transfer.strides = c_strides(box.shape, size_of(whole_.dtype));
    return transfer;
  }
  Tile whole_;
  std::shared_ptr<void> owner_;
};

}  // namespace

Array memory_array(std::byte* data, const Shape& shape, Dtype dtype, const Shape& strides_bytes,
                   std::shared_ptr<void> owner) {
  static std::byte nothing[16];  // an empty operand may come with a null pointer, which would mean "on disk"
  Tile whole{data ? data : nothing, dtype, shape, strides_bytes, 0};
  if (strides_bytes.size() != shape.size()) whole.strides = c_strides(shape, size_of(dtype));
  return Array(shape, dtype, shape, std::make_shared<MemoryStore>(std::move(whole), std::move(owner)));
}

Array memory_array(const Shape& shape, Dtype dtype) {
  Index bytes = static_cast<Index>(size_of(dtype));
  for (const Index extent : shape) {
    if (extent < 0) throw ShapeError("memory_array: shape " + to_string(shape) + "; extents must not be negative.");
    if (__builtin_mul_overflow(bytes, std::max<Index>(extent, 1), &bytes))
      throw ShapeError("memory_array: " + to_string(shape) + " of " + std::string(name_of(dtype)) +
                       " is larger than 2^63 bytes; give a smaller shape.");
  }
  const auto pages = std::make_shared<Buffer>(static_cast<std::size_t>(count(shape)) * size_of(dtype));
  return memory_array(pages->data(), shape, dtype, c_strides(shape, size_of(dtype)), pages);
}

void check_elements_of(const Array& array, Dtype dtype) {
  if (!array.in_memory())
    throw ShapeError("elements_of: the array lies on disk; read a part of it first (Runtime::read).");
  if (array.dtype() != dtype)
    throw ShapeError("elements_of: the array holds " + std::string(name_of(array.dtype())) + " and " +
                     std::string(name_of(dtype)) + " was asked for; they must agree.");
  const Shape strides = array.store().memory_strides(), plain = c_strides(array.shape(), size_of(dtype));
  for (std::size_t d = 0; d < plain.size(); ++d)
    if (array.shape()[d] > 1 && strides[d] != plain[d])
      throw ShapeError("elements_of: the array's elements are not in C order; read them into memory of your own.");
}

}  // namespace flagstone
