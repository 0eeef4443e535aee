#include "flagstone/algorithms/forest/train.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "flagstone/algorithms/forest/tail.hpp"
#include "flagstone/algorithms/forest/wide.hpp"
#include "flagstone/algorithms/labels/counts.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::forest {
namespace {

using labels::Tally;

constexpr Index side_by_side = 16;         // trees; a constant, because nodes are stored group by group
constexpr double planned_sweeps = 120;     // of a level's points, in both solvers
constexpr double planned_looks = 45;       // at each label of a level's points, while sides are found
constexpr double planned_share = 0.15e-9;  // seconds a byte of nodes that is stored

class Training {
 public:
  Training(Graph& graph, const labels::Examples& examples, const TrainForestOptions& options, ForestNotes& notes)
      : graph_(graph),
        examples_(examples),
        options_(options),
        notes_(notes),
        labels_(examples.y->matrix.cols),
        held_(graph.charge(labels::ModelWriter::bytes() + 40 * static_cast<std::uint64_t>(labels_))),
        stages_(graph, options.checkpoint),
        writer_(make_writer()),
        kept_(stages_.keep("forest",
                           [this](StateParts& parts) {
                             if (!parts.loading()) state_ = writer_->state();
                             parts.values("writer", state_);
                             parts.value("stored", stored_);
                             parts.value("groups", groups_);
                             parts.value("in groups", in_groups_);
                             parts.values("parts", parts_);
                             parts.value("round", round_);
                             parts.value("in rounds", in_rounds_);
                             parts.values("waiting", waiting_);
                           })),
        goes_on_(round_ > 0),
        skipped_(stored_) {
    if (kept_.loaded()) writer_->restore(state_);
  }

  void run() {
    tallies_ = labels::count_labels(graph_, examples_, labels_);
    notes_.reads = 1;
    if (!graph_.planning() && tallies_.back().keys == 0)
      throw ShapeError(std::string(examples_.who) + ": Y has no label of any point; a forest needs some to rank.");
    worth_ = weigh();
    is_small() ? train_small() : train_large();
    if (writer_) writer_->finish({});
  }

 private:
  struct Tree {
    std::shared_ptr<Growth> growth;
    Array bucket, state, nodes;
    Subtree place;  // of its root
    bool waits = true;
    std::unique_ptr<FinishedTiles> saved;  // of the state
  };

  std::optional<labels::ModelWriter> make_writer() const {
    if (graph_.planning()) return std::nullopt;
    return std::optional<labels::ModelWriter>(std::in_place, options_.directory, options_.growth.small_weights);
  }

  /// Stores a chunk, unless a dead process did.
  void keep(const labels::Chunk& chunk, const labels::EncodedSize& size, const std::byte* tile) {
    if (added_++ < skipped_) return;
    writer_->append(chunk, size, tile);
    ++stored_;
  }
  using Offer = std::function<void(Index)>;  // after so many rounds
  /// Of work that has no known end: what so many rounds or levels of it are.
  static double share_of(Index rounds) { return static_cast<double>(rounds) / static_cast<double>(rounds + 2); }
  void offer(Index group, double share) {
    const double groups = std::ceil(static_cast<double>(options_.trees) / side_by_side);
    stages_.offer(std::min(0.99, (static_cast<double>(group) + share) / groups));
  }
  /// Whether a dead process stored this group of trees.
  bool has_group(Index group) {
    if (group >= groups_) return false;
    added_ = in_groups_;
    return true;
  }
  void end_group(Index group) {
    groups_ = group + 1, in_groups_ = stored_;
    parts_.clear();
    offer(groups_, 0);
  }

  bool is_small() const { return tallies_.back().values <= static_cast<double>(options_.small); }

  /// All points are in one bucket.
  void train_small() {
    const std::vector<labels::BucketSize> sizes{tallies_.back().size()};
    const auto maps =
        std::make_shared<labels::BucketMaps>(1, std::vector<std::int32_t>(static_cast<std::size_t>(labels_), 0));
    const Array bucket = labels::fill_buckets(graph_, labels::JoinedPanels(examples_), sizes, maps, examples_.who)[0];
    ++notes_.reads;
    for (Index first = 0; first < options_.trees; first += side_by_side) {
      if (has_group(first / side_by_side)) continue;
      std::vector<Tree> trees;
      for (Index t = first; t < std::min(first + side_by_side, options_.trees); ++t)
        trees.push_back(tree({t, 0, 0, 1, sizes[0]}, bucket));
      grow(trees, [&](Index round) { offer(first / side_by_side, share_of(round)); });
      end_group(first / side_by_side);
    }
    add_tails(graph_, bucket, sizes[0], tails());
  }

