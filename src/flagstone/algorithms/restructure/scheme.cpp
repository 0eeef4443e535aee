#include "flagstone/algorithms/restructure/scheme.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "flagstone/base/bytes.hpp"

namespace flagstone::restructure {
namespace {

// A request costs as much time as so many bytes: random reads of 4 KiB, 64 KiB and 1 MiB were measured at 40, 290 and
// 960 MB/s, that is 0.1 ms and the bytes at 1 GB/s. Weighs schemes against each other; never a rate of this machine,
// or the order in which chunks are written would depend on it.
constexpr double request_bytes = 100.0 * KiB;
constexpr std::uint64_t most_piece = 4 * MiB;  // a request of this size fills a disk
constexpr std::uint64_t least_group = MiB;     // chunks below it travel together
// Where memory is short: pieces that a disk can still be asked for, and not more than are planned in seconds.
constexpr std::uint64_t least_asked = 32 * KiB, most_pieces = 1u << 20;

std::uint64_t bytes_of(const Shape& extents, std::size_t item) {
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

Along along(Index n, Index chunk, Index piece, Index b) {
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

Index next_multiple(Index n, Index unit) { return ceil_div(n, unit) * unit; }

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
    const std::uint64_t each = align_up(bytes_of(tile, target_.item)) + target_.staging;
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
    if (parts && !source_.free && edge_within(box)) pass.held += bytes_of(source_.chunks, source_.item);
    const double read = static_cast<double>(source_.bytes()) * pass.times_read;
    pass.cost = source_.memory ? read : read * (1 + request_bytes / static_cast<double>(pass.run));
    return pass;
  }

 private:
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
      if (!next) return best;
      best = std::move(*next);
    }
  }

  const Lie& source_;
  const Target& target_;
  const int workers_;
  Shape unit_;  // of the source: what is read at once where pieces are whole
};

/// Writing tiles: the bytes, and what requests cost.
double cost_of_writing(const Lie& source, const Target& target) {
  const auto tile = static_cast<double>(std::max<std::uint64_t>(1, bytes_of(target.tile, target.item)));
  const auto padded = static_cast<double>(align_up(static_cast<std::uint64_t>(tile)));
  return static_cast<double>(count(source.shape)) * static_cast<double>(target.item) * (padded + request_bytes) / tile;
}

/// Grows `from` towards `to`, dimension by dimension where it is shorter, while it takes at most `room` bytes.
Shape grow_towards(Shape from, const Shape& to, std::size_t item, std::uint64_t room) {
  for (;;) {
    std::size_t best = from.size();
    double least = 1;
    for (std::size_t d = 0; d < from.size(); ++d) {
      const double ratio = static_cast<double>(from[d]) / static_cast<double>(to[d]);
      if (ratio < least) least = ratio, best = d;
    }
    if (best == from.size()) return from;
    const std::uint64_t now = bytes_of(from, item);
    const Index fits = static_cast<Index>(room / std::max<std::uint64_t>(1, now));
    if (fits < 2) return from;
    from[best] *= std::min<Index>(2, fits);
  }
}

struct TwoPasses {
  Pass first, second;
  double cost = 0;
  std::uint64_t held() const { return std::max(first.held, second.held); }
};

/// Pieces in scratch of which whole ones lie under boxes of both passes (rechunker's rule: the smaller extent of the
/// two in every dimension), in boxes that `room` can hold.
Shape piece_between(const Lie& source, const Target& target, std::size_t item, std::uint64_t room) {
  Shape unit = source.chunks, shape = source.shape;
  for (std::size_t d = 0; d < unit.size(); ++d) unit[d] = std::min(unit[d], std::max<Index>(1, shape[d]));
  if (!source.packed) unit = slab(unit, source, std::max<std::uint64_t>(page_bytes, std::min(most_piece, room)));
  const Shape reads = grow_towards(unit, target.tile, item, room), writes = grow_towards(target.tile, unit, item, room);
  Shape piece = unit;
  for (std::size_t d = 0; d < unit.size(); ++d)
    piece[d] = std::max<Index>(1, std::min({reads[d], writes[d], std::max<Index>(1, shape[d])}));
  while (bytes_of(piece, item) > most_piece) {
    auto longest = std::max_element(piece.begin(), piece.end());
    *longest = ceil_div(*longest, 2);
  }
  return piece;
}

/// The divisor of n that is nearest below k.
Index divisor_below(Index n, Index k) {
  for (Index parts = ceil_div(n, k); parts <= n && parts < ceil_div(n, k) + 4096; ++parts)
    if (n % parts == 0) return n / parts;
  return k;
}

class Choice {
 public:
  Choice(const Lie& source, const Target& target, int workers)
      : source_(source), target_(target), workers_(workers), item_(std::min(source.item, target.item)) {}

  std::optional<TwoPasses> two(std::uint64_t budget) const {
    std::optional<TwoPasses> best;
    const std::uint64_t beside = Chooser(source_, target_, workers_).beside(target_.tile);
    const std::uint64_t room = budget > beside ? budget - beside : 0;
    for (int variant = 0; variant < 3; ++variant) {
      Shape piece = piece_between(source_, target_, item_, room);
      for (std::size_t d = 0; d < piece.size(); ++d) {
        const Index whole = variant == 1 ? target_.tile[d] : source_.chunks[d];
        if (variant > 0 && piece[d] < whole) piece[d] = divisor_below(whole, piece[d]);
      }
      if (bytes_of(piece, item_) < least_piece()) continue;
      const std::optional<TwoPasses> both = through(piece, [&](const Chooser& chooser, const Shape& tile) {
        const std::uint64_t needed = chooser.beside(tile);
        return budget > needed ? chooser.within(budget - needed) : std::nullopt;
      });
      if (both && (!best || both->cost < best->cost)) best = both;
    }
    return best;
  }

