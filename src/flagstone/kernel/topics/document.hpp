#pragma once
// One document against known topics: how much of it each topic explains, by EM or by multiplicative weights.
#include <span>

#include "flagstone/kernel/sparse/csr.hpp"
#include "flagstone/kernel/topics/topic_loops.hpp"

namespace flagstone::kernel {

/// Numbers of a word that topics take: k in whole steps, beyond k zero.
Index topics_width(Index k);

/// Column of stored value p of rows.
Index column_at(const CsrRows& rows, Index p);

/// Its words, its weights θ and what follows from both. Topics lie word-major: row w holds `width` float32, zero beyond
/// k. Twin: kernel/reference/topics.hpp.
class Document {
 public:
  /// Memory for documents of so many different words at most.
  static std::size_t bytes(Index k, Index most_words);
  Document(std::byte* memory, Index k, Index most_words, const float* topics);

  /// Words with counts above 0 of a row whose values are float32; θ := 1/k. False where there are none.
  bool load(const CsrRows& rows, Index row);
  /// The words and counts that the caller set, `words()` and `counts()`; θ := 1/k.
  bool load(Index n);
  Index* words() { return words_; }
  float* counts() { return counts_; }
  Index size() const { return n_; }
  double total() const { return total_; }

  /// θ ∝ θ ∘ g + prior, g = M (counts ÷ Mᵀθ): a step of EM towards the mode of a Dirichlet of prior + 1.
  void step(double prior);
  /// Arora et al.'s multiplicative weights, as ISLE has them: 15 steps w ∝ w e^(ηg), η = √(2 ln k / (i + 1)) / L; L =
  /// 10, doubled where they overflow.
  void multiplicative();
  /// EM without a prior until the certificate is at most `gap`, or for so many steps.
  void infer(double gap, Index steps);
  /// How far Σ a log Mᵀθ, a = counts ÷ their sum, may lie below its maximum: max g − 1 (it is concave, and Σ θ g = 1).
  /// Words that no topic has take no part.
  double certificate();
  /// Σ counts log Mᵀθ over words that a topic has; their counts are added to `counted`.
  double likelihood(double& counted);
  /// sums[word] += ratios θ, after gradient(): Σ of it times M are the expected counts of words by topics.
  void add(double* sums);
  /// ratios and g of θ.
  void gradient();
  const float* weights() const { return weights_; }
  void set_weights(const float* weights);

 private:
  TopicJob job() const;
  void normalise();

  Index k_, width_, kept_, n_ = 0;
  const float* topics_;
  double total_ = 0;
  Index* words_;
  const float** rows_;
  double** sums_;
  float *counts_, *ratios_, *weights_, *gradient_, *near_;
};

}  // namespace flagstone::kernel
