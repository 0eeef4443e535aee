#pragma once
// Passes of EM over documents, without a state for any of them.
#include "flagstone/algorithms/topics/corpus.hpp"
#include "flagstone/runtime/resume/stages.hpp"

namespace flagstone::topics {

struct Fitted {
  Array topics;                    // V x topics_width(k) float32, each adds up to 1
  std::vector<double> shares;      // of each topic, of all counts
  std::vector<double> likelihood;  // of a counted word under the topics that each read began with
  Array em;                        // where the last step went further than EM: what EM itself had made
  double posterior = 0;            // the largest, of a counted word
  bool went_further = false, goes_further = true;
};

/// topics := after so many passes. Each is one read: M := 0.99 M + 0.01 / V; of each document 10 steps of θ from 1/k
/// (Dirichlet parameters 1.02), then M := M ∘ Σ (c ÷ Mᵀθ) θᵀ + 0.01, each topic divided by its sum; but for the last
/// one, 1.8 times as far (in logarithms of M), as long as likelihood plus prior do not fall: where they did, a pass
/// goes back to what EM had made. With 0 passes one read is made for the shares alone. 4 nnz k flops a step.
Fitted fit_topics(Graph& graph, const Corpus& corpus, const Array& topics, Index k, Index passes, Stages& stages);

}  // namespace flagstone::topics
