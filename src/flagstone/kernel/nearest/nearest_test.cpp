// Nearest centres and points against all distances in float64: at an offset, of duplicates, of other dtypes and
// strides.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "flagstone/base/element_type.hpp"
#include "flagstone/kernel/nearest/assign.hpp"
#include "flagstone/kernel/nearest/best.hpp"
#include "flagstone/kernel/reference/nearest.hpp"

namespace flagstone::kernel {
namespace {

/// float32 values around an offset; every fifth row repeats the one before it.
std::vector<double> values(Index n, Index d, unsigned seed, double offset) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> made(static_cast<std::size_t>(n * d));
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < d; ++j)
      made[i * d + j] = i % 5 == 4 ? made[(i - 1) * d + j] : static_cast<float>(offset + normal(random));
  return made;
}

std::vector<double> mean_of(const std::vector<double>& x, Index d) {
  std::vector<double> mean(static_cast<std::size_t>(d), 0.0);
  const auto n = static_cast<double>(x.size()) / static_cast<double>(d);
  for (std::size_t i = 0; i < x.size(); ++i) mean[i % static_cast<std::size_t>(d)] += x[i] / n;
  return mean;
}

struct Loaded {
  Loaded(const std::vector<double>& x, Index d, const std::vector<double>& shift, bool unit = false)
      : memory(points_bytes(static_cast<Index>(x.size()) / d, d) + 64),
        points(points_at(memory.data() + 64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64,
                         static_cast<Index>(x.size()) / d, d)),
        given(x) {
    bad = load_points(tile_of(given.data(), {points.rows, d}), unit, shift.data(), points);
  }
  std::vector<std::byte> memory;
  Points points;
  std::vector<double> given;
  Index bad;
};

void check_assign(Index n, Index d, Index k, double offset, bool shifted) {
  const std::vector<double> x = values(n, d, 1, offset), c = values(k, d, 2, offset);
  const std::vector<double> shift = shifted ? mean_of(c, d) : std::vector<double>(static_cast<std::size_t>(d), 0.0);
  const Loaded loaded(x, d, shift);
  std::vector<float> rounded(static_cast<std::size_t>(k * d)), half(static_cast<std::size_t>(scores_width(k))),
      scores(static_cast<std::size_t>(n * scores_width(k)));
  Centres centres{k, d, c.data(), rounded.data(), half.data(), shift.data()};
  centres.longest = round_centres(c.data(), k, d, shift.data(), rounded.data(), half.data());
  std::vector<std::int32_t> labels(static_cast<std::size_t>(n));
  std::vector<double> squares(static_cast<std::size_t>(n));
  const Index decided = assign(loaded.points, centres, scores.data(), labels.data(), squares.data());
  for (Index i = 0; i < n; ++i) {
    const Index want = reference::by_distance(x, i, c, d)[0];
    const double square = reference::square_distance(x, i, c, want, d);
    ASSERT_EQ(labels[i], want) << "row " << i << " of " << n << " x " << d << ", k " << k << ", offset " << offset;
    ASSERT_NEAR(squares[i], square, 4e-16 * static_cast<double>(d) * square);
  }
  if (shifted && d > 2 && k > 1) {
    EXPECT_LT(decided, n / 2 + 2);  // repeated centres are decided, and few others
  }
}

TEST(Assign, IsTheArgminOfFloat64) {
  for (const Index n : {1, 7, 130})
    for (const Index d : {1, 3, 17, 64, 100})
      for (const Index k : {1, 2, 16, 33})
        for (const double offset : {0.0, 1e4}) check_assign(n, d, k, offset, true);
}

TEST(Assign, HoldsWithoutAShiftToo) { check_assign(60, 20, 9, 1e4, false); }

TEST(Assign, HoldsWhereFloat32Overflows) {
  const std::vector<double> x = {1e30, 0, 0, 2e30}, c = {1e30, 0, 0, 1e30};
  const std::vector<double> shift(2, 0.0);
  const Loaded loaded(x, 2, shift);
  std::vector<float> rounded(4), half(16), scores(32);
  Centres centres{2, 2, c.data(), rounded.data(), half.data(), shift.data()};
  centres.longest = round_centres(c.data(), 2, 2, shift.data(), rounded.data(), half.data());
  std::vector<std::int32_t> labels(2);
  std::vector<double> squares(2);
  EXPECT_EQ(assign(loaded.points, centres, scores.data(), labels.data(), squares.data()), 2);
  EXPECT_THAT(labels, testing::ElementsAre(0, 1));
}

