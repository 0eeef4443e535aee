#include "flagstone/algorithms/elementwise/reading.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flagstone/algorithms/elementwise/box_cost.hpp"
#include "flagstone/algorithms/elementwise/operand.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/kernel/elementwise/expression.hpp"
#include "flagstone/runtime/scheduler/cache.hpp"

namespace flagstone::elementwise {
namespace {

constexpr std::size_t most_pieces = 4096;  // under one tile: accesses of one task
constexpr double better = 0.75;            // of what boxes cost: another way must be worth its detour

std::string rounded(double times) {
  const auto tenths = static_cast<long>(std::lround(times * 10));
  return std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "");
}

std::string name_of(const Operand& operand) {
  const std::string& path = operand.array.path();
  std::string name = path.substr(0, path.ends_with("/array") ? path.size() - 6 : path.size());
  name = name.substr(name.find_last_of('/') + 1);
  return (name.empty() ? "an operand" : "'" + name + "'") + std::string(operand.transpose ? " transposed" : "");
}

restructure::Source plain(const Array& array) {
  restructure::Source source{array, std::vector<std::size_t>(array.ndim())};
  std::iota(source.axes.begin(), source.axes.end(), 0);
  return source;
}

class Choice {
 public:
  Choice(const Pass& pass, const Shape& tile, int workers)
      : pass_(pass), tile_(tile), workers_(static_cast<std::uint64_t>(workers)) {
    for (std::size_t d = 0; d < tile.size(); ++d) tiles_ *= static_cast<double>(ceil_div(pass.shape[d], tile[d]));
    const std::vector<Box> samples = sample_tiles(pass, tile);
    for (const Operand& operand : pass.operands) boxes_.push_back(cost_of_boxes(pass, operand, samples, tiles_));
  }

  bool all_cheap() const {
    return std::none_of(boxes_.begin(), boxes_.end(), [](auto& one) { return one.dear(); });
  }

  std::uint64_t needs(const Scheme& scheme) const;
  /// Every operand as it is, and what is dear about it.
  Scheme boxes(const std::vector<std::size_t>& order) const;
  /// What one task holds that reads every operand as it is.
  std::uint64_t as_boxes() const;
  struct Found {
    Scheme scheme;
    double cost = 0;    // of the operands that boxes are dear for
    bool fits = false;  // none of them is read as boxes
  };
  /// The scheme for this budget and tiles in this order.
  Found along(const std::vector<std::size_t>& order, std::uint64_t budget) const;

 private:
  struct Way {
    double cost = 0;
    std::uint64_t held = 0;
    Shape piece;
    std::optional<restructure::Pass> copy;
  };

  std::uint64_t together(std::size_t i) const;
  std::uint64_t beside(std::uint64_t crowd) const;
  std::uint64_t held_of(const Operand& operand, const Shape& piece, const std::vector<std::size_t>& order,
                        std::uint64_t crowd) const;
  std::size_t steps_between(const Operand& operand, const Shape& piece, const std::vector<std::size_t>& order) const;
  std::optional<std::size_t> shared_along(const Shape& piece, const std::vector<std::size_t>& order) const;
  /// Bytes that there are, altogether and beside what tasks hold, and how many tasks those are.
  struct Room {
    std::uint64_t all = 0, left = 0, crowd = 1;
  };
  using Members = std::vector<std::size_t>;
  using Order = std::vector<std::size_t>;
  std::optional<Way> kept(const Members& members, const Order& order, const Room& room) const;
  std::optional<Way> copied(const Members& members, const Order& order, const Room& room) const;
  Found within(const Order& order, Room room, double boxes_cost) const;
  std::string reason(std::size_t member, const Way* way) const;

