#include "flagstone/algorithms/labels/wide_classifier.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::labels {
namespace {

/// A sweep over the points of one panel that belong to the node.
struct WideSweep final : CallValue {
  WideSweep(const Examples& examples, std::size_t panel, const WideNode& of)
      : points(examples, panel), node(of), features(examples.features()) {}
  JoinedPanel points;
  WideNode node;
  Index features, sweep = 0, panel = 0;
  int weights = -1, alphas = -1, spread = -1;
  bool first = false;

  struct Memory;
  std::size_t scratch_bytes() const;
};

struct WideSweep::Memory {
  Memory(const WideSweep& sweep, std::byte* from) {
    const auto take = [&](Index n, std::size_t item) {
      const std::size_t at = std::exchange(bytes, bytes + align_up(static_cast<std::size_t>(n) * item, 64));
      return from ? from + at : nullptr;  // null: sizes alone
    };
    const Index rows = sweep.points.rows(), values = sweep.points.values(), children = sweep.node.part.children;
    reader = take(static_cast<Index>(sweep.points.scratch_bytes()), 1);
    pointers = reinterpret_cast<Index*>(take(rows + 1, 8));
    columns = reinterpret_cast<std::uint32_t*>(take(values, 4));
    numbers = reinterpret_cast<float*>(take(values, 4));
    belongs = reinterpret_cast<bool*>(take(rows * children, 1));
    positive = reinterpret_cast<bool*>(take(rows, 1));
    solver = take(static_cast<Index>(kernel::svm_bytes(rows)), 1);
  }
  std::size_t bytes = 0;
  std::byte *reader, *solver;
  Index* pointers;
  std::uint32_t* columns;
  float* numbers;
  bool *belongs, *positive;
};

std::size_t WideSweep::scratch_bytes() const { return Memory(*this, nullptr).bytes; }

void run_sweep(const Call& call, std::span<const Tile> tiles) {
  const auto& sweep = call.value_as<WideSweep>();
  const NodePart& part = sweep.node.part;
  const WideSweep::Memory at(sweep, tiles.back().data);
  const Membership members(sweep.node.shape, (*sweep.node.trees)[static_cast<std::size_t>(part.tree)], part);
  Index rows = 0, values = 0;
  at.pointers[0] = 0;
  sweep.points.each(tiles, at.reader, [&](const JoinedRow& row) {
    if (!members.holds(row.labels, row.keys)) return;
    members.children(row.labels, row.keys, at.belongs + rows * part.children);
    row.each([&](std::uint32_t column, float value) { at.columns[values] = column, at.numbers[values++] = value; });
    at.pointers[++rows] = values;
  });
  const Tile& weights = tiles[static_cast<std::size_t>(sweep.weights)];
  const Tile& alphas = tiles[static_cast<std::size_t>(sweep.alphas)];
  if (sweep.first && sweep.panel == 0) std::memset(weights.data, 0, weights.bytes);
  if (sweep.first) std::memset(alphas.data, 0, alphas.bytes);
  const kernel::SparsePoints points{rows, at.pointers, at.columns, at.numbers};
  double worst = 0;
  for (Index c = 0; c < part.children; ++c) {
    for (Index i = 0; i < rows; ++i) at.positive[i] = at.belongs[i * part.children + c];
    double spread = 0;
    kernel::SvmOptions svm = sweep.node.svm;
    svm.sweeps = 1, svm.spread = &spread;
    svm.seed = seed_of(column_seed(svm.seed, part, c), static_cast<std::uint64_t>(sweep.sweep),
                       static_cast<std::uint64_t>(sweep.panel), 0);
    kernel::train_svm(points, sweep.features, at.positive, svm, weights.as<double>() + c * (sweep.features + 1),
                      alphas.as<double>() + c * sweep.points.rows(), at.solver);
    worst = std::max(worst, spread);
  }
  *tiles[static_cast<std::size_t>(sweep.spread)].as<double>() = worst;
}

/// Weights that are complete, as they are stored.
struct Encoding final : CallValue {
  Index features = 0, children = 0;
  Kept kept;
};

void run_encoding(const Call& call, std::span<const Tile> tiles) {
  const auto& value = call.value_as<Encoding>();
  auto* features = reinterpret_cast<std::uint32_t*>(tiles.back().data);
  std::iota(features, features + value.features + 1, 0U);
  kernel::ChunkTarget to = value.kept.size.target(tiles[1].data);
  kernel::encode_chunk(features, value.features + 1, tiles[0].as<const double>(), value.children, value.kept.threshold,
                       to);
  EncodedSize::note(tiles[1].data, to);
}

const bool entered =
    host_kernels().enter(Kernel::sweep_points, run_sweep) && host_kernels().enter(Kernel::encode_node, run_encoding);

}  // namespace

