#pragma once
// The box of one pass: what it would read and hold, and the cheapest that fits.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "flagstone/algorithms/restructure/scheme.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/scheduler/cache.hpp"

namespace flagstone::restructure {

// A request costs as much time as so many bytes: random reads of 4 KiB, 64 KiB and 1 MiB were measured at 40, 290 and
// 960 MB/s, that is 0.1 ms and the bytes at 1 GB/s. Weighs schemes against each other; never a rate of this machine,
// or the order in which chunks are written would depend on it.
inline constexpr double request_bytes = 100.0 * KiB;
inline constexpr std::uint64_t most_piece = 4 * MiB;  // a request of this size fills a disk
inline constexpr std::uint64_t least_group = MiB;     // chunks below it travel together
// Where memory is short: pieces that a disk can still be asked for, and not more than are planned in seconds.
inline constexpr std::uint64_t least_asked = 32 * KiB, most_pieces = 1u << 20;

inline std::uint64_t bytes_of(const Shape& extents, std::size_t item) {
  double bytes = static_cast<double>(item);
  for (Index extent : extents) bytes *= static_cast<double>(extent);
  return bytes < 4e18 ? static_cast<std::uint64_t>(bytes) : std::uint64_t{4'000'000'000'000'000'000};
}

/// Pieces of whole units along one dimension under boxes of extent b: the mean of what is read ÷ the extent, and the
/// most that one box needs.
struct Along {
  double times = 1;
  Index most = 1;
  Index pieces = 1;  // under one box, at most
};

inline Along along(Index n, Index chunk, Index piece, Index b) {
  Along result{0, 0, 0};
  Index read = 0, seen = 0;
  for (Index at = 0, boxes = 0; at < n && boxes < 1024; at += b, ++boxes) {
    const Index stop = std::min(at + b, n), last = stop - 1;
    const Index start = at / chunk * chunk + at % chunk / piece * piece;
    const Index in_chunk = last / chunk * chunk;
    const Index end = std::min(in_chunk + (last % chunk / piece + 1) * piece, in_chunk + chunk);
    read += std::min(end, n) - start, seen += stop - at;  // a chunk at the edge takes the memory of a whole one
    result.most = std::max(result.most, end - start);
    const Index chunks = last / chunk - start / chunk + 1;
    result.pieces =
        std::max(result.pieces, chunks == 1 ? ceil_div(end - start, piece) : chunks * ceil_div(chunk, piece));
  }
  result.times = seen > 0 ? static_cast<double>(read) / static_cast<double>(seen) : 1;
  return result;
}

inline Index next_multiple(Index n, Index unit) { return ceil_div(n, unit) * unit; }

/// Chooses the box of one pass.
class Chooser {
 public:
  Chooser(const Lie& source, const Target& target, int workers) : source_(source), target_(target), workers_(workers) {
    unit_ = source.packed || bytes_of(source.chunks, source.item) <= most_piece
                ? source.chunks
                : slab(source.chunks, source, most_piece);
    for (std::size_t d = 0; d < unit_.size(); ++d) unit_[d] = std::min(unit_[d], std::max<Index>(1, source.shape[d]));
  }

  /// The cheapest pass whose pieces fit into `room`; none where nothing fits.
  std::optional<Pass> within(std::uint64_t room) const {
    std::optional<Pass> best;
    for (bool parts : {false, true}) {
      if (parts ? source_.packed : source_.free) continue;
      std::optional<Pass> pass = grown(parts, room);
      if (pass && (!best || pass->cost < best->cost)) best = std::move(pass);
    }
    return best;
  }

  /// The pass of one tile a box; parts only where requests stay longer than `least_run`.
  Pass least(std::uint64_t least_run) const {
    std::optional<Pass> best;
    for (bool parts : {false, true}) {
      if (parts ? source_.packed : source_.free) continue;
      Pass pass = of_box(target_.tile, parts);
      const bool short_runs = pass.run < least_run && pass.run < pass.held && !source_.memory;
      if (parts && short_runs && !source_.free) continue;
      if (!best || pass.held < best->held) best = std::move(pass);
    }
    return *best;
  }

