#include "flagstone/algorithms/topics/catchwords.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "flagstone/algorithms/topics/panel_pass.hpp"

namespace flagstone::topics {
namespace {

constexpr Index least_values = Index{1} << 16;  // of a read, however little memory there is
constexpr Index most_planned = 32;              // reads: where a plan looks for the least memory

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

const bool entered = host_kernels().enter(Kernel::count_words, {Dtype::float64}, run_panel<CountWords>) &&
                     host_kernels().enter(Kernel::collect_words, {Dtype::float64}, run_panel<CollectWords>);

/// Words whose frequencies are looked at together.
class WordBlocks {
 public:
  WordBlocks(Graph& graph, const Corpus& corpus, const Clusters& clusters, const Array& counts, Index rank)
      : graph_(graph),
        corpus_(corpus),
        clusters_(clusters),
        counts_(counts),
        k_(counts.shape()[1]),
        rank_(static_cast<double>(rank)),
        most_(std::max(least_values, static_cast<Index>(graph.budget() / 24))) {}

  /// use(word, its rank-th frequency in each cluster); returns the reads it took.
  Index each(const std::function<void(Index, const double*)>& use) {
    if (graph_.planning()) return plan();
    Index reads = 0;
    for (Index first = 0; first < corpus_.words();) {
      Index last = first + 1, values = needed(first);
      for (; last < corpus_.words() && values + needed(last) + (last + 1 - first) * k_ <= most_; ++last)
        values += needed(last);
      if (values > 0) ++reads;
      look(first, last, values, use);
      first = last;
    }
    return reads;
  }

 private:
  double count_of(Index word, Index t) const { return elements<double>(counts_)[word * k_ + t]; }
  double size(Index t) const { return clusters_.sizes[static_cast<std::size_t>(t)]; }
  /// More than the rank have it, or all of a cluster that is no larger.
  bool wanted(Index word, Index t) const {
    const double have = count_of(word, t);
    return have > rank_ || (have > 0 && have == size(t) && rank_ >= size(t));
  }
  Index needed(Index word) const {
    Index sum = 0;
    for (Index t = 0; t < k_; ++t) sum += wanted(word, t) ? static_cast<Index>(count_of(word, t)) : 0;
    return sum;
  }

  void read(Index first, Index last, const Array& places, const Array& values) {
    add_pass<CollectWords>(graph_, corpus_.frequencies(), Dtype::float64, 0, [&](CollectWords& pass) {
      pass.k = k_, pass.first = first, pass.last = last;
      pass.labels = pass.add(flagstone::read(pass.own(clusters_.labels)));
      pass.places = pass.add_update(places), pass.values = pass.add_update(values);
    });
  }

  Index plan() {
    const double all = static_cast<double>(corpus_.counts().matrix.nnz) / 2 +
                       static_cast<double>(corpus_.words()) * static_cast<double>(k_);
    const auto expected = static_cast<Index>(std::ceil(all / static_cast<double>(most_)));
    const Index reads = std::clamp<Index>(expected, 1, most_planned);
    const Index n = std::max<Index>(1, std::min(most_, static_cast<Index>(all)));
    for (Index i = 0; i < reads; ++i)
      read(0, corpus_.words(), graph_.allocate({1, 1}, Dtype::int64), graph_.allocate({1, n}, Dtype::float64));
    return reads;
  }

  void look(Index first, Index last, Index n, const std::function<void(Index, const double*)>& use) {
    const Array places = graph_.allocate({1, (last - first) * k_}, Dtype::int64);
    const Array values = graph_.allocate({1, std::max<Index>(1, n)}, Dtype::float64);
    auto* place = elements<std::int64_t>(places);
    std::int64_t next = 0;
    for (Index word = first; word < last; ++word)
      for (Index t = 0; t < k_; ++t) {
        const bool there = wanted(word, t);
        place[(word - first) * k_ + t] = there ? next : -1;
        next += there ? static_cast<std::int64_t>(count_of(word, t)) : 0;
      }
    if (n > 0) read(first, last, places, values);
    std::vector<double> found(static_cast<std::size_t>(k_));
    for (Index word = first; word < last; ++word) {
      for (Index t = 0; t < k_; ++t) found[static_cast<std::size_t>(t)] = ranked(values, place, word - first, t, word);
      use(word, found.data());
    }
  }

  /// The rank-th largest, or of a cluster that is no larger the least. `place` stands behind the last of them.
  double ranked(const Array& values, const std::int64_t* place, Index i, Index t, Index word) const {
    if (place[i * k_ + t] < 0) return 0;
    double* end = elements<double>(values) + place[i * k_ + t];
    double* begin = end - static_cast<std::int64_t>(count_of(word, t));
    if (!(count_of(word, t) > rank_)) return *std::min_element(begin, end);
    double* nth = begin + static_cast<std::int64_t>(rank_) - 1;
    std::nth_element(begin, nth, end, std::greater<>());
    return *nth;
  }

  Graph& graph_;
  const Corpus& corpus_;
  const Clusters& clusters_;
  const Array& counts_;
  Index k_;
  double rank_;
  Index most_;  // values of a read: a third of the budget
};

}  // namespace

std::vector<std::int32_t> find_catchwords(Graph& graph, const Corpus& corpus, const Clusters& clusters,
                                          const IsleOptions& options, Index& reads) {
  const Index k = options.k;
  const Index rank = rank_of(options.eps2 * options.w0 * options.sample, corpus.documents(), k);
  const Array counts = graph.allocate({corpus.words(), k}, Dtype::float64);
  add_pass<CountWords>(graph, corpus.frequencies(), Dtype::float64, 0, [&](CountWords& pass) {
    pass.k = k, pass.labels = pass.add(read(pass.own(clusters.labels))), pass.counts = pass.add_reduce(counts);
  });
  std::vector<std::int32_t> made(static_cast<std::size_t>(corpus.words()), -1);
  reads += 1 + WordBlocks(graph, corpus, clusters, counts, rank).each([&](Index word, const double* found) {
    Index best = 0;
    double second = 0;
    for (Index t = 1; t < k; ++t) {
      second = std::max(second, std::min(found[t], found[best]));
      if (found[t] > found[best]) best = t;
    }
    if (found[best] > options.rho * second && found[best] > 0)
      made[static_cast<std::size_t>(word)] = static_cast<std::int32_t>(best);
  });
  return made;
}

}  // namespace flagstone::topics