TEST(LoadPoints, TellsTheRowOfABadValue) {
  std::vector<double> x = values(9, 4, 3, 0);
  x[6 * 4 + 2] = std::numeric_limits<double>::infinity();
  const Loaded loaded(x, 4, std::vector<double>(4, 0.0));
  EXPECT_EQ(loaded.bad, 6);
  EXPECT_EQ(first_bad(loaded.points.row(6), 4), 2);
}

TEST(LoadPoints, MakesUnitRows) {
  const Loaded loaded({3, 4, 0, 0}, 2, {0, 0}, true);
  EXPECT_NEAR(loaded.points.squares[0], 1, 1e-15);
  EXPECT_EQ(loaded.points.scales[1], 0);
}

TEST(LoadPoints, MakesUnitRowsOfHugeAndTinyValues) {
  for (const double size : {1e-300, 1e-180, 1e180, 1e300}) {
    const Loaded loaded({3 * size, 4 * size}, 2, {0, 0}, true);
    EXPECT_NEAR(loaded.points.squares[0], 1, 1e-14) << size;
    EXPECT_NEAR(loaded.points.scales[0] * size, 0.2, 1e-15) << size;
  }
  EXPECT_EQ(Loaded({5e-324, 0}, 2, {0, 0}, true).points.scales[0], 0);
  EXPECT_EQ(Loaded({std::numeric_limits<double>::infinity(), 0}, 2, {0, 0}, true).bad, 0);
}

void check_best(Index m, Index n, Index d, Index k, double offset, bool self) {
  const std::vector<double> x = values(n, d, 5, offset), q = self ? x : values(m, d, 6, offset);
  const std::vector<double> shift = mean_of(x, d);
  const Loaded queries(q, d, shift);
  std::vector<double> keys(static_cast<std::size_t>(m * k));
  std::vector<std::int64_t> places(keys.size());
  const Best best{keys.data(), places.data(), k, k, k};
  clear(best, m);
  const Index step = 11;
  for (Index first = 0; first < n; first += step) {  // in pieces, as they stream
    const Index rows = std::min(step, n - first);
    const Loaded part(std::vector<double>(x.begin() + first * d, x.begin() + (first + rows) * d), d, shift);
    std::vector<float> half(static_cast<std::size_t>(scores_width(rows))),
        scores(static_cast<std::size_t>(m * scores_width(rows)));
    take_best(Metric::euclidean, queries.points, part.points, {first, self ? 0 : -1}, half.data(), scores.data(), best);
  }
  finish(Metric::euclidean, best, m);
  for (Index i = 0; i < m; ++i) {
    std::vector<Index> order = reference::by_distance(q, i, x, d);
    if (self) std::erase(order, i);
    for (Index j = 0; j < k; ++j) {
      ASSERT_EQ(places[i * k + j], order[j]) << "query " << i << ", neighbour " << j << ", offset " << offset;
      const double want = std::sqrt(reference::square_distance(q, i, x, order[j], d));
      ASSERT_NEAR(keys[i * k + j], want, 4e-16 * static_cast<double>(d) * want);
    }
  }
}

TEST(TakeBest, AreTheNearestOfFloat64) {
  for (const Index d : {1, 5, 40})
    for (const double offset : {0.0, 1e4})
      for (const Index k : {1, 4, 30}) {
        check_best(13, 50, d, k, offset, false);
        check_best(50, 50, d, k, offset, true);
      }
}

