#include "flagstone/storage/lazy/elementwise_array.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/lazy/gather.hpp"
#include "flagstone/storage/lazy/lazy_store.hpp"

namespace flagstone {
namespace {

Shape reversed(Shape shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

Shape seen_shape(const LazyOperand& operand) {
  return operand.transpose ? reversed(operand.array.shape()) : operand.array.shape();
}

std::vector<Array> arrays_of(const std::vector<LazyOperand>& operands) {
  std::vector<Array> arrays;
  for (const LazyOperand& operand : operands) arrays.push_back(operand.array);
  return arrays;
}

class ElementwiseStore final : public LazyStore {
 public:
  ElementwiseStore(std::shared_ptr<const kernel::Program> program, int value, std::vector<LazyOperand> given,
                   Shape shape)
      : LazyStore(arrays_of(given), program->dtype(value)),
        program_(std::move(program)),
        value_(value),
        given_(std::move(given)),
        shape_(std::move(shape)) {
    const LazyOperand* lead = nullptr;  // which decides how boxes are read: by chunks rather than any, the largest
    for (const LazyOperand& operand : given_) {
      if (operand.array.in_memory() || seen_shape(operand) != shape_) continue;
      const bool flat = is_flat(operand.array), led_flat = lead && is_flat(lead->array);
      if (!lead || (led_flat && !flat) || (led_flat == flat && operand.array.nbytes() > lead->array.nbytes()))
        lead = &operand;
    }
    if (!lead) return;
    lead_ = static_cast<std::size_t>(lead - given_.data());
    by_columns_ = shape_.size() > 1 && is_flat(lead->array) && lies_by_columns(lead->array) != lead->transpose;
  }

  Shape chunks() const {
    if (!lead_ || is_flat(given_[*lead_].array)) return shape_;
    const LazyOperand& lead = given_[*lead_];
    return lead.transpose ? reversed(lead.array.chunks()) : lead.array.chunks();
  }

  Transfer read(const Box& box) const override {
    check_box(shape_, box);
    Transfer geometry = dense_geometry(box.shape, item_, by_columns_);
    const auto elements = static_cast<double>(count(box.shape));
    if (elements == 0) return geometry;
    geometry.flops = elements * program_->verbs();
    Gather gather;
    for (const LazyOperand& operand : given_) gather.add(operand.array, own_box(operand, box));
    std::vector<bool> turned;
    for (const LazyOperand& operand : given_) turned.push_back(operand.transpose);
    const Tile result{nullptr, program_->dtype(value_), box.shape, geometry.strides, geometry.tile_bytes};
    return std::move(gather).finish(std::move(geometry), kernel::evaluate_scratch(*program_),
                                    [program = program_, value = value_, result, turned = std::move(turned)](
                                        std::span<const Tile> parts, std::byte* buffer, std::byte* work) {
                                      std::vector<Tile> inputs;
                                      for (std::size_t i = 0; i < parts.size(); ++i)
                                        inputs.push_back(view(parts[i], turned[i], result.shape));
                                      kernel::StoreTarget target{value, result};
                                      target.tile.data = buffer;
                                      kernel::evaluate(*program, result.shape, inputs, {&target, 1}, {}, work);
                                    });
  }

  std::size_t run_bytes(const Shape& box) const override {
    std::optional<std::size_t> least;  // elements
    for (const LazyOperand& operand : given_) {
      if (operand.array.in_memory() || seen_shape(operand) != shape_) continue;
      const std::size_t run = operand.array.store().run_bytes(operand.transpose ? reversed(box) : box);
      least = std::min(least.value_or(run), run / size_of(operand.array.dtype()));
    }
    return std::max<std::size_t>(1, least.value_or(static_cast<std::size_t>(c_run(shape_, box)))) * item_;
  }

  std::uint64_t unpack_bytes() const override {
    // Boxes are read whole chunk by whole chunk only where those that decide are packed.
    return lead_ && given_[*lead_].array.store().unpack_bytes() > 0
               ? LazyStore::unpack_bytes() + align_up(kernel::evaluate_scratch(*program_))
               : 0;
  }

  bool verified() const override { return lead_ && given_[*lead_].array.store().verified(); }

 private:
  /// What a box takes of an operand, in the operand's own order of dimensions.
  static Box own_box(const LazyOperand& operand, const Box& box) {
    const Shape shape = seen_shape(operand);
    const std::size_t missing = box.shape.size() - shape.size();
    Box part{Shape(shape.size(), 0), Shape(shape.size(), 1)};
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] != 1) part.start[d] = box.start[missing + d], part.shape[d] = box.shape[missing + d];
    if (operand.transpose) part = {reversed(part.start), reversed(part.shape)};
    return part;
  }

  /// A part as the program sees it: strides of 0 where it is broadcast, and in dimensions that it has not.
  static Tile view(Tile part, bool turned, const Shape& shape) {
    if (turned) part.shape = reversed(part.shape), part.strides = reversed(part.strides);
    Tile seen = part;
    seen.shape = shape;
    seen.strides.assign(shape.size(), 0);
    const std::size_t missing = shape.size() - part.shape.size();
    for (std::size_t d = 0; d < part.shape.size(); ++d)
      if (part.shape[d] != 1) seen.strides[missing + d] = part.strides[d];
    return seen;
  }

  const std::shared_ptr<const kernel::Program> program_;
  const int value_;
  const std::vector<LazyOperand> given_;
  const Shape shape_;
  std::optional<std::size_t> lead_;
  bool by_columns_ = false;
};

void check(const kernel::Program& program, const std::vector<LazyOperand>& operands, const Shape& shape) {
  if (program.inputs() != static_cast<int>(operands.size()))
    throw ShapeError("lazy array: the program has " + std::to_string(program.inputs()) + " inputs and " +
                     std::to_string(operands.size()) + " operands were given; give one for each.");
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const LazyOperand& operand = operands[i];
    const Dtype wanted = program.input_dtype(static_cast<int>(i));
    if (operand.array.dtype() != wanted)
      throw ShapeError("lazy array: input " + std::to_string(i) + " of the program is " + std::string(name_of(wanted)) +
                       " and the operand is " + std::string(name_of(operand.array.dtype())) + "; they must agree.");
    const Shape seen = seen_shape(operand);
    bool fits = seen.size() <= shape.size();
    for (std::size_t d = 0; fits && d < seen.size(); ++d) {
      const Index extent = shape[shape.size() - seen.size() + d];
      fits = seen[d] == extent || seen[d] == 1;
    }
    if (!fits)
      throw ShapeError("lazy array: an operand of " + to_string(seen) + " does not broadcast to " + to_string(shape) +
                       "; make extents equal, or 1 where they differ.");
  }
}

}  // namespace

Array elementwise_array(std::shared_ptr<const kernel::Program> program, int value, std::vector<LazyOperand> operands,
                        const Shape& shape) {
  check(*program, operands, shape);
  const Dtype dtype = program->dtype(value);
  auto store = std::make_shared<ElementwiseStore>(std::move(program), value, std::move(operands), shape);
  const Shape chunks = store->chunks();
  return Array(shape, dtype, chunks, std::move(store));
}

}  // namespace flagstone
