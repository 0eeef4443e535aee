#pragma once
// Frequencies of documents, those of a few clusters together: what catchwords are found among.
#include "flagstone/algorithms/topics/clusters.hpp"

namespace flagstone::topics {

/// Where frequencies of documents come from, those of clusters [first, first + clusters).
class Frequencies {
 public:
  Frequencies(Index first, Index clusters, Index values, bool kept)
      : first(first), clusters(clusters), values(values), kept(kept) {}
  virtual ~Frequencies() = default;

  const Index first, clusters;
  const Index values;  // at most
  const bool kept;     // until the last ones are collected
  /// counts (V x clusters float64) += documents that have the word, of each cluster.
  virtual void count(Graph& graph, const Array& counts) const = 0;
  /// values := those of words [first, last), of each word and cluster from `places` on (words x clusters int64; -1: not
  /// wanted), which move on. `ends`: nobody reads them again, what is kept goes.
  virtual void collect(Graph& graph, Index first, Index last, const Array& places, const Array& values,
                       bool ends) const = 0;
};

/// Seen through X: each of count and collect is a read of it.
std::unique_ptr<Frequencies> read_frequencies(const Corpus& corpus, const Clusters& clusters, Index k);

/// Documents brought together: 16 bytes a frequency, in memory or in scratch. Two reads of X, one write. How many
/// buckets there are the limit decides: they change no frequency, and catchwords know no order.
class ClusterBuckets {
 public:
  ClusterBuckets(Graph& graph, const Corpus& corpus, const Clusters& clusters, Index k, bool held);
  std::size_t size() const { return pieces_.size(); }
  /// Bytes of all.
  std::uint64_t bytes() const { return bytes_; }
  /// Hands one over, once.
  std::unique_ptr<Frequencies> take(std::size_t bucket);

 private:
  Array sizes(Graph& graph, const Corpus& corpus, const Clusters& clusters) const;

  std::vector<Index> ends_;                            // of each bucket: behind its last cluster
  std::vector<std::vector<Array>> pieces_;             // of each bucket: what panels have of it
  std::shared_ptr<std::vector<std::int32_t>> bucket_;  // of each cluster
  std::uint64_t bytes_ = 0;
};

}  // namespace flagstone::topics
