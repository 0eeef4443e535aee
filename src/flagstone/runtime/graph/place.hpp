#pragma once
// In which memory a task runs: a function of the place of the tile that it changes.
#include <cstddef>
#include <functional>

#include "flagstone/base/shape.hpp"

namespace flagstone {

struct Region;

/// Where tasks run that modify a tile: 0 is the host, i the i-th device. `at`: the tile's place in the grid of tiles of
/// its array. Fixed when a task is added, under the run's lock: a function of its arguments that waits for nothing, or
/// for nothing once it was asked of a tile (RuntimeOptions::place_waits).
using Place = std::function<int(const Region& tile, const Shape& at)>;

/// One device after the other along one dimension of the grid, from its end and then back (... 2 1 1 2 2 1): 0 rows, 1
/// columns; the last one where there are fewer. The last rows of a triangle are the longest: of 8 on two devices the
/// busier has 1.03 times the mean work, of 5 1.09; in the same order from the beginning it would be 1.17 and 1.26.
Place cyclic(int devices, std::size_t dimension);

}  // namespace flagstone