  /// Tiles on their way to the disk, and chunks that are unpacked.
  std::uint64_t beside(const Shape& tile) const {
    const std::uint64_t each = charged(align_up(bytes_of(tile, target_.item))) + target_.staging;
    return static_cast<std::uint64_t>(workers_ + 1) * each + static_cast<std::uint64_t>(workers_) * source_.unpack;
  }

  Pass of_box(const Shape& box, bool parts) const {
    Pass pass;
    pass.box = box;
    pass.tile = target_.tile;
    pass.parts = parts;
    pass.piece = parts ? part_of(box) : unit_;
    std::size_t sweep = box.size();
    double shared = 1;  // what the dimension along which boxes follow one another spares
    Shape most = box, pieces = box;
    for (std::size_t d = 0; d < box.size(); ++d) {
      most[d] = std::min(box[d], source_.shape[d]);
      // Parts end with the box and start anew at every chunk.
      pieces[d] =
          ceil_div(most[d], pass.piece[d]) + ceil_div(most[d], source_.free ? source_.shape[d] : source_.chunks[d]);
      if (parts) continue;
      const Along along_d = along(source_.shape[d], source_.chunks[d], pass.piece[d], box[d]);
      most[d] = along_d.most;
      pieces[d] = along_d.pieces;
      pass.times_read *= along_d.times;
      if (box[d] < source_.shape[d] && along_d.times > shared) shared = along_d.times, sweep = d;
    }
    pass.times_read /= shared;
    for (std::size_t d = 0; d < box.size(); ++d)
      if (d != sweep) pass.loops.push_back(d);
    if (sweep < box.size()) pass.loops.push_back(sweep);
    const std::uint64_t piece_bytes = std::max<std::uint64_t>(1, bytes_of(pass.piece, source_.item));
    pass.run = parts ? run_bytes(source_, mean_part(box, pass.piece))
                     : std::min(piece_bytes, bytes_of(source_.chunks, source_.item));
    // Buffers are whole pages, and a part of a chunk starts and ends inside one.
    pass.held = bytes_of(most, source_.item) + bytes_of(pieces, parts ? 2 * page_bytes : page_bytes);
    pass.pieces = bytes_of(pieces, 1);
    pass.held += known_bytes(tiles_of(box, target_.tile, source_.shape), static_cast<double>(pass.pieces));
    if (parts && !source_.free && edge_within(box)) pass.held += bytes_of(source_.chunks, source_.item);
    if (source_.staging) pass.held += loaded_at_once(pass) * source_.staging(pass.piece);
    const double read = static_cast<double>(source_.bytes()) * pass.times_read;
    pass.cost = source_.memory ? read : read * (1 + request_bytes / static_cast<double>(pass.run));
    return pass;
  }

 private:
  /// Chunks that travel together lie in one box: where there is room to spare it grows to what makes a group, as long
  /// as no more is read.
  Pass gathered(Pass best, bool parts, std::uint64_t room) const {
    const std::uint64_t groups = 2 * static_cast<std::uint64_t>(workers_ + 1) * least_group;
    if (!target_.groups || room < groups) return best;
    for (;;) {
      std::optional<Pass> next;
      for (std::size_t d = best.box.size(); d-- > 0 && !next && bytes_of(best.box, target_.item) < least_group;)
        for (Index extent : longer(best.box, d)) {
          Shape box = best.box;
          box[d] = extent;
          Pass pass = of_box(box, parts);
          if (pass.held > room - groups || pass.cost > best.cost * 1.001) continue;
          next = std::move(pass);
          break;
        }
      if (!next) return best;
      best = std::move(*next);
    }
  }

