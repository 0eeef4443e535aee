#include "flagstone/algorithms/factor/lu_progress.hpp"

#include <algorithm>
#include <string>

#include "flagstone/algorithms/factor/substitute.hpp"

namespace flagstone::linalg {

LuProgress::LuProgress(Stages& stages, const Array& pivots)
    : stages_(stages),
      pivots_(stages.keep("pivots", [kept = pivots](StateParts& parts) mutable { parts.array("", kept); })) {}

void LuProgress::note(const LuColumns& f, bool own) {
  const auto boxes = [&](const Region& region, const char* name, Index j) {
    if (count(region.box.shape) == 0 || tiles_.contains(region.array.id())) return;
    const Shape tile = own ? region.box.shape : Shape{f.tile(), f.tile()};
    tiles_[region.array.id()] =
        std::make_unique<FinishedTiles>(stages_, region.array, tile, own ? name + std::to_string(j) : name);
  };
  for (Index j = 0; j < f.count(); ++j) {
    boxes(f.upper(j), "upper", j);
    if (j < f.panels()) boxes(f.lower(j), "lower", j);
  }
}

bool LuProgress::holds(const Region& box) const {
  return count(box.box.shape) == 0 || tiles_.at(box.array.id())->holds(box.box);
}

Index LuProgress::columns(const LuColumns& f) const {
  Index j = 0;
  while (j < f.count() && stages_.saving() && holds(f.upper(j)) && (j >= f.panels() || holds(f.lower(j)))) ++j;
  return j;
}

void LuProgress::mark(const Region& box) {
  if (stages_.saving() && count(box.box.shape) > 0) tiles_.at(box.array.id())->finish(box.box);
}

void LuProgress::finish(const Region& box) {
  mark(box);
  stages_.offer();
}

void LuProgress::finish(const LuColumns& f, Index j) {
  mark(f.upper(j));
  if (j < f.panels()) mark(f.lower(j));
  stages_.offer();
}

SolvedColumns::SolvedColumns(Graph& graph, const LuSolveOptions& options, const Array& x, Index tile)
    : x_(x),
      tile_(tile),
      stages_(graph, options.checkpoint),
      diagonal_(keep_diagonal(stages_, options.diagonal)),
      finished_(stages_, x, {std::max<Index>(1, x.shape()[0]), tile}) {}

Region SolvedColumns::column(Index c) const {
  return {x_, {{0, c * tile_}, {x_.shape()[0], std::min(tile_, x_.shape()[1] - c * tile_)}}};
}

Index SolvedColumns::first() const {
  Index c = 0;
  while (c * tile_ < x_.shape()[1] && finished_.holds(column(c).box)) ++c;
  return c;
}

void SolvedColumns::finish(const std::vector<Region>& columns) {
  for (const Region& column : columns) finished_.finish(column.box);
  finished_.offer();
}

}  // namespace flagstone::linalg
