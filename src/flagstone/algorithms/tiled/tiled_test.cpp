// What a tile names, and the tasks on tiles against naive loops.
#include "flagstone/algorithms/tiled/tiled.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone::linalg {
namespace {

using Complex = std::complex<double>;

Array matrix_of(std::vector<Complex>& values, Index rows, Index cols) {
  return memory_array(reinterpret_cast<std::byte*>(values.data()), {rows, cols}, Dtype::complex128, {});
}

TEST(Tiled, ATileIsAPartOfTheBoxThatIsRead) {
  std::vector<Complex> values(70);
  const Array x = matrix_of(values, 10, 7);
  const Tiled plain({x}, {10, 2, 6}, {7, 3, 3}), turned({x, true, true}, {7, 3, 3}, {10, 2, 6});
  EXPECT_EQ(plain.rows(), 5);
  EXPECT_EQ(plain.cols(), 3);
  const MatrixTile last = plain(4, 2);
  EXPECT_EQ(last.region.box, (Box{{6, 6}, {4, 1}}));  // the last box is clipped
  EXPECT_EQ(last.used, (Box{{2, 0}, {2, 1}}));
  EXPECT_EQ(plain(1, 0).region.box, plain(2, 0).region.box);  // one box of three tiles
  const MatrixTile same = turned(2, 4);
  EXPECT_EQ(same.region.box, last.region.box);
  EXPECT_EQ(same.used, last.used);
  EXPECT_TRUE(same.op.transpose && same.op.conjugate);
  EXPECT_EQ(same.rows(), 1);
  EXPECT_EQ(same.cols(), 2);
  const std::vector<Box> blocks = plain.blocks(2, 2);
  ASSERT_EQ(blocks.size(), 6u);
  EXPECT_EQ(blocks.back(), (Box{{4, 2}, {1, 1}}));
  EXPECT_TRUE(Tiled({x}, {0, 2, 2}, {7, 3, 3}).blocks(2, 2).empty());
  EXPECT_EQ(Tiled({x}, {10, 2, 6}, {0, 3, 3})(0, 0).cols(), 0);
}

/// All of op(A) op(B) by tiles, with C from elsewhere, in place and overwritten; and without depth.
TEST(TileTasks, GemmIsTheNaiveProduct) {
  const Index m = 5, n = 4, k = 6;
  const Complex alpha(1.5, -0.5);
  for (const bool conjugate : {false, true})
    for (const bool transpose : {false, true})
      for (const Index depth : {k, Index{0}})
        for (const int how : {0, 1, 2}) {  // C := ..., C += beta C, C := ... + beta C_in
          std::vector<Complex> a(30), b(24), c(20), from(20), want(20);
          for (std::size_t i = 0; i < 30; ++i)
            a[i] = Complex(0.5 + static_cast<double>(i), 1.0 - 0.25 * static_cast<double>(i));
          for (std::size_t i = 0; i < 24; ++i)
            b[i] = Complex(2.0 - static_cast<double>(i), 0.125 * static_cast<double>(i));
          for (std::size_t i = 0; i < 20; ++i)
            c[i] = Complex(static_cast<double>(i), 3), from[i] = Complex(1, static_cast<double>(i));
          const Complex beta = how == 0 ? 0.0 : Complex(-2, 1);
          for (Index i = 0; i < m; ++i)
            for (Index j = 0; j < n; ++j) {
              Complex sum = 0;
              for (Index p = 0; p < depth; ++p) {
                const Complex left = a[static_cast<std::size_t>(transpose ? p * m + i : i * depth + p)];
                sum += (conjugate ? std::conj(left) : left) * b[static_cast<std::size_t>(p * n + j)];
              }
              const auto at = static_cast<std::size_t>(i * n + j);
              want[at] = alpha * sum + (how == 0 ? 0.0 : beta * (how == 1 ? c[at] : from[at]));
            }
          const Array x = transpose ? matrix_of(a, depth, m) : matrix_of(a, m, depth), y = matrix_of(b, depth, n);
          const Array result = matrix_of(c, m, n), brought = matrix_of(from, m, n);
          RuntimeOptions options;
          options.workers = 2;
          options.scratch = std::filesystem::temp_directory_path();
          const auto ring = make_ring();
          Executor(*ring, options, {options.scratch, "test", {}}, 16 * MiB, {}).run([&](Graph& graph) {
            const Tiled A({x, transpose, conjugate}, {m, 2, 4}, {depth, 6, 6}), B({y}, {depth, 6, 6}, {n, 3, 3}),
                C({result}, {m, 2, 2}, {n, 3, 3});
            for (Index i = 0; i < C.rows(); ++i)
              for (Index j = 0; j < C.cols(); ++j)
                gemm(graph, alpha, A(i, 0), B(0, j), beta, C(i, j), how == 2 ? &brought : nullptr);
          });
          for (std::size_t i = 0; i < 20; ++i)
            EXPECT_LE(std::abs(c[i] - want[i]), 1e-12 * (1 + std::abs(want[i]))) << "C[" << i << "]";
        }
}

}  // namespace
}  // namespace flagstone::linalg
