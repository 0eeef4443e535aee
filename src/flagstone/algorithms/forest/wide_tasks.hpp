#pragma once
// Tasks of wide nodes: what a read of a panel does for the nodes of a level.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "flagstone/algorithms/labels/buckets.hpp"
#include "flagstone/algorithms/labels/classifier.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::forest {

inline constexpr std::int32_t nowhere = -1;  // code of a point without labels, or in a leaf; of others a wide node,
inline std::int32_t code_of(std::size_t subtree) { return -2 - static_cast<std::int32_t>(subtree); }  // or a subtree

/// Nodes [first, first + nodes) of a level, and the points of a panel.
struct WideTask : labels::NodeTask {
  Index trees = 0, rows = 0, first = 0, nodes = 0;
  int at = -1, side = -1;
  std::vector<Access> accesses;
  std::size_t own_bytes = 0;

  int add(Access access) {
    accesses.push_back(std::move(access));
    return static_cast<int>(accesses.size()) - 1;
  }
  template <class T>
  static T* of(std::span<const Tile> tiles, int tile) {
    return reinterpret_cast<T*>(tiles[static_cast<std::size_t>(tile)].data);
  }
  /// use(node, side) of a row, in each tree where it is in one of the nodes.
  template <class Use>
  void each_node(std::span<const Tile> tiles, Index row, Use&& use) const {
    const auto* code = of<const std::int32_t>(tiles, at) + row * trees;
    auto* sides = of<std::uint8_t>(tiles, side) + row * trees;
    for (Index t = 0; t < trees; ++t)
      if (const Index node = code[t] - first; node >= 0 && node < nodes) use(node, sides[t]);
  }
};

/// Reads Y alone.
struct OfLabels : WideTask {
  OfLabels(const labels::Examples& examples, std::size_t panel)
      : reader(*examples.y, examples.y->panels[panel], Dtype::float32, false) {
    rows = reader.rows();
    reader.access(accesses), own_bytes = reader.scratch_bytes();
  }
  double seconds() const {
    return reader.convert_seconds() + labels::value_seconds * static_cast<double>(reader.nnz());
  }
  double decoded() const { return reader.decoded_bytes(); }
  /// use(row of the panel, its labels)
  template <class Use>
  void each(std::span<const Tile> tiles, Use&& use) const {
    reader.stream(tiles, tiles.back().data, [&](Index begin, const kernel::CsrRows& some) {
      for (Index i = 0; i < some.rows; ++i) use(begin + i, labels::row_of(some, i));
    });
  }
  sparse::PanelReader reader;
};

/// Reads X and Y.
struct OfPoints : WideTask {
  OfPoints(const labels::Examples& examples, std::size_t panel) : reader(examples, panel) {
    rows = reader.rows();
    reader.access(accesses), own_bytes = reader.scratch_bytes();
  }
  double seconds() const { return reader.cost().bytes_touched / sparse::reference_bytes_per_second; }
  double decoded() const { return reader.cost().bytes_decoded; }
  template <class Use>
  void each(std::span<const Tile> tiles, Use&& use) const {
    reader.each(tiles, tiles.back().data, [&](const labels::JoinedRow& row) { use(row.row - reader.row(), row); });
  }
  labels::JoinedPanel reader;
};

double product(const labels::JoinedRow& row, const auto* w, Index features) {
  double sum = static_cast<double>(w[features]);
  row.each(
      [&](std::uint32_t column, float value) { sum += static_cast<double>(w[column]) * static_cast<double>(value); });
  return sum;
}

/// Points with labels are in the roots.
struct Begin final : OfLabels {
  using OfLabels::OfLabels;
  void run(std::span<const Tile> tiles) const override {
    auto* code = of<std::int32_t>(tiles, at);
    std::fill_n(of<std::uint8_t>(tiles, side), rows * trees, std::uint8_t{0});
    each(tiles, [&](Index row, const labels::JoinedRow& labels) {
      for (Index t = 0; t < trees; ++t)
        code[row * trees + t] = labels.values > 0 ? static_cast<std::int32_t>(t) : nowhere;
    });
  }
};

/// A round of sides: where labels rank higher, then sums of what labels are worth on each side.
struct Sides final : OfLabels {
  using OfLabels::OfLabels;
  std::shared_ptr<const std::vector<double>> worth;
  std::shared_ptr<const std::vector<std::uint64_t>> seeds;  // of each node; where the round is the first
  std::shared_ptr<const std::vector<std::uint8_t>> rests;   // nodes whose sides stay
  int ranks = -1, sums = -1, totals = -1;                   // nodes x (2 labels); nodes x (gain, points left and right)

