// Records in order: against insertion by value; searches and merges by orders that contradict themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "flagstone/base/element_type.hpp"
#include "flagstone/kernel/reference/sort.hpp"
#include "flagstone/kernel/sort/keys.hpp"
#include "flagstone/kernel/sort/select.hpp"
#include "flagstone/kernel/sort/stable_merge.hpp"

namespace flagstone::kernel {
namespace {

template <class T>
std::vector<T> numbers(std::size_t n) {
  std::mt19937 random(5);
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const int k = static_cast<int>(random() % 40) - 20;
    if constexpr (std::is_same_v<T, std::complex<double>> || std::is_same_v<T, std::complex<float>>) {
      using R = typename T::value_type;
      const R nan = std::numeric_limits<R>::quiet_NaN();
      x[i] = {k % 7 == 3 ? nan : static_cast<R>(k % 3), k % 5 == 2 ? nan : static_cast<R>(random() % 4)};
    } else if constexpr (std::is_floating_point_v<T>) {
      x[i] = k == 3   ? std::numeric_limits<T>::quiet_NaN()
             : k == 4 ? -std::numeric_limits<T>::infinity()
                      : static_cast<T>(k % 5 == 0 ? std::copysign(0.0, k) : k / 3.0);
    } else {
      x[i] = static_cast<T>(i % 3 == 0 ? random() : static_cast<unsigned>(k));
    }
  }
  return x;
}

template <class T>
class KeysTest : public testing::Test {};
using Types = testing::Types<std::int8_t, std::uint16_t, std::int32_t, std::int64_t, std::uint64_t, float, double,
                             std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(KeysTest, Types);

TYPED_TEST(KeysTest, ElementsAndRecordsAreAsInsertionHasThem) {
  for (const std::size_t n : {0u, 1u, 7u, 200u, 700u})
    for (const bool descending : {false, true}) {
      const auto x = numbers<TypeParam>(n);
      const auto places = reference::argsort(x, descending);
      const KeyOrder alone(sizeof(TypeParam), {{dtype_of<TypeParam>(), 0, descending}});
      std::vector<TypeParam> moved = x;
      std::vector<std::byte> work(alone.work_bytes(static_cast<Index>(n)) + 1);
      const std::byte* sorted =
          alone.sort(reinterpret_cast<std::byte*>(moved.data()), static_cast<Index>(n), work.data());
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(
            std::memcmp(sorted + i * sizeof(TypeParam), &x[static_cast<std::size_t>(places[i])], sizeof(TypeParam)), 0);
      // With the place behind it.
      const std::size_t width = sizeof(TypeParam) + 8;
      const KeyOrder placed(width, {{dtype_of<TypeParam>(), 0, descending}});
      std::vector<std::byte> records(n * width + 1);
      for (std::size_t i = 0; i < n; ++i) {
        std::memcpy(&records[i * width], &x[i], sizeof(TypeParam));
        std::memcpy(&records[i * width + sizeof(TypeParam)], &i, 8);
      }
      work.resize(placed.work_bytes(static_cast<Index>(n)) + 1);
      sorted = placed.sort(records.data(), static_cast<Index>(n), work.data());
      for (std::size_t i = 0; i < n; ++i) {
        Index place = 0;
        std::memcpy(&place, sorted + i * width + sizeof(TypeParam), 8);
        ASSERT_EQ(place, places[i]);
        if (i > 0) {
          ASSERT_FALSE(placed.less(sorted + i * width, sorted + (i - 1) * width));
        }
      }
    }
}

TEST(TypedOrderTest, AnOrderThatContradictsItselfLosesNothing) {
  std::mt19937 random(9);
  const auto coin = [&random](int, int) { return random() % 2 == 0; };
  const auto less = [](int a, int b) { return a < b; };
  std::vector<int> x(1000), work(1000);
  std::iota(x.begin(), x.end(), 0);
  const std::vector<int> all = x;
  std::shuffle(x.begin(), x.end(), random);
  std::vector<int> y = x;
  int* sorted = merge_sort(x.data(), 1000, work.data(), coin);
  EXPECT_THAT(std::vector<int>(sorted, sorted + 1000), testing::UnorderedElementsAreArray(all));
  sorted = merge_sort(y.data(), 1000, work.data(), less);
  EXPECT_TRUE(std::equal(all.begin(), all.end(), sorted));
}

TEST(SelectTest, RunsPartAtEveryRank) {
  const KeyOrder order(4, {{Dtype::int32, 0, false}});
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::vector<int>> runs(1 + random() % 5);
    Index records = 0;
    for (auto& run : runs) {
      run.resize(random() % 20);
      for (int& x : run) x = static_cast<int>(random() % 8);
      std::sort(run.begin(), run.end());
      records += static_cast<Index>(run.size());
    }
    for (Index rank = 0; rank <= records; ++rank) {
      std::vector<RunWindow> windows;
      for (auto& run : runs)
        windows.push_back({0, static_cast<Index>(run.size()), 0, 100, {reinterpret_cast<std::byte*>(run.data())}});
      part_runs(order, windows, rank);
      Index sum = 0;
      for (std::size_t a = 0; a < runs.size(); ++a) {
        sum += windows[a].low;
        for (std::size_t b = 0; b < runs.size(); ++b) {
          if (windows[a].low == 0 || windows[b].low == static_cast<Index>(runs[b].size())) continue;
          const int before = runs[a][static_cast<std::size_t>(windows[a].low - 1)];
          const int behind = runs[b][static_cast<std::size_t>(windows[b].low)];
          ASSERT_TRUE(before < behind || (before == behind && a <= b));
        }
      }
      ASSERT_EQ(sum, rank);
    }
  }
}

}  // namespace
}  // namespace flagstone::kernel
