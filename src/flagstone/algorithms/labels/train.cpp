#include "flagstone/algorithms/labels/train.hpp"

#include <algorithm>
#include <deque>
#include <optional>

#include "flagstone/algorithms/labels/centroids.hpp"
#include "flagstone/algorithms/labels/trees.hpp"
#include "flagstone/algorithms/labels/wide_classifier.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::labels {
namespace {

constexpr double planned_sweeps = 4;    // that a point takes part in, of a column
constexpr double planned_before = 0.1;  // of all work, what comes before the classifiers
constexpr double planned_share = 0.15;  // of the room of a chunk that is used

/// What comes before the classifiers.
struct Grown {
  std::vector<std::int32_t> order;  // of each tree
  std::vector<double> tallies;
};
void list_parts(StateParts& parts, Grown& grown) {
  parts.values("order", grown.order);
  parts.values("tallies", grown.tallies);
}

class Training {
 public:
  Training(Graph& graph, const Examples& examples, const TrainLabelsOptions& options, TrainNotes& notes)
      : graph_(graph),
        examples_(examples),
        options_(options),
        notes_(notes),
        labels_(examples.y->matrix.cols),
        shape_(TreeShape::of(labels_, options.max_leaf)),
        held_(graph.charge(ModelWriter::bytes() + 40 * static_cast<std::uint64_t>(labels_) +
                           12 * static_cast<std::uint64_t>(labels_ * options.trees))),
        stages_(graph, options.checkpoint),
        writer_(make_writer()),
        kept_(stages_.keep("model",
                           [this](StateParts& parts) {
                             if (!parts.loading()) state_ = writer_->state();
                             parts.values("writer", state_);
                             parts.value("stored", stored_);
                           })),
        skipped_(stored_) {
    notes.depth = shape_.depth;
    if (kept_.loaded()) writer_->restore(state_);
  }

  void run() {
    const Grown grown = stages_.once(
        "trees", [this] { return grow(); }, planned_before);
    tallies_.clear();
    for (std::size_t i = 0; i + 2 < grown.tallies.size(); i += 3)
      tallies_.push_back({grown.tallies[i], grown.tallies[i + 1], grown.tallies[i + 2]});
    note_empty();
    if (!trees_) trees_ = tree_orders(shape_, grown.order);
    is_small() ? train_small() : train_large();
    while (!pending_.empty()) store_first();
    if (writer_) writer_->finish(grown.order);
  }

 private:
  struct Pending {
    Array tile;
    Chunk chunk;
    EncodedSize size;
  };

  std::optional<ModelWriter> make_writer() const {
    if (graph_.planning()) return std::nullopt;
    return std::optional<ModelWriter>(std::in_place, options_.directory, options_.small_weights);
  }
  bool is_small() const { return tallies_.back().values <= static_cast<double>(options_.small); }

  Grown grow() {
    tallies_ = count_labels(graph_, examples_, labels_);
    ++notes_.reads;
    if (!graph_.planning() && tallies_.back().keys == 0)
      throw ShapeError(examples_.who + ": Y has no label of any point; some are needed to learn from.");
    if (is_small()) fill_all();
    const Centroids centroids = label_centroids(graph_, examples_, tallies_, all_, options_.small);
    if (!is_small()) ++notes_.reads;
    trees_ = grow_trees(graph_, centroids, shape_, examples_.features(), options_.trees, options_.seed, options_.small);
    Grown made;
    for (const TreeOrder& tree : *trees_)
      made.order.insert(made.order.end(), tree.label_at.begin(), tree.label_at.end());
    for (const Tally& one : tallies_) made.tallies.insert(made.tallies.end(), {one.points, one.values, one.keys});
    return made;
  }

  void note_empty() {
    for (Index l = 0; l < labels_; ++l)
      notes_.labels_without += tallies_[static_cast<std::size_t>(l)].points == 0 ? 1 : 0;
  }

  /// Points without labels teach nothing: they are not in it.
  void fill_all() {
    if (all_.pieces() > 0) return;
    const std::vector<BucketSize> sizes{tallies_.back().size()};
    auto maps = std::make_shared<BucketMaps>(1, std::vector<std::int32_t>(static_cast<std::size_t>(labels_), 0));
    all_.add(fill_buckets(graph_, JoinedPanels(examples_), sizes, maps, examples_.who)[0], sizes[0]);
    ++notes_.reads;
  }

  /// The points of a node as its labels bound them.
  Tally bound(Index tree, Index level, Index node) const {
    const Tally& all = tallies_.back();
    Tally sum;
    const auto [first, n] = shape_.range(level, node);
    for (Index p = first; p < first + n; ++p) {
      const auto label = (*trees_)[static_cast<std::size_t>(tree)].label_at[static_cast<std::size_t>(p)];
      const Tally& one = tallies_[static_cast<std::size_t>(label)];
      sum.points += one.points, sum.values += one.values, sum.keys += one.keys;
    }
    return {std::min(sum.points, all.points), std::min(sum.values, all.values), std::min(sum.keys, all.keys)};
  }

