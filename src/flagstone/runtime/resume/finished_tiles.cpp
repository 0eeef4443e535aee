#include "flagstone/runtime/resume/finished_tiles.hpp"

#include <algorithm>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone {

namespace {

// Of a tile: to be computed; written; computed, and nothing of it is stored, because it is the fill value.
enum : std::uint8_t { unfinished, written, empty };

}  // namespace

FinishedTiles::FinishedTiles(Stages& stages, const Array& out, const Shape& tile, const std::string& name)
    : stages_(stages), out_(out), tile_(tile), name_(name) {
  const auto tiles = static_cast<std::size_t>(count(grid_of(out.shape(), tile_)));
  // Whether or not it is noted, so that a plan charges what the run will. What is less than a page is in the reserve.
  if (const std::uint64_t bytes = align_down(2 * tiles)) charge_ = stages.graph_.charge(bytes);
  if (!stages.saving()) return;
  stages.tiles_.push_back(this);
  finished_.assign(tiles, unfinished);
  noted_ = finished_;
  if (!stages.checkpoint_->has(name_)) return;
  stages.checkpoint_->load(name_, finished_.data(), finished_.size());
  each(whole(out.shape()), [&](std::size_t number, const Box& box) {
    if (finished_[number] == written && !out_.store().stored(box)) finished_[number] = unfinished;
  });
  noted_ = finished_;
}

FinishedTiles::~FinishedTiles() { std::erase(stages_.tiles_, this); }

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
  if (!stages_.saving()) return false;
  bool all = true;
  each(box, [&](std::size_t number, const Box&) { all = all && finished_[number] != unfinished; });
  return all;
}

void FinishedTiles::finish(const Box& box) {
  if (stages_.saving())
    each(box, [&](std::size_t number, const Box&) {
      if (finished_[number] == unfinished) finished_[number] = written;
    });
}

void FinishedTiles::settle() {
  out_.store().checkpoint();
  std::vector<std::size_t> loops(tile_.size());
  std::iota(loops.begin(), loops.end(), 0);
  each(whole(out_.shape()), [&](std::size_t number, const Box& box) {
    if (finished_[number] == noted_[number]) return;
    bool any = false;
    for_each_box(box, out_.chunks(), loops, [&](const Box& chunk) { any = any || out_.store().stored(chunk); });
    if (!any) finished_[number] = empty;
  });
  noted_ = finished_;
}

void FinishedTiles::offer() { stages_.offer(); }

double FinishedTiles::done() const {
  const auto left = static_cast<double>(std::count(noted_.begin(), noted_.end(), unfinished));
  return 1 - left / static_cast<double>(std::max<std::size_t>(1, noted_.size()));
}

}  // namespace flagstone