TEST(TakeBestTurned, ServesTheOtherSideOfATile) {
  const Index m = 30, n = 21, d = 7, k = 5;
  const std::vector<double> q = values(m, d, 8, 1e4), x = values(n, d, 9, 1e4), shift = mean_of(x, d);
  const Loaded queries(q, d, shift), points(x, d, shift);
  std::vector<double> keys(static_cast<std::size_t>(m * k)), turned_keys(static_cast<std::size_t>(n * k));
  std::vector<std::int64_t> places(keys.size()), turned_places(turned_keys.size());
  std::vector<float> half(static_cast<std::size_t>(scores_width(n))), scores(static_cast<std::size_t>(m) * half.size()),
      queries_half(static_cast<std::size_t>(m)), bounds(half.size());
  const Best best{keys.data(), places.data(), k, k, k}, turned{turned_keys.data(), turned_places.data(), k, k, k};
  clear(best, m), clear(turned, n);
  take_best(Metric::euclidean, queries.points, points.points, {}, half.data(), scores.data(), best);
  take_best_turned(Metric::euclidean, queries.points, points.points, 100, scores.data(), queries_half.data(),
                   bounds.data(), turned);
  for (Index j = 0; j < n; ++j) {
    const std::vector<Index> order = reference::by_distance(x, j, q, d);
    for (Index l = 0; l < k; ++l) EXPECT_EQ(turned_places[j * k + l], 100 + order[l]) << "point " << j;
  }
}

TEST(TakeWithin, FindsWhatLiesWithinTheRadius) {
  const Index m = 19, n = 37, d = 6;
  for (const double offset : {0.0, 1e4})
    for (const Index self : {Index{-1}, Index{10}}) {
      const std::vector<double> q = values(m, d, 4, offset), x = values(n, d, 5, offset), shift = mean_of(x, d);
      const Loaded queries(q, d, shift), points(x, d, shift);
      std::vector<float> half(static_cast<std::size_t>(scores_width(n))),
          scores(static_cast<std::size_t>(m) * half.size());
      std::vector<std::int64_t> places(static_cast<std::size_t>(n));
      std::vector<double> found(places.size());
      const double radius = std::sqrt(reference::square_distance(q, 3, x, 7, d));  // the pair lies on it
      std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(m));
      const Within within{radius, places.data(), found.data(), [&](Index i, Index count) {
                            rows[static_cast<std::size_t>(i)].assign(places.data(), places.data() + count);
                            for (Index l = 0; l < count; ++l)
                              EXPECT_NEAR(found[l], std::sqrt(reference::square_distance(q, i, x, places[l] - 20, d)),
                                          1e-12);
                          }};
      take_within(Metric::euclidean, queries.points, points.points, {20, self}, half.data(), scores.data(), within);
      for (Index i = 0; i < m; ++i) {
        std::vector<std::int64_t> expected;
        for (Index j = 0; j < n; ++j) {
          const double distance = std::sqrt(reference::square_distance(q, i, x, j, d));
          if (std::abs(distance - radius) < 1e-12 && !(i == 3 && j == 7)) continue;  // rounding decides
          if (distance <= radius + 1e-12 && !(self >= 0 && self + i == 20 + j)) expected.push_back(20 + j);
        }
        std::vector<std::int64_t> clear;
        for (const std::int64_t place : rows[static_cast<std::size_t>(i)]) {
          const double distance = std::sqrt(reference::square_distance(q, i, x, place - 20, d));
          if (std::abs(distance - radius) >= 1e-12 || (i == 3 && place == 27)) clear.push_back(place);
        }
        EXPECT_EQ(clear, expected) << "query " << i;
      }
    }
}

TEST(TakeBest, KnowsProductsAndAngles) {
  const std::vector<double> x = {1, 0, 3, 3, 0, 0, -2, 0}, zeros(2, 0.0);
  for (const bool inner : {true, false}) {
    const Loaded queries({2, 0}, 2, zeros, !inner), points(x, 2, zeros, !inner);
    std::vector<double> keys(4);
    std::vector<std::int64_t> places(4);
    std::vector<float> half(16), scores(16);
    const Best best{keys.data(), places.data(), 4, 4, 4};
    const Metric metric = inner ? Metric::inner : Metric::cosine;
    clear(best, 1);
    take_best(metric, queries.points, points.points, {}, half.data(), scores.data(), best);
    finish(metric, best, 1);
    if (inner) {
      EXPECT_THAT(places, testing::ElementsAre(1, 0, 2, 3));
      EXPECT_THAT(keys, testing::ElementsAre(6, 2, 0, -4));
    } else {
      EXPECT_THAT(places, testing::ElementsAre(0, 1, 2, 3));
      EXPECT_NEAR(keys[1], 1 - std::sqrt(0.5), 1e-15);
      EXPECT_EQ(keys[2], 1);  // a row of zeros is as far as a right angle
    }
  }
}

}  // namespace
}  // namespace flagstone::kernel
