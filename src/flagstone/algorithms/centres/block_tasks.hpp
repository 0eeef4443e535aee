#pragma once
// Tasks of a pass in which centres lie on disk: a panel of points against one block of them.
#include "flagstone/algorithms/cluster/panel_work.hpp"

namespace flagstone::centres {

/// A tile of a temporary array is not needed any more: once those who read it have, it leaves memory unwritten.
void forget(Graph& graph, const Region& tile);
/// All tiles of so many rows.
void forget(Graph& graph, const Array& array, Index rows);

/// How a pass takes centres: rounded about their mean, in rows, of dense points; rounded by coordinates, of sparse
/// ones.
enum class Layout : std::uint8_t { rows, coordinates };
/// Rows of a block of centres: some 4 MiB in float64, by coordinates 16 at least. No function of the limit: tiles are
/// of such boxes.
Index block_rows(Index k, Index d, Layout layout);

/// Centres in boxes of block_rows, or as given, and what a pass reads of them. 16 k bytes of memory at most, 4 k d of
/// scratch.
class CentreBlocks {
 public:
  /// `step`: rows of a box, which change no bits.
  CentreBlocks(Graph& graph, Index k, Index d, Layout layout, Index step);
  CentreBlocks(Graph& graph, Index k, Index d, Layout layout)
      : CentreBlocks(graph, k, d, layout, block_rows(k, d, layout)) {}

  Index k() const { return k_; }
  Index d() const { return d_; }
  Index count() const { return ceil_div(k_, step_); }
  Index step() const { return step_; }
  Index first(Index block) const { return block * step_; }
  Index length(Index block) const { return std::min(step_, k_ - first(block)); }
  Box box(Index block) const { return {{first(block), 0}, {length(block), d_}}; }

  Array exact;  // k x d float64: where they stand
  Array shift;  // 1 x d float64 in memory: their mean, or zeros
  /// Adds the tasks that round all of them, after each change.
  void round(Graph& graph) const;
  /// Nobody reads what was rounded of a block any more, until all are rounded again.
  void forget_rounded(Graph& graph, Index block) const;
  /// Appends what a task reads of a block.
  void access(Index block, std::vector<Access>& accesses) const;
  static constexpr std::size_t accesses = 5;
  /// A block in those tiles: `rounded` in rows, or empty and by coordinates in tiles[1], squares in tiles[4].
  static kernel::Centres seen(std::span<const Tile> tiles, bool unit, Layout layout);

 private:
  Region rounded(Index block) const;

  Index k_, d_, step_;
  Layout layout_;
  Array rounded_;         // k x d float32 in scratch, or of each block d x its centres
  Array half_, longest_;  // a row for each block
  Array squares_;         // 1 x k float64, by coordinates only
};

/// Of each point the nearest centre so far: score, square of the distance, number.
inline constexpr Index state_width = 3;

/// What a pass changes; what is empty is not wanted.
struct BlockArrays {
  Array state;     // m x state_width float64
  Array opened;    // panels x blocks float64 in memory := points that float64 decided
  Array totals;    // 1 x (k + 3) float64 in memory += as of cluster::Assignment
  Array farthest;  // panels x (4 few) float64 in memory := the same
  Array labels;    // m int32
  Array sums;      // k x d float64 in boxes of blocks
};

/// A panel and a block in one task, beside what its points are: where its tiles are, and what it adds to them.
struct BlockPart {
  std::string who;
  Index first_row = 0, rows = 0;  // of the panel
  Index first_centre = 0, centres = 0, k = 0;
  bool begins = false;                                   // the first block that the panel meets
  int state = -1, weights = -1, opened = -1, sums = -1;  // -1: it has none
  int block = -1, totals = -1, farthest = -1, labels = -1;

  cluster::Weights weights_of(std::span<const Tile> tiles) const;
};

/// What points of the panel bring, one after the other.
class BlockResults {
 public:
  BlockResults(const BlockPart& part, std::span<const Tile> tiles);
  /// Point i of the panel: the block's nearest centre, the score by which it won, the square of the distance, and what
  /// the point adds to the spread. The last block adds it to totals.
  void take(Index i, Index label, double score, double square, double spread) const;
  void decided(Index points) const { *opened_ += static_cast<double>(points); }

 private:
  const BlockPart& part_;
  cluster::Weights weights_;
  cluster::PassTiles to_;
  double *state_, *opened_;
  const Tile* labels_;
};

/// Where some points of a panel go: their place in it, which of the task's tiles, the row there.
struct TakenPoint {
  Index place;
  int tile;
  Index to;
};

/// Adds tasks for one set of points.
class BlockTasks {
 public:
  BlockTasks(Graph& graph, const cluster::PointsInput& x, const CentreBlocks& centres, const BlockArrays& to)
      : graph_(graph), x_(x), centres_(centres), to_(to) {}
  virtual ~BlockTasks() = default;

  /// A panel meets a block: the first of them, or the last, after which totals, farthest and labels are known. Blocks
  /// come in any order.
  virtual void assign(Index panel, Index block, bool first, bool last) = 0;
  /// Sums of a block += the points of a panel that are nearest to one of its centres.
  virtual void add_sums(Index panel, Index block) = 0;
  /// Rows of a panel, as they are compared, go to rows of tiles of float64: `targets`. Points ascend.
  virtual void take(Index panel, std::vector<TakenPoint> points, const std::vector<Access>& targets) = 0;
  /// Of all points, the first one of the panel.
  virtual Index first_row(Index panel) const = 0;
  /// Bytes of a task's scratch memory, of a panel, and of all points as they are read.
  virtual double scratch_bytes() const = 0;
  virtual double panel_bytes() const = 0;
  virtual double point_bytes() const = 0;

 protected:
  /// Appends accesses behind those of the points.
  void part_of_assign(TaskSpec& task, BlockPart& part, Index panel, Index block, bool first, bool last) const;
  void part_of_sums(TaskSpec& task, BlockPart& part, Index block) const;

  Graph& graph_;
  cluster::PointsInput x_;
  const CentreBlocks& centres_;
  const BlockArrays& to_;
};

/// For points of either kind.
std::unique_ptr<BlockTasks> make_tasks(Graph& graph, const cluster::PointsInput& x, const CentreBlocks& centres,
                                       const BlockArrays& to);
std::unique_ptr<BlockTasks> make_dense_tasks(Graph& graph, const cluster::PointsInput& x, const CentreBlocks& centres,
                                             const BlockArrays& to);
std::unique_ptr<BlockTasks> make_sparse_tasks(Graph& graph, const cluster::PointsInput& x, const CentreBlocks& centres,
                                              const BlockArrays& to);

}  // namespace flagstone::centres
