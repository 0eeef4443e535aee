#include "flagstone/algorithms/topics/buckets.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/algorithms/topics/panel_pass.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::topics {
namespace {

constexpr Index most_buckets = 64;  // a panel's task writes to all of them

/// A frequency of a document.
struct Entry {
  double value;
  std::uint32_t word, cluster;
};

/// counts[word, cluster] += documents that have the word.
struct CountWords final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::count_words;
  static constexpr const char* name = "count_words";
  static constexpr double seconds = 4e-9;
  Index k = 0;
  int labels = -1, counts = -1;

  void rows(std::span<const Tile> tiles, std::byte*, Index row, const kernel::CsrRows& step) const {
    const auto* label = at<const std::int32_t>(tiles, labels) + row;
    auto* to = at<double>(tiles, counts);
    each_value<double>(step, [&](Index i, Index word, double value) {
      if (value > 0 && label[i] >= 0) ++to[word * k + label[i]];
    });
  }
};

/// Frequencies of some words, those of one word and cluster side by side. `places`: the next place of each, or -1.
struct CollectWords final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::collect_words;
  static constexpr const char* name = "collect_words";
  static constexpr double seconds = 4e-9;
  Index k = 0, first = 0, last = 0;  // words
  int labels = -1, places = -1, values = -1;

  void rows(std::span<const Tile> tiles, std::byte*, Index row, const kernel::CsrRows& step) const {
    const auto* label = at<const std::int32_t>(tiles, labels) + row;
    auto* place = at<std::int64_t>(tiles, places);
    auto* to = at<double>(tiles, values);
    each_value<double>(step, [&](Index i, Index word, double value) {
      if (word < first || word >= last || !(value > 0) || label[i] < 0) return;
      std::int64_t& next = place[(word - first) * k + label[i]];
      if (next >= 0) to[next++] = value;
    });
  }
};

class ReadFrequencies final : public Frequencies {
 public:
  ReadFrequencies(const Corpus& corpus, const Clusters& clusters, Index k)
      : Frequencies(0, k, corpus.counts().matrix.nnz, false), corpus_(corpus), labels_(clusters.labels) {}

  void count(Graph& graph, const Array& counts) const override {
    add_pass<CountWords>(graph, corpus_.frequencies(), Dtype::float64, 0, [&](CountWords& pass) {
      pass.k = clusters, pass.labels = pass.add(read(pass.own(labels_))), pass.counts = pass.add_reduce(counts);
    });
  }
  void collect(Graph& graph, Index from, Index last, const Array& places, const Array& to, bool) const override {
    add_pass<CollectWords>(graph, corpus_.frequencies(), Dtype::float64, 0, [&](CollectWords& pass) {
      pass.k = clusters, pass.first = from, pass.last = last;
      pass.labels = pass.add(read(pass.own(labels_)));
      pass.places = pass.add_update(places), pass.values = pass.add_update(to);
    });
  }

 private:
  const Corpus& corpus_;
  Array labels_;
};

/// A panel's documents by bucket: how many frequencies each gets, or these themselves.
struct GatherClusters final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::gather_clusters;
  static constexpr const char* name = "gather_clusters";
  static constexpr double seconds = 5e-9;
  std::shared_ptr<const std::vector<std::int32_t>> bucket;  // of each cluster
  int labels = -1, sizes = -1;                              // -1: they are gathered
  std::vector<int> pieces;                                  // of each bucket; -1: it gets nothing
  std::vector<Index> room;

  void rows(std::span<const Tile> tiles, std::byte* own, Index row, const kernel::CsrRows& step) const {
    const auto* label = at<const std::int32_t>(tiles, labels) + row;
    auto* filled = sizes < 0 ? reinterpret_cast<Index*>(own) : at<Index>(tiles, sizes);
    if (row == 0 && sizes < 0) std::fill_n(filled, room.size(), Index{0});
    each_value<double>(step, [&](Index i, Index word, double value) {
      if (!(value > 0) || label[i] < 0) return;
      const auto b = static_cast<std::size_t>((*bucket)[static_cast<std::size_t>(label[i])]);
      const Index place = filled[b]++;
      if (sizes >= 0) return;
      if (place >= room[b]) throw Error("topics: X changed while it was read; make the call again.");
      at<Entry>(tiles, pieces[b])[place] = {value, static_cast<std::uint32_t>(word),
                                            static_cast<std::uint32_t>(label[i])};
    });
  }
};

