#pragma once
// Documents of words as ISLE sees them: counts, frequencies, and what thresholds leave of these. Nothing is written.
#include <cstdint>

#include "flagstone/algorithms/topics/where.hpp"

namespace flagstone::topics {

/// Options of ISLE: Bansal, Bhattacharyya and Kannan 2014; microsoft/ISLE.
struct IsleOptions {
  Index k = 0;
  double eps1 = 1.0 / 60, eps2 = 1.0 / 3, eps3 = 1, rho = 1.1, w0 = 1;
  double sample = 1;               // share of the documents that steps 2 to 4 see
  bool cluster_documents = false;  // a topic's mean takes its cluster's documents too, as published
  Index edge_topics = 0;
  Index projected_iterations = 10, iterations = 10;
  std::string solver = "auto";
  std::uint64_t seed = 0;
  Where where;
};

class Corpus {
 public:
  explicit Corpus(sparse::CsrOperand counts) : counts_(std::move(counts)) {}

  Index rows() const { return counts_.matrix.rows; }
  Index words() const { return counts_.matrix.cols; }
  const sparse::CsrOperand& counts() const { return counts_; }
  /// Sums of rows, D x 1 float64: one read. NumericalError, ShapeError: what is no count.
  Array measure(Graph& graph) const;
  /// Takes them: `documents` of them are not empty, `average` long.
  void set_lengths(const Graph& graph, const Array& lengths);
  Index documents() const { return documents_; }
  double average() const { return average_; }

  /// A = average c / length, in float64.
  sparse::CsrOperand frequencies() const { return seen(lengths_, {}); }
  /// ζ of each word (1 x V float64 in memory): two reads, the second where a word is frequent enough. ShapeError after
  /// the first where no word is.
  Array find_thresholds(Graph& graph, const IsleOptions& options) const;
  /// B: √ζ where A, rounded, is at least ζ, else 0; of documents whose length is infinite nothing.
  sparse::CsrOperand thresholded(Graph& graph, const Array& thresholds, const Array& lengths) const;
  const Array& lengths() const { return lengths_; }

 private:
  sparse::CsrOperand seen(const Array& lengths, const Array& thresholds) const;

  sparse::CsrOperand counts_;
  Array lengths_;
  Index documents_ = 0;
  double average_ = 0;
};

/// ⌊share · documents ÷ (2 k)⌋, at least 1: how many documents a rank counts.
Index rank_of(double share, Index documents, Index k);

}  // namespace flagstone::topics
