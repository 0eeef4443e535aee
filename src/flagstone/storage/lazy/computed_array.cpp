#include "flagstone/storage/lazy/computed_array.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/lazy/gather.hpp"
#include "flagstone/storage/lazy/lazy_store.hpp"

namespace flagstone {
namespace {

class ComputedStore final : public LazyStore {
 public:
  ComputedStore(Shape shape, Dtype dtype, Shape chunks, Computation computation)
      : LazyStore(computation.operands, dtype),
        shape_(std::move(shape)),
        dtype_(dtype),
        chunks_(std::move(chunks)),
        how_(std::make_shared<const Computation>(std::move(computation))) {}

  Transfer read(const Box& box) const override {
    check_box(shape_, box);
    Transfer geometry = dense_geometry(box.shape, item_, false);
    if (count(box.shape) == 0) return geometry;
    geometry.flops = static_cast<double>(count(box.shape)) * how_->flops;
    std::vector<Computation::Part> loaded;
    std::vector<std::size_t> which;  // of those that are loaded, for each part
    Gather gather;
    for (Computation::Part& part : parts(box)) {
      const auto found = std::find(loaded.begin(), loaded.end(), part);
      which.push_back(static_cast<std::size_t>(found - loaded.begin()));
      if (found != loaded.end()) continue;
      gather.add(operands_[part.operand], part.box);
      loaded.push_back(std::move(part));
    }
    const Tile result{nullptr, dtype_, box.shape, geometry.strides, geometry.tile_bytes};
    return std::move(gather).finish(std::move(geometry), how_->work_bytes ? how_->work_bytes(box) : 0,
                                    [how = how_, box, result, which = std::move(which)](
                                        std::span<const Tile> tiles, std::byte* buffer, std::byte* work) {
                                      std::vector<Tile> given;
                                      for (const std::size_t i : which) given.push_back(tiles[i]);
                                      Tile to = result;
                                      to.data = buffer;
                                      how->compute(box, given, to, work);
                                    });
  }

  std::size_t run_bytes(const Shape& box) const override {
    return static_cast<std::size_t>(c_run(shape_, box)) * item_;
  }

  /// What chunk after chunk reads of operands on disk.
  std::uint64_t pass_bytes() const override {
    if (count(shape_) == 0 ||
        std::all_of(operands_.begin(), operands_.end(), [](const Array& one) { return one.in_memory(); }))
      return 0;
    std::uint64_t sum = 0;
    std::vector<std::size_t> order(shape_.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    for_each_box(whole(shape_), chunks_, order, [&](const Box& box) {
      for (const Computation::Part& part : parts(box))
        if (const Array& operand = operands_[part.operand]; !operand.in_memory())
          sum += static_cast<std::uint64_t>(count(part.box.shape)) * size_of(operand.dtype());
    });
    return sum;
  }

  std::uint64_t unpack_bytes() const override { return 0; }
  bool verified() const override { return false; }
  bool computed_anew() const override { return true; }

 private:
  std::vector<Computation::Part> parts(const Box& box) const {
    return how_->parts ? how_->parts(box) : std::vector<Computation::Part>{};
  }

  const Shape shape_;
  const Dtype dtype_;
  const Shape chunks_;
  const std::shared_ptr<const Computation> how_;
};

}  // namespace

Array computed_array(const Shape& shape, Dtype dtype, Computation computation) {
  for (const Index extent : shape)
    if (extent < 0) throw ShapeError("computed array: shape " + to_string(shape) + "; extents must not be negative.");
  const Shape chunks = default_chunks(shape, dtype);
  auto store = std::make_shared<ComputedStore>(shape, dtype, chunks, std::move(computation));
  return Array(shape, dtype, chunks, std::move(store));
}

}  // namespace flagstone