  const Pass& pass_;
  const Shape& tile_;
  const std::uint64_t workers_;
  double tiles_ = 1;
  std::vector<BoxCost> boxes_;
};

std::uint64_t Choice::as_boxes() const {
  std::uint64_t task = made_by_task(pass_, tile_) + pass_.visit.held;
  for (const BoxCost& boxes : boxes_) task += boxes.held;
  return task;
}

/// The memory in which a box is put together: where values are folded as it would have been read, else dense.
std::uint64_t Choice::together(std::size_t i) const {
  return pass_.reductions.empty() ? align_up(bytes_of(tile_, size_of(pass_.operands[i].array.dtype())))
                                  : boxes_[i].buffer;
}

/// What one task of the scheme holds, on the tiles that boxes were counted on.
std::uint64_t Choice::needs(const Scheme& scheme) const {
  std::uint64_t most = 0;
  for (const Box& box : sample_tiles(pass_, tile_)) {
    std::uint64_t task = made_by_task(pass_, tile_) + pass_.visit.held;
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      if (scheme.readings.empty() || scheme.readings[i].piece.empty()) {
        task += boxes_[i].held;
        continue;
      }
      const Reading& reading = scheme.readings[i];
      const Array& array = pass_.operands[i].array;
      restructure::Lie lie = restructure::lie_of(plain(array));
      if (reading.copy) lie.chunks = reading.piece, lie.free = false;
      const restructure::Pieces pieces(lie, reading.piece, false, whole(array.shape()));
      task += together(i);
      for (const Box& piece : pieces.over(box_of(pass_.operands[i], box))) {
        const Transfer transfer = reading.copy ? Transfer{} : array.store().read(piece);
        task += reading.copy ? charged(size_class(align_up(bytes_of(piece.shape, lie.item))))
                             : charged(size_class(transfer.buffer_bytes)) + transfer.beside_bytes();
      }
    }
    most = std::max(most, task);
  }
  return most;
}

/// What `crowd` tasks hold beside pieces.
std::uint64_t Choice::beside(std::uint64_t crowd) const {
  std::uint64_t task = made_by_task(pass_, tile_), once = pass_.visit.held;
  for (std::size_t i = 0; i < boxes_.size(); ++i)
    if (boxes_[i].fixed)
      once += boxes_[i].held;
    else
      task += std::max(boxes_[i].dear() ? 0 : boxes_[i].held, together(i));
  return once + crowd * task;
}

/// The slowest loop along which neighbouring tiles meet in one piece (`piece`: along the pass's dimensions).
std::optional<std::size_t> Choice::shared_along(const Shape& piece, const std::vector<std::size_t>& order) const {
  for (std::size_t l = 0; l < order.size(); ++l) {
    const std::size_t d = order[l];
    if (tile_[d] < pass_.shape[d] && tile_[d] % piece[d] != 0) return l;
  }
  return std::nullopt;
}

/// What must stay so that every piece is read once: the pieces under one tile, and those of all tiles along the loops
/// that run before the slowest shared one moves on. Of `crowd` tasks at a time.
std::uint64_t Choice::held_of(const Operand& operand, const Shape& own, const std::vector<std::size_t>& order,
                              std::uint64_t crowd) const {
  const Shape piece = operand.transpose ? reversed(own) : own;
  const std::optional<std::size_t> shared = shared_along(piece, order);
  std::uint64_t pieces = 1;
  for (std::size_t l = 0; l < order.size(); ++l) {
    const std::size_t d = order[l];
    const Index most = ceil_div(pass_.shape[d], piece[d]) + (pass_.start[d] % piece[d] ? 1 : 0);
    const bool all = shared && l > *shared;
    const Index cover = tile_[d] % piece[d] == 0 ? tile_[d] / piece[d] : (tile_[d] - 2) / piece[d] + 2;
    pieces *= static_cast<std::uint64_t>(all ? most : std::min(most, cover));
  }
  const std::size_t item = size_of(operand.array.dtype());
  const std::uint64_t each = align_up(bytes_of(own, item)) + page_bytes;
  return pieces * each * (shared ? 1 : crowd);
}

std::size_t Choice::steps_between(const Operand& operand, const Shape& own,
                                  const std::vector<std::size_t>& order) const {
  const std::optional<std::size_t> shared = shared_along(operand.transpose ? reversed(own) : own, order);
  double steps = 1;
  for (std::size_t l = shared.value_or(order.size()) + 1; l < order.size(); ++l)
    steps *= static_cast<double>(ceil_div(pass_.shape[order[l]], tile_[order[l]]));
  return static_cast<std::size_t>(std::min(2 * steps + 16, 1e6));
}

/// What is read of an array at once, in one run: a chunk, or a slab of a longer one.
Shape piece_of(const restructure::Lie& lie) {
  Shape unit = lie.chunks;
  for (std::size_t d = 0; d < unit.size(); ++d) unit[d] = std::min(unit[d], std::max<Index>(1, lie.shape[d]));
  return lie.packed ? unit : restructure::slab(unit, lie, most_piece);
}

