// Sums that no order shows in, against exact ones of their own; folds of points in any pieces.
#include "flagstone/kernel/stencil/point_fold.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "flagstone/base/error.hpp"

namespace flagstone::kernel {
namespace {

double sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum.value();
}

TEST(ExactSum, IsRoundedOnce) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1e300, 1, -1e300}), 1);
  EXPECT_EQ(sum_of({0x1p53, 1, 0x1p-60}), 0x1p53 + 2) << "above the middle";
  EXPECT_EQ(sum_of({0x1p53, 1}), 0x1p53) << "the middle goes to the even one";
  EXPECT_EQ(sum_of({-0x1p53, -1, -0x1p-60}), -0x1p53 - 2);
  EXPECT_EQ(sum_of({0x1p-1074, 0x1p-1074}), 0x1p-1073);
  EXPECT_EQ(sum_of({0x1.fffffffffffffp1023, -0x1p1023, -0x1p1023, 0x1p971}), 0) << "beyond all doubles on the way";
  EXPECT_EQ(sum_of({0x1p1023, 0x1p1023}), INFINITY);
  EXPECT_TRUE(std::isnan(sum_of({INFINITY, -INFINITY})));
  EXPECT_TRUE(std::isnan(sum_of({1, NAN})));
}

TEST(ExactSum, HasNoOrder) {
  std::mt19937_64 random(3);
  std::vector<double> terms;
  for (int i = 0; i < 2000; ++i)
    terms.push_back(
        std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), static_cast<int>(random() % 900) - 500));
  const double wanted = sum_of(terms);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(terms.begin(), terms.end(), random);
    ExactSum parts[3], all;
    for (std::size_t i = 0; i < terms.size(); ++i) parts[i * i % 3].add(terms[i]);
    for (const ExactSum& part : parts) all.add(part);
    EXPECT_EQ(all.value(), wanted);
  }
  std::vector<double> opposite = terms;
  for (double& term : opposite) term = -term;
  EXPECT_EQ(sum_of(opposite), -wanted);
}

TEST(PointFold, PiecesMakeTheWhole) {
  using enum FoldKind;
  const Axes shape{3, 4, 5};
  std::vector<float> before(60), after(60);
  for (std::size_t i = 0; i < 60; ++i)
    before[i] = static_cast<float>(i % 7) - 3, after[i] = static_cast<float>((i * i) % 11) - 5;
  after[17] = -0.0F, after[44] = INFINITY;
  const auto points = [&](std::vector<float>& values) {
    return Points{reinterpret_cast<std::byte*>(values.data()), {0, 0, 0}, {80, 20, 4}};
  };
  PointFold whole(Dtype::float32, {max, min, sum, l2, change}, true), pieces = whole;
  whole.add(points(before), points(after), {{0, 0, 0}, shape}, shape);
  for (Index z = 2; z >= 0; --z)
    for (const auto [first, last] : {std::pair<Index, Index>{3, 4}, {0, 3}}) {
      PointFold piece(Dtype::float32, {max, min, sum, l2, change}, true);
      piece.add(points(before), points(after), {{z, first, 0}, {z + 1, last, 5}}, shape);
      pieces.merge(piece);
    }
  EXPECT_EQ(pieces.points(), 60);
  EXPECT_EQ(pieces.first_not_finite(), 44);
  for (const FoldKind kind : {max, min, sum, l2, change}) EXPECT_EQ(pieces.number(kind), whole.number(kind));
  EXPECT_EQ(whole.number(min), -5);
  EXPECT_EQ(whole.number(max), INFINITY);
  after[44] = NAN;
  PointFold bad(Dtype::float32, {max, sum}, false);
  bad.add(points(before), points(after), {{0, 0, 0}, shape}, shape);
  EXPECT_TRUE(std::isnan(bad.number(max)));
  EXPECT_TRUE(std::isnan(bad.number(sum)));
}

TEST(PointFold, IntegersAreExactAndComplexNumbersHaveNoOrder) {
  const Axes shape{1, 1, 3};
  std::vector<std::int64_t> before{std::numeric_limits<std::int64_t>::min(), 0, 1},
      after{std::numeric_limits<std::int64_t>::max(), 5, -1};
  const auto points = [&](std::vector<std::int64_t>& values) {
    return Points{reinterpret_cast<std::byte*>(values.data()), {0, 0, 0}, {24, 24, 8}};
  };
  PointFold fold(Dtype::int64, {FoldKind::change, FoldKind::max, FoldKind::sum}, true);
  fold.add(points(before), points(after), {{0, 0, 0}, shape}, shape);
  std::uint64_t change = 0;
  fold.value(FoldKind::change, reinterpret_cast<std::byte*>(&change));
  EXPECT_EQ(change, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(fold.first_not_finite(), PointFold::none);
  EXPECT_EQ(dtype_of_fold(FoldKind::change, Dtype::int8), Dtype::uint64);
  EXPECT_THROW(dtype_of_fold(FoldKind::max, Dtype::complex64), ShapeError);
}

}  // namespace
}  // namespace flagstone::kernel
