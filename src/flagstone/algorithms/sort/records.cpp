#include "flagstone/algorithms/sort/records.hpp"

#include <cstring>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/array/array.hpp"

namespace flagstone::sort {
namespace {

/// Copies n items; sizes that a compiler knows become moves of registers.
void copy_items(const std::byte* from, std::ptrdiff_t from_step, std::byte* to, std::ptrdiff_t to_step, Index n,
                std::size_t item) {
  const auto each = [&](auto bytes) {
    for (Index i = 0; i < n; ++i, from += from_step, to += to_step)
      std::memcpy(to, from, decltype(bytes)::value ? decltype(bytes)::value : item);
  };
  if (from_step == static_cast<std::ptrdiff_t>(item) && to_step == from_step) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * item);
    return;
  }
  switch (item) {
    case 1:
      return each(std::integral_constant<std::size_t, 1>{});
    case 2:
      return each(std::integral_constant<std::size_t, 2>{});
    case 4:
      return each(std::integral_constant<std::size_t, 4>{});
    case 8:
      return each(std::integral_constant<std::size_t, 8>{});
    case 16:
      return each(std::integral_constant<std::size_t, 16>{});
    default:
      return each(std::integral_constant<std::size_t, 0>{});
  }
}

}  // namespace

Lane Lane::of(const Array& array, std::size_t offset) { return {array, 0, {0}, {1}, offset}; }

std::size_t Lane::item() const {
  return array ? static_cast<std::size_t>(count(cell)) * size_of(array.dtype()) : sizeof(std::int64_t);
}

Box Lane::box(Index first, Index elements) const {
  Box made{start, cell};
  made.start[axis] += first, made.shape[axis] = elements;
  return made;
}

Index Lane::unit() const {
  if (!array || array.in_memory() || reads_any_box(array)) return 0;
  return array.chunks()[axis];
}

void to_records(const std::vector<Lane>& lanes, const LaneTile& part, std::span<const Tile> tiles, std::size_t width,
                std::byte* records) {
  const Lane& lane = lanes[part.lane];
  const Tile& tile = tiles[part.access];
  const Index step = tile.strides[lane.axis];
  copy_items(tile.data + part.skipped * step, step,
             records + static_cast<std::size_t>(part.first) * width + lane.offset, static_cast<std::ptrdiff_t>(width),
             part.elements, lane.item());
}

void from_records(const std::vector<Lane>& lanes, const LaneTile& part, std::span<const Tile> tiles, std::size_t width,
                  const std::byte* records) {
  const Lane& lane = lanes[part.lane];
  const Tile& tile = tiles[part.access];
  const Index step = tile.strides[lane.axis];
  copy_items(records + static_cast<std::size_t>(part.first) * width + lane.offset, static_cast<std::ptrdiff_t>(width),
             tile.data + part.skipped * step, step, part.elements, lane.item());
}

void number_records(const Lane& lane, Index place, Index n, std::size_t width, std::byte* records) {
  for (Index i = 0; i < n; ++i) {
    const std::int64_t at = place + i;
    std::memcpy(records + static_cast<std::size_t>(i) * width + lane.offset, &at, sizeof at);
  }
}

}  // namespace flagstone::sort
