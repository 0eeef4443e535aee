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
  std::vector<Placed> placed;           // where operands lay; none of those of stages that another process finished
  Index reads = 0;
};
/// As a stage that is done (Stages::once).
void list_parts(StateParts& parts, Clusters& clusters);

/// Reads: one more where B is kept; 5 to 9 for the directions, 1 for what lies beside them, 6 and at most so many
/// iterations, so many again, 1.
Clusters find_clusters(Graph& graph, const Corpus& corpus, const Array& thresholds, const IsleOptions& options,
                       Stages& stages);
/// ShapeError: no such solver, or a place that what is asked for cannot have.
void check_clusters(const sparse::CsrOperand& x, const IsleOptions& options);

}  // namespace flagstone::topics
