#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/chunk/chunk_layout.hpp"

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

}  // namespace flagstone