/// All operands that are one array share its pieces.
std::optional<Choice::Way> Choice::kept(const Members& members, const Order& order, const Room& room) const {
  const Array& array = pass_.operands[members[0]].array;
  Way way;
  way.piece = piece_of(restructure::lie_of(plain(array)));
  const auto each = static_cast<double>(bytes_of(way.piece, size_of(array.dtype())));
  double most = 0;
  for (const std::size_t i : members) {
    way.held += held_of(pass_.operands[i], way.piece, order, room.crowd);
    most = std::max(most, boxes_[i].content);
    Shape pieces = box_of(pass_.operands[i], {Shape(tile_.size(), 0), tile_}).shape;
    for (std::size_t d = 0; d < pieces.size(); ++d) pieces[d] = ceil_div(pieces[d], way.piece[d]) + 1;
    if (static_cast<std::size_t>(count(pieces)) > most_pieces) return std::nullopt;
  }
  way.held = std::min(
      way.held, 2 * page_bytes * static_cast<std::uint64_t>(array.nbytes() / std::max(1.0, each) + 1) + array.nbytes());
  way.cost = most * (1 + request_bytes / each);
  if (way.held > room.left) return std::nullopt;
  return way;
}

/// A copy in pieces that lie under tiles as well as under what the source is read in: between the two, as large as fit.
std::optional<Choice::Way> Choice::copied(const Members& members, const Order& order, const Room& room) const {
  const Operand& operand = pass_.operands[members[0]];
  const Array& array = operand.array;
  const restructure::Lie lie = restructure::lie_of(plain(array));
  const std::size_t item = size_of(array.dtype());
  const Shape unit = piece_of(lie), box = box_of(operand, {Shape(tile_.size(), 0), tile_}).shape;
  Shape piece = unit;
  for (std::size_t d = 0; d < piece.size(); ++d) piece[d] = std::min(unit[d], box[d]);
  std::optional<Way> best;
  for (;;) {
    Way way;
    way.piece = piece;
    for (const std::size_t i : members) way.held += held_of(pass_.operands[i], piece, order, room.crowd);
    const std::uint64_t each = bytes_of(piece, item);
    const restructure::Target target{array.shape(), piece, item, 0, false};
    way.copy = restructure::one_pass(lie, target, room.all, static_cast<int>(workers_));
    if (way.copy && way.held <= room.left) {
      const double once = static_cast<double>(array.nbytes()) * (1 + request_bytes / static_cast<double>(each));
      way.cost = way.copy->cost + 2 * once;
      if (!best || way.cost < best->cost) best = way;
    }
    // The dimension that is shortest against the longer of the two grows first.
    std::size_t next = piece.size();
    double least = 1;
    for (std::size_t d = 0; d < piece.size(); ++d) {
      const double ratio = static_cast<double>(piece[d]) / static_cast<double>(std::max(unit[d], box[d]));
      if (ratio < least) least = ratio, next = d;
    }
    if (next == piece.size() || 2 * each > most_piece) return best;
    piece[next] = std::min(2 * piece[next], std::max(unit[next], box[next]));
  }
}

std::string Choice::reason(std::size_t member, const Way* way) const {
  const Operand& operand = pass_.operands[member];
  const BoxCost& boxes = boxes_[member];
  std::string text = name_of(operand) + " would be read " + rounded(boxes.bytes / std::max(1.0, boxes.content)) +
                     " times, in runs of " + format_bytes(boxes.run);
  if (!way) {
    text.replace(text.find("would be"), 8, "is");
    return text + ": more memory would keep it, or its tiles";
  }
  const std::string pieces = "pieces of " + to_string(way->piece);
  return text + (way->copy ? ": it goes through scratch in " + pieces
                           : ": " + pieces + " stay (" + format_bytes(way->held) + ")");
}

Scheme Choice::boxes(const Order& order) const {
  Scheme scheme;
  scheme.order = order;
  for (std::size_t i = 0; i < boxes_.size(); ++i)
    if (boxes_[i].dear()) scheme.why += (scheme.why.empty() ? "" : "; ") + reason(i, nullptr);
  return scheme;
}