  /// Wide nodes by passes, then the subtrees below them: as many buckets at a time as are in memory.
  void train_large() {
    const auto keep = [this](const labels::Chunk& chunk, const labels::EncodedSize& size, const std::byte* tile) {
      this->keep(chunk, size, tile);
    };
    for (Index first = 0; first < options_.trees; first += side_by_side) {
      const Index group = first / side_by_side;
      if (has_group(group)) continue;
      WideNodes wide(graph_, examples_, options_, worth_, tallies_.back().size(), first,
                     std::min(side_by_side, options_.trees - first), stages_);
      added_ += wide.stored();
      const std::vector<Subtree> subtrees =
          wide.grow(keep, notes_, [&](Index level) { offer(group, 0.3 * share_of(level)); });
      for (std::size_t at = 0, part = 0; at < subtrees.size(); at += side_by_side, ++part) {
        if (part < parts_.size()) {
          added_ += parts_[part];
          continue;
        }
        const Index before = added_;
        const auto share = [&](double parts) {
          const double done = static_cast<double>(at) + parts * side_by_side;
          return 0.3 + 0.7 * done / static_cast<double>(subtrees.size() + side_by_side);
        };
        grow_subtrees(wide, subtrees, at, std::min<std::size_t>(side_by_side, subtrees.size() - at),
                      [&](Index round) { offer(group, share(share_of(round))); });
        parts_.push_back(added_ - before);
        offer(group, share(1));
      }
      end_group(group);
    }
    notes_.reads += add_wide_tails(graph_, examples_, tails());
  }

  /// Their buckets are filled some at a time, as memory allows, and wait in scratch where their room is needed: which
  /// ones are grown together, and so the order in which nodes are stored, is the same for every limit.
  void grow_subtrees(WideNodes& wide, const std::vector<Subtree>& subtrees, std::size_t first, std::size_t n,
                     const Offer& offer) {
    std::vector<labels::BucketSize> sizes;
    for (std::size_t s = first; s < first + n; ++s) sizes.push_back(subtrees[s].size);
    std::vector<Tree> trees;
    while (trees.size() < n) {
      const std::size_t at = first + trees.size();
      const std::size_t some = labels::at_a_time(graph_, std::span(sizes).subspan(trees.size()));
      for (const Array& bucket : wide.fill(subtrees, at, some))
        trees.push_back(tree(subtrees[first + trees.size()], bucket));
      ++notes_.reads;
    }
    grow(trees, offer);
  }

  /// 1 / propensity of each label (Jain et al. 2016).
  std::shared_ptr<const std::vector<double>> weigh() const {
    auto made = std::make_shared<std::vector<double>>(static_cast<std::size_t>(labels_), 1.0);
    if (!options_.propensity) return made;
    const auto [a, b] = *options_.propensity;
    const double most = std::log(std::max(2.0, static_cast<double>(examples_.rows()))) - 1;
    for (std::size_t l = 0; l < made->size(); ++l)
      if (const double points = tallies_[l].points; points > 0)
        (*made)[l] = 1 + most * std::pow((b + 1) / (points + b), a);
    return made;
  }

  static Array bytes(Graph& graph, std::size_t number) {
    const Shape shape{static_cast<Index>(number)};
    return graph.temporary(shape, Dtype::uint8, shape);
  }
  static Region all(const Array& array) { return {array, whole(array.shape())}; }

  /// A round is a task of each tree that has nodes that wait; after it the states of these may be saved.
  void grow(std::vector<Tree>& trees, const Offer& offer) {
    const Index before = added_;
    Index round = go_on(trees);
    while (std::ranges::any_of(trees, &Tree::waits)) {
      ++round;
      for (Tree& one : trees)
        if (one.waits) add(one, round);
      store(trees);
      if (!stages_.saving() || std::ranges::none_of(trees, &Tree::waits)) continue;
      note(trees, round, added_ - before);
      offer(round);
      forget(trees, round);
    }
    for (Tree& one : trees) one.saved.reset(), one.state = {};
    remove(std::exchange(opened_, {}));  // no save tells of the last rounds
    round_ = in_rounds_ = 0, waiting_.clear();
  }

  /// The round behind which a dead process left these trees: 0 where it left none of them, or their states are gone.
  Index go_on(std::vector<Tree>& trees) {
    if (!std::exchange(goes_on_, false)) return 0;
    bool all = waiting_.size() == trees.size();
    for (std::size_t t = 0; all && t < trees.size(); ++t) {
      trees[t].waits = waiting_[t] != 0;
      if (!trees[t].waits) continue;
      open_state(trees[t], round_);
      all = trees[t].saved->holds(whole(trees[t].state.shape()));
    }
    if (all) {
      told_ = std::exchange(opened_, {});
      added_ += in_rounds_;
      return round_;
    }
    for (Tree& one : trees) one.waits = true;
    return 0;
  }

