#include "flagstone/runtime/graph/place.hpp"

#include <algorithm>

namespace flagstone {

Place cyclic(int devices, std::size_t dimension) {
  return [devices, dimension](const Region&, const Shape& at) {
    if (at.empty()) return 1;
    return 1 + static_cast<int>(at[std::min(dimension, at.size() - 1)] % devices);
  };
}

}  // namespace flagstone
