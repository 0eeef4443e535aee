#include "flagstone/algorithms/topics/catchwords.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "flagstone/algorithms/topics/buckets.hpp"
#include "flagstone/algorithms/topics/panel_pass.hpp"

namespace flagstone::topics {
namespace {

constexpr Index least_values = Index{1} << 16;  // of a read, however little memory there is
constexpr Index most_planned = 32;  // reads, of all buckets together: where a plan looks for the least memory

/// Of a word, the cluster that has it far more often than any other, as far as clusters were looked at in their order.
struct Lead {
  double best = 0, second = 0;  // frequencies at the rank
  std::int32_t topic = -1;

  void meet(Index t, double found) {
    if (topic >= 0) second = std::max(second, std::min(found, best));
    if (topic < 0 || found > best) best = found, topic = static_cast<std::int32_t>(t);
  }
};

/// Words whose frequencies are looked at together.
class WordBlocks {
 public:
  WordBlocks(Graph& graph, const Frequencies& from, const Corpus& corpus, const Clusters& clusters, Index rank,
             Index most_reads)
      : graph_(graph),
        from_(from),
        words_(corpus.words()),
        clusters_(clusters),
        counts_(graph.allocate({corpus.words(), from.clusters}, Dtype::float64)),
        k_(from.clusters),
        rank_(static_cast<double>(rank)),
        most_reads_(most_reads),
        most_(std::max(least_values, static_cast<Index>(graph.budget() / 24))) {}

  /// Each word meets its rank-th frequency in each cluster; returns the reads it took.
  Index each(std::vector<Lead>& leads) {
    from_.count(graph_, counts_);
    if (graph_.planning()) return 1 + plan();
    Index reads = 1;
    for (Index first = 0; first < words_;) {
      Index last = first + 1, values = needed(first);
      for (; last < words_ && values + needed(last) + (last + 1 - first) * k_ <= most_; ++last) values += needed(last);
      if (values > 0) ++reads;
      look(first, last, values, leads);
      first = last;
    }
    return reads;
  }

 private:
  double count_of(Index word, Index t) const { return elements<double>(counts_)[word * k_ + t]; }
  double size(Index t) const { return clusters_.sizes[static_cast<std::size_t>(from_.first + t)]; }
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

  Index plan() {
    const double all = static_cast<double>(from_.values) / 2 + static_cast<double>(words_) * static_cast<double>(k_);
    const auto expected = static_cast<Index>(std::ceil(all / static_cast<double>(most_)));
    const Index reads = std::clamp<Index>(expected, 1, most_reads_);
    const Index n = std::max<Index>(1, std::min(most_, static_cast<Index>(all)));
    for (Index i = 0; i < reads; ++i)
      from_.collect(graph_, 0, words_, graph_.allocate({1, 1}, Dtype::int64), graph_.allocate({1, n}, Dtype::float64),
                    i + 1 == reads);
    return reads;
  }

  void look(Index first, Index last, Index n, std::vector<Lead>& leads) {
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
    const bool ends = last == words_;
    if (n > 0 || (ends && from_.kept)) from_.collect(graph_, first, last, places, values, ends);
    for (Index word = first; word < last; ++word)
      for (Index t = 0; t < k_; ++t)
        leads[static_cast<std::size_t>(word)].meet(from_.first + t, ranked(values, place, word - first, t, word));
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
  const Frequencies& from_;
  Index words_;
  const Clusters& clusters_;
  Array counts_;
  Index k_;
  double rank_;
  Index most_reads_;  // in plans
  Index most_;        // values of a read: a third of the budget
};

}  // namespace

std::vector<std::int32_t> find_catchwords(Graph& graph, const Corpus& corpus, const Clusters& clusters,
                                          const IsleOptions& options, Index& reads, std::vector<Placed>& places) {
  const Index k = options.k;
  const Index rank = rank_of(options.eps2 * options.w0 * options.sample, corpus.documents(), k);
  const auto words = static_cast<std::size_t>(corpus.words());
  const Charge held = graph.charge(words * sizeof(Lead));
  std::vector<Lead> leads(words);
  const auto look = [&](const Frequencies& from, Index planned) {
    return WordBlocks(graph, from, corpus, clusters, rank, planned).each(leads);
  };
  const Place place = options.where.buckets;
  if (place == Place::automatic) {
    reads += look(*read_frequencies(corpus, clusters, k), most_planned);
    places.push_back({"buckets", "view", 0});
  } else {
    ClusterBuckets buckets(graph, corpus, clusters, k, place == Place::memory);
    const Index planned = most_planned / static_cast<Index>(buckets.size()) + 1;
    for (std::size_t b = 0; b < buckets.size(); ++b) look(*buckets.take(b), planned);
    reads += 2;
    places.push_back({"buckets", place == Place::memory ? "memory" : "disk", buckets.bytes(),
                      std::to_string(buckets.size()) + (buckets.size() == 1 ? " of them" : " of them, one at a time")});
  }
  std::vector<std::int32_t> made(words, -1);
  for (std::size_t w = 0; w < words; ++w)
    if (const Lead& lead = leads[w]; lead.best > options.rho * lead.second && lead.best > 0) made[w] = lead.topic;
  return made;
}

}  // namespace flagstone::topics