  /// In the least memory, with pieces that a disk can still be asked for.
  std::optional<TwoPasses> least() const {
    const std::uint64_t all = source_.bytes();
    for (std::uint64_t room = 2 * least_asked; room <= 4 * all; room *= 2) {
      const Shape piece = piece_between(source_, target_, item_, room);
      if (bytes_of(piece, item_) < least_piece()) continue;
      auto both = through(piece, [&](const Chooser& chooser, const Shape&) { return chooser.within(4 * room); });
      if (both) return both;
    }
    return std::nullopt;
  }

  std::uint64_t least_piece() const {
    const auto all = static_cast<std::uint64_t>(count(source_.shape)) * item_;
    return std::min(all, std::max<std::uint64_t>(least_asked, all / most_pieces));
  }

  /// How the intermediate lies, and what it is as a target.
  Lie between(const Shape& piece) const {
    Lie lie{source_.shape, piece, std::vector<std::size_t>(piece.size()), item_};
    std::iota(lie.order.begin(), lie.order.end(), 0);
    lie.packed = true;  // a graph reads regions as it wrote them
    return lie;
  }

 private:
  template <class Fit>
  std::optional<TwoPasses> through(const Shape& piece, Fit fit) const {
    const Lie middle = between(piece);
    const Target into{source_.shape, piece, item_, 0, false};
    const std::optional<Pass> first = fit(Chooser(source_, into, workers_), piece);
    const std::optional<Pass> second = fit(Chooser(middle, target_, workers_), target_.tile);
    if (!first || !second) return std::nullopt;
    return TwoPasses{*first, *second, first->cost + second->cost + cost_of_writing(source_, into)};
  }

  const Lie& source_;
  const Target& target_;
  const int workers_;
  const std::size_t item_;
};

/// Whole chunks of the result that one task writes: several where they are small.
Shape grouped(const Lie& source, const Target& target, const Shape& box, std::uint64_t most) {
  Shape tile = target.tile;
  if (!target.groups) return tile;
  for (std::size_t d = tile.size(); d-- > 0;) {
    const Index fits = static_cast<Index>(most / std::max<std::uint64_t>(1, bytes_of(tile, target.item)));
    if (fits < 2) break;
    const Index extent = std::min(box[d], next_multiple(source.shape[d], tile[d]));
    Index times = std::min(fits, extent / tile[d]);
    while (times > 1 && extent % (tile[d] * times) != 0) --times;
    tile[d] *= std::max<Index>(1, times);
    if (tile[d] < extent) break;
  }
  return tile;
}

std::string rounded(double times) {
  const auto tenths = static_cast<long>(std::lround(times * 10));
  return std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "");
}

std::string reason(const Lie& source, const Scheme& scheme, const std::optional<Pass>& one, std::uint64_t budget) {
  const Pass& pass = scheme.first;
  const std::string all = format_bytes(source.bytes());
  if (!scheme.second) {
    std::string text = "boxes of " + to_string(pass.box) + " of the result (" + format_bytes(pass.held) + " held), ";
    if (pass.parts)
      return text + (source.free ? "read" : "whose parts of chunks are read") + " in runs of " + format_bytes(pass.run);
    text += "whole pieces of " + format_bytes(pass.run);
    return text + (pass.times_read < 1.005 ? ", each read once" : ", " + rounded(pass.times_read) + " times read");
  }
  std::string text = "one pass would ";
  if (!one)
    text += "not fit into " + format_bytes(budget);
  else if (one->times_read >= 1.05)
    text += "read the source " + rounded(one->times_read) + " times";
  else
    text += "read runs of " + format_bytes(one->run);
  return text + "; through scratch " + all + " are written and read once more, in pieces of " +
         format_bytes(bytes_of(pass.tile, source.item)) + ": boxes of " + to_string(pass.box) + ", then of " +
         to_string(scheme.second->box);
}

}  // namespace

Scheme choose(const Lie& source, const Target& target, std::uint64_t budget, int workers) {
  if (count(source.shape) == 0) return {};
  const Choice choice(source, target, workers);
  const Chooser chooser(source, target, workers);
  const std::uint64_t beside = chooser.beside(target.tile);
  Scheme scheme;
  const std::optional<Pass> one = budget > beside ? chooser.within(budget - beside) : std::nullopt;
  // Two passes also write and read everything once more: not even looked at where one is near what it can be at best.
  const double best = static_cast<double>(source.bytes()) * 1.5;
  const std::optional<TwoPasses> two =
      budget > 0 && !source.memory && (!one || one->cost > best) ? choice.two(budget) : std::nullopt;
  if (one && (!two || one->cost <= two->cost)) {
    scheme.first = *one;
  } else if (two) {
    scheme.first = two->first;
    scheme.second = two->second;
  } else {
    const Pass least = chooser.least(choice.least_piece());
    const std::optional<TwoPasses> least_two = source.memory ? std::nullopt : choice.least();
    if (least_two && least_two->held() < least.held) {
      scheme.first = least_two->first;
      scheme.second = least_two->second;
    } else {
      scheme.first = least;
    }
  }
  scheme.why = reason(source, scheme, one, budget);
  Pass& last = scheme.second ? *scheme.second : scheme.first;
  const std::uint64_t room =
      budget > last.held ? (budget - last.held) / static_cast<std::uint64_t>(2 * workers + 2) : 0;
  last.tile = grouped(source, target, last.box, std::min(least_group, room));
  return scheme;
}

}  // namespace flagstone::restructure
