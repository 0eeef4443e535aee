// Blocks of the lower triangle, and factors and solves against naive twins, transposed and under small budgets.
#include "flagstone/algorithms/factor/cholesky.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "flagstone/algorithms/factor/lower_block.hpp"
#include "flagstone/algorithms/factor/solve.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone::linalg {
namespace {

using Complex = std::complex<double>;
constexpr Index n = 601;  // three tiles of 256, the last one ragged

TEST(LowerBlocks, CoverTheTriangleOnceAndAfterWhatTheyRead) {
  for (const Index tiles : {1, 2, 7, 12})
    for (Index rows = 1; rows <= tiles; ++rows)
      for (Index cols = 1; cols <= tiles; ++cols) {
        std::set<std::pair<Index, Index>> made;
        double read = 0;
        for (const LowerBlock& block : lower_blocks(tiles, {rows, cols})) {
          const auto mine = block.tiles([](Index, Index) { return true; });
          std::set<std::pair<Index, Index>> needed;
          for (const auto& [i, j] : mine) {
            EXPECT_LE(j, i);
            for (Index k = 0; k < j; ++k) needed.insert({i, k}), needed.insert({j, k});
            if (i > j) needed.insert({j, j});
          }
          const std::set<std::pair<Index, Index>> own(mine.begin(), mine.end());
          for (const auto& at : needed)
            if (!own.contains(at)) {
              EXPECT_TRUE(made.contains(at)) << at.first << ", " << at.second;
              ++read;
            }
          for (const auto& at : own) EXPECT_TRUE(made.insert(at).second);
        }
        EXPECT_EQ(made.size(), static_cast<std::size_t>(tiles * (tiles + 1) / 2));
        EXPECT_EQ(tiles_read(tiles, {rows, cols}), read) << tiles << ": " << rows << " x " << cols;
      }
}

TEST(LowerBlocks, AreAsLargeAsTheBudgetHolds) {
  const double tile = 8.0 * MiB, flops = 2e9;
  const BlockExtent all = choose_lower_block(16, tile, flops, 4096 * MiB, 2);
  EXPECT_EQ(tiles_read(16, all), 0);  // one block
  const BlockExtent quarter = choose_lower_block(16, tile, flops, 512 * MiB, 2);
  EXPECT_LE(static_cast<double>(quarter.rows * quarter.cols) * tile, 512.0 * MiB);
  EXPECT_LT(tiles_read(16, quarter), 400);  // 9 x 9 and smaller squares read more than slabs here
  const BlockExtent least = choose_lower_block(16, tile, flops, 1, 2);
  EXPECT_EQ(least.rows * least.cols, 1);
}

struct Case {
  std::vector<Complex> a, l, b, x;
};

/// Diagonally dominant and Hermitian; what is not to be read is NaN.
Case make(bool upper) {
  Case made{std::vector<Complex>(n * n, NAN), std::vector<Complex>(n * n), std::vector<Complex>(n * 3),
            std::vector<Complex>(n * 3)};
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j <= i; ++j) {
      const Complex value = i == j ? Complex(2) : Complex(std::cos(double(i * j)), std::sin(double(i + j))) / double(n);
      made.a[upper ? j * n + i : i * n + j] = upper ? std::conj(value) : value;
    }
  for (std::size_t i = 0; i < made.b.size(); ++i) made.b[i] = Complex(std::sin(double(i)), 1);
  return made;
}

Array array_of(std::vector<Complex>& values, Index rows, Index cols) {
  return memory_array(reinterpret_cast<std::byte*>(values.data()), {rows, cols}, Dtype::complex128, {});
}

void run(int workers, const std::function<void(Graph&)>& build, std::uint64_t budget = 64 * MiB) {
  RuntimeOptions options;
  options.workers = workers;
  options.scratch = std::filesystem::temp_directory_path();
  const auto ring = make_ring();
  Executor(*ring, options, {options.scratch, "test", {}}, budget, {}).run(build);
}

