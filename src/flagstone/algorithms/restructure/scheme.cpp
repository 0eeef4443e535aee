#include "flagstone/algorithms/restructure/scheme.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/algorithms/restructure/chooser.hpp"
#include "flagstone/base/bytes.hpp"

namespace flagstone::restructure {
namespace {

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
  std::uint64_t needs = 0;
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
    const Chooser before(source_, into, workers_), after(middle, target_, workers_);
    const std::optional<Pass> first = fit(before, piece);
    const std::optional<Pass> second = fit(after, target_.tile);
    if (!first || !second) return std::nullopt;
    return TwoPasses{*first, *second, first->cost + second->cost + cost_of_writing(source_, into),
                     std::max(first->held + before.beside(piece), second->held + after.beside(target_.tile))};
  }

  const Lie& source_;
  const Target& target_;
  const int workers_;
  const std::size_t item_;
};

/// Whole chunks of the result that one task writes: several where they are small. `room`: of the tile and what its
/// chunks are packed into, a page or more each.
Shape grouped(const Lie& source, const Target& target, const Shape& box, std::uint64_t room) {
  Shape tile = target.tile;
  if (!target.groups) return tile;
  std::uint64_t chunks = 1;
  for (std::size_t d = tile.size(); d-- > 0;
       chunks = bytes_of(tile, 1) / std::max<std::uint64_t>(1, bytes_of(target.tile, 1))) {
    const std::uint64_t bytes = std::max<std::uint64_t>(1, bytes_of(tile, target.item));
    const Index fits = static_cast<Index>(std::min(least_group / bytes, room / (bytes + chunks * target.staging)));
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
  scheme.budget = budget, scheme.workers = workers;
  const std::optional<Pass> one = budget > beside ? chooser.within(budget - beside) : std::nullopt;
  // Two passes also write and read everything once more: not even looked at where one is near what it can be at best.
  const double best = static_cast<double>(source.bytes()) * 1.5;
  const std::optional<TwoPasses> two =
      budget > 0 && !source.memory && (!one || one->cost > best) ? choice.two(budget) : std::nullopt;
  const auto take = [&](const TwoPasses& both) {
    scheme.first = both.first, scheme.second = both.second, scheme.needs = both.needs;
  };
  if (one && (!two || one->cost <= two->cost)) {
    scheme.first = *one;
  } else if (two) {
    take(*two);
  } else {
    const Pass least = chooser.least(choice.least_piece());
    const std::optional<TwoPasses> least_two = source.memory ? std::nullopt : choice.least();
    if (least_two && least_two->held() < least.held)
      take(*least_two);
    else
      scheme.first = least;
  }
  if (!scheme.second) scheme.needs = scheme.first.held + beside;
  scheme.why = reason(source, scheme, one, budget);
  Pass& last = scheme.second ? *scheme.second : scheme.first;
  const std::uint64_t room =
      budget > last.held ? (budget - last.held) / static_cast<std::uint64_t>(2 * workers + 2) : 0;
  last.tile = grouped(source, target, last.box, room);
  return scheme;
}

std::optional<Pass> one_pass(const Lie& source, const Target& target, std::uint64_t budget, int workers) {
  const Chooser chooser(source, target, workers);
  const std::uint64_t beside = chooser.beside(target.tile);
  return budget > beside ? chooser.within(budget - beside) : std::nullopt;
}

}  // namespace flagstone::restructure
