#include "flagstone/algorithms/tiled/placement.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "flagstone/base/error.hpp"

namespace flagstone::linalg {

Place place_by_name(std::string_view name, int devices) {
  if (name == "rows") return cyclic(devices, 0);
  if (name == "columns") return cyclic(devices, 1);
  throw ShapeError("place: '" + std::string(name) + "' is no placement; choose 'rows' or 'columns'.");
}

Place place_by_pattern(std::vector<std::vector<int>> pattern, int devices) {
  const std::size_t columns = pattern.empty() ? 0 : pattern[0].size();
  if (columns == 0) throw ShapeError("place: the pattern is empty; one row with one memory is the least.");
  for (const auto& row : pattern) {
    if (row.size() != columns)
      throw ShapeError("place: rows of the pattern have different lengths; a rectangle is needed.");
    for (const int place : row)
      if (place < 0 || place > devices)
        throw ShapeError("place: memory " + std::to_string(place) + " was named; 0 is the host, 1 to " +
                         std::to_string(devices) + " are the devices.");
  }
  return [pattern = std::move(pattern), columns](const Region&, const Shape& at) {
    const std::size_t dims = at.size();
    const auto row = dims < 2 ? std::size_t{0} : static_cast<std::size_t>(at[dims - 2]);
    const auto column = dims < 1 ? std::size_t{0} : static_cast<std::size_t>(at[dims - 1]);
    return pattern[row % pattern.size()][column % columns];
  };
}

std::uint64_t order_budget(const Graph& graph) {
  const std::uint64_t device = graph.device_budget();
  return device > 0 ? std::min(graph.budget(), device) : graph.budget();
}

}  // namespace flagstone::linalg
