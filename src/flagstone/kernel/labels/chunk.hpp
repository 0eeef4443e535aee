#pragma once
// The weights of a node's children as they are stored: by rows (features), each with the children that weigh it.
#include <span>
#include <vector>

#include "flagstone/base/shape.hpp"
#include "flagstone/kernel/labels/points.hpp"

namespace flagstone::kernel {

inline constexpr Index most_children = 255;
inline constexpr std::uint32_t most_step = 65535;  // of one row to the next; a longer way has rows without entries

/// What one chunk is made of: rows with entries, the way from one to the next, and of each entry the child and the
/// weight. A row at feature F is the bias.
struct ChunkView {
  Index rows = 0, children = 0;
  const std::uint16_t* steps = nullptr;
  const std::uint8_t* counts = nullptr;
  const std::uint8_t* child = nullptr;
  const std::byte* weights = nullptr;  // float32, or int8 with a scale a child
  const float* scales = nullptr;       // null: float32
};

/// A chunk that grows, with the parts of its arrays.
struct ChunkTarget {
  std::uint16_t* steps;
  std::uint8_t *counts, *child;
  std::byte* weights;
  float* scales;  // null: float32
  Index rows = 0, entries = 0;
};
/// Stores the weights of one node: w[c] + features_of[f] are dense columns over `locals` features, in increasing order
/// of features; those of |w| <= threshold are dropped. int8: round(127 w / max |w|) of a column.
void encode_chunk(const std::uint32_t* features, Index locals, const double* w, Index children, double threshold,
                  ChunkTarget& to);
/// Places of entries: feature · child_places + child.
inline constexpr std::uint64_t child_places = 256;
/// The same of weights that are listed by their places, each once, in increasing order; zeros are dropped.
void encode_entries(const std::uint64_t* places, const float* weights, Index entries, Index children, ChunkTarget& to);
/// Rows that encode_chunk writes at most for so many features below `cols`.
Index most_rows(Index locals, Index cols);

/// A chunk with a way from features to rows. `table`: cols numbers, all 0 between two chunks.
class ChunkTable {
 public:
  /// `ends`: rows + 1 numbers at least.
  ChunkTable(std::uint32_t* table, std::uint32_t* ends) : table_(table), ends_(ends) {}
  void load(const ChunkView& chunk);
  void clear();
  /// z[c] = Σ w_cf x_f in float32, in the order of x, then the bias; x times `scale`. Columns beyond are no features.
  template <class Column>
  void products(const Column* columns, const float* values, Index n, float scale, Index bias, float* z) const;

 private:
  ChunkView chunk_;
  std::uint32_t *table_, *ends_;
};

}  // namespace flagstone::kernel
