#pragma once
// Steps 2 to 4 of ISLE: directions of the thresholded documents, clusters among them, clusters in all words.
#include "flagstone/algorithms/topics/corpus.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::topics {

struct Clusters {
  Array labels;                         // D int32: -1 where a document took no part
  std::vector<double> sizes;            // k
  std::vector<double> singular_values;  // k, descending
  std::vector<std::uint8_t> sampled;    // D; empty: all
  Index reads = 0;
};
/// As a stage that is done (Stages::once).
void list_parts(StateParts& parts, Clusters& clusters);

/// Reads: 5 to 9 for the directions, 1 for what lies beside them, 6 and at most so many iterations, so many again, 1.
Clusters find_clusters(Graph& graph, const Corpus& corpus, const Array& thresholds, const IsleOptions& options,
                       Stages& stages);
/// ShapeError: no such solver.
void check_solver(const std::string& name);

}  // namespace flagstone::topics
