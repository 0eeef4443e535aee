#pragma once
// A tile of the field in memory, cut into bands of planes: tasks load a band, go one step on it, write it. So all
// workers share one tile, and the next one is loaded meanwhile.
#include "flagstone/algorithms/stencil/field/cells.hpp"
#include "flagstone/algorithms/stencil/field/observers.hpp"
#include "flagstone/algorithms/stencil/field/work.hpp"

namespace flagstone::stencil {

/// One tile of a superstep. Parts: the states' two arrays (P[t & 1] holds step t), then the coefficients.
struct BandTile {
  std::shared_ptr<const Problem> problem;
  Index first_step = 0, depth = 0, rows = 0;
  Range3 held;                                 // what is loaded, images beyond periodic edges that are cut included
  std::vector<Interval> bands;                 // of axis 0, in order, all of `held`
  std::vector<Range3> computed;                // by each step, from step 1 on
  std::array<bool, 3> open{};                  // periodic axes that are cut
  Index pitch = 0, plane = 0;                  // bytes from row to row, from plane to plane
  Index set = 0;                               // of buffers
  std::vector<std::pair<bool, Index>> places;  // of each band: whether it is a seam's, and which

  std::size_t parts() const { return 2 + problem->coefficients.size(); }
  std::size_t band_of(Index plane) const;
  const Range3& at_step(Index step) const { return computed[static_cast<std::size_t>(step - 1)]; }
};

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
  /// A superstep of so many tiles begins, after `first_step` steps.
  void begin(Index first_step, Index depth, Index tiles);
  /// After its last tile: whether the loop ends here (Observers::ends).
  bool ends() { return observers_.ends(); }
  /// One step on a band.
  void step(const std::shared_ptr<const BandTile>& tile, std::size_t band, Index step);
  /// Copies ranges of parts to tiles that `task` writes.
  struct Target {
    std::size_t part = 0;
    Piece piece;
  };
  void store(const std::shared_ptr<const BandTile>& tile, TaskSpec task, std::vector<Target> targets);

 private:
  Region region(const BandTile& tile, std::size_t part, std::size_t band) const;
  void add_traces(const BandTile& tile, TaskSpec& task, const Range3& range, Index step,
                  std::vector<std::pair<std::uint32_t, Axes>>& traces) const;

  Graph& graph_;
  std::shared_ptr<const Problem> shared_;
  const Problem& problem_;
  Extents extents_;
  Observers observers_;
  Index pitch_ = 0, plane_ = 0, placed_ = 0;
  Array memory_, seams_;
};

/// Bytes of the buffers.
std::uint64_t bands_bytes(const Problem& problem, const Bands::Extents& extents);

}  // namespace flagstone::stencil
