#include "flagstone/algorithms/random/generate.hpp"

#include <algorithm>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::random {
namespace {

constexpr std::uint64_t task_bytes = 4 * MiB;

/// Bytes that are copied while one number is made: the planner's unit for what no arithmetic bounds.
double bytes_of(kernel::Distribution distribution) {
  using kernel::Distribution;
  if (distribution == Distribution::uniform) return 20;
  return distribution == Distribution::normal || distribution == Distribution::exponential ? 50 : 150;
}

struct Generation final : CallValue {
  std::shared_ptr<const kernel::Draw> draw;
  Shape shape;
  Box box;
};

void run_generate(const Call& call, std::span<const Tile> tiles) {
  const auto& value = call.value_as<Generation>();
  kernel::draw(*value.draw, value.shape, value.box, tiles[0]);
}

const bool entered = host_kernels().enter(Kernel::generate, run_generate);

/// Whole chunks, the last dimension first, about as many bytes as a disk wants at once.
Shape box_of(const Array& out) {
  const Shape& shape = out.shape();
  const bool flat = out.chunks() == shape;
  Shape unit = flat ? Shape(shape.size(), 1) : out.chunks();
  Shape box = unit;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto bytes = static_cast<std::uint64_t>(count(box)) * size_of(out.dtype());
    const auto fits = static_cast<Index>(task_bytes / std::max<std::uint64_t>(bytes, 1));
    if (fits > 1) box[d] *= fits;
    box[d] = std::min(box[d], shape[d]);
    if (box[d] < shape[d]) break;
  }
  return box;
}

}  // namespace

void generate(Graph& graph, std::shared_ptr<const kernel::Draw> draw, const Array& out) {
  if (count(out.shape()) == 0) return;
  graph.trust_order(true);
  std::vector<std::size_t> order(out.ndim());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  for_each_box(whole(out.shape()), box_of(out), order, [&](const Box& box) {
    auto value = std::make_shared<Generation>();
    value->draw = draw, value->shape = out.shape(), value->box = box;
    Call call(Kernel::generate, out.dtype(), {TilePart{0}});
    call.value = std::move(value);
    TaskSpec task;
    task.name = "generate";
    task.accesses = {once(write({out, box}))};
    task.cost.bytes_touched = bytes_of(draw->distribution) * static_cast<double>(count(box.shape));
    task.calls.push_back(std::move(call));
    graph.add(std::move(task));
  });
}

}  // namespace flagstone::random
