#include "flagstone/algorithms/labels/wide_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/kernel/labels/halves.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::labels {
namespace {

constexpr Index planned_rounds = 10;

/// A pass: scores of labels from the centres of their nodes, or sums of labels by the side that they are on.
struct WidePass final : CallValue {
  std::unique_ptr<RowReader> from;
  std::shared_ptr<const std::vector<std::int32_t>> node_of;  // of a label: which of the nodes; -1: none
  std::shared_ptr<const std::vector<std::uint8_t>> sides;    // sums: the left ones are 1; null: scores
  Index features = 0, first = 0;
};

void run_pass(const Call& call, std::span<const Tile> tiles) {
  const auto& value = call.value_as<WidePass>();
  const Tile &centres = tiles[tiles.size() - 3], &to = tiles[tiles.size() - 2];
  value.from->each(tiles, tiles.back().data, [&](const JoinedRow& row) {
    const auto label = static_cast<std::size_t>(row.labels[0]);
    const Index node = (*value.node_of)[label];
    if (node < 0) return;
    if (value.sides) {
      double* sum = to.as<double>() + (2 * node + ((*value.sides)[label] ? 0 : 1)) * value.features;
      row.each([&](std::uint32_t column, float x) { sum[column] += static_cast<double>(x); });
      return;
    }
    const double* left = centres.as<const double>() + 2 * node * value.features;
    const double* right = left + value.features;
    double to_left = 0, to_right = 0;
    row.each([&](std::uint32_t column, float x) {
      to_left += static_cast<double>(x) * left[column], to_right += static_cast<double>(x) * right[column];
    });
    double* score = to.as<double>() + 2 * (row.labels[0] - value.first);
    score[0] = to_left, score[1] = to_right;
  });
}

const bool entered = host_kernels().enter(Kernel::wide_halves, run_pass);

/// Some wide nodes of a level, in lock step.
class WideSplit {
 public:
  WideSplit(Graph& graph, const Centroids& centroids, const TreeShape& shape, Index features, const WideLevel& at,
            std::span<const Index> nodes, std::int32_t* order)
      : graph_(graph),
        centroids_(centroids),
        shape_(shape),
        features_(features),
        at_(at),
        nodes_(nodes.begin(), nodes.end()),
        order_(order),
        centres_(graph.allocate({2 * static_cast<Index>(nodes.size()), features}, Dtype::float64)),
        sums_(graph.allocate(centres_.shape(), Dtype::float64)),
        scores_(graph.allocate({shape.labels, 2}, Dtype::float64)),
        sides_(std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(shape.labels))),
        done_(nodes.size(), false),
        before_(nodes.size(), -2) {}

  void split() {
    begin();
    for (Index round = 0; round < (graph_.planning() ? planned_rounds : kernel::most_rounds); ++round) {
      if (std::all_of(done_.begin(), done_.end(), [](bool done) { return done; })) break;
      pass(false);
      choose();
      pass(true);
      take_sums();
    }
    if (!graph_.planning()) reorder();
  }

