#pragma once
// Which tiles of an array may overlap a box: those that begin near it along one dimension.
#include <map>

#include "flagstone/base/shape.hpp"

namespace flagstone {

struct TileState;

/// Tiles by where they begin along the first dimension that an array has more than once. Kept of arrays whose boxes lie
/// on no grid; without it each new box is compared with all others, of a field of terabytes by the hundred thousand.
/// Cost of a look: a search, and the tiles that begin within the box or, at most, the longest one's extent before it.
class TilesNear {
 public:
  explicit TilesNear(const Shape& array);
  void insert(TileState& tile);
  void erase(TileState& tile);

  /// Calls f(tile) for all that may overlap the box.
  template <class F>
  void for_each(const Box& box, F&& f) const {
    const Index first = first_of(box), last = first + extent_of(box);
    for (auto at = by_first_.lower_bound(first - longest_); at != by_first_.end() && at->first < last; ++at)
      f(*at->second);
  }

 private:
  // An array without dimensions has one element at 0.
  Index first_of(const Box& box) const { return box.start.empty() ? 0 : box.start[along_]; }
  Index extent_of(const Box& box) const { return box.shape.empty() ? 1 : box.shape[along_]; }

  std::size_t along_ = 0;
  std::multimap<Index, TileState*> by_first_;
  Index longest_ = 0;
};

}  // namespace flagstone
