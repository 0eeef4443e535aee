#pragma once
// Of each label the mean of its points at unit length: what rare labels are found by.
#include <functional>

#include "flagstone/algorithms/labels/buckets.hpp"
#include "flagstone/algorithms/labels/classifier.hpp"
#include "flagstone/algorithms/labels/model_writer.hpp"

namespace flagstone::forest {

/// Tiles: the bucket, the means of a stretch of labels; then scratch.
struct TailMeans final : labels::NodeTask {
  labels::BucketSize size;
  Index features = 0, first = 0;
  std::vector<Index> most;  // features of each label's mean, at most
  bool small_weights = false;

  Index labels() const { return static_cast<Index>(most.size()); }
  std::size_t scratch_bytes() const;
  /// Where the mean of a label of the stretch begins; of the one behind the last: all bytes.
  std::size_t offset(Index label) const;
  labels::EncodedSize encoded(Index label) const;
  void run(std::span<const Tile> tiles) const override;
};

/// What means of labels are made from, and who takes them: in a plan nobody.
struct Tails {
  Index features = 0, small = 0;  // values of a task's means
  bool small_weights = false;
  const std::vector<labels::Tally>& tallies;
  std::function<void(const labels::Chunk&, const labels::EncodedSize&, const std::byte*)> keep;
};

/// Means of all labels, of points in one bucket.
void add_tails(Graph& graph, const Array& bucket, const labels::BucketSize& size, const Tails& tails);
/// The same of points on disk: by stretches of labels whose points are brought together, a read for as many as are in
/// memory; of labels whose points one task does not hold, a read for as many sums as are in memory. Returns the reads.
Index add_wide_tails(Graph& graph, const labels::Examples& examples, const Tails& tails);

}  // namespace flagstone::forest
