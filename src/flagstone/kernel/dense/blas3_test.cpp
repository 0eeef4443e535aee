#include "flagstone/kernel/dense/blas3.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/kernel/reference/reference.hpp"

namespace flagstone::kernel {
namespace {

using reference::Wide;

/// A tile of its own memory: row- or column-major, with padding beyond the leading dimension.
struct Owned {
  std::vector<std::byte> memory;
  Tile tile;
};

Owned make(Index rows, Index cols, Dtype dtype, bool row_major, Index pad, std::mt19937& random) {
  const auto item = static_cast<Index>(size_of(dtype));
  const Index ld = (row_major ? cols : rows) + pad;
  Owned owned;
  owned.memory.resize(static_cast<std::size_t>(item * std::max<Index>(1, ld * (row_major ? rows : cols))));
  owned.tile = {
      owned.memory.data(), dtype, {rows, cols}, row_major ? Shape{ld * item, item} : Shape{item, ld * item}, 0};
  std::normal_distribution<double> normal;
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) reference::set(owned.tile, i, j, {normal(random), normal(random)});
  return owned;
}

double epsilon(Dtype dtype) { return real_part_of(dtype) == Dtype::float32 ? 0x1p-23 : 0x1p-52; }

void expect_near(const Tile& got, const Tile& want, double bound) {
  for (Index i = 0; i < got.shape[0]; ++i)
    for (Index j = 0; j < got.shape[1]; ++j)
      ASSERT_LE(std::abs(reference::get(got, i, j) - reference::get(want, i, j)), bound) << i << ", " << j;
}

using Case = std::tuple<Dtype, bool, bool, bool>;
class Gemm : public testing::TestWithParam<Case> {};

TEST_P(Gemm, MatchesNaiveLoopsForEveryOpAndShape) {
  const auto [dtype, a_rows, b_rows, c_rows] = GetParam();
  std::mt19937 random(1);
  const Index extents[][3] = {{1, 1, 1}, {7, 5, 3}, {1, 9, 4}, {8, 1, 6}, {6, 7, 1}, {33, 17, 40}, {5, 4, 0}};
  for (const auto& [m, n, k] : extents)
    for (int ops = 0; ops < 16; ++ops)
      for (Index pad : {0, 3}) {
        const Op op_a{bool(ops & 1), bool(ops & 2)}, op_b{bool(ops & 4), bool(ops & 8)};
        Owned a = op_a.transpose ? make(k, m, dtype, a_rows, pad, random) : make(m, k, dtype, a_rows, pad, random);
        Owned b = op_b.transpose ? make(n, k, dtype, b_rows, pad, random) : make(k, n, dtype, b_rows, pad, random);
        Owned c = make(m, n, dtype, c_rows, pad, random), want = make(m, n, dtype, true, 0, random);
        copy(c.tile, want.tile);
        const Wide alpha = is_complex(dtype) ? Wide(0.5, -2) : Wide(0.5),
                   beta = is_complex(dtype) ? Wide(1, 3) : Wide(-3);
        std::vector<std::byte> scratch(gemm_scratch(a.tile, op_a, b.tile, op_b, c.tile));
        gemm(alpha, a.tile, op_a, b.tile, op_b, beta, c.tile, scratch.data());
        reference::gemm(alpha, a.tile, op_a.transpose, op_a.conjugate, b.tile, op_b.transpose, op_b.conjugate, beta,
                        want.tile);
        expect_near(c.tile, want.tile, 100 * static_cast<double>(k + 2) * epsilon(dtype));
      }
}

INSTANTIATE_TEST_SUITE_P(All, Gemm,
                         testing::Combine(testing::Values(Dtype::float32, Dtype::float64, Dtype::complex64,
                                                          Dtype::complex128),
                                          testing::Bool(), testing::Bool(), testing::Bool()));

TEST(GemmEdge, BetaZeroOverwritesNaN) {
  std::mt19937 random(2);
  for (Index k : {0, 4}) {
    Owned a = make(20, k, Dtype::float32, true, 0, random), b = make(k, 30, Dtype::float32, false, 1, random);
    Owned c = make(20, 30, Dtype::float32, true, 2, random);
    for (Index i = 0; i < 20; ++i) reference::set(c.tile, i, i, NAN);
    gemm(1, a.tile, {}, b.tile, {}, 0, c.tile, nullptr);
    for (Index i = 0; i < 20; ++i) EXPECT_FALSE(std::isnan(reference::get(c.tile, i, i).real()));
  }
}

TEST(GemmEdge, StridesOfExtentOneMayBeAnything) {
  std::mt19937 random(3);
  Owned a = make(1, 6, Dtype::float64, true, 0, random), b = make(6, 1, Dtype::float64, false, 0, random);
  Owned c = make(1, 1, Dtype::float64, true, 0, random), want = make(1, 1, Dtype::float64, true, 0, random);
  a.tile.strides[0] = 0, b.tile.strides[1] = 3, c.tile.strides = {0, -7};
  gemm(1, a.tile, {}, b.tile, {}, 0, c.tile, nullptr);
  reference::gemm(1, a.tile, false, false, b.tile, false, false, 0, want.tile);
  expect_near(c.tile, want.tile, 1e-14);
}

TEST(GemmEdge, OperandsStridedBothWaysArePacked) {
  std::mt19937 random(4);
  Owned a = make(12, 20, Dtype::complex64, true, 0, random), b = make(10, 6, Dtype::complex64, true, 0, random);
  Owned c = make(6, 6, Dtype::complex64, false, 0, random), want = make(6, 6, Dtype::complex64, false, 0, random);
  Tile every_other = a.tile;
  every_other.shape = {6, 10}, every_other.strides = {2 * a.tile.strides[0], 2 * a.tile.strides[1]};
  std::vector<std::byte> scratch(gemm_scratch(every_other, {false, true}, b.tile, {}, c.tile));
  EXPECT_GE(scratch.size(), 60 * 8u);
  gemm(1, every_other, {false, true}, b.tile, {}, 0, c.tile, scratch.data());
  reference::gemm(1, every_other, false, true, b.tile, false, false, 0, want.tile);
  expect_near(c.tile, want.tile, 1e-4);
}

TEST(GemmEdge, RefusesWhatDoesNotConform) {
  std::mt19937 random(5);
  Owned a = make(2, 3, Dtype::float64, true, 0, random), b = make(4, 2, Dtype::float64, true, 0, random);
  Owned c = make(2, 2, Dtype::float64, true, 0, random), f = make(3, 2, Dtype::float32, true, 0, random);
  EXPECT_THROW(gemm(1, a.tile, {}, b.tile, {}, 0, c.tile, nullptr), ShapeError);
  EXPECT_THROW(gemm(1, a.tile, {}, f.tile, {}, 0, c.tile, nullptr), ShapeError);
  Tile huge = a.tile;  // never touched: refused first
  huge.shape = {Index{1} << 31, 3}, huge.strides = {24, 8};
  Tile huge_c = c.tile;
  huge_c.shape = {Index{1} << 31, 2};
  Tile good = f.tile;
  good.dtype = Dtype::float64;
  EXPECT_THROW(gemm(1, huge, {}, good, {}, 0, huge_c, nullptr), ShapeError);
}

TEST(Syrk, LowerTriangleOnlyInEveryLayout) {
  std::mt19937 random(6);
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    for (int bits = 0; bits < 8; ++bits) {
      const bool transpose = bits & 1, a_rows = bits & 2, c_rows = bits & 4;
      const Index n = 19, k = 31;
      Owned a = transpose ? make(k, n, dtype, a_rows, 2, random) : make(n, k, dtype, a_rows, 2, random);
      Owned c = make(n, n, dtype, c_rows, 1, random), before = make(n, n, dtype, true, 0, random);
      Owned want = make(n, n, dtype, true, 0, random);
      copy(c.tile, before.tile), copy(c.tile, want.tile);
      syrk(2, a.tile, transpose, 1, c.tile);
      reference::gemm(2, a.tile, transpose, false, a.tile, !transpose, false, 1, want.tile);
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j)
          EXPECT_NEAR(reference::get(c.tile, i, j).real(),
                      reference::get(j <= i ? want.tile : before.tile, i, j).real(), 1e4 * epsilon(dtype));
    }
}

