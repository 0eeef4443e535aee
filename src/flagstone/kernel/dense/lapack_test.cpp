#include "flagstone/kernel/dense/lapack.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace flagstone::kernel {
namespace {

using Matrix = std::vector<double>;
constexpr double eps = std::numeric_limits<double>::epsilon();

Matrix random_matrix(Index rows, Index cols, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Matrix a(static_cast<std::size_t>(rows * cols));
  for (double& x : a) x = normal(engine);
  return a;
}

/// max |vᵀv - 1|
double orthogonality(Index n, Index b, const Matrix& v) {
  double worst = 0;
  for (Index i = 0; i < b; ++i)
    for (Index j = 0; j < b; ++j) {
      double sum = i == j ? -1.0 : 0.0;
      for (Index r = 0; r < n; ++r) sum += v[r * b + i] * v[r * b + j];
      worst = std::max(worst, std::abs(sum));
    }
  return worst;
}

void check_qr(Index n, Index b, const Matrix& w, double scale) {
  Matrix v = w, r(static_cast<std::size_t>(b * b), 7.0);
  ASSERT_EQ(qr(n, b, v.data(), r.data()), 0);
  EXPECT_LE(orthogonality(n, b, v), 10 * eps * std::sqrt(static_cast<double>(n * b)));
  for (Index i = 0; i < b; ++i)
    for (Index j = 0; j < i; ++j) EXPECT_EQ(r[i * b + j], 0.0);
  double worst = 0;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < b; ++j) {
      double sum = -w[i * b + j];
      for (Index k = 0; k < b; ++k) sum += v[i * b + k] * r[k * b + j];
      worst = std::max(worst, std::abs(sum));
    }
  EXPECT_LE(worst, 20 * eps * static_cast<double>(b) * scale);
}

TEST(Qr, WellConditioned) {
  check_qr(300, 17, random_matrix(300, 17, 1), 20.0);
  check_qr(5, 5, random_matrix(5, 5, 2), 10.0);
  check_qr(9, 1, random_matrix(9, 1, 3), 10.0);
}

TEST(Qr, ColumnsOfVeryDifferentLength) {
  const Index n = 200, b = 8;
  Matrix w = random_matrix(n, b, 4);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < b; ++j) w[i * b + j] *= std::pow(10.0, -static_cast<double>(3 * j));
  check_qr(n, b, w, 20.0);
}

TEST(Qr, DependentAndZeroColumnsStillGiveOrthonormalOnes) {
  const Index n = 120, b = 6;
  Matrix w = random_matrix(n, b, 5);
  for (Index i = 0; i < n; ++i) w[i * b + 3] = w[i * b + 1] + 1e-13 * w[i * b + 0], w[i * b + 5] = 0;
  check_qr(n, b, w, 20.0);
  check_qr(n, b, Matrix(static_cast<std::size_t>(n * b), 0.0), 1.0);
}

TEST(SymmetricEigen, PairsFromTheLowerTriangle) {
  const Index n = 60;
  Matrix a = random_matrix(n, n, 6);
  for (Index i = 0; i < n; ++i)
    for (Index j = i + 1; j < n; ++j) a[i * n + j] = 1e9;  // not read
  Matrix v = a, values(n);
  ASSERT_EQ(symmetric_eigen(n, v.data(), values.data()), 0);
  const auto at = [&](Index i, Index j) { return i >= j ? a[i * n + j] : a[j * n + i]; };
  for (Index k = 0; k < n; ++k) {
    if (k > 0) {
      EXPECT_LE(values[k - 1], values[k]);
    }
    for (Index i = 0; i < n; ++i) {
      double sum = -values[k] * v[k * n + i];
      for (Index j = 0; j < n; ++j) sum += at(i, j) * v[k * n + j];
      EXPECT_LE(std::abs(sum), 100 * eps * n);
    }
  }
}

TEST(Svd, Reconstructs) {
  const Index n = 25;
  const Matrix a = random_matrix(n, n, 7);
  Matrix copy = a, s(n), u(n * n), vt(n * n);
  ASSERT_EQ(svd(n, copy.data(), s.data(), u.data(), vt.data()), 0);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = -a[i * n + j];
      for (Index k = 0; k < n; ++k) sum += u[i * n + k] * s[k] * vt[k * n + j];
      EXPECT_LE(std::abs(sum), 100 * eps * n);
    }
  for (Index k = 1; k < n; ++k) EXPECT_GE(s[k - 1], s[k]);
}

}  // namespace
}  // namespace flagstone::kernel
