#include "flagstone/storage/array/array.hpp"

#include <algorithm>
#include <bit>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/chunk/chunk_layout.hpp"
#include "flagstone/storage/codec/codec_name.hpp"

namespace flagstone {

std::uint64_t Transfer::bytes() const {
  std::uint64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.bytes();
  return sum;
}

void Transfer::finish(std::byte* buffer, std::byte* staging) const {
  if (convert) convert(buffer, staging, work_bytes > 0 ? staging + (staging_bytes - work_bytes) : nullptr);
}

const Array::About Array::nothing;

Array::Array(Shape shape, Dtype dtype, Shape chunks, std::shared_ptr<ArrayStore> store, std::string path)
    : about_(std::make_shared<const About>(
          About{std::move(shape), dtype, std::move(chunks), std::move(store), std::move(path)})) {}

namespace {

/// What a raw sharded array of these chunks would transfer, without a file behind it.
class PlannedStore final : public ArrayStore {
 public:
  explicit PlannedStore(ChunkLayout layout) : layout_(std::move(layout)) {}
  Transfer read(const Box& box) const override { return layout_.read(box, slot()); }
  Transfer write(const Box& box) override { return layout_.write(box); }
  std::size_t run_bytes(const Shape& box) const override { return layout_.run_bytes(box); }
  bool verified() const override { return true; }  // as new arrays are

 private:
  ChunkLayout::Locate slot() const {
    return [bytes = layout_.chunk_bytes, slot = layout_.slot_bytes()](const Shape&) {
      return StoredChunk{nullptr, 0, bytes, slot};
    };
  }
  ChunkLayout layout_;
};

}  // namespace

Array planned_array(const Shape& shape, Dtype dtype, const Shape& chunks, const std::string& codec, bool column_major) {
  const Shape stored = chunks.size() == shape.size() ? chunks : default_chunks(shape, dtype);
  ChunkLayout layout(shape, stored, dtype);
  CodecChain chain = codec_from_text(codec);
  chain.order = transpose_order(shape.size(), column_major);
  layout.pack_with(chain, "a planned array");
  return Array(shape, dtype, stored, std::make_shared<PlannedStore>(std::move(layout)));
}

bool reads_any_box(const Array& array) {
  if (array.in_memory()) return true;
  return array.chunks() == array.shape() && !(array.store().verified() && array.nbytes() <= 4 * MiB);
}

Shape default_chunks(const Shape& shape, Dtype dtype) {
  // Squares of at most 4 MiB; what a short side leaves over goes to the other one, then to the leading dimensions.
  const auto power = [](Index n) { return static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(n))); };
  Index left = static_cast<Index>(4 * MiB / size_of(dtype));
  Shape chunks(shape.size(), 1);
  if (shape.empty()) return chunks;
  const std::size_t last = shape.size() - 1;
  if (last == 0) return {std::min(power(std::max<Index>(shape[0], 1)), left)};
  Index side = 1;
  while (4 * side * side <= left) side *= 2;
  const Index rows = power(std::max<Index>(shape[last - 1], 1)), cols = power(std::max<Index>(shape[last], 1));
  chunks[last - 1] = std::min(rows, std::max(side, left / std::min(cols, side)));
  chunks[last] = std::min(cols, std::max(side, left / std::min(rows, side)));
  if (rows > side && cols > side) chunks[last - 1] = chunks[last] = side;
  if (chunks[last - 1] < rows || chunks[last] < cols) return chunks;
  left /= chunks[last - 1] * chunks[last];
  for (std::size_t d = last - 1; d-- > 0 && left > 1; left /= chunks[d])
    chunks[d] = std::min(power(std::max<Index>(shape[d], 1)), left);
  return chunks;
}

}  // namespace flagstone