template <class T>
void check_convert(Dtype from_dtype, const std::vector<T>& values) {
  const auto n = static_cast<Index>(values.size());
  std::vector<T> memory(values);
  const Tile from{reinterpret_cast<std::byte*>(memory.data()), from_dtype, {n, 1}, {sizeof(T), sizeof(T)}, 0};
  std::vector<double> wide(values.size()), shift{0.25};
  std::vector<float> narrow(values.size());
  const Tile to_wide{reinterpret_cast<std::byte*>(wide.data()), Dtype::float64, {n, 1}, {8, 8}, 0};
  const Tile to_narrow{reinterpret_cast<std::byte*>(narrow.data()), Dtype::float32, {n, 1}, {4, 4}, 0};
  convert(from, nullptr, to_wide), convert(from, shift.data(), to_narrow);
  for (Index i = 0; i < n; ++i) {
    EXPECT_EQ(wide[i], static_cast<double>(values[i]));
    EXPECT_EQ(narrow[i], static_cast<float>(static_cast<double>(values[i]) - 0.25));
  }
}

TEST(Convert, EveryRealDtype) {
  check_convert<std::uint8_t>(Dtype::boolean, {0, 1});
  check_convert<std::int8_t>(Dtype::int8, {-128, 0, 127});
  check_convert<std::int16_t>(Dtype::int16, {-32768, 32767});
  check_convert<std::int32_t>(Dtype::int32, {-2147483647, 5});
  check_convert<std::int64_t>(Dtype::int64, {-(1LL << 40), 1LL << 40});
  check_convert<std::uint8_t>(Dtype::uint8, {0, 255});
  check_convert<std::uint16_t>(Dtype::uint16, {0, 65535});
  check_convert<std::uint32_t>(Dtype::uint32, {0, 4294967295u});
  check_convert<std::uint64_t>(Dtype::uint64, {0, 1ULL << 52});
  check_convert<float>(Dtype::float32, {-1.5f, 3e38f});
  check_convert<double>(Dtype::float64, {-1.5, 1e-300});
}

