#pragma once
// Step 5 of ISLE: words that one cluster has far more often than any other, and the mean of the documents that are full
// of them.
#include "flagstone/algorithms/topics/clusters.hpp"

namespace flagstone::topics {

/// Of each word the topic that it is a catchword of, or -1: one read for counts, then as many as it takes to hold the
/// frequencies of words that enough documents of a cluster have, 8 bytes each. With buckets two reads, whatever fits,
/// and counts of a few clusters at a time.
std::vector<std::int32_t> find_catchwords(Graph& graph, const Corpus& corpus, const Clusters& clusters,
                                          const IsleOptions& options, Index& reads, std::vector<Placed>& places);

struct TopicMeans {
  Array topics;                        // V x topics_width(k) float32, each adds up to 1
  std::vector<std::int32_t> pairs;     // of edge topics, two each, the more frequent first
  std::vector<std::int64_t> together;  // documents of each pair
  std::vector<std::int32_t> catchwords;
};
/// As a stage that is done (Stages::once).
void list_parts(StateParts& parts, TopicMeans& means);
/// Two reads.
TopicMeans topic_means(Graph& graph, const Corpus& corpus, const Clusters& clusters,
                       const std::vector<std::int32_t>& catchwords, const IsleOptions& options);

}  // namespace flagstone::topics
