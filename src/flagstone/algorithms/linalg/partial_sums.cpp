#include "flagstone/algorithms/linalg/partial_sums.hpp"

#include <algorithm>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone::linalg {

PartialSums::PartialSums(Graph& graph, FinishedTiles& finished, const Array& c, const ProductTile& tile, Index depth)
    : graph_(graph), finished_(finished), c_(c), tile_(tile), depth_(depth) {
  const Checkpoint* checkpoint = finished.checkpoint();
  if (!checkpoint || !checkpoint->has("partial")) return;
  Copy copy;
  checkpoint->load("partial", &copy.about, sizeof copy.about);
  slot_ = copy.about.slot;
  try {
    copy.sums = open_zarr_array(directory(slot_));
    if (copy.sums.shape() == Shape{copy.about.rows, copy.about.cols}) found_ = std::move(copy);
  } catch (const Error&) {
    // a power failure took it: the superblock starts again
  }
}

std::string PartialSums::directory(Index slot) const {
  return finished_.checkpoint()->directory() + "/partial" + std::to_string(slot);
}

/// Neither what the last note speaks of nor what this run still reads.
Index PartialSums::free_slot() const {
  Index slot = 0;
  while (slot == slot_ || (found_ && slot == found_->about.slot)) ++slot;
  return slot;
}

bool PartialSums::written(const Copy& copy) const {
  return std::all_of(copy.parts.begin(), copy.parts.end(),
                     [&](const Box& part) { return copy.sums.store().stored(part); });
}

Box PartialSums::part_of(const Saved& about, Index row, Index col) const {
  const Index i = row - about.row, j = col - about.col;
  return {{i, j}, {std::min(tile_.rows, about.rows - i), std::min(tile_.cols, about.cols - j)}};
}

Index PartialSums::begins(Index row, Index col) const {
  if (!found_) return 0;
  const Saved& about = found_->about;
  const bool inside =
      row >= about.row && row < about.row + about.rows && col >= about.col && col < about.col + about.cols;
  return inside && found_->sums.store().stored(part_of(about, row, col)) ? about.depth : 0;
}

Region PartialSums::region(Index row, Index col) const { return {found_->sums, part_of(found_->about, row, col)}; }

void PartialSums::offer(const Box& block, Index depth) {
  Checkpoint* checkpoint = finished_.checkpoint();
  if (!checkpoint || depth <= 0 || depth >= depth_ || (found_ && depth <= found_->about.depth)) return;
  if (pending_) {
    if (graph_.agree(written(*pending_))) note();
    return;
  }
  // Two tiles beside those that are under way; and blocks that were finished since the last checkpoint go first.
  const auto tile = static_cast<std::uint64_t>(tile_.rows * tile_.cols) * size_of(c_.dtype());
  if (4 * tile > graph_.budget() || !graph_.agree(checkpoint->ready())) return;
  if (finished_.unnoted()) return finished_.offer();
  begin(block, depth);
  if (!checkpoint->eager()) return;
  graph_.drain();
  note();
}

void PartialSums::begin(const Box& block, Index depth) {
  Copy copy{{block.start[0], block.start[1], block.shape[0], block.shape[1], depth, free_slot()}, {}, {}};
  const std::string place = directory(copy.about.slot);
  std::error_code error;
  std::filesystem::remove_all(place, error);
  if (!error) std::filesystem::create_directories(place, error);
  if (error) throw StorageError("checkpoint: cannot make the directory of partial sums", error.value(), place);
  copy.sums = create_zarr_array(place, block.shape, c_.dtype(), {.chunks = {tile_.rows, tile_.cols}});
  for (Index i = block.start[0]; i < block.start[0] + block.shape[0]; i += tile_.rows)
    for (Index j = block.start[1]; j < block.start[1] + block.shape[1]; j += tile_.cols) {
      if (finished_.holds({{i, j}, {1, 1}})) continue;
      const Box part = part_of(copy.about, i, j);
      copy.parts.push_back(part);
      TaskSpec task;
      task.name = "save";
      task.accesses = {read({c_, {{i, j}, part.shape}}), write({copy.sums, part})};
      task.cost.bytes_touched = 2.0 * static_cast<double>(count(part.shape)) * static_cast<double>(size_of(c_.dtype()));
      task.body = [](std::span<const Tile> tiles) { flagstone::copy(tiles[0], tiles[1]); };
      graph_.add(std::move(task));
    }
  pending_ = std::move(copy);
}

void PartialSums::note() {
  finished_.checkpoint()->due();  // what follows is the cost, beside writing that nobody waits for
  slot_ = pending_->about.slot;
  pending_->sums.store().flush();
  for (const char* name : {"/zarr.json", ""}) {
    const std::string path = pending_->sums.path() + name;
    *name ? File::open(path, File::Mode::read)->sync() : sync_directory(path);
  }
  const Saved& about = pending_->about;
  const double share = static_cast<double>(about.rows * about.cols) / static_cast<double>(count(c_.shape()));
  finished_.note(share * static_cast<double>(about.depth) / static_cast<double>(depth_),
                 {Checkpoint::part("partial", &about, 1)});
  pending_.reset();
}

}  // namespace flagstone::linalg
