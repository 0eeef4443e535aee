// LU in both row orders and both storages against the matrix itself; solves; small budgets; zero pivots.
#include "flagstone/algorithms/factor/lu.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "flagstone/algorithms/factor/lu_transposed.hpp"
#include "flagstone/algorithms/factor/lu_triangles.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone::linalg {
namespace {

constexpr Index n = 333, m = 5;  // three tiles of 128, the last one ragged

Array array_of(std::vector<double>& values, Index rows, Index cols) {
  return memory_array(reinterpret_cast<std::byte*>(values.data()), {rows, cols}, Dtype::float64, {});
}

Array pivots_of(std::vector<std::int64_t>& values) {
  return memory_array(reinterpret_cast<std::byte*>(values.data()), {n}, Dtype::int64, {});
}

void run(std::uint64_t budget, const std::function<void(Graph&)>& build) {
  RuntimeOptions options;
  options.workers = 2;
  options.scratch = std::filesystem::temp_directory_path();
  const auto ring = make_ring();
  Executor(*ring, options, {options.scratch, "test", {}}, budget, {}).run(build);
}

std::vector<double> random(Index count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(generator);
  return values;
}

/// max |b - A x|, over n ‖A‖ ‖x‖ in the maximum norms.
double residual(const std::vector<double>& a, const std::vector<double>& x, const std::vector<double>& b) {
  double worst = 0, rows = 0, largest = 0;
  for (Index i = 0; i < n; ++i) {
    double row = 0;
    for (Index j = 0; j < n; ++j) row += std::abs(a[i * n + j]);
    rows = std::max(rows, row);
    for (Index c = 0; c < m; ++c) {
      double sum = b[i * m + c];
      for (Index j = 0; j < n; ++j) sum -= a[i * n + j] * x[j * m + c];
      worst = std::max(worst, std::abs(sum)), largest = std::max(largest, std::abs(x[i * m + c]));
    }
  }
  return worst / (rows * largest * n);
}

TEST(Lu, IsLapacksFactorInTheEnd) {
  auto a = random(n * n, 1), lu_values = std::vector<double>(n * n);
  for (Index i = 0; i < 150; ++i)
    for (Index j = 0; j < 150; ++j) a[i * n + j] = 0;  // pivots come from beyond the first tile
  std::vector<std::int64_t> pivots(n);
  const LuColumns factor(array_of(lu_values, n, n), lu_tile(n));
  ASSERT_EQ(factor.count(), 3);
  run(64 * MiB, [&](Graph& graph) { lu(graph, "test", {array_of(a, n, n)}, factor, pivots_of(pivots), {}); });
  auto rows = a;  // P A
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) std::swap(rows[i * n + j], rows[pivots[i] * n + j]);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index k = 0; k <= std::min(i, j); ++k) sum += (k == i ? 1 : lu_values[i * n + k]) * lu_values[k * n + j];
      ASSERT_NEAR(sum, rows[i * n + j], 50 * n * 0x1p-52) << i << ", " << j;
      if (i > j) ASSERT_LE(std::abs(lu_values[i * n + j]), 1);
    }
}

TEST(Lu, SolvesInEitherRowOrderWithTheSameBitsForEveryBudget) {
  auto a = random(n * n, 2), b = random(n * m, 3);
  std::vector<std::vector<double>> solutions;
  for (const std::uint64_t budget : {2 * MiB, 64 * MiB})
    for (const bool transpose : {false, true}) {
      std::vector<double> x(n * m);
      run(budget, [&](Graph& graph) {
        solve_general(graph, "solve", {array_of(a, n, n), transpose}, {array_of(b, n, m)}, array_of(x, n, m));
      });
      auto seen = a;
      for (Index i = 0; i < n && transpose; ++i)
        for (Index j = 0; j < n; ++j) seen[i * n + j] = a[j * n + i];
      EXPECT_LE(residual(seen, x, b), 0x1p-52);
      solutions.push_back(x);
    }
  EXPECT_EQ(solutions[0], solutions[2]);
  EXPECT_EQ(solutions[1], solutions[3]);

  std::vector<double> values(n * n), x(n * m);
  std::vector<std::int64_t> rows(n);
  const Array pivots = pivots_of(rows);
  const LuColumns factor(array_of(values, n, n), lu_tile(n));
  run(64 * MiB, [&](Graph& graph) {
    lu(graph, "test", {array_of(a, n, n)}, factor, pivots, {});
    lu_solve(graph, "test", factor, pivots, RowOrder::lapack, {array_of(b, n, m)}, array_of(x, n, m));
  });
  EXPECT_LE(residual(a, x, b), 0x1p-52);
}

TEST(Lu, SolvesWithTheTransposeInEitherRowOrder) {
  auto a = random(n * n, 6), b = random(n * m, 7);
  auto seen = a;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) seen[i * n + j] = a[j * n + i];
  for (const RowOrder order : {RowOrder::lapack, RowOrder::interleaved})
    for (const std::uint64_t budget : {3 * MiB, 64 * MiB}) {
      std::vector<double> values(n * n), x(n * m), diagonal(n);
      std::vector<std::int64_t> rows(n);
      const Array pivots = pivots_of(rows);
      const Array kept = memory_array(reinterpret_cast<std::byte*>(diagonal.data()), {n}, Dtype::float64, {});
      const LuColumns factor(array_of(values, n, n), lu_tile(n));
      run(budget, [&](Graph& graph) {
        lu(graph, "test", {array_of(a, n, n)}, factor, pivots, {.rows = order});
        lu_solve_transposed(graph, "test", factor, pivots, order, false, {array_of(b, n, m)}, array_of(x, n, m),
                            {.diagonal = &kept});
      });
      EXPECT_LE(residual(seen, x, b), 0x1p-52);
      for (Index i = 0; i < n; ++i) ASSERT_EQ(diagonal[i], values[i * n + i]);
    }
}

TEST(Lu, ItsTrianglesApartAreThoseTogether) {
  auto a = random(n * n, 8);
  std::vector<double> values(n * n), lower(n * n, 0), upper(n * n, 0);
  std::vector<std::int64_t> rows(n), again(n);
  run(3 * MiB, [&](Graph& graph) {
    lu(graph, "test", {array_of(a, n, n)}, {array_of(values, n, n), lu_tile(n)}, pivots_of(rows), {});
  });
  run(3 * MiB, [&](Graph& graph) {
    lu_triangles(graph, "test", {array_of(a, n, n)}, array_of(lower, n, n), array_of(upper, n, n), pivots_of(again));
  });
  EXPECT_EQ(rows, again);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) {
      ASSERT_EQ(lower[i * n + j], i == j ? 1 : i > j ? values[i * n + j] : 0) << i << ", " << j;
      ASSERT_EQ(upper[i * n + j], i <= j ? values[i * n + j] : 0) << i << ", " << j;
    }
}

TEST(Lu, AZeroPivotStopsSolvesAlone) {
  auto a = random(n * n, 4), b = random(n * m, 5);
  for (Index i = 0; i < n; ++i) a[i * n + 200] = 0;
  std::vector<double> x(n * m);
  try {
    run(64 * MiB, [&](Graph& graph) {
      solve_general(graph, "solve", {array_of(a, n, n)}, {array_of(b, n, m)}, array_of(x, n, m));
    });
    FAIL();
  } catch (const PivotError& error) {
    EXPECT_EQ(error.index, 201);
  }
  EXPECT_THROW(check_lu("test", {array_of(b, n, m)}), ShapeError);
}

}  // namespace
}  // namespace flagstone::linalg
