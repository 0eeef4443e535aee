#include "flagstone/algorithms/forest/orthant.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace flagstone::forest {
namespace {

struct Column {
  explicit Column(Index n)
      : numbers(static_cast<std::size_t>(Orthant::vectors * n)), trial(static_cast<std::size_t>(n)) {}
  std::vector<double> numbers, trial;
};

/// ½ Σ a (w - b)²: the least of ‖w‖₁ + it is b, moved by 1 / a towards 0.
TEST(Orthant, ShrinksWhatAColumnAloneWouldHave) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const Index n : {1, 2, 40}) {
    std::vector<double> a, b;
    for (Index j = 0; j < n; ++j) a.push_back(0.5 + std::abs(normal(random))), b.push_back(3 * normal(random));
    Column column(n);
    Orthant solver(column.numbers, column.trial, 1e-9, 500);
    std::vector<double> gradient(a.size());
    Index asked = 0;
    for (; !solver.done(); ++asked) {
      double f = 0;
      for (std::size_t j = 0; j < a.size(); ++j) {
        const double away = column.trial[j] - b[j];
        f += 0.5 * a[j] * away * away, gradient[j] = a[j] * away;
      }
      solver.told(f, gradient.data());
    }
    EXPECT_LT(asked, 200) << n;
    for (std::size_t j = 0; j < a.size(); ++j) {
      const double least = std::copysign(std::max(0.0, std::abs(b[j]) - 1 / a[j]), b[j]);
      EXPECT_NEAR(column.trial[j], least, 1e-6) << n << " " << j;
      if (least == 0) EXPECT_EQ(column.trial[j], 0) << "what rests at 0 is 0";
    }
  }
}

TEST(Orthant, EndsWhereNothingPullsAndAfterSoManySteps) {
  Column column(3);
  Orthant rests(column.numbers, column.trial, 0.01, 40);
  const std::vector<double> weak{0.5, -0.9, 0.0};
  rests.told(1, weak.data());
  EXPECT_TRUE(rests.done());
  EXPECT_EQ(column.trial, std::vector<double>(3, 0.0));
  Orthant goes_on(column.numbers, column.trial, 0.0, 4);
  Index asked = 0;
  for (; !goes_on.done(); ++asked) {
    std::vector<double> gradient;
    double f = 0;
    for (const double w : column.trial) {
      const double e = std::exp(w - 5);  // flat for long
      f += e - 2 * w, gradient.push_back(e - 2);
    }
    goes_on.told(f, gradient.data());
  }
  EXPECT_EQ(asked, 4);
  for (const double w : column.trial) EXPECT_TRUE(std::isfinite(w) && w > 0);
}

}  // namespace
}  // namespace flagstone::forest