/// What is done with a piece of a bucket.
struct PieceWork : CallValue {
  Index first = 0, clusters = 0, from = 0, last = 0;  // clusters; words
};

/// Tiles: the piece, counts.
void run_count(const Call& call, std::span<const Tile> tiles) {
  const auto& work = call.value_as<PieceWork>();
  const std::span entries(tiles[0].as<const Entry>(), static_cast<std::size_t>(tiles[0].shape[0]) / sizeof(Entry));
  auto* to = tiles[1].as<double>();
  for (const Entry& one : entries)
    ++to[static_cast<Index>(one.word) * work.clusters + static_cast<Index>(one.cluster) - work.first];
}

/// Tiles: the piece, places, values.
void run_collect(const Call& call, std::span<const Tile> tiles) {
  const auto& work = call.value_as<PieceWork>();
  const std::span entries(tiles[0].as<const Entry>(), static_cast<std::size_t>(tiles[0].shape[0]) / sizeof(Entry));
  auto* place = tiles[1].as<std::int64_t>();
  auto* to = tiles[2].as<double>();
  for (const Entry& one : entries) {
    const auto word = static_cast<Index>(one.word);
    if (word < work.from || word >= work.last) continue;
    std::int64_t& next = place[(word - work.from) * work.clusters + static_cast<Index>(one.cluster) - work.first];
    if (next >= 0) to[next++] = one.value;
  }
}

const bool entered = host_kernels().enter(Kernel::count_words, {Dtype::float64}, run_panel<CountWords>) &&
                     host_kernels().enter(Kernel::collect_words, {Dtype::float64}, run_panel<CollectWords>) &&
                     host_kernels().enter(Kernel::gather_clusters, {Dtype::float64}, run_panel<GatherClusters>) &&
                     host_kernels().enter(Kernel::count_words, {Dtype::uint8}, run_count) &&
                     host_kernels().enter(Kernel::collect_words, {Dtype::uint8}, run_collect);

class BucketFrequencies final : public Frequencies {
 public:
  BucketFrequencies(Index first, Index clusters, Index values, std::vector<Array> pieces)
      : Frequencies(first, clusters, values, true), pieces_(std::move(pieces)) {}

  void count(Graph& graph, const Array& counts) const override {
    each(graph, "count_words", Kernel::count_words, {}, {counts}, false);
  }
  void collect(Graph& graph, Index from, Index last, const Array& places, const Array& to, bool ends) const override {
    each(graph, "collect_words", Kernel::collect_words, {from, last}, {places, to}, ends);
  }

 private:
  static constexpr double seconds = 3e-9;  // of an entry

  void each(Graph& graph, const char* name, Kernel kernel, std::pair<Index, Index> words, const std::vector<Array>& to,
            bool ends) const {
    auto work = std::make_shared<PieceWork>();
    work->first = first, work->clusters = clusters, work->from = words.first, work->last = words.second;
    for (const Array& piece : pieces_) {
      TaskSpec task;
      task.name = name;
      const Access all = read({piece, whole(piece.shape())});
      task.accesses = {ends ? flagstone::last(all) : again(all)};
      for (const Array& array : to) task.accesses.push_back(again(update({array, whole(array.shape())})));
      const auto entries = static_cast<double>(piece.shape()[0]) / sizeof(Entry);
      task.cost.bytes_touched = seconds * entries * sparse::reference_bytes_per_second;
      task.calls = {Call(kernel, Dtype::uint8, {TilePart{0}})};
      task.calls[0].value = work;
      graph.add(std::move(task));
    }
    graph.barrier();
  }

  std::vector<Array> pieces_;
};

