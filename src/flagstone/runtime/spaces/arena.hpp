#pragma once
// Where tiles and workspaces lie inside a device's memory, which was taken once. Offsets only: no memory is touched, so
// a plan places exactly as a run does.
//
// Admission counts bytes, and bytes in pieces hold no tile. Nothing is moved here; what is promised instead:
// - blocks of one size never leave a hole that the next of them does not fit into;
// - a window of `bytes` in which nothing is pinned costs less than bytes + b to clear, b the largest block there
//   (cheapest_window finds the cheapest); with p pinned blocks of P bytes together, one of (M - P) / (p + 1) exists;
// - so with nothing pinned whatever fits into M bytes can be placed: a task that waits for room comes to its turn;
// - small blocks (workspaces, edges of matrices) come from the far end and keep out of the tiles' way.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace flagstone {

class Arena {
 public:
  using Bytes = std::uint64_t;
  static constexpr Bytes alignment = 256;  // of every offset and length, and so what admission charges
  static constexpr Bytes charged(Bytes bytes) noexcept {
    return bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
  }

  /// Of so many bytes, what is left over beyond the last multiple of `alignment` aside.
  explicit Arena(Bytes bytes);

  /// The offset of a new block in the smallest hole that holds it, the lowest of several (the highest for a small
  /// block); none where no hole does. O(log blocks).
  std::optional<Bytes> take(Bytes bytes);
  /// All of them, the largest placed first, or none.
  std::optional<std::vector<Bytes>> take_all(std::span<const Bytes> sizes);
  /// A block is given back whole, by its offset.
  void give(Bytes offset);

  /// What it costs that this block goes; none where it cannot.
  using CostOf = std::function<std::optional<Bytes>(Bytes offset)>;
  /// Blocks that lie together and, once given back, leave a hole for so many bytes: of all such, those that cost least.
  /// None where pinned blocks leave no such window; empty where there is a hole. O(blocks).
  std::optional<std::vector<Bytes>> cheapest_window(Bytes bytes, const CostOf& cost) const;

  /// What the block at this offset occupies.
  Bytes bytes_of(Bytes offset) const { return taken_.at(offset); }
  Bytes capacity() const noexcept { return capacity_; }
  Bytes used() const noexcept { return used_; }
  Bytes peak() const noexcept { return peak_; }
  Bytes largest_hole() const noexcept { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  std::size_t blocks() const noexcept { return taken_.size(); }

 private:
  static constexpr Bytes small_share = 64;  // blocks below 1/64 of the memory are small
  void add_hole(Bytes offset, Bytes bytes);
  void remove_hole(Bytes offset, Bytes bytes);

  Bytes capacity_, used_ = 0, peak_ = 0;
  std::map<Bytes, Bytes> taken_, holes_;       // offset -> bytes
  std::set<std::pair<Bytes, Bytes>> by_size_;  // holes: (bytes, offset)
};

}  // namespace flagstone