Array train_wide(Graph& graph, const Examples& examples, const WideNode& node, Index& reads) {
  const Index features = examples.features(), children = node.part.children;
  const auto panels = static_cast<Index>(examples.x.panels.size());
  const Shape all{(features + 1) * children};
  const Array weights = graph.temporary(all, Dtype::float64, all);
  const Array spread = graph.allocate({panels}, Dtype::float64);
  std::vector<Array> alphas;
  const Index sweeps = graph.planning() ? ceil_div(node.svm.sweeps, Index{2}) : node.svm.sweeps;
  for (Index sweep = 0; sweep < sweeps; ++sweep) {
    for (Index p = 0; p < panels; ++p) {
      auto value = std::make_shared<WideSweep>(examples, static_cast<std::size_t>(p), node);
      value->sweep = sweep, value->panel = p, value->first = sweep == 0;
      if (sweep == 0) {
        const Shape shape{std::max<Index>(1, value->points.rows() * children)};
        alphas.push_back(graph.temporary(shape, Dtype::float64, shape));
      }
      TaskSpec task;
      task.name = "sweep_points";
      value->points.access(task.accesses);
      const auto add = [&](Access access) {
        task.accesses.push_back(std::move(access));
        return static_cast<int>(task.accesses.size()) - 1;
      };
      const Region own{alphas[static_cast<std::size_t>(p)], whole(alphas[static_cast<std::size_t>(p)].shape())};
      const Region columns{weights, whole(all)};
      value->weights = add(again(sweep == 0 && p == 0 ? write(columns) : update(columns)));
      value->alphas = add(again(sweep == 0 ? write(own) : update(own)));
      value->spread = add(write({spread, {{p}, {1}}}));
      task.accesses.push_back(scratch(value->scratch_bytes()));
      task.cost = value->points.cost();
      const double flops = 4 * static_cast<double>(value->points.values() * children);
      task.cost.bytes_touched += flops * 0.5e-9 * sparse::reference_bytes_per_second;
      task.cost.flops = flops;
      task.calls = {Call(Kernel::sweep_points, Dtype::float64, {TilePart{0}})};
      task.calls[0].flops = flops;
      task.calls[0].value = value;
      graph.add(std::move(task));
    }
    ++reads;
    graph.barrier();
    if (graph.planning()) continue;
    const auto found = elements_of<double>(spread);
    if (*std::max_element(found.begin(), found.end()) <= node.svm.eps) break;
  }
  const Shape shape{static_cast<Index>(node.kept.size.bytes())};
  const Array to = graph.temporary(shape, Dtype::uint8, shape);
  auto value = std::make_shared<Encoding>();
  value->features = features, value->children = children, value->kept = node.kept;
  TaskSpec task;
  task.name = "encode_node";
  task.accesses = {last(read({weights, whole(all)})), again(write({to, whole(shape)})),
                   scratch(static_cast<std::size_t>(features + 1) * 4)};
  task.cost = seconds_of(2e-9 * static_cast<double>(all[0]));
  task.calls = {Call(Kernel::encode_node, Dtype::float64, {TilePart{0}})};
  task.calls[0].value = value;
  graph.add(std::move(task));
  return to;
}

}  // namespace flagstone::labels
