#include "flagstone/algorithms/topics/where.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "flagstone/algorithms/cluster/centre_arrays.hpp"
#include "flagstone/algorithms/topics/panel_pass.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::topics {
namespace {

constexpr Index pattern_tile = Index{1} << 19;  // bytes: what two panels share is a small part of either
constexpr double pattern_seconds = 1e-9;        // of a value: compared with 0, and its byte written

/// Tiles of the pattern under stored values [first, last).
struct PatternTiles {
  Index first, last, length;
  bool held;

  /// In memory a panel's own bytes are a tile.
  std::vector<Box> boxes() const {
    if (first >= last) return {};
    if (held) return {{{first}, {last - first}}};
    std::vector<Box> made;
    for (Index at = first / pattern_tile * pattern_tile; at < last; at += pattern_tile)
      made.push_back({{at}, {std::min(pattern_tile, length - at)}});
    return made;
  }
};

/// One panel's part of the pattern.
class PatternPanel {
 public:
  PatternPanel(const sparse::CsrOperand& b, const CsrPanelRange& range, const Array& pattern, bool held)
      : range_(range),
        reader_(b, range, Dtype::float32, false),
        pattern_(pattern),
        boxes_(PatternTiles{range.first, range.last, pattern.shape()[0], held}.boxes()) {}

  TaskSpec task() && {
    TaskSpec task;
    task.name = "keep_pattern";
    reader_.access(task.accesses);
    const std::size_t first_tile = task.accesses.size();
    for (const Box& box : boxes_)  // the panel before wrote the beginning of a tile that both lie in
      task.accesses.push_back(box.start[0] < range_.first ? update({pattern_, box}) : write({pattern_, box}));
    task.accesses.push_back(scratch(reader_.scratch_bytes()));
    const auto values = static_cast<double>(range_.last - range_.first);
    const double seconds = reader_.convert_seconds() + values * pattern_seconds;
    task.cost = {0, seconds * sparse::reference_bytes_per_second, false, reader_.decoded_bytes()};
    task.body = [self = std::move(*this), first_tile](std::span<const Tile> tiles) { self.run(tiles, first_tile); };
    return task;
  }

 private:
  void run(std::span<const Tile> tiles, std::size_t first_tile) const {
    std::size_t tile = 0;
    const auto end_of = [&](std::size_t i) { return boxes_[i].start[0] + boxes_[i].shape[0]; };
    reader_.stream(tiles, tiles.back().data, [&](Index, const kernel::CsrRows& step) {
      const auto* values = reinterpret_cast<const float*>(step.values) - step.pointers[0];
      for (Index p = step.pointers[0]; p < step.pointers[step.rows]; ++p) {
        while (p >= end_of(tile)) ++tile;
        tiles[first_tile + tile].data[p - boxes_[tile].start[0]] = std::byte{values[p] != 0};
      }
    });
  }

  CsrPanelRange range_;
  sparse::PanelReader reader_;
  Array pattern_;
  std::vector<Box> boxes_;
};

/// √ζ of each stored column.
std::vector<double> roots_of(const Graph& graph, const sparse::Transform::Step& frequencies) {
  const auto* thresholds = elements<double>(frequencies.thresholds);
  std::vector<double> made(static_cast<std::size_t>(frequencies.thresholds.shape()[1]), 1.0);
  for (std::size_t w = 0; !graph.planning() && w < made.size(); ++w) made[w] = std::sqrt(thresholds[w]);
  return made;
}

/// The same panels and columns; values are those of the pattern, times the factors.
sparse::CsrOperand read_pattern(const sparse::CsrOperand& b, const Array& pattern, std::vector<double> factors) {
  sparse::CsrOperand made = b;
  const Array again = pattern.in_memory() ? cluster::first_rows(pattern, pattern.shape()[0]) : pattern;
  made.values = {.array = again, .encoded = {}, .fill = {}, .once = false, .as = b.values.steps()};
  sparse::Transform transform;
  transform.steps.push_back({sparse::Transform::Step::Kind::columns, std::move(factors)});
  transform.place = b.transform->place;
  made.transform = std::make_shared<const sparse::Transform>(std::move(transform));
  return made;
}

}  // namespace

Place place_from_name(const std::string& operand, const std::string& name) {
  if (name == "auto") return Place::automatic;
  if (name == "memory") return Place::memory;
  if (name == "disk") return Place::disk;
  throw ShapeError("topics: where places '" + operand + "' in '" + name + "'; choose 'memory', 'disk' or 'auto'.");
}

Array placed(Graph& graph, bool held, const Shape& shape, Dtype dtype, const Shape& tile) {
  return held ? graph.allocate(shape, dtype) : graph.temporary(shape, dtype, tile);
}

KeptPattern keep_pattern(Graph& graph, const sparse::CsrOperand& b, bool held) {
  const Index length = std::max<Index>(1, b.panels.empty() ? 0 : b.panels.back().last);
  const Array pattern = placed(graph, held, {length}, Dtype::uint8, {std::min(length, pattern_tile)});
  sparse::CsrOperand all = b;  // of all columns: dropped ones have a place in what is stored
  sparse::Transform transform = *b.transform;
  transform.place.clear();
  all.transform = std::make_shared<const sparse::Transform>(std::move(transform));
  all.matrix.cols = b.stored.cols;
  for (const CsrPanelRange& range : b.panels)
    if (range.first < range.last) graph.add(PatternPanel(all, range, pattern, held).task());
  graph.barrier();
  std::vector<double> factors = roots_of(graph, b.transform->steps.back());
  KeptPattern made{{}, graph.charge(8 * factors.size())};
  made.operand = read_pattern(b, pattern, std::move(factors));
  return made;
}

}  // namespace flagstone::topics