/// `boxes_cost`: what boxes cost, times that.
Choice::Found Choice::within(const Order& order, Room room, double boxes_cost) const {
  Found found;
  Scheme& scheme = found.scheme;
  scheme.order = order;
  scheme.readings.resize(boxes_.size());
  found.fits = true;
  std::uint64_t left = 0;  // what those need that are read as boxes after all
  std::vector<bool> done(boxes_.size(), false);
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (done[i] || !boxes_[i].dear()) continue;
    Members members, costly;
    double as_boxes = 0, cheap = 0;
    for (std::size_t j = 0; j < boxes_.size(); ++j)
      if (!boxes_[j].fixed && pass_.operands[j].array.id() == pass_.operands[i].array.id()) {
        members.push_back(j);
        as_boxes += boxes_cost * boxes_[j].cost;
        if (boxes_[j].dear())
          costly.push_back(j), done[j] = true;
        else
          cheap += boxes_[j].cost;
      }
    std::optional<Way> way = kept(members, order, room);
    if (std::optional<Way> other = copied(costly, order, room); other && (!way || other->cost + cheap < way->cost)) {
      other->cost += cheap;
      way = std::move(other);
    }
    if (way && way->cost > better * as_boxes) way.reset();
    found.cost += way ? way->cost : as_boxes;
    if (!scheme.why.empty()) scheme.why += "; ";
    scheme.why += reason(i, way ? &*way : nullptr);
    if (!way) {
      found.fits = false;
      for (const std::size_t j : costly) left += room.crowd * boxes_[j].held;
      continue;
    }
    room.left -= way->held;
    if (way->copy) scheme.scratch_bytes += pass_.operands[i].array.nbytes();
    for (const std::size_t j : way->copy ? costly : members) {
      scheme.readings[j] = {way->piece, way->copy};
      scheme.look_ahead = std::max(scheme.look_ahead, steps_between(pass_.operands[j], way->piece, order));
    }
  }
  // What is read as boxes after all has its room too, or nothing is held for the others.
  if (left > room.left) scheme = boxes(order);
  return found;
}

Choice::Found Choice::along(const Order& order, std::uint64_t budget) const {
  const double boxes_cost = as_boxes() > budget ? 1e6 : 1;  // where they do not fit anything is better
  std::optional<Found> best;
  for (const std::uint64_t crowd : {workers_ + 1, std::uint64_t{1}}) {
    const std::uint64_t usable = budget - budget / 8, taken = beside(crowd);
    Found found = within(order, {usable, usable > taken ? usable - taken : 0, crowd}, boxes_cost);
    if (!best || found.cost < better * best->cost) best = std::move(found);
    if (best->fits) break;
  }
  return *best;
}

}  // namespace

int Scheme::passes() const {
  return std::any_of(readings.begin(), readings.end(), [](const Reading& one) { return one.copy.has_value(); }) ? 2 : 1;
}

namespace {

Choice::Found cheapest(const Choice& choice, const Pass& pass, std::vector<std::size_t> order, std::uint64_t budget) {
  Choice::Found best = choice.along(order, budget);
  if (!pass.reductions.empty() || pass.visit.body) return best;
  std::reverse(order.begin(), order.end());  // tiles are stored in any order
  Choice::Found other = choice.along(order, budget);
  return other.cost < 0.9 * best.cost ? other : best;
}

}  // namespace

Scheme choose(const Pass& pass, const Shape& tile, std::vector<std::size_t> order, std::uint64_t budget, int workers) {
  Scheme plain;
  plain.order = order;
  if (count(pass.shape) == 0) return plain;
  const Choice choice(pass, tile, workers);
  if (choice.all_cheap()) return plain;
  const std::uint64_t boxes = choice.as_boxes();
  if (budget > 0) {
    Choice::Found found = cheapest(choice, pass, order, budget);
    if (choice.needs(found.scheme) <= budget) return std::move(found.scheme);
    if (boxes <= budget) return choice.boxes(order);
  }
  // The least memory: boxes, or what needs clearly less.
  for (std::uint64_t least = 4 * MiB; least + least / 4 < boxes; least += least / 4)
    if (Choice::Found found = cheapest(choice, pass, order, least);
        found.fits && choice.needs(found.scheme) + boxes / 8 < boxes)
      return std::move(found.scheme);
  return choice.boxes(order);
}

}  // namespace flagstone::elementwise
