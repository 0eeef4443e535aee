// The kernels of factorizations against their naive twins: four dtypes, both orders, every op, padding, NaN beside the
// triangle that counts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/factor/getrf.hpp"
#include "flagstone/kernel/factor/herk.hpp"
#include "flagstone/kernel/factor/potrf.hpp"
#include "flagstone/kernel/factor/take.hpp"
#include "flagstone/kernel/factor/trsm.hpp"
#include "flagstone/kernel/reference/reference.hpp"

namespace flagstone::kernel {
namespace {

using reference::Wide;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
const auto dtypes = testing::Values(Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128);

double epsilon(Dtype dtype) { return real_part_of(dtype) == Dtype::float32 ? 0x1p-23 : 0x1p-52; }

/// A tile of its own memory: by rows or by columns, with padding.
struct Owned {
  Owned(Index rows, Index cols, Dtype dtype, bool by_rows, Index pad = 2) {
    const auto item = static_cast<Index>(size_of(dtype));
    const Index ld = (by_rows ? cols : rows) + pad;
    memory.resize(static_cast<std::size_t>(item * std::max<Index>(1, ld * (by_rows ? rows : cols))));
    tile = {memory.data(), dtype, {rows, cols}, by_rows ? Shape{ld * item, item} : Shape{item, ld * item}, 0};
  }
  void fill(std::mt19937& random) {
    std::normal_distribution<double> normal;
    for (Index i = 0; i < tile.shape[0]; ++i)
      for (Index j = 0; j < tile.shape[1]; ++j)
        reference::set(tile, i, j, {normal(random), is_complex(tile.dtype) ? normal(random) : 0});
  }
  std::vector<std::byte> memory;
  Tile tile;
};

/// The same elements in the widest dtype, by rows.
Owned widened(const Tile& tile) {
  Owned wide(tile.shape[0], tile.shape[1], Dtype::complex128, true, 0);
  for (Index i = 0; i < tile.shape[0]; ++i)
    for (Index j = 0; j < tile.shape[1]; ++j) reference::set(wide.tile, i, j, reference::get(tile, i, j));
  return wide;
}

bool in_triangle(Uplo uplo, Index i, Index j) { return uplo == Uplo::lower ? i >= j : i <= j; }

/// Elements of the triangle are near, the others hold what they held (NaN).
void expect_triangle(Uplo uplo, const Tile& got, const Tile& want, double bound) {
  for (Index i = 0; i < got.shape[0]; ++i)
    for (Index j = 0; j < got.shape[1]; ++j) {
      const Wide value = reference::get(got, i, j);
      if (in_triangle(uplo, i, j))
        ASSERT_LE(std::abs(value - reference::get(want, i, j)), bound) << i << ", " << j;
      else
        ASSERT_TRUE(std::isnan(value.real())) << i << ", " << j;
    }
}

/// One triangle of a Hermitian matrix whose condition is about 4; NaN in the other.
void make_definite(const Tile& a, Uplo uplo, std::mt19937& random) {
  const Index n = a.shape[0];
  std::normal_distribution<double> normal;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j <= i; ++j) {
      const Wide x(0.5 * normal(random) / std::sqrt(static_cast<double>(n)),
                   is_complex(a.dtype) && i != j ? 0.5 * normal(random) / std::sqrt(static_cast<double>(n)) : 0);
      const Wide value = i == j ? Wide(3) : x;
      if (i != j) reference::set(a, i, j, nan), reference::set(a, j, i, nan);
      uplo == Uplo::lower ? reference::set(a, i, j, value) : reference::set(a, j, i, std::conj(value));
    }
}

Tile rows_of(const Tile& tile, Index rows) { return subtile(tile, {{0, 0}, {rows, tile.shape[1]}}); }

class Kernels : public testing::TestWithParam<Dtype> {
 protected:
  std::mt19937 random_{7};
};

TEST_P(Kernels, PotrfFactorsEitherTriangleInEitherOrder) {
  for (const Index n : {0, 1, 2, 7, 33, 130})
    for (const bool by_rows : {true, false})
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        Owned a(n, n, GetParam(), by_rows);
        make_definite(a.tile, uplo, random_);
        Owned want = widened(a.tile);
        ASSERT_EQ(reference::cholesky(want.tile, uplo == Uplo::lower), 0);
        ASSERT_EQ(potrf(uplo, a.tile), 0);
        // Higham, theorem 10.5: |A - L Lᴴ| <= (n + 1) eps |L| |Lᴴ|; the factor moves by the condition at most.
        expect_triangle(uplo, a.tile, want.tile, 20.0 * static_cast<double>(n + 1) * epsilon(GetParam()));
      }
}

