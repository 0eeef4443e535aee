// The second half of step 5: documents that are full of a topic's catchwords, and their mean.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/algorithms/topics/catchwords.hpp"
#include "flagstone/algorithms/topics/panel_pass.hpp"
#include "flagstone/kernel/topics/document.hpp"

namespace flagstone::topics {
namespace {

using Catchwords = std::shared_ptr<const std::vector<std::int32_t>>;

/// scores[topic] := Σ A over its catchwords, of each document: use(document, scores). `own`: k float64.
template <class Use>
void each_score(const kernel::CsrRows& step, const std::vector<std::int32_t>& catchwords, Index k, double* scores,
                Use&& use) {
  Index open = -1;
  const auto close = [&](Index row) {
    for (; open < row; ++open) {
      if (open >= 0) use(open, scores);
      std::fill_n(scores, k, 0.0);
    }
  };
  each_value<double>(step, [&](Index row, Index word, double value) {
    close(row);
    if (const std::int32_t t = catchwords[static_cast<std::size_t>(word)]; t >= 0) scores[t] += value;
  });
  close(step.rows);
}

/// heaps[topic] := the largest scores above 0; their number stands before them.
struct ScoreDocuments final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::score_documents;
  static constexpr const char* name = "score_documents";
  static constexpr double seconds = 3e-9;
  Catchwords catchwords;
  Index k = 0, rank = 0;
  int heaps = -1;

  void rows(std::span<const Tile> tiles, std::byte* own, Index, const kernel::CsrRows& step) const {
    auto* heap = at<double>(tiles, heaps);
    each_score(step, *catchwords, k, reinterpret_cast<double*>(own), [&](Index, const double* scores) {
      for (Index t = 0; t < k; ++t)
        if (scores[t] > 0) take(heap + t * (rank + 1), scores[t]);
    });
  }
  void take(double* heap, double score) const {
    double* first = heap + 1;
    const auto held = static_cast<Index>(heap[0]);
    if (held < rank) {
      first[held] = score, heap[0] += 1;
      std::push_heap(first, first + held + 1, std::greater<>());
    } else if (score > first[0]) {
      std::pop_heap(first, first + rank, std::greater<>());
      first[rank - 1] = score;
      std::push_heap(first, first + rank, std::greater<>());
    }
  }
};

/// sums[word, topic] += A of the documents of each topic; pairs[t1, t2] += documents whose best two topics they are.
struct SumDocuments final : PanelPass {
  using PanelPass::PanelPass;
  static constexpr Kernel which = Kernel::sum_documents;
  static constexpr const char* name = "sum_documents";
  static constexpr double seconds = 6e-9;
  Catchwords catchwords;
  std::shared_ptr<const std::vector<double>> least;             // of each topic: scores above it
  std::shared_ptr<const std::vector<std::uint8_t>> by_cluster;  // topics that take their cluster's documents
  Index k = 0, width = 0;
  int labels = -1, sums = -1, pairs = -1;

