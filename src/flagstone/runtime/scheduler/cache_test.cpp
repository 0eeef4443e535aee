// Tiles by their boxes: found again, refused where they overlap, forgotten; the uses of a tile in program order.
#include "flagstone/runtime/scheduler/cache.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/scheduler/scheduler.hpp"

namespace flagstone {
namespace {

/// An address that is never followed: the cache looks at boxes only.
Array nowhere(const Shape& shape) {
  return memory_array(reinterpret_cast<std::byte*>(page_bytes), shape, Dtype::float64, c_strides(shape, 8));
}

TEST(Uses, AreADequeThatLosesItsFrontFirst) {
  std::mt19937 random(3);
  Uses uses;
  std::deque<TaskId> expected;
  TaskId next = 1;
  for (int step = 0; step < 20000; ++step) {
    if (expected.empty() || random() % 100 < (step < 10000 ? 55u : 45u)) {
      uses.push_back({nullptr, next, false});
      expected.push_back(next++);
    } else {
      const std::size_t at = random() % 8 < 7 ? 0 : random() % expected.size();
      uses.erase(expected[at]);
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ASSERT_EQ(uses.size(), expected.size());
    ASSERT_EQ(uses.empty(), expected.empty());
    if (!expected.empty()) {
      ASSERT_EQ(uses.front().id, expected.front());
    }
  }
  std::size_t i = 0;
  for (const Uses::Use& use : uses) EXPECT_EQ(use.id, expected[i++]);
}

TEST(Cache, FindsATileAgainByItsBox) {
  Cache cache(MiB);
  const Array a = nowhere({100, 70}), b = nowhere({100, 70});
  TileState& tile = cache.tile({a, {{32, 0}, {32, 32}}}, true, true);
  EXPECT_EQ(&cache.tile({a, {{32, 0}, {32, 32}}}, true, false), &tile);
  EXPECT_NE(&cache.tile({a, {{32, 32}, {32, 32}}}, true, false), &tile);
  EXPECT_NE(&cache.tile({b, {{32, 0}, {32, 32}}}, true, false), &tile);
}

/// Boxes of one grid are taken to be disjoint without a look; whatever the boxes, the answer is that of comparing all.
TEST(Cache, RefusesWhatAComparisonOfAllBoxesRefuses) {
  std::mt19937 random(11);
  int refused = 0, taken = 0;
  for (int round = 0; round < 400; ++round) {
    Cache cache(MiB);
    const Shape shape{37, 23};
    const Array array = nowhere(shape);
    std::vector<Box> boxes;
    std::vector<TileState*> tiles;
    const Shape cell{static_cast<Index>(random() % 12 + 1), static_cast<Index>(random() % 12 + 1)};
    const bool mostly_grid = round % 4 != 0;
    for (int step = 0; step < 12; ++step) {
      Box box;
      for (std::size_t d = 0; d < 2; ++d) {
        if (mostly_grid && random() % 10 > 0) {
          const Index i = static_cast<Index>(random()) % ((shape[d] + cell[d] - 1) / cell[d]);
          box.start.push_back(i * cell[d]);
          box.shape.push_back(std::min(cell[d], shape[d] - i * cell[d]));
        } else {
          box.start.push_back(static_cast<Index>(random() % 20));
          box.shape.push_back(static_cast<Index>(random() % 4));
        }
      }
      const bool clash = std::any_of(boxes.begin(), boxes.end(),
                                     [&](const Box& other) { return other != box && overlap(other, box); });
      if (clash) {
        EXPECT_THROW(cache.tile({array, box}, true, true), ShapeError);
        ++refused;
        break;  // as a run does: the graph ends there
      }
      TileState& tile = cache.tile({array, box}, true, true);
      if (tile.uses.empty()) tile.uses.push_back({nullptr, static_cast<TaskId>(step), false});  // awake
      boxes.push_back(box);
      tiles.push_back(&tile);
      ++taken;
      if (random() % 5 == 0) {  // one is forgotten: what it was must not count any more
        const std::size_t gone = random() % tiles.size();
        TileState* old = tiles[gone];
        while (!old->uses.empty()) old->uses.erase(old->uses.front().id);
        cache.forget(*old);
        for (std::size_t i = tiles.size(); i-- > 0;)
          if (tiles[i] == old) {
            tiles.erase(tiles.begin() + static_cast<std::ptrdiff_t>(i));
            boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(i));
          }
      }
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace flagstone
