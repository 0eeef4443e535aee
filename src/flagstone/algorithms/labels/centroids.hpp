#pragma once
// Of each label the sum of its points, at unit length.
#include "flagstone/algorithms/labels/counts.hpp"

namespace flagstone::labels {

/// Pieces are stretches of labels; a row is a label, which is its key.
struct Centroids {
  BucketRows rows;
  std::vector<std::pair<Index, Index>> ranges;  // labels of a piece: the first, how many
  std::vector<Index> most_values;               // of each label, at most
};

/// `all`: a bucket of all points, or nothing, where they are brought together by stretches of labels. Tasks hold the
/// points of a stretch of at most `small` values. 2 flops a value of each label; X is read once for as many stretches
/// as are in memory.
Centroids label_centroids(Graph& graph, const Examples& examples, const std::vector<Tally>& tallies,
                          const BucketRows& all, Index small);

}  // namespace flagstone::labels
