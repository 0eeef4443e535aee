#pragma once
// Rows brought together: of each bucket the rows that have one of its labels, in their order.
#include "flagstone/algorithms/labels/joined_panel.hpp"
#include "flagstone/kernel/labels/points.hpp"

namespace flagstone::labels {

/// What a bucket holds.
struct BucketSize {
  Index rows = 0, values = 0, keys = 0;
  std::size_t bytes() const;
};

/// A bucket's tile: rows, and their keys.
struct BucketView {
  Index rows = 0;
  kernel::SparsePoints points;
  const Index* key_pointers = nullptr;
  const std::int32_t* keys = nullptr;
};
BucketView bucket_view(const Tile& tile, const BucketSize& size);

/// Which bucket a label belongs to, -1: none; in some trees at once.
using BucketMaps = std::vector<std::vector<std::int32_t>>;

/// Fills buckets: one read of the rows. Those of a call are in memory together, or in scratch where their room is
/// needed; one task a piece copies the rows.
std::vector<Array> fill_buckets(Graph& graph, const RowSource& rows, const std::vector<BucketSize>& sizes,
                                const std::shared_ptr<const BucketMaps>& maps, const std::string& who);
/// How many buckets of so many bytes, of the next ones, are filled with one read.
std::size_t at_a_time(const Graph& graph, std::span<const BucketSize> sizes);

/// Rows that lie in buckets.
class BucketRows final : public RowSource {
 public:
  void add(const Array& bucket, const BucketSize& size) { buckets_.push_back(bucket), sizes_.push_back(size); }
  std::size_t pieces() const override { return buckets_.size(); }
  std::unique_ptr<RowReader> piece(std::size_t number) const override;
  const Array& bucket(std::size_t number) const { return buckets_[number]; }
  const BucketSize& size(std::size_t number) const { return sizes_[number]; }

 private:
  std::vector<Array> buckets_;
  std::vector<BucketSize> sizes_;
};

/// Fills a bucket row by row, in a task.
class BucketWriter {
 public:
  BucketWriter(const Tile& tile, const BucketSize& size) : tile_(tile), size_(size) {}
  void begin() const;
  /// False where it has no room.
  bool append(const JoinedRow& row) const;

 private:
  const Tile& tile_;
  const BucketSize& size_;
};

}  // namespace flagstone::labels