 private:
  std::span<std::int32_t> labels(std::size_t i) const {
    const auto [first, n] = shape_.range(at_.level, nodes_[i]);
    return {order_ + first, static_cast<std::size_t>(n)};
  }
  std::shared_ptr<const std::vector<std::int32_t>> node_of() const {
    auto made = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(shape_.labels), -1);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!done_[i])
        for (const std::int32_t label : labels(i))
          (*made)[static_cast<std::size_t>(label)] = static_cast<std::int32_t>(i);
    return made;
  }

  /// Centres are two labels of each node: sums of these alone.
  void begin() {
    auto two = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(shape_.labels), -1);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto own = labels(i);
      const auto seed = seed_of(at_.seed, static_cast<std::uint64_t>(at_.tree), static_cast<std::uint64_t>(at_.level),
                                static_cast<std::uint64_t>(nodes_[i]));
      const auto [a, b] = kernel::first_two(static_cast<Index>(own.size()), seed);
      for (const Index one : {a, b}) {
        const auto label = static_cast<std::size_t>(own[static_cast<std::size_t>(one)]);
        (*two)[label] = static_cast<std::int32_t>(i), (*sides_)[label] = one == a;
      }
    }
    pass(true, two);
    take_sums();
  }

  void pass(bool sums) { pass(sums, node_of()); }
  void pass(bool sums, const std::shared_ptr<const std::vector<std::int32_t>>& node_of) {
    if (sums && !graph_.planning()) std::ranges::fill(elements_of<double>(sums_), 0.0);
    for (std::size_t p = 0; p < centroids_.rows.pieces(); ++p) {
      const auto [first, n] = centroids_.ranges[p];
      auto value = std::make_shared<WidePass>();
      value->from = centroids_.rows.piece(p), value->node_of = node_of, value->features = features_;
      value->first = first;
      if (sums) value->sides = sides_;
      TaskSpec task;
      task.name = "wide_halves";
      value->from->access(task.accesses);
      task.accesses.push_back(read({centres_, whole(centres_.shape())}));
      task.accesses.push_back(sums ? reduce({sums_, whole(sums_.shape())}) : write({scores_, {{first, 0}, {n, 2}}}));
      task.accesses.push_back(scratch(value->from->scratch_bytes()));
      task.cost = value->from->cost();
      task.calls = {Call(Kernel::wide_halves, Dtype::float64, {TilePart{0}})};
      task.calls[0].value = value;
      graph_.add(std::move(task));
    }
    graph_.barrier();
  }

  void choose() {
    if (graph_.planning()) return;
    const auto scores = elements_of<double>(scores_);
    std::vector<double> differences;
    std::vector<std::uint8_t> left;
    std::vector<Index> space;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (done_[i]) continue;
      const auto own = labels(i);
      const auto n = static_cast<Index>(own.size());
      differences.clear(), left.resize(own.size());
      for (const std::int32_t label : own) {
        const auto at = 2 * static_cast<std::size_t>(label);
        differences.push_back(scores[at] - scores[at + 1]);
      }
      kernel::larger_half(differences.data(), n, left.data(), space);
      double sum = 0;
      for (std::size_t j = 0; j < own.size(); ++j) {
        const auto label = static_cast<std::size_t>(own[j]);
        (*sides_)[label] = left[j];
        sum += scores[2 * label + (left[j] ? 0 : 1)];
      }
      const double mean = sum / static_cast<double>(n);
      done_[i] = mean - before_[i] < kernel::least_gain;
      before_[i] = mean;
    }
  }

  void take_sums() {
    if (graph_.planning()) return;
    const auto sums = elements_of<double>(sums_);
    auto centres = elements_of<double>(centres_);
    const auto width = static_cast<std::size_t>(features_);
    for (std::size_t c = 0; c < 2 * nodes_.size(); ++c) {
      const auto from = sums.subspan(c * width, width);
      const double length = std::sqrt(std::inner_product(from.begin(), from.end(), from.begin(), 0.0));
      for (std::size_t f = 0; f < width; ++f) centres[c * width + f] = length > 0 ? from[f] / length : 0;
    }
  }

  void reorder() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto own = labels(i);
      std::stable_partition(own.begin(), own.end(),
                            [&](std::int32_t label) { return (*sides_)[static_cast<std::size_t>(label)] != 0; });
    }
  }

  Graph& graph_;
  const Centroids& centroids_;
  TreeShape shape_;
  Index features_;
  WideLevel at_;
  std::vector<Index> nodes_;
  std::int32_t* order_;
  Array centres_, sums_, scores_;
  std::shared_ptr<std::vector<std::uint8_t>> sides_;
  std::vector<bool> done_;
  std::vector<double> before_;
};

}  // namespace

void split_wide(Graph& graph, const Centroids& centroids, const TreeShape& shape, Index features, const WideLevel& at,
                const std::vector<Index>& nodes, std::int32_t* order) {
  const double each = 64.0 * static_cast<double>(features);  // centres, sums, and what a reduction holds of them
  const double fit = 0.25 * static_cast<double>(graph.budget()) / each;
  const auto most = static_cast<std::size_t>(std::clamp(fit, 1.0, static_cast<double>(nodes.size())));
  for (std::size_t first = 0; first < nodes.size(); first += most) {
    const auto some = std::span(nodes).subspan(first, std::min(most, nodes.size() - first));
    WideSplit(graph, centroids, shape, features, at, some, order).split();
  }
}

}  // namespace flagstone::labels
