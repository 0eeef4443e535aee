// Kernel functions against loops over their formulas; symmetry, place, distance zero, what is too small, NaN.
#include "flagstone/kernel/pairwise/pairwise.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "flagstone/base/element_type.hpp"
#include "flagstone/kernel/reference/reference.hpp"

namespace flagstone::kernel {
namespace {

constexpr PairValue all_values[] = {PairValue::rbf,    PairValue::matern12,   PairValue::matern32, PairValue::matern52,
                                    PairValue::linear, PairValue::polynomial, PairValue::cosine};

std::vector<double> points(Index n, Index d, unsigned seed, double offset = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> made(static_cast<std::size_t>(n * d));
  for (double& x : made) x = offset + normal(random);
  return made;
}

std::vector<double> matrix(const PointKernel& kernel, const Tile& x, const Tile& y) {
  std::vector<double> out(static_cast<std::size_t>(x.shape[0] * y.shape[0]));
  std::vector<std::byte> scratch(pair_scratch(x.shape[1]));
  pairs(kernel, x, y, tile_of(out.data(), {x.shape[0], y.shape[0]}), scratch.data());
  return out;
}

TEST(Pairs, AreTheirFormulas) {
  for (const PairValue value : all_values)
    for (const Index d : {1, 3, 17, 32, 33, 70})
      for (const auto& [m, n] : {std::pair<Index, Index>{1, 1}, {5, 3}, {7, 130}, {130, 129}}) {
        PointKernel kernel{.value = value, .gamma = 0.7, .coef0 = 0.3, .degree = 3};
        if (value == PairValue::rbf) kernel.gamma = 0.5;
        for (Index k = 0; k < d; ++k)
          kernel.length.push_back(std::sqrt(static_cast<double>(d)) * (1 + 0.1 * static_cast<double>(k % 4)));
        if (by_norms(kernel, d)) kernel.centre.assign(static_cast<std::size_t>(d), 3.0);
        auto a = points(m, d, 1, 3), b = points(n, d, 2, 3);
        const auto found = matrix(kernel, tile_of(a.data(), {m, d}), tile_of(b.data(), {n, d}));
        for (Index i = 0; i < m; ++i)
          for (Index j = 0; j < n; ++j) {
            const double wanted =
                reference::pair(kernel, &a[static_cast<std::size_t>(i * d)], &b[static_cast<std::size_t>(j * d)], d);
            // Sums of d terms, exp within 4 ulp of arguments below 16; norms of centred points for products.
            const double bound = 64 * static_cast<double>(d + 16) * std::numeric_limits<double>::epsilon();
            ASSERT_NEAR(found[static_cast<std::size_t>(i * n + j)], wanted, bound * std::max(1.0, std::abs(wanted)))
                << static_cast<int>(value) << " " << d << " at " << i << ", " << j;
          }
      }
}

TEST(Pairs, TheCosineKnowsNoSizes) {
  const Index n = 21, d = 3;
  const PointKernel kernel{.value = PairValue::cosine};
  auto x = points(n, d, 4);
  const auto wanted = matrix(kernel, tile_of(x.data(), {n, d}), tile_of(x.data(), {n, d}));
  constexpr int powers[] = {1020, -1000, 500, -500, 0, 90, -600};
  for (Index i = 0; i < n * d; ++i) {
    double& value = x[static_cast<std::size_t>(i)];
    value = std::ldexp(value, powers[static_cast<std::size_t>(i / d) % std::size(powers)]);
  }
  ASSERT_EQ(matrix(kernel, tile_of(x.data(), {n, d}), tile_of(x.data(), {n, d})), wanted);
  for (double& value : x) value = std::numeric_limits<double>::denorm_min();
  for (const double value : matrix(kernel, tile_of(x.data(), {n, d}), tile_of(x.data(), {n, d})))
    ASSERT_DOUBLE_EQ(value, 1);
}

TEST(Pairs, FollowFromTheirPointsAlone) {
  const Index n = 141;
  for (const PairValue value : all_values)
    for (const Index d : {2, 40}) {
      const PointKernel kernel{.value = value, .centre = std::vector<double>(static_cast<std::size_t>(d), 0.25)};
      auto x = points(n, d, 3);
      for (Index k = 0; k < d; ++k) x[static_cast<std::size_t>(7 * d + k)] = x[static_cast<std::size_t>(100 * d + k)];
      const Tile all = tile_of(x.data(), {n, d});
      const auto whole = matrix(kernel, all, all);
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j)
          ASSERT_EQ(whole[static_cast<std::size_t>(i * n + j)], whole[static_cast<std::size_t>(j * n + i)]);
      for (const auto& [row, rows, col, cols] : {std::array<Index, 4>{3, 1, 5, 1}, {9, 6, 140, 1}, {1, 138, 2, 137}}) {
        const auto part = matrix(kernel, subtile(all, {{row, 0}, {rows, d}}), subtile(all, {{col, 0}, {cols, d}}));
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < cols; ++j)
            ASSERT_EQ(part[static_cast<std::size_t>(i * cols + j)],
                      whole[static_cast<std::size_t>((row + i) * n + col + j)]);
      }
      if (value == PairValue::linear || value == PairValue::polynomial) continue;
      for (Index i = 0; i < n; ++i)
        ASSERT_EQ(whole[static_cast<std::size_t>(i * n + i)], 1.0) << static_cast<int>(value);
      ASSERT_EQ(whole[7 * n + 100], 1.0) << static_cast<int>(value);  // the same point twice
    }
}

