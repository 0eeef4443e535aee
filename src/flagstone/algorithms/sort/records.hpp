#pragma once
// Records: elements of several arrays at one place, beside one another in memory.
#include <vector>

#include "flagstone/runtime/graph/graph.hpp"

namespace flagstone::sort {

/// Elements of an array along one dimension, each with everything of the array that lies at its place: one number where
/// `cell` is 1 in all other dimensions; the bytes of a record where a second dimension of uint8 holds them.
struct Lane {
  Array array;             // none: the places themselves, int64
  std::size_t axis = 0;    // along which
  Shape start, cell;       // of an element in the array; both at `axis`: where it begins, 1
  std::size_t offset = 0;  // of its bytes in a record

  /// All of an array with one dimension.
  static Lane of(const Array& array, std::size_t offset);
  /// Bytes of an element.
  std::size_t item() const;
  /// Elements from `first` on.
  Box box(Index first, Index elements) const;
  /// How many elements lie in one stored unit; 0: any box is as good as another.
  Index unit() const;
};

/// Where a lane's elements are in a task: tiles and the elements that they hold.
struct LaneTile {
  std::uint32_t access = 0;
  std::size_t lane = 0;
  Index first = 0, elements = 0;  // of the task's records
  Index skipped = 0;              // elements of the tile before these
};

void to_records(const std::vector<Lane>& lanes, const LaneTile& part, std::span<const Tile> tiles, std::size_t width,
                std::byte* records);
void from_records(const std::vector<Lane>& lanes, const LaneTile& part, std::span<const Tile> tiles, std::size_t width,
                  const std::byte* records);
/// int64 place + i into records [0, n).
void number_records(const Lane& lane, Index place, Index n, std::size_t width, std::byte* records);

}  // namespace flagstone::sort
