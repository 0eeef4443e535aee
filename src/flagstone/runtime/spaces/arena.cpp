#include "flagstone/runtime/spaces/arena.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone {

Arena::Arena(Bytes bytes) : capacity_(bytes / alignment * alignment) {
  if (capacity_ > 0) add_hole(0, capacity_);
}

void Arena::add_hole(Bytes offset, Bytes bytes) {
  holes_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void Arena::remove_hole(Bytes offset, Bytes bytes) {
  holes_.erase(offset);
  by_size_.erase({bytes, offset});
}

std::optional<Arena::Bytes> Arena::take(Bytes bytes) {
  bytes = charged(bytes);
  const bool small = bytes < capacity_ / small_share;
  auto found = by_size_.lower_bound({bytes, 0});
  if (found == by_size_.end()) return std::nullopt;
  if (small && found->first > bytes) {  // no hole of its size: off the far end, or out of the smallest
    const auto [last, length] = *holes_.rbegin();
    if (length >= bytes) found = by_size_.find({length, last});
  }
  const auto [length, start] = *found;
  remove_hole(start, length);
  const Bytes offset = small ? start + length - bytes : start;
  if (length > bytes) add_hole(small ? start : start + bytes, length - bytes);
  taken_.emplace(offset, bytes);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return offset;
}

std::optional<std::vector<Arena::Bytes>> Arena::take_all(std::span<const Bytes> sizes) {
  const Bytes peak = peak_;
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  std::vector<Bytes> offsets(sizes.size());
  for (std::size_t placed = 0; placed < order.size(); ++placed) {
    const auto offset = take(sizes[order[placed]]);
    if (!offset) {
      for (std::size_t i = 0; i < placed; ++i) give(offsets[order[i]]);
      peak_ = peak;
      return std::nullopt;
    }
    offsets[order[placed]] = *offset;
  }
  return offsets;
}

void Arena::give(Bytes offset) {
  const auto block = taken_.find(offset);
  if (block == taken_.end()) throw Error("no block of this device's memory starts at " + std::to_string(offset));
  Bytes start = offset, bytes = block->second;
  used_ -= bytes;
  taken_.erase(block);
  const auto after = holes_.lower_bound(offset);
  if (after != holes_.begin()) {
    const auto [before, length] = *std::prev(after);
    if (before + length == start) {
      remove_hole(before, length);
      start = before;
      bytes += length;
    }
  }
  if (const auto next = holes_.find(start + bytes); next != holes_.end()) {
    const auto [behind, length] = *next;
    remove_hole(behind, length);
    bytes += length;
  }
  add_hole(start, bytes);
}

std::optional<std::vector<Arena::Bytes>> Arena::cheapest_window(Bytes bytes, const CostOf& cost) const {
  bytes = charged(bytes);
  if (largest_hole() >= bytes) return std::vector<Bytes>{};
  struct Piece {
    Bytes offset, bytes, cost;
    bool taken;
  };
  std::deque<Piece> window;  // pieces side by side without a pinned one, as few as hold `bytes`
  Bytes length = 0, price = 0, best_price = 0;
  std::optional<std::vector<Bytes>> best;
  const auto extend = [&](const Piece& piece) {
    window.push_back(piece);
    length += piece.bytes;
    price += piece.cost;
    for (; length - window.front().bytes >= bytes; window.pop_front()) {
      length -= window.front().bytes;
      price -= window.front().cost;
    }
    if (length < bytes || (best && price >= best_price)) return;
    best.emplace();
    best_price = price;
    for (const Piece& each : window)
      if (each.taken) best->push_back(each.offset);
  };
  auto taken = taken_.begin();
  auto hole = holes_.begin();
  while (taken != taken_.end() || hole != holes_.end()) {
    if (taken == taken_.end() || (hole != holes_.end() && hole->first < taken->first)) {
      extend({hole->first, hole->second, 0, false});
      ++hole;
      continue;
    }
    const auto [offset, size] = *taken++;
    if (const auto goes = cost(offset)) {
      extend({offset, size, *goes, true});
    } else {
      window.clear();
      length = price = 0;
    }
  }
  return best;
}

}  // namespace flagstone