TEST_P(Kernels, PotrfTellsTheMinorForZeroNaNAndInf) {
  for (const double bad : {0.0, -4.0, nan, std::numeric_limits<double>::infinity()})
    for (const bool by_rows : {true, false})
      for (const Index where : {0, 3, 69}) {
        Owned a(70, 70, GetParam(), by_rows);
        make_definite(a.tile, Uplo::lower, random_);
        reference::set(a.tile, where, where, bad);
        EXPECT_EQ(potrf(Uplo::lower, a.tile), where + 1) << bad;
      }
  Owned beside(9, 9, GetParam(), true);
  make_definite(beside.tile, Uplo::lower, random_);
  reference::set(beside.tile, 6, 2, nan);
  EXPECT_EQ(potrf(Uplo::lower, beside.tile), 7);
  EXPECT_THROW(potrf(Uplo::lower, Owned(3, 4, GetParam(), true).tile), ShapeError);
}

TEST_P(Kernels, TrsmSolvesOnEverySideWithEveryOp) {
  const Dtype dtype = GetParam();
  const Index m = 23, n = 9;
  for (int bits = 0; bits < 128; ++bits) {
    const bool a_rows = bits & 1, b_rows = bits & 2, unit = bits & 4;
    const Triangle how{bits & 8 ? Uplo::lower : Uplo::upper, {bool(bits & 16), bool(bits & 32)}, unit};
    const Side side = bits & 64 ? Side::left : Side::right;
    const Index order = side == Side::left ? m : n;
    Owned a(order, order, dtype, a_rows), b(m, n, dtype, b_rows);
    make_definite(a.tile, how.uplo, random_);
    if (unit)
      for (Index i = 0; i < order; ++i) reference::set(a.tile, i, i, nan);
    b.fill(random_);
    Owned want = widened(b.tile);
    const Wide alpha = is_complex(dtype) ? Wide(0.5, -2) : Wide(-2);
    const bool is_lower = (how.uplo == Uplo::lower) != how.op.transpose;
    Tile x = want.tile;
    if (side == Side::left) {
      reference::solve(is_lower, unit, alpha, a.tile, how.op.transpose, how.op.conjugate, x);
    } else {  // X op(A) = alpha B: op(A)ᵀ Xᵀ = alpha Bᵀ
      std::swap(x.shape[0], x.shape[1]), std::swap(x.strides[0], x.strides[1]);
      reference::solve(!is_lower, unit, alpha, a.tile, !how.op.transpose, how.op.conjugate, x);
    }
    trsm(side, how, alpha, a.tile, b.tile);
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j)
        ASSERT_LE(std::abs(reference::get(b.tile, i, j) - reference::get(want.tile, i, j)),
                  100.0 * static_cast<double>(order) * epsilon(dtype))
            << bits;
  }
}

