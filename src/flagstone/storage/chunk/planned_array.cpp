#include "flagstone/storage/chunk/planned_array.hpp"

#include "flagstone/base/error.hpp"
#include "flagstone/storage/chunk/chunk_read.hpp"
#include "flagstone/storage/chunk/chunk_write.hpp"
#include "flagstone/storage/codec/codec_name.hpp"

namespace flagstone {
namespace {

/// What a raw sharded array of these chunks would transfer, without a file behind it.
class PlannedStore final : public ArrayStore {
 public:
  explicit PlannedStore(ChunkLayout layout) : layout_(std::move(layout)) {}
  Transfer read(const Box& box) const override { return read_chunks(layout_, box, slot()); }
  Transfer geometry(const Box& box) const override { return geometry_of_chunks(layout_, box, slot()); }
  Transfer write(const Box& box) override { return write_chunks(layout_, box); }
  std::size_t write_staging(const Box& box) override { return staging_of_write(layout_, box); }
  std::size_t run_bytes(const Shape& box) const override { return layout_.run_bytes(box); }
  bool imagined() const override { return true; }
  bool verified() const override { return true; }  // as new arrays are

 private:
  ChunkLayout::Locate slot() const {
    return [bytes = layout_.chunk_bytes, slot = layout_.slot_bytes()](const Shape&) {
      return StoredChunk{nullptr, 0, bytes, slot};
    };
  }
  ChunkLayout layout_;
};

class DroppingStore final : public ArrayStore {
 public:
  explicit DroppingStore(ChunkLayout layout) : layout_(std::move(layout)) {}
  /// For its geometry alone, which is that of write().
  Transfer read(const Box& box) const override {
    Transfer made = read_chunks(layout_, box, [this](const Shape&) {
      return StoredChunk{nullptr, 0, layout_.chunk_bytes, layout_.slot_bytes()};
    });
    made.segments.clear();
    made.convert = [](std::byte*, std::byte*, std::byte*) {
      throw Error("an array that drops what is written cannot be read.");
    };
    return made;
  }
  Transfer write(const Box& box) override {
    Transfer made = write_chunks(layout_, box);
    made.segments.clear();
    return made;
  }
  std::size_t run_bytes(const Shape& box) const override { return layout_.run_bytes(box); }
  bool stored(const Box&) const override { return false; }

 private:
  ChunkLayout layout_;
};

}  // namespace

Array dropping_array(const Shape& shape, Dtype dtype, const Shape& chunks) {
  return Array(shape, dtype, chunks, std::make_shared<DroppingStore>(ChunkLayout(shape, chunks, dtype)));
}

Array planned_array(const Shape& shape, Dtype dtype, const Shape& chunks, const std::string& codec, bool column_major) {
  const Shape stored = chunks.size() == shape.size() ? chunks : default_chunks(shape, dtype);
  ChunkLayout layout(shape, stored, dtype);
  CodecChain chain = codec_from_text(codec);
  chain.order = transpose_order(shape.size(), column_major);
  layout.pack_with(chain, "a planned array");
  return Array(shape, dtype, stored, std::make_shared<PlannedStore>(std::move(layout)));
}

}  // namespace flagstone
