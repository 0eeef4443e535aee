// The kernels of tile QR by what they promise: Q is unitary, and Q R gives back what was factored.
#include "flagstone/kernel/factor/qr.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "flagstone/kernel/reference/reference.hpp"

namespace flagstone::kernel {
namespace {

using reference::get;
using reference::set;
using reference::Wide;

double epsilon(Dtype dtype) { return real_part_of(dtype) == Dtype::float32 ? 0x1p-23 : 0x1p-52; }

/// By columns, with padding.
struct Owned {
  Owned(Index rows, Index cols, Dtype dtype, unsigned seed = 0) {
    const auto item = static_cast<Index>(size_of(dtype));
    const Index ld = rows + 3;
    memory.resize(static_cast<std::size_t>(item * ld * std::max<Index>(1, cols)));
    tile = {memory.data(), dtype, {rows, cols}, {item, ld * item}, memory.size()};
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    if (seed != 0)
      for (Index i = 0; i < rows; ++i)
        for (Index j = 0; j < cols; ++j) set(tile, i, j, {normal(random), is_complex(dtype) ? normal(random) : 0});
  }
  Owned(const Owned& other) : memory(other.memory), tile(other.tile) { tile.data = memory.data(); }
  std::vector<std::byte> memory;
  Tile tile;
};

double norm(const Tile& x) {
  double sum = 0;
  for (Index i = 0; i < x.shape[0]; ++i)
    for (Index j = 0; j < x.shape[1]; ++j) sum += std::norm(get(x, i, j));
  return std::sqrt(sum);
}

/// ‖x - y‖, of the upper triangle alone where `upper`.
double distance(const Tile& x, const Tile& y, bool upper = false) {
  double sum = 0;
  for (Index i = 0; i < x.shape[0]; ++i)
    for (Index j = upper ? i : 0; j < x.shape[1]; ++j) sum += std::norm(get(x, i, j) - get(y, i, j));
  return std::sqrt(sum);
}

void keep_upper(const Tile& x) {
  for (Index i = 0; i < x.shape[0]; ++i)
    for (Index j = 0; j < std::min(i, x.shape[1]); ++j) set(x, i, j, 0);
}

class TileQr : public testing::TestWithParam<Dtype> {
 protected:
  std::vector<std::byte> work_ = std::vector<std::byte>(1 << 20);
  double eps_ = epsilon(GetParam());
};

TEST_P(TileQr, OfATile) {
  for (const auto& [m, n] : {std::pair<Index, Index>{17, 9}, {9, 17}, {8, 8}, {1, 1}, {40, 1}, {5, 0}, {0, 5}})
    for (const Index ib : {1, 4, 32}) {
      const Owned given(m, n, GetParam(), 1);
      Owned v = given, t(ib, n, GetParam());
      geqrt(ib, v.tile, t.tile, work_.data());
      Owned back = v;  // Q [R; 0]
      keep_upper(back.tile);
      Owned again = back;
      gemqrt(ib, false, v.tile, t.tile, back.tile, work_.data());
      const double size = norm(given.tile), bound = 20 * eps_ * static_cast<double>(m + n) * size;
      EXPECT_LE(distance(back.tile, given.tile), bound) << m << " x " << n << ", " << ib;
      EXPECT_NEAR(norm(again.tile), size, bound);
      if (n > 0) {
        Owned single = again;
        const Box first{{0, 0}, {m, 1}};
        gemqrt(ib, false, v.tile, t.tile, subtile(single.tile, first), work_.data());
        EXPECT_LE(distance(subtile(single.tile, first), subtile(given.tile, first)), bound);
      }
      gemqrt(ib, true, v.tile, t.tile, back.tile, work_.data());
      EXPECT_LE(distance(back.tile, again.tile), bound);
    }
}

TEST_P(TileQr, OfATriangleOnATileAndOnATriangle) {
  for (const bool triangle : {false, true})
    for (const auto& [m, n] : {std::pair<Index, Index>{13, 9}, {3, 9}, {9, 9}, {1, 1}})
      for (const Index ib : {1, 4, 32}) {
        if (triangle && m != n) continue;
        Owned top(n, n, GetParam(), 1), bottom(m, n, GetParam(), 2);
        keep_upper(top.tile);
        if (triangle) keep_upper(bottom.tile);
        Owned r = top, v = bottom, t(ib, n, GetParam());
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < i; ++j) set(r.tile, i, j, 7);  // not looked at, and left alone
        if (triangle)
          for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < i; ++j) set(v.tile, i, j, 9);
        tpqrt(ib, triangle, r.tile, v.tile, t.tile, work_.data());
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < i; ++j) {
            EXPECT_EQ(get(r.tile, i, j), Wide(7));
            if (triangle) EXPECT_EQ(get(v.tile, i, j), Wide(9));
          }
        Owned above = r, below(m, n, GetParam());
        keep_upper(above.tile);
        const double size = norm(top.tile) + norm(bottom.tile), bound = 20 * eps_ * static_cast<double>(m + n) * size;
        tpmqrt(ib, false, triangle, v.tile, t.tile, above.tile, below.tile, work_.data());
        EXPECT_LE(distance(above.tile, top.tile), bound) << m << " x " << n << ", " << ib << triangle;
        EXPECT_LE(distance(below.tile, bottom.tile), bound);
        tpmqrt(ib, true, triangle, v.tile, t.tile, above.tile, below.tile, work_.data());
        EXPECT_LE(distance(above.tile, r.tile, true), bound);
        EXPECT_LE(norm(below.tile), bound);
      }
}

TEST_P(TileQr, OfColumnsThatHaveNoLength) {
  Owned a(12, 4, GetParam(), 1);
  for (Index i = 0; i < 12; ++i) set(a.tile, i, 1, 0), set(a.tile, i, 3, get(a.tile, i, 0));
  Owned v = a, t(2, 4, GetParam());
  geqrt(2, v.tile, t.tile, work_.data());
  Owned back = v;
  keep_upper(back.tile);
  gemqrt(2, false, v.tile, t.tile, back.tile, work_.data());
  EXPECT_LE(distance(back.tile, a.tile), 200 * eps_ * norm(a.tile));
}

TEST_P(TileQr, RowsOfTheIdentity) {
  Owned a(4, 6, GetParam(), 1);
  set_identity(3, a.tile);
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 6; ++j) EXPECT_EQ(get(a.tile, i, j), Wide(i + 3 == j ? 1 : 0));
  set_identity(-2, a.tile);
  EXPECT_EQ(get(a.tile, 3, 1), Wide(1));
  EXPECT_EQ(get(a.tile, 1, 0), Wide(0));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TileQr,
                         testing::Values(Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace flagstone::kernel