TEST_P(Kernels, HerkUpdatesOneTriangleForEveryOp) {
  const Dtype dtype = GetParam();
  for (const auto& [n, k] : {std::pair<Index, Index>{21, 13}, {1, 6}, {6, 1}, {1, 1}, {5, 0}})
    for (int bits = 0; bits < 64; ++bits) {
      const bool a_rows = bits & 1, c_rows = bits & 2;
      const Op op{bool(bits & 4), bool(bits & 8)};
      const Uplo uplo = bits & 16 ? Uplo::lower : Uplo::upper;
      const double beta = bits & 32 ? 1 : 0;
      Owned a = op.transpose ? Owned(k, n, dtype, a_rows) : Owned(n, k, dtype, a_rows);
      Owned c(n, n, dtype, c_rows);
      a.fill(random_), make_definite(c.tile, uplo, random_);
      Owned want = widened(c.tile), left = widened(a.tile);
      reference::gemm(-1, left.tile, op.transpose, op.conjugate, left.tile, !op.transpose, !op.conjugate, beta,
                      want.tile);
      std::vector<std::byte> scratch(herk_scratch(a.tile, op, c.tile));
      herk(uplo, -1, a.tile, op, beta, c.tile, scratch.empty() ? nullptr : scratch.data());
      expect_triangle(uplo, c.tile, want.tile, 100.0 * static_cast<double>(k + 2) * epsilon(dtype));
    }
}

TEST_P(Kernels, LookPassesOverAUnitDiagonal) {
  for (const bool by_rows : {true, false})
    for (const Part part : {Part::lower, Part::upper}) {
      Owned x(9, 9, GetParam(), by_rows);
      x.fill(random_);
      for (Index i = 0; i < 9; ++i) reference::set(x.tile, i, i, nan);
      EXPECT_FALSE(look(part, true, x.tile));
      EXPECT_TRUE(look(part, false, x.tile));
    }
}

TEST_P(Kernels, TakeBringsATriangleShiftedAndFindsWhatIsNotFinite) {
  const Dtype dtype = GetParam();
  for (const bool from_rows : {true, false})
    for (const bool to_rows : {true, false})
      for (const Op op : {Op{}, Op{true, false}, Op{false, true}, Op{true, true}})
        for (const Part part : {Part::all, Part::lower, Part::upper}) {
          const Index m = 11, n = part == Part::all ? 6 : 11;
          Owned from = op.transpose ? Owned(n, m, dtype, from_rows) : Owned(m, n, dtype, from_rows);
          Owned to(m, n, dtype, to_rows);
          from.fill(random_);
          const auto counts = [&](Index i, Index j) { return part == Part::all || (part == Part::lower) == (i >= j); };
          for (Index i = 0; i < m && part != Part::all; ++i)  // beside the triangle anything may lie
            for (Index j = 0; j < n; ++j)
              if (i != j && !counts(i, j))
                op.transpose ? reference::set(from.tile, j, i, nan) : reference::set(from.tile, i, j, nan);
          ASSERT_FALSE(take(part, from.tile, op, 2, to.tile));
          if (!op.transpose) ASSERT_FALSE(look(part, false, from.tile));
          for (Index i = 0; i < m; ++i)
            for (Index j = 0; j < n; ++j) {
              const Wide want = i == j || counts(i, j)
                                    ? reference::get(from.tile, op.transpose, op.conjugate, i, j) + (i == j ? 2.0 : 0.0)
                                    : Wide(0);
              ASSERT_LE(std::abs(reference::get(to.tile, i, j) - want), 8 * epsilon(dtype));
            }
          const Index row = part == Part::upper ? 2 : 7, col = part == Part::upper ? 5 : 3;
          const Wide bad(1, 0);
          for (const double value : {nan, -std::numeric_limits<double>::infinity()}) {
            op.transpose ? reference::set(from.tile, col, row, value * bad)
                         : reference::set(from.tile, row, col, value * bad);
            const auto found = take(part, from.tile, op, 2, to.tile);
            ASSERT_TRUE(found);
            EXPECT_EQ(found->row, row);
            EXPECT_EQ(found->col, col);
            if (op.transpose) continue;
            const auto seen = look(part, false, from.tile), strict = look(part, part != Part::all, from.tile);
            ASSERT_TRUE(seen && strict);
            EXPECT_EQ(std::pair(seen->row, seen->col), std::pair(row, col));
            EXPECT_EQ(std::pair(strict->row, strict->col), std::pair(row, col));
          }
        }
}

