#include "flagstone/algorithms/tiled/placement.hpp"

#include <algorithm>
#include <string>

#include "flagstone/base/error.hpp"

namespace flagstone::linalg {

Place place_by_name(std::string_view name, int devices) {
  if (name == "rows") return cyclic(devices, 0);
  if (name == "columns") return cyclic(devices, 1);
  throw ShapeError("place: '" + std::string(name) + "' is no placement; choose 'rows' or 'columns'.");
}

std::uint64_t order_budget(const Graph& graph) {
  const std::uint64_t device = graph.device_budget();
  return device > 0 ? std::min(graph.budget(), device) : graph.budget();
}

}  // namespace flagstone::linalg
