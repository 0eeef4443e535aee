#include "flagstone/runtime/spaces/arena.hpp"

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

using Bytes = Arena::Bytes;

TEST(Arena, PlacesAlignedAndWithoutOverlap) {
  Arena arena(1 << 20);
  std::map<Bytes, Bytes> taken;
  std::mt19937 random(1);
  for (int step = 0; step < 20000; ++step) {
    if (taken.empty() || random() % 2 == 0) {
      const Bytes bytes = random() % 5 == 0 ? 1 + random() % 3000 : 1 + random() % 60000;
      const auto offset = arena.take(bytes);
      if (!offset) {
        EXPECT_LT(arena.largest_hole(), Arena::charged(bytes));
        continue;
      }
      EXPECT_EQ(*offset % Arena::alignment, 0U);
      EXPECT_LE(*offset + bytes, arena.capacity());
      const auto after = taken.lower_bound(*offset);
      if (after != taken.end()) {
        EXPECT_LE(*offset + Arena::charged(bytes), after->first);
      }
      if (after != taken.begin()) {
        EXPECT_LE(std::prev(after)->first + std::prev(after)->second, *offset);
      }
      taken.emplace(*offset, Arena::charged(bytes));
    } else {
      const auto gone = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      arena.give(gone->first);
      taken.erase(gone);
    }
    Bytes used = 0;
    for (const auto& [offset, bytes] : taken) used += bytes;
    ASSERT_EQ(arena.used(), used);
    ASSERT_LE(used, arena.peak());
  }
  for (const auto& [offset, bytes] : taken) arena.give(offset);
  EXPECT_EQ(arena.used(), 0U);
  EXPECT_EQ(arena.largest_hole(), arena.capacity());  // holes have grown together
}

TEST(Arena, BlocksOfOneSizeNeverMiss) {
  constexpr Bytes tile = 12 * 1024 + 1;
  Arena arena(37 * Arena::charged(tile) + 100);
  std::vector<Bytes> taken;
  std::mt19937 random(2);
  for (int step = 0; step < 5000; ++step) {
    while (arena.used() + Arena::charged(tile) <= arena.capacity()) {
      const auto offset = arena.take(tile);
      ASSERT_TRUE(offset);
      taken.push_back(*offset);
    }
    EXPECT_EQ(taken.size(), 37U);
    for (int i = 0; i < 5; ++i) {
      std::swap(taken[random() % taken.size()], taken.back());
      arena.give(taken.back());
      taken.pop_back();
    }
  }
}

TEST(Arena, TakesAllOrNothing) {
  Arena arena(10 * 1024);
  const auto first = arena.take(4 * 1024);
  EXPECT_FALSE(arena.take_all(std::vector<Bytes>{1024, 5 * 1024, 1024}));
  EXPECT_EQ(arena.used(), 4U * 1024);
  EXPECT_EQ(arena.peak(), 4U * 1024);  // what was only tried does not count
  const auto rest = arena.take_all(std::vector<Bytes>{1024, 4 * 1024, 1024});
  ASSERT_TRUE(rest);
  EXPECT_EQ(arena.used(), arena.capacity());
  for (const Bytes offset : *rest) arena.give(offset);
  arena.give(*first);
  EXPECT_THROW(arena.give(*first), Error);
}

TEST(Arena, SmallBlocksKeepOutOfTheWayOfTiles) {
  constexpr Bytes tile = 64 * 1024;
  Arena arena(16 * tile);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(arena.take(1024));  // live on while tiles come and go
  std::vector<Bytes> tiles;
  while (const auto offset = arena.take(tile)) tiles.push_back(*offset);
  EXPECT_EQ(tiles.size(), 15U);
}

TEST(Arena, NamesTheCheapestWindow) {
  Arena arena(16 * 1024);
  std::map<Bytes, Bytes> cost;
  for (int i = 0; i < 8; ++i) cost[*arena.take(2 * 1024)] = 100;
  cost[4 * 1024] = 1;
  cost[6 * 1024] = 3;
  cost[8 * 1024] = 4;
  std::set<Bytes> pinned;
  const auto cost_of = [&](Bytes offset) {
    return pinned.contains(offset) ? std::nullopt : std::optional<Bytes>(cost.at(offset));
  };
  EXPECT_EQ(arena.cheapest_window(4 * 1024, cost_of), (std::vector<Bytes>{4 * 1024, 6 * 1024}));
  pinned = {6 * 1024};
  EXPECT_EQ(arena.cheapest_window(4 * 1024, cost_of), (std::vector<Bytes>{2 * 1024, 4 * 1024}));
  pinned = {2 * 1024, 6 * 1024, 10 * 1024, 14 * 1024};
  EXPECT_FALSE(arena.cheapest_window(4 * 1024, cost_of));
  EXPECT_EQ(arena.cheapest_window(2 * 1024, cost_of), (std::vector<Bytes>{4 * 1024}));
  arena.give(8 * 1024);
  EXPECT_EQ(arena.cheapest_window(2 * 1024, cost_of), std::vector<Bytes>{});
  pinned = {2 * 1024, 14 * 1024};
  EXPECT_EQ(arena.cheapest_window(6 * 1024, cost_of), (std::vector<Bytes>{4 * 1024, 6 * 1024}));
}

// Tiles of a matrix, its edges and workspaces, taken at random with the memory full: what clearing a window costs
// beyond the bytes that are asked for stays below one tile, and with nothing pinned it always succeeds.
TEST(Arena, FragmentationIsBounded) {
  constexpr Bytes tile = 16 * 1024;
  const std::vector<Bytes> sizes{tile, tile, tile, tile, tile / 3, tile / 7 * 2, 700, 9 * 1024};
  Arena arena(25 * tile);
  std::vector<Bytes> live;
  std::map<Bytes, Bytes> bytes_of;
  std::mt19937 random(3);
  Bytes cleared = 0, asked = 0;
  for (int step = 0; step < 20000; ++step) {
    const Bytes bytes = Arena::charged(sizes[random() % sizes.size()]);
    auto offset = arena.take(bytes);
    if (!offset) {
      const auto window = arena.cheapest_window(bytes, [&](Bytes at) { return bytes_of.at(at); });
      ASSERT_TRUE(window);
      Bytes here = 0;
      for (const Bytes at : *window) {
        here += bytes_of.at(at);
        arena.give(at);
        bytes_of.erase(at);
      }
      EXPECT_LT(here, bytes + tile);
      cleared += here;
      asked += bytes;
      offset = arena.take(bytes);
      ASSERT_TRUE(offset);
    }
    bytes_of[*offset] = bytes;
  }
  EXPECT_GT(asked, 0U);
  EXPECT_LE(static_cast<double>(cleared), 1.05 * static_cast<double>(asked));  // seen: 1.006
}

}  // namespace
}  // namespace flagstone
