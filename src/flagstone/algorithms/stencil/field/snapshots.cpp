#include "flagstone/algorithms/stencil/field/snapshots.hpp"

#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"

namespace flagstone::stencil {
namespace {

/// Memory that holds the points of a range in C order.
Points dense(std::byte* data, const Range3& range, Index item) {
  return {data, range.first, {range.extent(1) * range.extent(2) * item, range.extent(2) * item, item}};
}

}  // namespace

Range3 Snapshot::within(const Range3& range) const {
  Range3 found;
  const auto index = [&](std::size_t d, Index at) {  // of the first point at or after
    return std::clamp<Index>(at <= first[d] ? 0 : ceil_div(at - first[d], stride[d]), 0, number[d]);
  };
  for (std::size_t d = 0; d < 3; ++d)
    found.first[d] = index(d, range.first[d]), found.last[d] = std::max(found.first[d], index(d, range.last[d]));
  return found;
}

Axes Snapshot::chunk() const {
  Axes chunk{1, 1, 1};
  for (std::size_t i = 0; i < kept.size(); ++i)
    chunk[kept[i]] = std::clamp<Index>(to.chunks()[i + 1], 1, std::max<Index>(1, number[kept[i]]));
  return chunk;
}

Box Snapshot::box(std::size_t at, const Range3& range) const {
  Box box{{static_cast<Index>(at)}, {1}};
  for (const std::size_t d : kept) box.start.push_back(range.first[d]), box.shape.push_back(range.extent(d));
  return box;
}

void SnapshotPiece::copy(const Points& field, const Range3& range, const Tile& tile, std::size_t item) const {
  const Range3 some = kernel::intersect(points, snapshot->within(range));
  if (some.empty()) return;
  Points seen = field;  // as the snapshot counts: point i lies at first + i stride
  for (std::size_t d = 0; d < 3; ++d) {
    seen.data += (snapshot->first[d] - field.first[d]) * field.strides[d];
    seen.first[d] = 0, seen.strides[d] *= snapshot->stride[d];
  }
  kernel::copy_points(seen, dense(tile.data, points, static_cast<Index>(item)), some, item);
}

SnapshotWriter::SnapshotWriter(Graph& graph, const std::vector<Snapshot>& snapshots, Dtype dtype)
    : graph_(graph), snapshots_(snapshots), dtype_(dtype), rooms_(snapshots.size()) {}

void SnapshotWriter::begin(Index first_step, Index last_step) {
  under_.clear(), complete_.clear();
  for (const Snapshot& snapshot : snapshots_) {
    if (snapshot.number[0] * snapshot.number[1] * snapshot.number[2] == 0) continue;
    for (std::size_t at = 0; at < snapshot.steps.size(); ++at) {
      const Index step = snapshot.steps[at];
      if (step <= first_step || step > last_step) continue;
      Under under{&snapshot, step, at, {}, snapshot.chunk(), {}};
      for (std::size_t d = 0; d < 3; ++d) under.grid[d] = ceil_div(snapshot.number[d], under.chunk[d]);
      Axes place{};
      do {
        Chunk chunk;
        for (std::size_t d = 0; d < 3; ++d) {
          chunk.points.first[d] = place[d] * under.chunk[d];
          chunk.points.last[d] = std::min(snapshot.number[d], chunk.points.first[d] + under.chunk[d]);
        }
        chunk.missing = chunk.points.count();
        under.chunks.push_back(std::move(chunk));
      } while (advance(place, Axes{}, under.grid));
      under_.push_back(std::move(under));
    }
  }
}

void SnapshotWriter::room(Index tasks, const Axes& largest) {
  for (std::size_t i = 0; i < snapshots_.size(); ++i) {
    const Snapshot& snapshot = snapshots_[i];
    Index most = 1;
    for (std::size_t d = 0; d < 3; ++d) most *= std::min(snapshot.number[d], ceil_div(largest[d], snapshot.stride[d]));
    const auto times = std::ranges::count_if(under_, [&](const Under& under) { return under.snapshot == &snapshot; });
    rooms_[i] = {};
    if (times > 0) rooms_[i].slots = graph_.temporary({tasks * times, most}, dtype_, {1, most});
  }
}

void SnapshotWriter::take(TaskSpec& task, Index step, const Range3& range, std::vector<SnapshotPiece>& pieces) {
  for (Under& under : under_) {
    if (under.step != step) continue;
    const Range3 points = under.snapshot->within(range);
    if (points.empty()) continue;
    Room& room = rooms_[static_cast<std::size_t>(under.snapshot - snapshots_.data())];
    const auto piece = std::make_shared<Piece>();
    piece->region = {room.slots, {{room.next++, 0}, {1, room.slots.shape()[1]}}};
    piece->points = points;
    pieces.push_back({under.snapshot, step, static_cast<std::uint32_t>(task.accesses.size()), points});
    task.accesses.push_back(again(write(piece->region)));
    Axes first, last;
    for (std::size_t d = 0; d < 3; ++d)
      first[d] = points.first[d] / under.chunk[d], last[d] = ceil_div(points.last[d], under.chunk[d]);
    Axes at = first;
    do {
      Chunk& chunk = under.chunks[static_cast<std::size_t>((at[0] * under.grid[1] + at[1]) * under.grid[2] + at[2])];
      chunk.missing -= kernel::intersect(points, chunk.points).count();
      chunk.pieces.push_back(piece), ++piece->chunks;
      if (chunk.missing == 0) complete_.push_back({&under, &chunk});
    } while (advance(at, first, last));
  }
}

void SnapshotWriter::gather() {
  for (const auto& [under, chunk] : complete_) add_task(*under, *chunk);
  complete_.clear();
}

void SnapshotWriter::add_task(const Under& under, Chunk& chunk) {
  const Snapshot& snapshot = *under.snapshot;
  TaskSpec task;
  task.name = "stencil_snapshot";
  std::vector<Range3> parts;
  for (const auto& piece : chunk.pieces) {
    const bool done = --piece->chunks == 0;
    task.accesses.push_back(done ? last(read(piece->region)) : read(piece->region));
    parts.push_back(piece->points);
  }
  task.accesses.push_back(once(write({snapshot.to, snapshot.box(under.at, chunk.points)})));
  task.cost.bytes_touched = 2 * static_cast<double>(chunk.points.count()) * static_cast<double>(size_of(dtype_));
  task.body = [parts = std::move(parts), points = chunk.points, kept = snapshot.kept,
               item = size_of(dtype_)](std::span<const Tile> tiles) {
    Points to{tiles.back().data, points.first, {}};
    for (std::size_t i = 0; i < kept.size(); ++i) to.strides[kept[i]] = tiles.back().strides[i + 1];
    for (std::size_t i = 0; i < parts.size(); ++i)
      kernel::copy_points(dense(tiles[i].data, parts[i], static_cast<Index>(item)), to,
                          kernel::intersect(parts[i], points), item);
  };
  graph_.add(std::move(task));
  chunk.pieces.clear();
}

std::uint64_t snapshot_bytes(const std::vector<Snapshot>& snapshots, std::size_t item) {
  std::uint64_t bytes = 0;
  for (const Snapshot& snapshot : snapshots) {
    const Axes chunk = snapshot.chunk();
    const auto one = align_up(static_cast<std::uint64_t>(chunk[0] * chunk[1] * chunk[2]) * item);
    Box box = snapshot.box(0, {{0, 0, 0}, chunk});
    bytes += 3 * one + (snapshot.to.in_memory() ? 0 : snapshot.to.store().write_staging(box));
  }
  return bytes;
}

}  // namespace flagstone::stencil