TEST(Cholesky, FactorsEitherTriangleAndSolves) {
  for (const bool upper : {false, true}) {
    Case test = make(upper);
    const Array a = array_of(test.a, n, n), l = array_of(test.l, n, n);
    run(2, [&](Graph& graph) { cholesky(graph, {a, upper}, {l, upper}, {.shift = 0.5}); });
    const auto at = [&](Index i, Index j) { return upper ? std::conj(test.l[j * n + i]) : test.l[i * n + j]; };
    for (Index i = 0; i < n; i += 7)
      for (Index j = 0; j <= i; j += 5) {
        Complex sum = 0;
        for (Index k = 0; k <= j; ++k) sum += at(i, k) * std::conj(at(j, k));
        const Complex value = upper ? std::conj(test.a[j * n + i]) : test.a[i * n + j];
        // Higham, theorem 10.3: |A - L Lᴴ| <= (n + 1) eps |L| |Lᴴ|.
        ASSERT_LE(std::abs(sum - value - (i == j ? 0.5 : 0.0)), 3.0 * n * 0x1p-52) << i << ", " << j;
      }
    for (Index i = 0; i < n; ++i)
      for (Index j = i + 1; j < n; ++j) ASSERT_EQ(at(i, j), Complex(0));
    const Array b = array_of(test.b, n, 3), x = array_of(test.x, n, 3);
    const TriangularOperand first = upper ? adjoint({{l}, false}) : TriangularOperand{{l}};
    run(2, [&](Graph& graph) { substitute(graph, "test", {first, adjoint(first)}, {b}, x); });
    // A few rows at a time, and what lies between the sweeps elsewhere: the same bits.
    std::vector<Complex> noted(test.x.size());
    run(1, [&](Graph& graph) {
      substitute(graph, "test", {first, adjoint(first)}, {b}, array_of(noted, n, 3), {.saved = true});
    });
    ASSERT_EQ(noted, test.x);
    for (Index i = 0; i < n; i += 11)
      for (Index c = 0; c < 3; ++c) {
        Complex sum = 0.5 * test.x[i * 3 + c];
        for (Index j = 0; j < n; ++j) {
          const bool stored = upper ? i <= j : j <= i;
          const Complex value = stored ? test.a[i * n + j] : std::conj(test.a[j * n + i]);
          sum += value * test.x[j * 3 + c];
        }
        ASSERT_LE(std::abs(sum - test.b[i * 3 + c]), 20.0 * n * 0x1p-52);
      }
  }
}

TEST(Cholesky, TellsTheMinorAndWhatDoesNotConform) {
  Case test = make(false);
  test.a[400 * n + 400] = -3;
  const Array a = array_of(test.a, n, n), l = array_of(test.l, n, n), b = array_of(test.b, n, 3);
  try {
    run(1, [&](Graph& graph) { cholesky(graph, {a}, {l}, {}); });
    FAIL();
  } catch (const PivotError& error) {
    EXPECT_EQ(error.index, 401);
  }
  EXPECT_THROW(check_cholesky("cholesky", {b}), ShapeError);
  EXPECT_THROW(run(1, [&](Graph& graph) { cholesky(graph, {a}, {b}, {}); }), ShapeError);
  EXPECT_THROW(check_substitute("test", {{b}}, {b}, nullptr), ShapeError);
}

TEST(SolveDefinite, HasTheBitsOfItsTwoParts) {
  Case test = make(false), parts = make(false);
  run(2, [&](Graph& graph) {
    solve_definite(graph, "solve", {array_of(test.a, n, n)}, {array_of(test.b, n, 3)}, array_of(test.x, n, 3));
  });
  const Array l = array_of(parts.l, n, n);
  run(1, [&](Graph& graph) { cholesky(graph, {array_of(parts.a, n, n)}, {l}, {}); });
  run(1, [&](Graph& graph) {
    substitute(graph, "test", {{{l}}, adjoint({{l}})}, {array_of(parts.b, n, 3)}, array_of(parts.x, n, 3));
  });
  EXPECT_EQ(test.x, parts.x);
}

TEST(SolveDefinite, ItsForwardHalfOnTheWayHasTheSameBitsUnderEveryBudgetAndCopiesTheDiagonal) {
  Case expected = make(false);
  run(1, [&](Graph& graph) {
    const Array l = array_of(expected.l, n, n);
    cholesky(graph, {array_of(expected.a, n, n)}, {l}, {.shift = 0.5});
    substitute(graph, "test", {{{l}}, adjoint({{l}})}, {array_of(expected.b, n, 3)}, array_of(expected.x, n, 3));
  });
  // Blocks of one tile; and right-hand sides that take more than an eighth, which come after the factorization.
  for (const std::uint64_t budget : {6 * MiB, 16 * MiB, 64 * MiB}) {
    for (const bool beside : {false, true}) {
      Case test = make(false);
      std::vector<Complex> diagonal(n);
      const Array l = array_of(test.l, n, n), b = array_of(test.b, n, 3), x = array_of(test.x, n, 3);
      const Array kept = memory_array(reinterpret_cast<std::byte*>(diagonal.data()), {n}, Dtype::complex128, {});
      run(
          2,
          [&](Graph& graph) {
            const Array a = array_of(test.a, n, n);
            if (!beside) return factor_and_solve(graph, {a}, {l}, {.shift = 0.5}, {b}, x, &kept);
            cholesky(graph, {a}, {l}, {.shift = 0.5});
            substitute(graph, "test", {{{l}}}, {b}, x, {.diagonal = &kept});
            substitute(graph, "test", {adjoint({{l}})}, {x}, x);
          },
          budget);
      EXPECT_EQ(test.l, expected.l);
      EXPECT_EQ(test.x, expected.x);
      for (Index i = 0; i < n; ++i) ASSERT_EQ(diagonal[i], test.l[i * n + i]);
    }
  }
}

}  // namespace
}  // namespace flagstone::linalg