  void run(std::span<const Tile> tiles) const override {
    const auto number = static_cast<Index>(worth->size());
    each(tiles, [&](Index row, const labels::JoinedRow& labels) {
      each_node(tiles, row, [&](Index node, std::uint8_t& own) {
        if ((*rests)[static_cast<std::size_t>(node)]) return;
        auto* total = of<double>(tiles, totals) + 3 * node;
        if (seeds)
          own = labels::seed_of((*seeds)[static_cast<std::size_t>(node)],
                                static_cast<std::uint64_t>(reader.row() + row), 0, 0) &
                1;
        else
          total[0] += choose(of<const double>(tiles, ranks) + 2 * number * node, labels, own);
        total[1 + own] += 1;
        auto* sum = of<double>(tiles, sums) + (2 * node + own) * number;
        labels.each([&](std::uint32_t l, float) { sum[l] += (*worth)[l]; });
      });
    });
  }
  double choose(const double* rank, const labels::JoinedRow& labels, std::uint8_t& own) const {
    const std::size_t number = worth->size();
    double left = 0, right = 0;
    labels.each(
        [&](std::uint32_t l, float) { left += (*worth)[l] * rank[l], right += (*worth)[l] * rank[number + l]; });
    if (left != right) own = right > left ? 1 : 0;
    return std::max(left, right);
  }
};

/// Loss of the sides under weights, and its gradient.
struct Slopes final : OfPoints {
  using OfPoints::OfPoints;
  std::shared_ptr<const std::vector<double>> costs;  // of each node: left, right; 0: it is done
  Index features = 0;
  int weights = -1, slopes = -1, losses = -1;

  void run(std::span<const Tile> tiles) const override {
    each(tiles, [&](Index at_row, const labels::JoinedRow& row) {
      each_node(tiles, at_row, [&](Index node, std::uint8_t& own) {
        const double cost = (*costs)[static_cast<std::size_t>(2 * node + own)];
        if (cost == 0) return;
        const double z =
            (own ? 1 : -1) * product(row, of<const double>(tiles, weights) + node * (features + 1), features);
        of<double>(tiles, losses)[node] += cost * (z > 0 ? std::log1p(std::exp(-z)) : std::log1p(std::exp(z)) - z);
        const double pull = (own ? -cost : cost) / (1 + std::exp(z));
        auto* slope = of<double>(tiles, slopes) + node * (features + 1);
        row.each([&](std::uint32_t column, float value) { slope[column] += pull * static_cast<double>(value); });
        slope[features] += pull;
      });
    });
  }
};

/// Sides as the stored weights part the points, and how many there are.
struct Parting final : OfPoints {
  using OfPoints::OfPoints;
  Index features = 0;
  int weights = -1, counts = -1;  // nodes x sides x 3

  void run(std::span<const Tile> tiles) const override {
    each(tiles, [&](Index at_row, const labels::JoinedRow& row) {
      each_node(tiles, at_row, [&](Index node, std::uint8_t& own) {
        own = product(row, of<const float>(tiles, weights) + node * (features + 1), features) > 0 ? 1 : 0;
        auto* count = of<double>(tiles, counts) + 3 * (2 * node + own);
        count[0] += 1, count[1] += static_cast<double>(row.values), count[2] += static_cast<double>(row.keys);
      });
    });
  }
};

/// What points become, by node and side.
struct Relabel final : WideTask {
  Relabel(const labels::Examples& examples, std::size_t panel) {
    rows = examples.x.panels[panel].row_end - examples.x.panels[panel].row;
  }
  double seconds() const { return 1e-9 * static_cast<double>(rows * trees); }
  double decoded() const { return 0; }
  std::shared_ptr<const std::vector<std::int32_t>> becomes;
  int before = -1;  // where they were, if that is another array
  void run(std::span<const Tile> tiles) const override {
    auto* code = of<std::int32_t>(tiles, at);
    if (before >= 0) std::copy_n(of<const std::int32_t>(tiles, before), rows * trees, code);
    const auto* sides = of<const std::uint8_t>(tiles, side);
    for (Index i = 0; i < rows * trees; ++i)
      if (code[i] >= 0) code[i] = (*becomes)[static_cast<std::size_t>(2 * code[i] + sides[i])];
  }
};

/// Points to the buckets of their subtrees.
struct Gather final : OfPoints {
  using OfPoints::OfPoints;
  std::shared_ptr<const std::vector<std::int32_t>> buckets;  // of each subtree; -1: not now
  std::vector<labels::BucketSize> sizes;
  std::size_t first_bucket = 0;
  bool begins = false;

  void run(std::span<const Tile> tiles) const override {
    const auto bucket = [&](std::size_t b) { return labels::BucketWriter(tiles[first_bucket + b], sizes[b]); };
    for (std::size_t b = 0; begins && b < sizes.size(); ++b) bucket(b).begin();
    const auto* code = of<const std::int32_t>(tiles, at);
    each(tiles, [&](Index at_row, const labels::JoinedRow& row) {
      for (Index t = 0; t < trees; ++t) {
        const std::int32_t own = code[at_row * trees + t];
        const std::int32_t b = own > nowhere - 1 ? -1 : (*buckets)[static_cast<std::size_t>(-2 - own)];
        if (b >= 0 && !bucket(static_cast<std::size_t>(b)).append(row))
          throw Error("train_labels: X or Y changed while it was read; make the call again.");
      }
    });
  }
};

}  // namespace flagstone::forest