  void note(const std::vector<Tree>& trees, Index round, Index stored) {
    round_ = round, in_rounds_ = stored;
    waiting_.clear();
    for (const Tree& one : trees) {
      waiting_.push_back(one.waits);
      if (one.waits) one.saved->finish(whole(one.state.shape()));
    }
  }

  /// States that neither the last save tells of nor the next one will: of rounds between saves, of trees that are done.
  void forget(std::vector<Tree>& trees, Index round) {
    std::vector<std::string> stay;
    bool told = true;  // of this round, by a save
    for (Tree& one : trees) {
      if (one.waits)
        stay.push_back(name_of(one, round)), told = told && !one.saved->unnoted();
      else
        one.saved.reset(), one.state = {};
    }
    std::erase_if(opened_, [&](const std::string& name) { return std::ranges::find(stay, name) != stay.end(); });
    remove(std::exchange(opened_, stay));
    if (told) remove(std::exchange(told_, std::exchange(opened_, {})));
  }
  void remove(const std::vector<std::string>& names) const {
    std::error_code ignored;  // they are in the folder of the record, which goes as a whole
    for (const std::string& name : names) std::filesystem::remove(stages_.directory() + "/" + name, ignored);
  }

  static std::string name_of(const Tree& one, Index round) {
    return "tree" + std::to_string(one.place.tree) + "-" + std::to_string(one.place.root) + "-" + std::to_string(round);
  }
  /// The state after a round: where something is saved it is another array after each.
  void open_state(Tree& one, Index round) {
    const Shape shape{static_cast<Index>(one.growth->state_bytes())};
    one.saved.reset();
    one.state = stages_.temporary(name_of(one, round), shape, Dtype::uint8, shape);
    if (!stages_.saving()) return;
    one.saved = std::make_unique<FinishedTiles>(stages_, one.state, shape, name_of(one, round));
    opened_.push_back(name_of(one, round));
  }

  Tree tree(const Subtree& place, const Array& bucket) {
    Tree made;
    made.place = place, made.bucket = bucket;
    made.growth = std::make_shared<Growth>();
    made.growth->options = options_.growth, made.growth->size = place.size;
    made.growth->features = examples_.features(), made.growth->labels = labels_, made.growth->tree = place.tree;
    made.growth->worth = worth_;
    if (place.root > 0)
      made.growth->options.seed = labels::seed_of(options_.growth.seed, static_cast<std::uint64_t>(place.tree),
                                                  static_cast<std::uint64_t>(place.root), 3);
    return made;
  }

  void add(Tree& one, Index round) {
    auto value = std::make_shared<Growth>(*one.growth);
    const Array before = one.state;
    value->begins = round == 1, value->carries = round > 1 && stages_.saving();
    if (value->begins || value->carries) open_state(one, round);
    one.nodes = bytes(graph_, value->room_bytes());
    TaskSpec task;
    task.name = "grow_tree";
    const bool fresh = value->begins || value->carries;
    task.accesses = {again(read(all(one.bucket))), again(fresh ? write(all(one.state)) : update(all(one.state))),
                     again(write(all(one.nodes)))};
    if (value->carries) task.accesses.push_back(last(read(all(before))));
    // Whether a run saves is not known when it is planned: the state before and behind a round, as a save needs them.
    const std::size_t carried = graph_.planning() ? value->state_bytes() : 0;
    task.accesses.push_back(scratch(value->scratch_bytes() + carried));
    const double leaves =
        static_cast<double>(one.place.size.rows) / static_cast<double>(std::max<Index>(1, options_.growth.max_leaf));
    const double levels = 1 + std::log2(1 + leaves);
    const double flops = 4 * planned_sweeps * levels * static_cast<double>(one.place.size.values + one.place.size.rows);
    const double sides = planned_looks * labels::value_seconds * levels * static_cast<double>(one.place.size.keys);
    task.cost = labels::seconds_of(0.5e-9 * flops + sides, flops);
    task.calls = {Call(Kernel::train_node, Dtype::float64, {TilePart{0}})};
    task.calls[0].flops = flops;
    task.calls[0].value = value;
    graph_.add(std::move(task));
  }

  /// A node of a task, as it is stored.
  struct Found {
    std::size_t tree = 0;
    Grown node;
  };

