#include "flagstone/runtime/finished_tiles.hpp"

#include <algorithm>

#include "flagstone/base/grid.hpp"

namespace flagstone {

FinishedTiles::FinishedTiles(Graph& graph, std::shared_ptr<Checkpoint> checkpoint, const Array& out, const Shape& tile)
    : graph_(graph), checkpoint_(graph.planning() ? nullptr : std::move(checkpoint)), out_(out), tile_(tile) {
  if (!checkpoint_) return;
  std::size_t tiles = 1;
  for (std::size_t d = 0; d < tile_.size(); ++d) tiles *= static_cast<std::size_t>(ceil_div(out.shape()[d], tile_[d]));
  finished_.assign(tiles, 0);
  noted_ = finished_;
  if (!checkpoint_->has("tiles")) return;
  checkpoint_->load("tiles", finished_.data(), finished_.size());
  each(whole(out.shape()), [&](std::size_t number, const Box& box) {
    if (finished_[number] != 0 && !out_.store().stored(box)) finished_[number] = 0;
  });
  noted_ = finished_;
}

/// f(number, box) of every tile under a box.
template <class F>
void FinishedTiles::each(const Box& box, F&& f) const {
  const std::size_t n = tile_.size();
  if (count(box.shape) == 0) return;
  Shape first(n), last(n);
  for (std::size_t d = 0; d < n; ++d) {
    first[d] = box.start[d] / tile_[d];
    last[d] = ceil_div(box.start[d] + box.shape[d], tile_[d]);
  }
  Shape at = first;
  do {
    std::size_t number = 0;
    Box tile{Shape(n), Shape(n)};
    for (std::size_t d = 0; d < n; ++d) {
      number = number * static_cast<std::size_t>(ceil_div(out_.shape()[d], tile_[d])) + static_cast<std::size_t>(at[d]);
      tile.start[d] = at[d] * tile_[d];
      tile.shape[d] = std::min(tile_[d], out_.shape()[d] - tile.start[d]);
    }
    f(number, tile);
  } while (advance(at, first, last));
}

bool FinishedTiles::holds(const Box& box) const {
  if (!checkpoint_) return false;
  bool all = true;
  each(box, [&](std::size_t number, const Box&) { all = all && finished_[number] != 0; });
  return all;
}

void FinishedTiles::finish(const Box& box) {
  if (checkpoint_) each(box, [&](std::size_t number, const Box&) { finished_[number] = 1; });
}

void FinishedTiles::offer() {
  if (!checkpoint_ || !checkpoint_->due()) return;
  graph_.drain();
  out_.store().checkpoint();
  noted_ = finished_;
  note(0, {});
}

void FinishedTiles::note(double more, std::vector<Checkpoint::Part> beside) {
  const auto done = static_cast<double>(std::count(noted_.begin(), noted_.end(), 1));
  beside.push_back(Checkpoint::part("tiles", noted_.data(), noted_.size()));
  checkpoint_->save(done / static_cast<double>(std::max<std::size_t>(1, noted_.size())) + more, beside);
}

}  // namespace flagstone
