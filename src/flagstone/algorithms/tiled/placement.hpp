#pragma once
// In which memory tiles are changed: functions of their place in their array alone, never of time or of what is free,
// because bits of a host and of a device differ.
#include <cstdint>
#include <string_view>

#include "flagstone/runtime/graph/graph.hpp"
#include "flagstone/runtime/graph/place.hpp"

namespace flagstone::linalg {

/// Which memory, by name: "rows" or "columns" of tiles, cyclic over so many devices and back. ShapeError of other
/// names.
Place place_by_name(std::string_view name, int devices);

/// What the order of tiles is chosen for, where one level of blocks serves all memories that they pass through: the
/// budget of the smallest of them.
std::uint64_t order_budget(const Graph& graph);

}  // namespace flagstone::linalg