  /// Level by level what this round grew; then its leaves.
  void store(std::vector<Tree>& trees) {
    std::vector<Found> found;
    std::vector<std::size_t> grew;
    for (std::size_t t = 0; t < trees.size(); ++t)
      if (trees[t].waits) grew.push_back(t);
    for (const std::size_t t : grew) {
      graph_.await({again(read(all(trees[t].state))), again(read(all(trees[t].nodes)))},
                   [&](std::span<const Tile> tiles) {
                     for (const Grown& one : Growth::grown(tiles[1])) found.push_back({t, one});
                     trees[t].waits = Growth::waits(tiles[0]);
                   });
      if (graph_.planning()) trees[t].waits = false;
    }
    std::ranges::stable_sort(found, {}, [](const Found& one) {
      return std::pair(one.node.first < 0 ? labels::leaf_level : one.node.level, one.tree);
    });
    std::vector<Access> accesses;
    for (const std::size_t t : grew) accesses.push_back(last(read(all(trees[t].nodes))));
    graph_.await(accesses, [&](std::span<const Tile> tiles) {
      for (const Found& one : found) {
        const auto tile = static_cast<std::size_t>(std::ranges::find(grew, one.tree) - grew.begin());
        append(trees[one.tree], one.node, tiles[tile].data);
      }
    });
    graph_.host_work("store_nodes", labels::seconds_of(planned_share * 4e6 * static_cast<double>(grew.size())));
  }

  /// Its first node has the number of the root, those below it stand behind one another.
  void append(const Tree& tree, const Grown& node, const std::byte* tile) {
    const auto number = [&](Index own) { return own == 0 ? tree.place.root : tree.place.next + own - 1; };
    const bool leaf = node.first < 0;
    labels::Chunk chunk{leaf ? labels::leaf_level : tree.place.level + node.level, tree.place.tree, number(node.node)};
    chunk.first = leaf ? 0 : number(node.first), chunk.children = 1;
    keep(chunk, tree.growth->encoded(node), tile + node.offset);
    ++(leaf ? notes_.leaves : notes_.nodes);
    notes_.deepest = std::max(notes_.deepest, tree.place.level + node.level);
  }

  Tails tails() {
    Tails made{examples_.features(), options_.small, options_.growth.small_weights, tallies_, {}};
    if (writer_)
      made.keep = [this](const labels::Chunk& chunk, const labels::EncodedSize& size, const std::byte* tile) {
        keep(chunk, size, tile);
      };
    return made;
  }

  Graph& graph_;
  const labels::Examples& examples_;
  const TrainForestOptions& options_;
  ForestNotes& notes_;
  Index labels_;
  Charge held_;
  Stages stages_;
  std::optional<labels::ModelWriter> writer_;
  std::vector<std::byte> state_;            // of the writer, while it is saved or loaded
  Index stored_ = 0;                        // chunks
  Index groups_ = 0, in_groups_ = 0;        // of trees, that are done; their chunks
  std::vector<Index> parts_;                // of the group that is not: chunks of its subtrees, sixteen at a time
  Index round_ = 0, in_rounds_ = 0;         // of trees that are not done: rounds, and their chunks
  std::vector<std::uint8_t> waiting_;       // of these trees
  std::vector<std::string> told_, opened_;  // names of states: that the last save tells of; that came since
  Stages::Kept kept_;
  bool goes_on_;                   // in the middle of some trees
  Index skipped_ = 0, added_ = 0;  // chunks: that are there; that were come to
  std::vector<Tally> tallies_;
  std::shared_ptr<const std::vector<double>> worth_;
};

}  // namespace

void check_train(const labels::Examples& examples, Index labels, const TrainForestOptions& options) {
  const std::string given = examples.who + ": ";
  if (labels < 1) throw ShapeError(given + "Y has no columns; a label is needed.");
  if (examples.rows() >= Index{1} << 30 || labels >= Index{1} << 31 || examples.features() >= Index{1} << 31)
    throw ShapeError(given + "X is " + std::to_string(examples.rows()) + " x " + std::to_string(examples.features()) +
                     " and Y has " + std::to_string(labels) +
                     " columns; fewer than 2^30 points and 2^31 labels and features are possible.");
  if (options.trees * std::min(options.growth.leaf_labels, labels) > 65535)
    throw ShapeError(given + std::to_string(options.trees) + " trees with leaves of " +
                     std::to_string(options.growth.leaf_labels) +
                     " labels are too many; their product is 65535 at most.");
}

void train(Graph& graph, const labels::Examples& examples, const TrainForestOptions& options, ForestNotes& notes) {
  check_train(examples, examples.y->matrix.cols, options);
  Training(graph, examples, options, notes).run();
}

}  // namespace flagstone::forest