std::vector<std::byte> work_of(const Tile& tile) {
  return std::vector<std::byte>(getrf_work_bytes(tile.dtype, tile.shape[0]));
}

TEST_P(Kernels, GetrfTakesTheLargestOfTheWholeColumn) {
  const Dtype dtype = GetParam();
  for (const auto& [m, n] : {std::pair<Index, Index>{1, 1}, {5, 5}, {70, 3}, {200, 67}, {90, 90}})
    for (const bool by_rows : {true, false}) {
      Owned a(m, n, dtype, by_rows);
      a.fill(random_);
      Owned before = widened(a.tile);
      std::vector<std::int64_t> pivots(static_cast<std::size_t>(n));
      ASSERT_EQ(getrf(a.tile, pivots, work_of(a.tile).data()), 0);
      const Tile none{nullptr, Dtype::complex128, {0, n}, before.tile.strides, 0};
      laswp(none, before.tile, 0, 0, pivots);  // P A
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < n; ++j) {
          Wide sum = 0;
          for (Index k = 0; k <= std::min(i, j); ++k)
            sum += (k == i ? Wide(1) : reference::get(a.tile, i, k)) * reference::get(a.tile, k, j);
          // Higham, theorem 9.3: |P A - L U| <= n eps |L| |U|, and |l| <= 1 (complex: sqrt 2).
          ASSERT_LE(std::abs(sum - reference::get(before.tile, i, j)), 30.0 * static_cast<double>(n) * epsilon(dtype));
          const Wide l = reference::get(a.tile, i, j);
          if (i > j) ASSERT_LE(std::abs(l.real()) + std::abs(l.imag()), 2 + epsilon(dtype)) << i << ", " << j;
        }
    }
}

TEST_P(Kernels, GetrfGoesOnBeyondAColumnOfZeros) {
  Owned a(40, 40, GetParam(), true);
  a.fill(random_);
  for (Index i = 0; i < 40; ++i) reference::set(a.tile, i, 20, 0);
  std::vector<std::int64_t> pivots(40);
  EXPECT_EQ(getrf(a.tile, pivots, work_of(a.tile).data()), 21);
  EXPECT_EQ(reference::get(a.tile, 20, 20), Wide(0));
  EXPECT_NE(reference::get(a.tile, 39, 39), Wide(0));
  EXPECT_THROW(getrf(rows_of(a.tile, 10), pivots, work_of(a.tile).data()), ShapeError);
}

TEST_P(Kernels, LaswpExchangesAcrossTwoTilesAndBack) {
  Owned upper(5, 70, GetParam(), true), lower(9, 70, GetParam(), true);
  upper.fill(random_), lower.fill(random_);
  const Owned first = widened(upper.tile), second = widened(lower.tile);
  const std::vector<std::int64_t> pivots{112, 104, 105, 113};
  laswp(upper.tile, lower.tile, 100, 103, pivots);
  EXPECT_EQ(reference::get(upper.tile, 3, 69), reference::get(second.tile, 7, 69));  // 103 took 112
  EXPECT_EQ(reference::get(lower.tile, 8, 0), reference::get(second.tile, 1, 0));    // 113 took 106
  laswp(upper.tile, lower.tile, 100, 103, pivots, true);
  for (Index j = 0; j < 70; ++j) {
    for (Index i = 0; i < 5; ++i) EXPECT_EQ(reference::get(upper.tile, i, j), reference::get(first.tile, i, j));
    for (Index i = 0; i < 9; ++i) EXPECT_EQ(reference::get(lower.tile, i, j), reference::get(second.tile, i, j));
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Kernels, dtypes,
                         [](const testing::TestParamInfo<Dtype>& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace flagstone::kernel