  /// All points are in one bucket: levels of all trees one behind the other.
  void train_small() {
    fill_all();
    for (Index level = 0; level <= shape_.depth; ++level)
      for (Index tree = 0; tree < options_.trees; ++tree)
        for (Index node = 0; node < shape_.nodes(level); ++node)
          add_node({tree, level, node}, all_.bucket(0), all_.size(0), bound(tree, level, node).size());
  }

  struct Node {
    Index tree = 0, level = 0, node = 0;
  };
  const Tally& tally(const Node& at) const { return counts_[node_place(shape_, at.tree, at.level, at.node)]; }
  bool is_wide(const Node& at) const { return tally(at).values > static_cast<double>(options_.small); }

  /// Wide nodes by passes, then the subtrees below them: as many buckets at a time as are in memory.
  void train_large() {
    counts_ = count_nodes(graph_, examples_, shape_, trees_);
    ++notes_.reads;
    std::vector<Node> subtrees;
    for (Index tree = 0; tree < options_.trees; ++tree)
      for (Index level = 0; level <= shape_.depth; ++level)
        for (Index node = 0; node < shape_.nodes(level); ++node) {
          const Node at{tree, level, node};
          if (is_wide(at))
            add_wide(at);
          else if (level == 0 || is_wide({tree, level - 1, node / 2}))
            subtrees.push_back(at);
        }
    for (std::size_t first = 0; first < subtrees.size();) first += train_subtrees(subtrees, first);
  }

  /// How many subtrees from `first` on a dead process stored whole; they are counted.
  std::size_t all_stored(const std::vector<Node>& subtrees, std::size_t first) {
    std::size_t s = first;
    for (; s < subtrees.size(); ++s) {
      Index parts = 0;
      each_below(subtrees[s], [&](const Node& at) {
        const Index most = children_at_a_time(std::min(examples_.features(), tally(at).size().values) + 1);
        parts += ceil_div(part_of(at).children, most);
      });
      if (added_ + parts > skipped_) break;
      added_ += parts;
    }
    return s - first;
  }
  template <class Use>
  void each_below(const Node& root, Use&& use) const {
    for (Index level = root.level; level <= shape_.depth; ++level)
      for (Index node = root.node << (level - root.level); node < (root.node + 1) << (level - root.level); ++node)
        use(Node{root.tree, level, node});
  }

  std::size_t train_subtrees(const std::vector<Node>& subtrees, std::size_t first) {
    if (const std::size_t stored = all_stored(subtrees, first); stored > 0) return stored;
    std::vector<BucketSize> sizes;
    for (std::size_t s = first; s < subtrees.size(); ++s) sizes.push_back(tally(subtrees[s]).size());
    sizes.resize(at_a_time(graph_, sizes));
    auto maps = std::make_shared<BucketMaps>();
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      const Node& one = subtrees[first + b];
      if (b == 0 || one.tree != subtrees[first + b - 1].tree) maps->emplace_back(static_cast<std::size_t>(labels_), -1);
      const auto [place, n] = shape_.range(one.level, one.node);
      for (Index p = place; p < place + n; ++p) {
        const auto label = (*trees_)[static_cast<std::size_t>(one.tree)].label_at[static_cast<std::size_t>(p)];
        maps->back()[static_cast<std::size_t>(label)] = static_cast<std::int32_t>(b);
      }
    }
    const auto buckets = fill_buckets(graph_, JoinedPanels(examples_), sizes, maps, examples_.who);
    ++notes_.reads;
    for (std::size_t b = 0; b < sizes.size(); ++b)
      each_below(subtrees[first + b], [&](const Node& at) { add_node(at, buckets[b], sizes[b], tally(at).size()); });
    return sizes.size();
  }

  NodePart part_of(const Node& at) const {
    NodePart part{at.tree, at.level, at.node, 2 * at.node, 2, at.level == shape_.depth};
    if (part.leaf) std::tie(part.first, part.children) = shape_.range(at.level, at.node);
    return part;
  }

  kernel::SvmOptions svm() const { return {options_.cost, options_.eps, options_.sweeps, options_.seed, nullptr}; }

  /// use(part) for children of a node, as many at a time as a task has room for.
  template <class Use>
  void each_part(const Node& at, Index locals, Use&& use) {
    NodePart part = part_of(at);
    const Index end = part.first + part.children, most = children_at_a_time(locals);
    ++notes_.nodes;
    for (; part.first < end; part.first += part.children) {
      part.children = std::min(most, end - part.first);
      if (added_++ >= skipped_) use(part);  // what a dead process stored is there
    }
  }