  void rows(std::span<const Tile> tiles, std::byte* own, Index row, const kernel::CsrRows& step) const {
    const auto* label = at<const std::int32_t>(tiles, labels) + row;
    auto *to = at<double>(tiles, sums), *edges = at<double>(tiles, pairs);
    const auto* values = reinterpret_cast<const double*>(step.values);
    each_score(step, *catchwords, k, reinterpret_cast<double*>(own), [&](Index d, const double* scores) {
      const auto add = [&](Index t) {
        for (Index p = step.pointers[d] - step.pointers[0]; p < step.pointers[d + 1] - step.pointers[0]; ++p)
          to[kernel::column_at(step, p) * width + t] += values[p];
      };
      for (Index t = 0; t < k; ++t)
        if (scores[t] > (*least)[static_cast<std::size_t>(t)]) add(t);
      if (label[d] >= 0 && (*by_cluster)[static_cast<std::size_t>(label[d])]) add(label[d]);
      if (edges) count_pair(scores, edges);
    });
  }
  void count_pair(const double* scores, double* edges) const {
    Index best = -1, second = -1;
    for (Index t = 0; t < k; ++t) {
      if (!(scores[t] > 0)) continue;
      if (best < 0 || scores[t] > scores[best])
        second = best, best = t;
      else if (second < 0 || scores[t] > scores[second])
        second = t;
    }
    if (second >= 0) ++edges[best * k + second];
  }
};

const bool entered = host_kernels().enter(Kernel::score_documents, {Dtype::float64}, run_panel<ScoreDocuments>) &&
                     host_kernels().enter(Kernel::sum_documents, {Dtype::float64}, run_panel<SumDocuments>);

/// τ of each topic: its rank-th largest score, 0 where there are fewer.
std::vector<double> least_scores(Graph& graph, const Corpus& corpus, const Catchwords& catchwords,
                                 const IsleOptions& options) {
  const Index k = options.k, rank = rank_of(options.eps3 * options.w0, corpus.documents(), k);
  const Array heaps = graph.allocate({k, rank + 1}, Dtype::float64);
  add_pass<ScoreDocuments>(graph, corpus.frequencies(), Dtype::float64, 0, [&](ScoreDocuments& pass) {
    pass.catchwords = catchwords, pass.k = k, pass.rank = rank;
    pass.heaps = pass.add_update(heaps), pass.own_bytes = static_cast<std::size_t>(k) * 8;
  });
  std::vector<double> made(static_cast<std::size_t>(k), 0.0);
  for (Index t = 0; !graph.planning() && t < k; ++t) {
    const double* heap = elements<double>(heaps) + t * (rank + 1);
    if (heap[0] == static_cast<double>(rank)) made[static_cast<std::size_t>(t)] = heap[1];
  }
  return made;
}

/// topics := columns of the sums, divided by what they add up to; one of nothing is even.
void normalise(const Array& sums, Index k, const Array& topics) {
  const Index words = sums.shape()[0], width = sums.shape()[1];
  std::vector<double> all(static_cast<std::size_t>(k), 0.0);
  const auto* from = elements<double>(sums);
  for (Index w = 0; w < words; ++w)
    for (Index t = 0; t < k; ++t) all[static_cast<std::size_t>(t)] += from[w * width + t];
  for (Index w = 0; w < words; ++w)
    for (Index t = 0; t < k; ++t) {
      const double sum = all[static_cast<std::size_t>(t)];
      elements<float>(topics)[w * width + t] =
          static_cast<float>(sum > 0 ? from[w * width + t] / sum : 1 / static_cast<double>(words));
    }
}

void take_edges(const Array& pairs, Index most, TopicMeans& means) {
  const Index k = pairs.shape()[0];
  const auto* counts = elements<double>(pairs);
  std::vector<Index> order(static_cast<std::size_t>(k * k));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return counts[a] > counts[b]; });
  for (const Index place : order) {
    if (std::cmp_equal(means.together.size(), most) || !(counts[place] > 0)) break;
    means.pairs.push_back(static_cast<std::int32_t>(place / k));
    means.pairs.push_back(static_cast<std::int32_t>(place % k));
    means.together.push_back(static_cast<std::int64_t>(counts[place]));
  }
}

}  // namespace

void list_parts(StateParts& parts, TopicMeans& means) {
  parts.array("topics", means.topics);
  parts.values("pairs", means.pairs);
  parts.values("together", means.together);
  parts.values("catchwords", means.catchwords);
}

TopicMeans topic_means(Graph& graph, const Corpus& corpus, const Clusters& clusters,
                       const std::vector<std::int32_t>& catchwords, const IsleOptions& options) {
  const Index k = options.k, width = kernel::topics_width(k);
  const auto held = std::make_shared<const std::vector<std::int32_t>>(catchwords);
  const Charge kept = graph.charge(4 * catchwords.size());
  const auto least = std::make_shared<const std::vector<double>>(least_scores(graph, corpus, held, options));
  auto by_cluster = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(k), 1);
  for (const std::int32_t t : catchwords)
    if (t >= 0 && !options.cluster_documents) (*by_cluster)[static_cast<std::size_t>(t)] = 0;
  TopicMeans made{graph.allocate({corpus.words(), width}, Dtype::float32), {}, {}, {}};
  const Array sums = graph.allocate({corpus.words(), width}, Dtype::float64);
  const Array pairs = options.edge_topics > 0 ? graph.allocate({k, k}, Dtype::float64) : Array{};
  add_pass<SumDocuments>(graph, corpus.frequencies(), Dtype::float64, 0, [&](SumDocuments& pass) {
    pass.catchwords = held, pass.least = least, pass.by_cluster = by_cluster, pass.k = k, pass.width = width;
    pass.labels = pass.add(read(pass.own(clusters.labels))), pass.sums = pass.add_reduce(sums);
    if (pairs) pass.pairs = pass.add_reduce(pairs);
    pass.own_bytes = static_cast<std::size_t>(k) * 8;
  });
  if (graph.planning()) return made;
  normalise(sums, k, made.topics);
  if (pairs) take_edges(pairs, options.edge_topics, made);
  return made;
}

}  // namespace flagstone::topics