TEST(Convert, HalfPrecisionBitForBit) {
  std::vector<std::uint16_t> half{0x0000, 0x8000, 0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00};
  const double want[] = {0, -0.0, 1, -2, 0x1p-24, -1023 * 0x1p-24, 65504, INFINITY, -INFINITY, NAN};
  std::vector<double> got(half.size());
  convert({reinterpret_cast<std::byte*>(half.data()), Dtype::float16, {10}, {2}, 0}, nullptr,
          {reinterpret_cast<std::byte*>(got.data()), Dtype::float64, {10}, {8}, 0});
  for (int i = 0; i < 9; ++i) EXPECT_EQ(got[i], want[i]) << i;
  EXPECT_TRUE(std::isnan(got[9]));
}

TEST(Convert, ShiftBelongsToColumnsInEveryLayout) {
  std::mt19937 random(7);
  for (bool from_rows : {true, false})
    for (bool to_rows : {true, false}) {
      Owned from = make(5, 4, Dtype::float32, from_rows, 1, random),
            to = make(5, 4, Dtype::float64, to_rows, 2, random);
      const double shift[] = {1, 2, 3, 4};
      convert(from.tile, shift, to.tile);
      for (Index i = 0; i < 5; ++i)
        for (Index j = 0; j < 4; ++j)
          EXPECT_EQ(reference::get(to.tile, i, j).real(), reference::get(from.tile, i, j).real() - shift[j]);
      convert(from.tile, nullptr, to.tile);
      EXPECT_EQ(reference::get(to.tile, 3, 2), Wide(reference::get(from.tile, 3, 2).real()));
    }
  Owned complex = make(2, 2, Dtype::complex64, true, 0, random), real = make(2, 2, Dtype::float32, true, 0, random);
  EXPECT_THROW(convert(complex.tile, nullptr, real.tile), ShapeError);
}

TEST(Blas, ThreadsCanBeSet) {
  const int before = blas_threads();
  set_blas_threads(1);
  EXPECT_EQ(blas_threads(), 1);
  set_blas_threads(before);
}

TEST(Blas, ScopesOfThreadsThatOverlapEndWhereTheFirstBegan) {
  const int before = blas_threads();
  auto first = std::make_unique<BlasThreads>(1);
  auto second = std::make_unique<BlasThreads>(1);
  first.reset();  // out of order, as two runs end
  EXPECT_EQ(blas_threads(), 1);
  second.reset();
  EXPECT_EQ(blas_threads(), before);
}

/// BLAS packs as much of an operand as the result is long: what is reserved for that was measured with tiles.
TEST(GemmOfALongResult, NeedsNoMoreMemoryThanATile) {
  constexpr Index m = 3 * 2048 + 5, n = 24, k = 256;
  std::mt19937 random(4);
  for (const bool by_rows : {true, false})
    for (const bool transposed : {false, true}) {
      const Op op{transposed, false};
      Owned a = transposed ? make(k, m, Dtype::float64, true, 3, random) : make(m, k, Dtype::float64, true, 3, random);
      Owned b = make(k, n, Dtype::float64, true, 0, random), c = make(m, n, Dtype::float64, true, 2, random);
      const auto product = [&](Index length) {
        const Tile part = transposed ? Tile{a.tile.data, a.tile.dtype, {k, length}, a.tile.strides, 0}
                                     : Tile{a.tile.data, a.tile.dtype, {length, k}, a.tile.strides, 0};
        const Tile made{c.tile.data, c.tile.dtype, {length, n}, c.tile.strides, 0};
        // The length is the outer dimension of a result by rows; of one by columns that of the transposed product.
        if (by_rows) return gemm(1.0, part, op, b.tile, {}, 0.0, made, nullptr);
        const auto turned = [](Tile t) {
          return std::swap(t.shape[0], t.shape[1]), std::swap(t.strides[0], t.strides[1]), t;
        };
        gemm(1.0, turned(b.tile), {}, turned(part), op, 0.0, turned(made), nullptr);
      };
      product(2048);
      const std::uint64_t before = resident_bytes();
      product(m);
      EXPECT_LE(resident_bytes(), before + 2 * MiB);
      for (const Index i : {Index{0}, Index{2047}, Index{2048}, Index{5000}, m - 1}) {
        Wide sum = 0;
        for (Index l = 0; l < k; ++l)
          sum += reference::get(a.tile, transposed ? l : i, transposed ? i : l) * reference::get(b.tile, l, n - 1);
        EXPECT_NEAR(reference::get(c.tile, i, n - 1).real(), sum.real(),
                    static_cast<double>(k) * 0x1p-52 * 4 * static_cast<double>(k))
            << i;
      }
    }
}

}  // namespace
}  // namespace flagstone::kernel
