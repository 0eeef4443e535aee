// Eigenpairs of functions: a Laplacian whose spectrum is known, a Hermitian one, bad input.
#include "flagstone/flash/eigsh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::flash {
namespace {

constexpr Index n = 400, k = 5;

/// y := A x, A the path's Laplacian with phases on its edges, which leave the values: 2 - 2 cos(j π / (n + 1)).
template <class T>
void path(const T* x, T* y, Index b) {
  T phase{1};
  if constexpr (!std::is_same_v<T, double>) phase = {0.6, 0.8};
  const auto conj = [](T z) {
    if constexpr (std::is_same_v<T, double>)
      return z;
    else
      return std::conj(z);
  };
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < b; ++j) {
      T sum = 2.0 * x[i * b + j];
      if (i > 0) sum -= conj(phase) * x[(i - 1) * b + j];
      if (i + 1 < n) sum -= phase * x[(i + 1) * b + j];
      y[i * b + j] = sum;
    }
}

double value(Index j) { return 2 - 2 * std::cos(static_cast<double>(j) * std::numbers::pi / (n + 1)); }

template <class T>
void check(const std::vector<T>& v, const std::vector<double>& values) {
  std::vector<T> y(v.size());
  path<T>(v.data(), y.data(), k);
  for (Index j = 0; j < k; ++j) {
    EXPECT_NEAR(values[static_cast<std::size_t>(j)], value(n - j), 1e-9);
    double off = 0, length = 0;
    for (Index i = 0; i < n; ++i) {
      off += std::norm(y[static_cast<std::size_t>(i * k + j)] -
                       values[static_cast<std::size_t>(j)] * v[static_cast<std::size_t>(i * k + j)]);
      length += std::norm(v[static_cast<std::size_t>(i * k + j)]);
    }
    EXPECT_NEAR(length, 1, 1e-10);
    EXPECT_LE(std::sqrt(off), 1e-8 * 4);  // tol λ
  }
}

template <class T>
class FlashEigsh : public ::testing::Test {};
using Numbers = ::testing::Types<double, std::complex<double>>;
TYPED_TEST_SUITE(FlashEigsh, Numbers);

TYPED_TEST(FlashEigsh, FindsThePairsOfAFunction) {
  using T = TypeParam;
  TemporaryDirectory folder;
  Runtime runtime({.memory = 4 * GiB, .workers = 2, .scratch = folder / "scratch"});
  std::vector<T> vectors(n * k), stored(n * k);
  const Eigenpairs here = eigsh<T>(runtime, n, k, path<T>, vectors.data(), {.which = "LA", .tol = 1e-8});
  EXPECT_TRUE(here.converged);
  EXPECT_TRUE(here.verified);
  check(vectors, here.values);
  const auto file = flash_malloc<T>(runtime, n * k);
  const Eigenpairs there = eigsh<T>(runtime, n, k, path<T>, file, {.which = "LA", .tol = 1e-8});
  read_sync(stored.data(), file, Contiguous{n * k});
  EXPECT_EQ(stored, vectors);
  EXPECT_EQ(there.values, here.values);
  EXPECT_GT(there.applications, 0);
  EXPECT_EQ(there.residuals.size(), static_cast<std::size_t>(k));
}

TEST(FlashEigshInput, IsNamed) {
  Runtime runtime({.memory = 4 * GiB, .workers = 1});
  std::vector<double> vectors(n * k);
  const auto with = [&](Index wanted, EigshOptions options) {
    eigsh<double>(runtime, n, wanted, path<double>, vectors.data(), options);
  };
  EXPECT_THROW(with(0, {}), ShapeError);
  EXPECT_THROW(with(n + 1, {}), ShapeError);
  EXPECT_THROW(with(k, {.which = "XX"}), ShapeError);
  EXPECT_THROW(with(k, {.ncv = k}), ShapeError);
  EXPECT_THROW(eigsh<double>(runtime, n, k, path<double>, static_cast<double*>(nullptr)), ShapeError);
  const auto fails = [](const double*, double*, Index) { throw std::logic_error("mine"); };
  EXPECT_THROW(eigsh<double>(runtime, n, k, fails, vectors.data()), std::logic_error);
  const auto skew = [](const double* x, double* y, Index b) {  // no symmetric matrix: a shift of rows
    for (Index i = 0; i < n * b; ++i) y[i] = i < b ? 0 : 2 * x[i - b];
  };
  EXPECT_THROW(eigsh<double>(runtime, n, k, skew, vectors.data()), Error);
}

TEST(FlashEigshInput, OfTooFewApplicationsIsReachedNotConverged) {
  Runtime runtime({.memory = 4 * GiB, .workers = 1});
  std::vector<double> vectors(n * k);
  const Eigenpairs found =
      eigsh<double>(runtime, n, k, path<double>, vectors.data(), {.tol = 1e-10, .applications = 2});
  EXPECT_FALSE(found.converged);
  EXPECT_EQ(found.values.size(), static_cast<std::size_t>(k));
}

}  // namespace
}  // namespace flagstone::flash
