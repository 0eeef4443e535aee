// Slots as bits, against a set of numbers.
#include "flagstone/storage/zarr/shard/free_slots.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace flagstone {
namespace {

std::set<std::uint32_t> all(const Slots& slots) {
  std::set<std::uint32_t> found;
  for (std::uint32_t slot = slots.next(); slot != Slots::none; slot = slots.next(slot + 1)) found.insert(slot);
  return found;
}

TEST(Slots, AreASetOfNumbers) {
  std::mt19937 random(1);
  Slots slots;
  std::set<std::uint32_t> wanted;
  EXPECT_TRUE(slots.empty());
  EXPECT_EQ(slots.next(), Slots::none);
  for (int i = 0; i < 3000; ++i) {
    const auto slot = static_cast<std::uint32_t>(random() % 300);
    if (random() % 2) {
      slots.insert(slot), wanted.insert(slot);
    } else {
      slots.erase(slot), wanted.erase(slot);
    }
    EXPECT_EQ(slots.contains(slot), wanted.contains(slot));
    EXPECT_EQ(slots.empty(), wanted.empty());
    const auto from = static_cast<std::uint32_t>(random() % 400);
    const auto next = wanted.lower_bound(from);
    EXPECT_EQ(slots.next(from), next == wanted.end() ? Slots::none : *next);
  }
  EXPECT_EQ(all(slots), wanted);
}

TEST(Slots, OfAShardAreThoseThatNoChunkLiesIn) {
  const std::uint64_t slot = 4096, index = 4096;
  const std::vector<ShardEntry> entries{{0, 4096}, {}, {3 * 4096, 100}};
  EXPECT_EQ(all(free_slots(entries, 6 * slot + index, index, slot)), (std::set<std::uint32_t>{1, 2, 4, 5}));
  EXPECT_TRUE(lie_in_slots(entries, 6 * slot + index, slot));
  EXPECT_FALSE(lie_in_slots({{0, 4096}, {0, 8}}, 2 * slot, slot)) << "two chunks in one";
  EXPECT_FALSE(lie_in_slots({{8, 8}}, 2 * slot, slot));
  EXPECT_FALSE(lie_in_slots({{0, 5000}}, 2 * slot, slot));
  EXPECT_FALSE(lie_in_slots({{8192, 8}}, 2 * slot, slot)) << "outside the file";
}

}  // namespace
}  // namespace flagstone