  void add_node(const Node& at, const Array& bucket, const BucketSize& size, const BucketSize& own) {
    const Index locals = std::min(examples_.features(), own.values) + 1;
    each_part(at, locals, [&](const NodePart& part) {
      auto value = std::make_shared<NodeTraining>();
      value->shape = shape_, value->trees = trees_, value->part = part, value->bucket = size, value->own = own;
      value->features = examples_.features(), value->svm = svm();
      value->kept = {options_.threshold,
                     encoded_size(locals, examples_.features(), part.children, options_.small_weights)};
      const Shape shape{static_cast<Index>(value->kept.size.bytes())};
      const Array tile = graph_.temporary(shape, Dtype::uint8, shape);
      TaskSpec task;
      task.name = "train_node";
      task.accesses = {again(read({bucket, whole(bucket.shape())})), again(write({tile, whole(shape)})),
                       scratch(value->scratch_bytes())};
      const double values = static_cast<double>(own.values), columns = static_cast<double>(part.children);
      const double flops = 4 * planned_sweeps * values * columns;
      task.cost = seconds_of(0.4e-9 * flops + value_seconds * static_cast<double>(size.keys + own.values), flops);
      task.calls = {Call(Kernel::train_node, Dtype::float64, {TilePart{0}})};
      task.calls[0].flops = flops;
      task.calls[0].value = value;
      graph_.add(std::move(task));
      keep(tile, part, value->kept.size);
    });
  }

  void add_wide(const Node& at) {
    ++notes_.wide;
    const Index locals = examples_.features() + 1;
    each_part(at, locals, [&](const NodePart& part) {
      const Kept kept{options_.threshold,
                      encoded_size(locals, examples_.features(), part.children, options_.small_weights)};
      keep(train_wide(graph_, examples_, {part, shape_, trees_, svm(), kept}, notes_.reads), part, kept.size);
    });
  }

  void keep(const Array& tile, const NodePart& part, const EncodedSize& size) {
    pending_.push_back({tile, {part.level, part.tree, part.node, part.first, part.children}, size});
    held_bytes_ += size.bytes();
    const auto most = static_cast<std::size_t>(4 * graph_.workers());
    while (pending_.size() > most || (pending_.size() > 1 && 4 * held_bytes_ > graph_.budget())) store_first();
  }

  /// In the order in which they were added: bits depend on no number of workers.
  void store_first() {
    const Pending one = std::move(pending_.front());
    pending_.pop_front();
    held_bytes_ -= one.size.bytes();
    graph_.await({last(read({one.tile, whole(one.tile.shape())}))},
                 [&](std::span<const Tile> tiles) { writer_->append(one.chunk, one.size, tiles[0].data); });
    ++stored_;
    stages_.offer(std::min(0.99, planned_before + (1 - planned_before) * static_cast<double>(stored_) / all_parts()));
    graph_.host_work("store_node", seconds_of(planned_share * 1e-9 * static_cast<double>(one.size.bytes())));
  }

  /// About as many chunks as there will be.
  double all_parts() const { return static_cast<double>(options_.trees * ((Index{2} << shape_.depth) - 1)); }

  Graph& graph_;
  const Examples& examples_;
  const TrainLabelsOptions& options_;
  TrainNotes& notes_;
  Index labels_;
  TreeShape shape_;
  Charge held_;
  Stages stages_;
  std::optional<ModelWriter> writer_;
  std::vector<std::byte> state_;  // of the writer, while it is saved or loaded
  Index stored_ = 0;              // chunks
  Stages::Kept kept_;
  Index skipped_ = 0, added_ = 0;  // chunks: that are there; that were come to
  std::vector<Tally> tallies_, counts_;
  BucketRows all_;
  std::shared_ptr<const std::vector<TreeOrder>> trees_;
  std::deque<Pending> pending_;
  std::uint64_t held_bytes_ = 0;
};

}  // namespace

void check_train(const Examples& examples, Index labels, const TrainLabelsOptions& options) {
  const std::string given = examples.who + ": ";
  if (labels < 1) throw ShapeError(given + "Y has no columns; a label is needed.");
  if (options.max_leaf < 2 || options.max_leaf > kernel::most_children)
    throw ShapeError(given + "max_leaf is " + std::to_string(options.max_leaf) + "; between 2 and " +
                     std::to_string(kernel::most_children) + " labels of a leaf are possible.");
  if (examples.rows() >= Index{1} << 31 || labels >= Index{1} << 31 || examples.features() >= (Index{1} << 32) - 1)
    throw ShapeError(given + "X is " + std::to_string(examples.rows()) + " x " + std::to_string(examples.features()) +
                     " and Y has " + std::to_string(labels) +
                     " columns; fewer than 2^31 points and labels, and 2^32 "
                     "features are possible.");
}

void train(Graph& graph, const Examples& examples, const TrainLabelsOptions& options, TrainNotes& notes) {
  check_train(examples, examples.y->matrix.cols, options);
  Training(graph, examples, options, notes).run();
}

}  // namespace flagstone::labels
