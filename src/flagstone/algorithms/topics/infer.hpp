#pragma once
// Topics that are known, and documents: their weights, how well halves of them tell the other, which words go together.
#include "flagstone/algorithms/topics/documents.hpp"

namespace flagstone::topics {

struct InferNotes {
  double gap = 0;  // the largest certificate of a document
};

/// out (D x (k + 1) float32) := of each document its weights of topics, then how far its mean log-likelihood may lie
/// below the maximum; an empty one has even weights. topics: k x V float32 in memory. `multiplicative`: the published
/// 15 steps; else EM to a gap of 1e-3, 500 steps at most. One read, 4 nnz k flops a step.
void infer_topics(Graph& graph, const Documents& x, const Array& topics, bool multiplicative, const Array& out);
/// Rows of a chunk of `out`.
Index weights_rows(const Documents& x);

struct Completion {
  double likelihood = 0, counted = 0;  // Σ log p of the words of second halves, their number
};
/// Words of a document go to its halves in turn, token by token; θ comes from the first (10 steps as in passes of EM,
/// M := (1 − 1e-4) M + 1e-4 / V), the likelihood is the second's. One read.
void complete_documents(Graph& graph, const Documents& x, const Array& topics, Completion& result);

/// pairs (k x n x n, float64) := in how many documents both words are, of each topic's n (`tops`, k x n words); behind
/// them how many documents have words at all.
void count_pairs(Graph& graph, const sparse::CsrOperand& x, const std::vector<Index>& tops, Index n,
                 std::vector<double>& pairs);

}  // namespace flagstone::topics