/// Behind the last cluster of each bucket: some that have about as many documents each, and counts of words that fit.
std::vector<Index> cut_clusters(const Graph& graph, const Corpus& corpus, const Clusters& clusters, Index k) {
  const double budget = std::max(1.0, static_cast<double>(graph.budget()));
  const double entries = sizeof(Entry) * static_cast<double>(corpus.counts().matrix.nnz);
  const double counts = 8 * static_cast<double>(corpus.words()) * static_cast<double>(k);
  const double wanted = std::ceil(std::max(entries / (budget / 8), counts / (budget / 16)));
  const auto n = static_cast<Index>(std::clamp(wanted, 1.0, static_cast<double>(std::min(k, most_buckets))));
  std::vector<double> sizes = clusters.sizes;
  if (graph.planning()) sizes.assign(static_cast<std::size_t>(k), 1.0);
  const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  std::vector<Index> ends;
  double before = 0;
  for (Index t = 0; t < k; ++t) {
    before += sizes[static_cast<std::size_t>(t)];
    const auto made = static_cast<double>(ends.size() + 1);
    const bool must = k - t - 1 == n - static_cast<Index>(ends.size()) - 1;  // one for each bucket that is left
    if (t + 1 == k ||
        (static_cast<Index>(ends.size()) + 1 < n && (must || before >= all * made / static_cast<double>(n))))
      ends.push_back(t + 1);
  }
  return ends;
}

}  // namespace

std::unique_ptr<Frequencies> read_frequencies(const Corpus& corpus, const Clusters& clusters, Index k) {
  return std::make_unique<ReadFrequencies>(corpus, clusters, k);
}

ClusterBuckets::ClusterBuckets(Graph& graph, const Corpus& corpus, const Clusters& clusters, Index k, bool held)
    : ends_(cut_clusters(graph, corpus, clusters, k)),
      pieces_(ends_.size()),
      bucket_(std::make_shared<std::vector<std::int32_t>>()) {
  for (std::size_t b = 0; b < ends_.size(); ++b)
    bucket_->resize(static_cast<std::size_t>(ends_[b]), static_cast<std::int32_t>(b));
  const Array known = sizes(graph, corpus, clusters);
  const auto buckets = static_cast<Index>(size());
  Index panel = 0;
  add_pass<GatherClusters>(graph, corpus.frequencies(), Dtype::float64, 0, [&](GatherClusters& pass) {
    pass.bucket = bucket_, pass.labels = pass.add(read(pass.own(clusters.labels)));
    pass.own_bytes = size() * sizeof(Index);
    for (Index b = 0; b < buckets; ++b) {
      const Index n =
          graph.planning() ? ceil_div(pass.reader.nnz(), buckets) : elements<Index>(known)[panel * buckets + b];
      pass.room.push_back(n), pass.pieces.push_back(-1);
      if (n == 0) continue;
      const Shape shape{n * static_cast<Index>(sizeof(Entry))};
      const Array piece = placed(graph, held, shape, Dtype::uint8, shape);
      pass.pieces.back() = pass.add(again(write({piece, whole(shape)})));
      pieces_[static_cast<std::size_t>(b)].push_back(piece), bytes_ += piece.nbytes();
    }
    ++panel;
  });
}

/// Of each panel and bucket (int64): one read.
Array ClusterBuckets::sizes(Graph& graph, const Corpus& corpus, const Clusters& clusters) const {
  const auto panels = static_cast<Index>(corpus.counts().panels.size());
  const Array made = graph.allocate({std::max<Index>(1, panels), static_cast<Index>(size())}, Dtype::int64);
  Index panel = 0;
  add_pass<GatherClusters>(graph, corpus.frequencies(), Dtype::float64, 0, [&](GatherClusters& pass) {
    pass.bucket = bucket_, pass.labels = pass.add(read(pass.own(clusters.labels)));
    pass.sizes = pass.add(write({made, {{panel, 0}, {1, made.shape()[1]}}}));
    ++panel;
  });
  return made;
}

std::unique_ptr<Frequencies> ClusterBuckets::take(std::size_t bucket) {
  const Index first = bucket == 0 ? 0 : ends_[bucket - 1];
  std::vector<Array> pieces = std::exchange(pieces_[bucket], {});
  Index values = 0;
  for (const Array& piece : pieces) values += piece.shape()[0] / static_cast<Index>(sizeof(Entry));
  return std::make_unique<BucketFrequencies>(first, ends_[bucket] - first, values, std::move(pieces));
}

}  // namespace flagstone::topics
