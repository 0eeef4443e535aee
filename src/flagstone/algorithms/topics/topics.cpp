#include "flagstone/algorithms/topics/topics.hpp"

#include <algorithm>

#include "flagstone/algorithms/cluster/centre_arrays.hpp"
#include "flagstone/algorithms/topics/panel_pass.hpp"
#include "flagstone/algorithms/topics/passes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"

namespace flagstone::topics {
namespace {

/// Topics one after the other.
void unpack(const Array& packed, Index k, std::vector<float>& to) {
  const Index words = packed.shape()[0], width = packed.shape()[1];
  to.resize(static_cast<std::size_t>(k * words));
  const auto* from = elements<float>(packed);
  for (Index w = 0; w < words; ++w)
    for (Index t = 0; t < k; ++t) to[static_cast<std::size_t>(t * words + w)] = from[w * width + t];
}

/// 0.7 of the first and 0.3 of the second topic of each pair.
void mix_edges(TopicsResult& result, Index words) {
  result.edges.resize(result.together.size() * static_cast<std::size_t>(words));
  for (std::size_t e = 0; e < result.together.size(); ++e)
    for (Index w = 0; w < words; ++w)
      result.edges[e * static_cast<std::size_t>(words) + static_cast<std::size_t>(w)] =
          0.7F * result.isle[static_cast<std::size_t>(result.pairs[2 * e] * words + w)] +
          0.3F * result.isle[static_cast<std::size_t>(result.pairs[2 * e + 1] * words + w)];
}

}  // namespace

void check_topics(const sparse::CsrOperand& x, const TopicsOptions& options) {
  const Index k = options.isle.k, most = std::min(x.matrix.rows, x.matrix.cols);
  if (k < 1 || k > most)
    throw ShapeError("topics: k is " + std::to_string(k) + " and X is " + to_string({x.matrix.rows, x.matrix.cols}) +
                     "; k must lie between 1 and " + std::to_string(most) + ".");
  check_clusters(x, options.isle);
}

void topics(Graph& graph, const sparse::CsrOperand& x, const TopicsOptions& options, const Array& clusters,
            TopicsResult& result) {
  check_topics(x, options);
  if (!graph.planning()) kernel::set_blas_threads(graph.threads_per_task());  // the bits depend on it
  const IsleOptions& isle = options.isle;
  const Index k = isle.k;
  Stages stages(graph, options.checkpoint);
  Corpus corpus(x);
  const Array lengths = stages.once(
      "lengths", [&] { return corpus.measure(graph); }, 0.02);
  corpus.set_lengths(graph, lengths);
  if (!graph.planning() && k > corpus.documents())
    throw ShapeError("topics: k is " + std::to_string(k) + " and " + std::to_string(corpus.documents()) +
                     " documents are not empty; k must not be larger.");
  const std::uint64_t cells = static_cast<std::uint64_t>(corpus.words()) * static_cast<std::uint64_t>(k);
  const Charge kept = graph.charge(8 * cells + 16 * static_cast<std::uint64_t>(corpus.words()) +
                                   4 * static_cast<std::uint64_t>(isle.edge_topics * corpus.words()));
  const Array thresholds = stages.once(
      "thresholds", [&] { return corpus.find_thresholds(graph, isle); }, 0.05);
  const Clusters found = stages.once(
      "clusters", [&] { return find_clusters(graph, corpus, thresholds, isle, stages); }, 0.7);
  Index reads = 3 + found.reads;
  std::vector<Placed> places = found.placed;
  const TopicMeans means = stages.once(
      "means",
      [&] {
        result.catchwords = find_catchwords(graph, corpus, found, isle, reads, places);
        TopicMeans made = topic_means(graph, corpus, found, result.catchwords, isle);
        made.catchwords = result.catchwords;
        return made;
      },
      0.8);
  const Fitted fitted = fit_topics(graph, corpus, means.topics, k, options.passes, stages);
  cluster::write_rows(graph, found.labels, clusters);
  result.passes = reads + 2 + std::max<Index>(1, options.passes), result.placed = places;
  if (graph.planning()) return;
  result.catchwords = means.catchwords, result.pairs = means.pairs, result.together = means.together;
  result.singular_values = found.singular_values, result.sampled = found.sampled;
  result.thresholds.assign(elements<double>(thresholds), elements<double>(thresholds) + corpus.words());
  result.shares = fitted.shares, result.likelihood = fitted.likelihood;
  result.documents = corpus.documents(), result.average = corpus.average();
  unpack(means.topics, k, result.isle);
  unpack(fitted.topics, k, result.topics);
  mix_edges(result, corpus.words());
}

}  // namespace flagstone::topics
