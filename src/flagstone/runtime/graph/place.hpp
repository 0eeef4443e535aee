#pragma once
// In which memory a task runs: a function of the place of the tile that it changes.
#include <cstddef>
#include <functional>

#include "flagstone/base/shape.hpp"

namespace flagstone {

struct Region;

/// Where tasks run that modify a tile: 0 is the host, i the i-th device. `at`: the tile's place in the grid of tiles of
/// its array. Fixed when a task is added, under the run's lock: a function of its arguments that waits for nothing.
using Place = std::function<int(const Region& tile, const Shape& at)>;

/// One device after the other along one dimension of the grid: 0 rows, 1 columns; the last one where there are fewer.
Place cyclic(int devices, std::size_t dimension);

}  // namespace flagstone
