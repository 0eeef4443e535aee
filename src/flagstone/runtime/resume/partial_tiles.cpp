#include "flagstone/runtime/resume/partial_tiles.hpp"

#include <algorithm>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

void add_copy(Graph& graph, const char* name, Region from, Access to) {
  TaskSpec task;
  task.name = name;
  const Dtype dtype = to.region.array.dtype();
  task.cost.bytes_touched = 2.0 * static_cast<double>(count(to.region.box.shape)) * static_cast<double>(size_of(dtype));
  task.calls = {call::copy(dtype, {0}, {1})};
  task.accesses = {read(std::move(from)), std::move(to)};
  graph.add(std::move(task));
}

}  // namespace

PartialTiles::PartialTiles(Stages& stages, const Array& out, const Shape& tile, Index inner, Index step)
    : stages_(stages),
      finished_(stages, out, tile),
      out_(out),
      tile_(tile),
      inner_(inner),
      step_(step),
      kept_(stages.keep("partial", [this](StateParts& parts) {
        if (parts.loading()) noted_.emplace();
        if (noted_) parts.value("", *noted_);
      })) {
  if (!kept_.loaded()) return;
  Copy copy{*noted_, {}, {}};
  noted_.reset();
  slot_ = copy.about.slot;
  try {
    copy.sums = open_zarr_array(directory(slot_));
    if (copy.sums.shape() == Shape{copy.about.rows, copy.about.cols}) found_ = std::move(copy);
  } catch (const Error&) {
    // a power failure took it: the block starts again
  }
}

std::vector<std::pair<Index, Index>> PartialTiles::open(const Box& block, Index step) {
  offer(block, step);
  return tiles(block, step);
}

void PartialTiles::offer(const Box& block, Index step) { save(elements(block), step * step_); }

std::vector<std::pair<Index, Index>> PartialTiles::tiles(const Box& block, Index step) {
  const Index depth = step * step_;
  std::vector<std::pair<Index, Index>> tiles;
  for (Index i = block.start[0]; i < block.start[0] + block.shape[0]; ++i)
    for (Index j = block.start[1]; j < block.start[1] + block.shape[1]; ++j) {
      const Index row = i * tile_[0], col = j * tile_[1], before = begins(row, col);
      if (depth < before || finished_.holds({{row, col}, {1, 1}})) continue;
      if (depth > 0 && depth == before) {
        const Box part = part_of(found_->about, row, col);
        add_copy(stages_.graph_, "load", {found_->sums, part}, again(write({out_, {{row, col}, part.shape}})));
      }
      tiles.emplace_back(i, j);
    }
  return tiles;
}

void PartialTiles::close(const Box& block) {
  pending_.reset();
  noted_.reset();
  finished_.finish(elements(block));
  finished_.offer();
}

Box PartialTiles::elements(const Box& block) const {
  Box box = block;
  for (std::size_t d = 0; d < 2; ++d) {
    box.start[d] *= tile_[d];
    box.shape[d] = std::min(box.shape[d] * tile_[d], out_.shape()[d] - box.start[d]);
  }
  return box;
}

std::string PartialTiles::directory(Index slot) const {
  return stages_.checkpoint_->directory() + "/partial" + std::to_string(slot);
}

/// Neither what the last note speaks of nor what this run still reads.
Index PartialTiles::free_slot() const {
  Index slot = 0;
  while (slot == slot_ || (found_ && slot == found_->about.slot)) ++slot;
  return slot;
}

bool PartialTiles::written(const Copy& copy) const {
  return std::all_of(copy.parts.begin(), copy.parts.end(),
                     [&](const Box& part) { return copy.sums.store().stored(part); });
}

Box PartialTiles::part_of(const Saved& about, Index row, Index col) const {
  const Index i = row - about.row, j = col - about.col;
  return {{i, j}, {std::min(tile_[0], about.rows - i), std::min(tile_[1], about.cols - j)}};
}

Index PartialTiles::begins(Index row, Index col) const {
  if (!found_) return 0;
  const Saved& about = found_->about;
  const bool inside =
      row >= about.row && row < about.row + about.rows && col >= about.col && col < about.col + about.cols;
  return inside && found_->sums.store().stored(part_of(about, row, col)) ? about.depth : 0;
}

void PartialTiles::save(const Box& block, Index depth) {
  if (!stages_.saving() || depth <= 0 || depth >= inner_ || (found_ && depth <= found_->about.depth)) return;
  if (pending_) {
    if (stages_.graph_.agree(written(*pending_))) note();
    return;
  }
  // Two tiles beside those that are under way; and blocks that were finished since the last checkpoint go first.
  const auto tile = static_cast<std::uint64_t>(count(tile_)) * size_of(out_.dtype());
  if (4 * tile > stages_.graph_.budget() || !stages_.graph_.agree(stages_.checkpoint_->ready())) return;
  if (finished_.unnoted()) return finished_.offer();
  begin(block, depth);
  if (!stages_.checkpoint_->eager()) return;
  stages_.graph_.drain();
  note();
}

void PartialTiles::begin(const Box& block, Index depth) {
  Copy copy{{block.start[0], block.start[1], block.shape[0], block.shape[1], depth, free_slot()}, {}, {}};
  const std::string place = directory(copy.about.slot);
  std::error_code error;
  std::filesystem::remove_all(place, error);
  if (!error) std::filesystem::create_directories(place, error);
  if (error) throw StorageError("checkpoint: cannot make the directory of partial sums", error.value(), place);
  copy.sums = create_zarr_array(place, block.shape, out_.dtype(), {.chunks = tile_});
  for (Index i = block.start[0]; i < block.start[0] + block.shape[0]; i += tile_[0])
    for (Index j = block.start[1]; j < block.start[1] + block.shape[1]; j += tile_[1]) {
      if (finished_.holds({{i, j}, {1, 1}})) continue;
      const Box part = part_of(copy.about, i, j);
      copy.parts.push_back(part);
      add_copy(stages_.graph_, "save", {out_, {{i, j}, part.shape}}, write({copy.sums, part}));
    }
  pending_ = std::move(copy);
}

void PartialTiles::note() {
  stages_.checkpoint_->due();  // what follows is the cost, beside writing that nobody waits for
  slot_ = pending_->about.slot;
  pending_->sums.store().flush();
  for (const char* name : {"/zarr.json", ""}) {
    const std::string path = pending_->sums.path() + name;
    *name ? File::open(path, File::Mode::read)->sync() : sync_directory(path);
  }
  noted_ = pending_->about;
  const double share = static_cast<double>(noted_->rows * noted_->cols) / static_cast<double>(count(out_.shape()));
  stages_.save(stages_.done() + share * static_cast<double>(noted_->depth) / static_cast<double>(inner_));
  pending_.reset();
}

}  // namespace flagstone