  /// Pieces under one tile: a task that reads begins with all of them.
  std::uint64_t loaded_at_once(const Pass& pass) const {
    Shape under = pass.tile;
    for (std::size_t d = 0; d < under.size(); ++d)
      under[d] = ceil_div(std::min(under[d], source_.shape[d]), pass.piece[d]) + 1;
    return std::min(bytes_of(under, 1), pass.pieces);
  }
  /// Of chunks: one contiguous run. Of a flat file: a slab of the box, whose runs the store finds.
  Shape part_of(const Shape& box) const {
    Shape part = box;
    for (std::size_t d = 0; d < box.size(); ++d)
      part[d] = std::max<Index>(1, std::min({box[d], source_.shape[d], source_.free ? box[d] : source_.chunks[d]}));
    if (!source_.free) {
      bool whole = true;
      for (std::size_t i = source_.order.size(); i-- > 0;) {
        const std::size_t d = source_.order[i];
        if (!whole) part[d] = 1;
        whole = whole && (box[d] % source_.chunks[d] == 0 || box[d] >= source_.shape[d]);
      }
    }
    return slab(part, source_, most_piece);
  }

  /// Boxes that are longer than a chunk and end inside one cut it into shorter pieces.
  Shape mean_part(const Shape& box, Shape part) const {
    for (std::size_t d = 0; d < box.size() && !source_.free; ++d)
      if (box[d] > source_.chunks[d] && box[d] % source_.chunks[d] != 0 && box[d] < source_.shape[d])
        part[d] = std::min(part[d], std::max<Index>(1, box[d] / (box[d] / source_.chunks[d] + 1)));
    return part;
  }

  /// Whether what is left of a chunk at the array's edge lies under one box: then it is read as a whole chunk.
  bool edge_within(const Shape& box) const {
    bool within = false;
    for (std::size_t d = 0; d < box.size(); ++d) {
      const Index left = source_.shape[d] % source_.chunks[d];
      if ((left == 0 ? source_.chunks[d] : left) > box[d]) return false;
      within = within || left != 0;
    }
    return within;
  }

  /// Larger boxes along one dimension: twice, to where a chunk of the source ends, to where chunks of both do, all.
  std::vector<Index> longer(const Shape& box, std::size_t d) const {
    const Index tile = target_.tile[d], all = next_multiple(std::max<Index>(1, source_.shape[d]), tile);
    std::vector<Index> extents;
    if (box[d] >= source_.shape[d]) return extents;
    const Index chunk = source_.chunks[d];
    const Index both = tile / std::gcd(tile, chunk) > all / chunk ? all : std::lcm(tile, chunk);
    for (Index extent :
         {2 * box[d], next_multiple(next_multiple(box[d] + 1, chunk), tile), box[d] / both * both + both, all})
      if (extent > box[d]) extents.push_back(std::min(extent, all));
    return extents;
  }

  std::optional<Pass> grown(bool parts, std::uint64_t room) const {
    Pass best = of_box(target_.tile, parts);
    if (best.held > room) return std::nullopt;
    for (;;) {
      std::optional<Pass> next;
      double gain = 0;
      for (std::size_t d = 0; d < best.box.size(); ++d)
        for (Index extent : longer(best.box, d)) {
          Shape box = best.box;
          box[d] = extent;
          Pass pass = of_box(box, parts);
          if (pass.held > room || pass.cost >= best.cost * 0.999) continue;
          const double more = static_cast<double>(pass.held > best.held ? pass.held - best.held : 1);
          if (const double gained = (best.cost - pass.cost) / more; gained > gain)
            gain = gained, next = std::move(pass);
        }
      if (!next) return gathered(std::move(best), parts, room);
      best = std::move(*next);
    }
  }

  const Lie& source_;
  const Target& target_;
  const int workers_;
  Shape unit_;  // of the source: what is read at once where pieces are whole
};

}  // namespace flagstone::restructure
