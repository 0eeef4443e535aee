// Products of whole numbers against naive loops modulo 2^bits: every instruction set, ragged blocks, any strides.
#include "flagstone/kernel/dense/integer.hpp"

#include <gtest/gtest.h>

#include <random>

#include "flagstone/kernel/dense/integer_loops.hpp"
#include "flagstone/kernel/reference/reference.hpp"

namespace flagstone::kernel {
namespace {

constexpr Dtype all[] = {Dtype::boolean, Dtype::int8,   Dtype::int16,  Dtype::int32, Dtype::int64,
                         Dtype::uint8,   Dtype::uint16, Dtype::uint32, Dtype::uint64};

/// Any bytes at all: sums wrap, and every byte but 0 is true.
struct Matrix {
  Matrix(Dtype dtype, Index rows, Index cols, Index padding, bool by_columns, unsigned seed) {
    const auto item = static_cast<Index>(size_of(dtype));
    const Index ld = (by_columns ? rows : cols) + padding;
    bytes.resize(static_cast<std::size_t>(ld * (by_columns ? cols : rows) * item));
    std::mt19937 random(seed);
    for (std::byte& byte : bytes) byte = random() % 3 ? static_cast<std::byte>(random()) : std::byte{0};
    tile = {bytes.data(), dtype, {rows, cols}, {ld * item, item}, bytes.size()};
    if (by_columns) std::swap(tile.strides[0], tile.strides[1]);
  }
  std::vector<std::byte> bytes;
  Tile tile;
};

TEST(IntegerGemm, IsTheNaiveProductModuloItsBits) {
  struct Case {
    Index m, n, k;
  };
  for (const Dtype dtype : all)
    for (const auto [m, n, k] : {Case{1, 1, 1}, {5, 3, 70}, {9, 260, 65}, {70, 2, 3}, {4, 16, 64}, {3, 5, 0}})
      for (int flags = 0; flags < 8; ++flags) {
        const bool turn_a = flags & 1, turn_b = flags & 2, by_columns = flags & 4;
        const Matrix a(dtype, turn_a ? k : m, turn_a ? m : k, 3, by_columns, 1),
            b(dtype, turn_b ? n : k, turn_b ? k : n, 0, !by_columns, 2);
        for (const std::int64_t beta : {0, 1, -3}) {
          Matrix c(dtype, m, n, 2, by_columns, 3), want(dtype, m, n, 2, by_columns, 3);
          integer_gemm(-7, a.tile, turn_a, b.tile, turn_b, beta, c.tile);
          reference::integer_gemm(-7, a.tile, turn_a, b.tile, turn_b, beta, want.tile);
          ASSERT_EQ(c.bytes, want.bytes) << name_of(dtype) << " " << m << " x " << n << " x " << k << ", " << flags;
        }
      }
}

TEST(IntegerGemm, EveryInstructionSetGivesTheSameNumbers) {
  std::vector<const IntegerTable*> tables{&integers_baseline};
#ifdef FLAGSTONE_WIDE_KERNELS
  if (__builtin_cpu_supports("avx2")) tables.push_back(&integers_avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    tables.push_back(&integers_avx512);
#endif
  const Index m = 7, n = 300, k = 130;
  for (const Dtype dtype : all) {
    const Matrix a(dtype, m, k, 0, false, 4), b(dtype, k, n, 0, false, 5);
    const auto view = [](const Tile& t) {
      return IntegerView{t.data, t.shape[0], t.shape[1], t.strides[0], t.strides[1]};
    };
    std::vector<std::vector<std::byte>> results;
    for (const IntegerTable* table : tables) {
      Matrix c(dtype, m, n, 0, false, 6);
      const std::size_t bytes = size_of(dtype);
      const IntegerProduct product = dtype == Dtype::boolean ? table->truth
                                     : bytes == 1            ? table->one
                                     : bytes == 2            ? table->two
                                     : bytes == 4            ? table->four
                                                             : table->eight;
      product(1, view(a.tile), view(b.tile), 1, view(c.tile));
      results.push_back(c.bytes);
    }
    for (const auto& result : results) EXPECT_EQ(result, results[0]) << name_of(dtype);
  }
}

TEST(IntegerGemm, RefusesWhatDoesNotConform) {
  const Matrix a(Dtype::int8, 2, 3, 0, false, 1), b(Dtype::int8, 4, 2, 0, false, 1), c(Dtype::int16, 2, 2, 0, false, 1);
  EXPECT_ANY_THROW(integer_gemm(1, a.tile, false, b.tile, false, 0, a.tile));
  EXPECT_ANY_THROW(integer_gemm(1, a.tile, false, a.tile, true, 0, c.tile));
}

}  // namespace
}  // namespace flagstone::kernel
