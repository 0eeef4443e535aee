// The external sort by schemes that are far too small: every skew, levels of merges, orders that contradict themselves.
#include "flagstone/algorithms/sort/external.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "flagstone/algorithms/sort/lines.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/sort/keys.hpp"
#include "flagstone/kernel/sort/stable_merge.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::sort {
namespace {

class SortTest : public testing::Test {
 protected:
  Job job(std::vector<std::int64_t>& x, std::vector<std::int64_t>& y) {
    const auto n = static_cast<Index>(x.size());
    Job made;
    made.records = n;
    made.order = std::make_shared<kernel::KeyOrder>(8, std::vector<kernel::Key>{{Dtype::int64, 0, false}});
    made.from = {Lane::of(memory_array(x.data(), {n}), 0)};
    made.to = {Lane::of(memory_array(y.data(), {n}), 0)};
    return made;
  }
  static Scheme small(Index n, Index fan) {
    Scheme scheme{.unit = 16, .run = 64, .block = 8, .tile = 48, .fan = fan};
    scheme.runs = ceil_div(n, scheme.run);
    return scheme;
  }

  TemporaryDirectory folder_;
  Runtime runtime_{{.memory = 4 * GiB, .workers = 2, .scratch = folder_ / "scratch"}};
};

TEST_F(SortTest, EverySkewAndNumberOfLevels) {
  std::mt19937_64 random(1);
  for (const std::size_t n : {1u, 15u, 64u, 65u, 400u, 1000u, 3001u})
    for (int skew = 0; skew < 6; ++skew)
      for (const Index fan : {2, 5, 1000}) {
        std::vector<std::int64_t> x(n), y(n);
        for (std::size_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::int64_t>(i);
          const auto any = static_cast<std::int64_t>(random());
          x[i] = std::array{any, std::int64_t{7}, at, -at, any % 2, i % 2 ? any : 5}[static_cast<std::size_t>(skew)];
        }
        const Job made = job(x, y);
        Scheme scheme = small(made.records, fan);
        scheme.kept = std::array{0, 5, 1000}[static_cast<std::size_t>(skew % 3)];
        runtime_.run([&](Graph& graph) { run(graph, made, scheme); });
        std::stable_sort(x.begin(), x.end());
        ASSERT_EQ(x, y) << n << " " << skew << " " << fan;
      }
}

TEST_F(SortTest, EqualKeysKeepTheirPlaces) {
  const Index n = 2000;
  std::vector<std::int64_t> x(n), y(n);
  for (Index i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = i * 7919 % 13;
  Job made = job(x, y);
  made.order = std::make_shared<kernel::KeyOrder>(16, std::vector<kernel::Key>{{Dtype::int64, 0, true}});
  made.from.push_back({{}, 0, {0}, {1}, 8});
  made.to[0].offset = 8;
  runtime_.run([&](Graph& graph) { run(graph, made, small(n, 3)); });
  std::vector<std::int64_t> places(n);
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](auto a, auto b) { return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)]; });
  EXPECT_EQ(y, places);
}

TEST_F(SortTest, AnOrderThatContradictsItselfLosesNothing) {
  const auto wrong = [](std::int64_t a, std::int64_t b) { return (a * 2654435761 ^ b * 40503) & 1; };
  for (const Index fan : {2, 100}) {
    std::vector<std::int64_t> x(3000), y(3000);
    std::iota(x.begin(), x.end(), 0);
    std::shuffle(x.begin(), x.end(), std::mt19937(4));
    Job made = job(x, y);
    made.order = std::make_shared<kernel::TypedOrder<std::int64_t, decltype(wrong)>>(wrong);
    runtime_.run([&](Graph& graph) { run(graph, made, small(3000, fan)); });
    std::sort(x.begin(), x.end()), std::sort(y.begin(), y.end());
    EXPECT_EQ(x, y);
  }
}

TEST_F(SortTest, ASchemeFitsItsBudget) {
  std::vector<std::int64_t> x(1), y(1);
  Job made = job(x, y);
  made.records = Index{1} << 33;
  for (const std::uint64_t budget : {std::uint64_t{0}, 64 * MiB, 1 * GiB, 64 * GiB}) {
    const Scheme scheme = choose(made, budget, 2);
    EXPECT_EQ(scheme.tile % scheme.unit, 0);
    EXPECT_EQ(scheme.run % scheme.block, 0);
    EXPECT_EQ(scheme.runs, ceil_div(made.records, scheme.run));
    EXPECT_GE(scheme.fan, 2);
    if (budget >= 1 * GiB) {
      EXPECT_EQ(scheme.passes, 2);
    }
  }
}

TEST_F(SortTest, SmallerTasksLeaveRoomForBlocks) {
  std::vector<std::int64_t> x(1), y(1);
  Job made = job(x, y);
  made.records = Index{1} << 27;  // 1 GiB
  Index kept = 0;
  for (const std::uint64_t budget : {64 * MiB, 256 * MiB, 512 * MiB, 1 * GiB, 1536 * MiB}) {
    const Scheme scheme = choose(made, budget, 2);
    const Index bytes = scheme.kept * scheme.block * 8;
    EXPECT_GE(bytes, kept);
    EXPECT_LE(bytes, static_cast<Index>(budget));
    kept = bytes;
  }
  EXPECT_GT(kept, static_cast<Index>(512 * MiB)) << "half of it, where all of it would just have room";
}

TEST_F(SortTest, LinesAlongEveryAxis) {
  std::vector<float> x(5 * 6 * 7), y(x.size());
  std::mt19937 random(2);
  for (float& v : x) v = static_cast<float>(random() % 50);
  const Shape shape{5, 6, 7};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    LineJob made{memory_array(x.data(), shape), memory_array(y.data(), shape), axis,
                 std::make_shared<kernel::KeyOrder>(4, std::vector<kernel::Key>{{Dtype::float32, 0, false}}), false};
    runtime_.run([&](Graph& graph) { run(graph, made); });
    const Index step = axis == 0 ? 42 : axis == 1 ? 7 : 1, n = shape[axis];
    for (Index line = 0; line < 210; ++line) {
      if (line / step % n != 0) continue;
      std::vector<float> wanted, found;
      for (Index i = 0; i < n; ++i) {
        wanted.push_back(x[static_cast<std::size_t>(line + i * step)]);
        found.push_back(y[static_cast<std::size_t>(line + i * step)]);
      }
      std::sort(wanted.begin(), wanted.end());
      ASSERT_EQ(found, wanted);
    }
  }
}

}  // namespace
}  // namespace flagstone::sort