TEST(Pairs, TakeEveryDtypeAndStride) {
  std::vector<std::int8_t> x = {1, 2, 3, 4, 5, 6};  // three points of two coordinates, stored by columns
  Tile turned = tile_of(x.data(), {2, 3});
  std::swap(turned.shape[0], turned.shape[1]), std::swap(turned.strides[0], turned.strides[1]);
  std::vector<float> out(9);
  std::vector<std::byte> scratch(pair_scratch(2));
  pairs({.value = PairValue::linear}, turned, turned, tile_of(out.data(), {3, 3}), scratch.data());
  EXPECT_THAT(out, testing::ElementsAre(17, 22, 27, 22, 29, 36, 27, 36, 45));
}

TEST(Pairs, BelowTheSmallestNormalNumberAreZero) {
  std::vector<double> x = {0, 14, 37.7, 1e200};  // exp(-98), exp(-710.6): subnormal in float32, in float64
  std::vector<std::byte> scratch(pair_scratch(1));
  std::vector<float> narrow(4);
  pairs({}, tile_of(x.data(), {1, 1}), tile_of(x.data(), {4, 1}), tile_of(narrow.data(), {1, 4}), scratch.data());
  EXPECT_THAT(narrow, testing::ElementsAre(1, 0, 0, 0));
  std::vector<double> wide(4);
  for (const PairValue value : {PairValue::rbf, PairValue::matern12, PairValue::matern32, PairValue::matern52}) {
    pairs({.value = value}, tile_of(x.data(), {1, 1}), tile_of(x.data(), {4, 1}), tile_of(wide.data(), {1, 4}),
          scratch.data());
    EXPECT_EQ(wide[0], 1);
    EXPECT_GT(wide[1], 0);
    EXPECT_EQ(wide[3], 0) << static_cast<int>(value);
    for (const double v : wide) EXPECT_TRUE(v == 0 || std::isnormal(v));
  }
}

TEST(Pairs, LetNanThrough) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const PairValue value : all_values)
    for (const Index d : {2, 40}) {
      auto x = points(3, d, 5);
      x[static_cast<std::size_t>(d + 1)] = nan;
      const Tile all = tile_of(x.data(), {3, d});
      const auto found = matrix({.value = value}, all, all);
      for (std::size_t i = 0; i < 9; ++i)
        EXPECT_EQ(std::isnan(found[i]), i / 3 == 1 || i % 3 == 1) << static_cast<int>(value) << " " << i;
    }
}

}  // namespace
}  // namespace flagstone::kernel
