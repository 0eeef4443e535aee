#pragma once
// Which columns of an LU factor are finished, with their pivots: what a later process does not compute again.
#include <map>
#include <memory>

#include "flagstone/algorithms/factor/lu.hpp"
#include "flagstone/runtime/resume/finished_tiles.hpp"

namespace flagstone::linalg {

/// Boxes of factors, by the arrays they are of. A note is made where one is due after finish(): everything noted is
/// written by then, and never again.
class LuProgress {
 public:
  LuProgress(Stages& stages, const Array& pivots);
  /// Boxes of this factor can be finished; what a dead process finished of them is. `own`: each is an array of its own,
  /// as kept_tiles() named it, but for those that were noted before.
  void note(const LuColumns& f, bool own);
  bool holds(const Region& box) const;
  /// How many columns of tiles, the first ones, are finished.
  Index columns(const LuColumns& f) const;
  void finish(const Region& box);
  /// Both boxes of a column.
  void finish(const LuColumns& f, Index j);

 private:
  void mark(const Region& box);

  Stages& stages_;
  Stages::Kept pivots_;
  std::map<const void*, std::unique_ptr<FinishedTiles>> tiles_;  // by Array::id()
};

/// Columns of tiles of a solution: those of a group are finished together.
class SolvedColumns {
 public:
  SolvedColumns(Graph& graph, const LuSolveOptions& options, const Array& x, Index tile);
  Region column(Index c) const;
  /// The first that is not finished.
  Index first() const;
  void finish(const std::vector<Region>& columns);

 private:
  Array x_;
  Index tile_;
  Stages stages_;
  Stages::Kept diagonal_;
  FinishedTiles finished_;
};

/// Arrays of one tile, in scratch; where progress is saved, in files beside it. Those of the last slab that lu_columns
/// takes are written where their room is needed; those before it, which leave memory for it, as soon as they are done:
/// their room is free when the next slab comes.
LuColumns::Make kept_tiles(Graph& graph, Stages& stages, Index rows, Index tile, Index columns, Dtype dtype);

/// lu() in the row order that L is made in.
void lu_columns(Graph& graph, const char* who, const Operand& a, const LuColumns& f, const Array& pivots,
                LuProgress& progress);

}  // namespace flagstone::linalg
