#pragma once
// Of each label the mean of its points at unit length: what rare labels are found by.
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

}  // namespace flagstone::forest
