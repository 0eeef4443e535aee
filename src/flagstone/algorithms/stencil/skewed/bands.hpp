#pragma once
// Tasks on bands of a tile: they load a band, go one level on it, write it. So all workers share one tile, and the next
// one is loaded meanwhile.
#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/field/observers.hpp"
#include "flagstone/algorithms/stencil/skewed/band_tile.hpp"

namespace flagstone::stencil {

struct BandStep;

/// Buffers of tiles, and the tasks on them.
class Bands {
 public:
  /// `sets`: tiles that are in memory at once; `bands`, `planes`: of a tile and of a band, at most; `seams`: bands of a
  /// tile that are no longer than `seam`, beside these; `rows`, `columns`: of a plane, at most, without ghosts.
  struct Extents {
    Index sets = 2, bands = 1, planes = 1, seams = 0, seam = 1, rows = 1, columns = 1;
  };
  Bands(Graph& graph, std::shared_ptr<const Problem> problem, const Extents& extents);

  /// Gives a tile its buffers: those of the tile `sets` before it.
  void place(BandTile& tile);

  /// Brings in what `pieces` (of each part) name of a band; accesses stand in `task` already.
  void load(const std::shared_ptr<const BandTile>& tile, std::size_t band, TaskSpec task,
            std::vector<std::vector<Piece>> pieces);
  /// A superstep of so many steps and tiles begins, after `first_step` steps.
  void begin(Index first_step, Index depth, Index tiles);
  /// After its last tile: whether the loop ends here (Observers::ends).
  bool ends() { return observers_.ends(); }
  /// One level on a band.
  void step(const std::shared_ptr<const BandTile>& tile, std::size_t band, Index level);
  /// Copies ranges of parts to tiles that `task` writes.
  struct Target {
    std::size_t part = 0;
    Piece piece;
  };
  void store(const std::shared_ptr<const BandTile>& tile, TaskSpec task, std::vector<Target> targets);

 private:
  Region region(const BandTile& tile, std::size_t part, std::size_t band) const;
  void add_traces(TaskSpec& task, BandStep& work) const;

  Graph& graph_;
  std::shared_ptr<const Problem> shared_;
  const Problem& problem_;
  std::shared_ptr<const Slots> slots_;
  Extents extents_;
  Observers observers_;
  Index pitch_ = 0, plane_ = 0, placed_ = 0;
  Array memory_, seams_;
};

/// Bytes of the buffers.
std::uint64_t bands_bytes(const Problem& problem, const Bands::Extents& extents);

}  // namespace flagstone::stencil
