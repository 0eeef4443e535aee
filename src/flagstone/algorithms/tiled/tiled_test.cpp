// What a tile names, and the tasks on tiles against naive loops.
#include "flagstone/algorithms/tiled/tiled.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "flagstone/algorithms/tiled/tile_tasks.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/executor/executor.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/box/box.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

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

/// The values of a matrix in C order, by columns in memory where `across`.
Array laid(std::vector<Complex>& values, Index rows, Index cols, bool across) {
  if (!across) return matrix_of(values, rows, cols);
  const std::vector<Complex> plain = values;
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j)
      values[static_cast<std::size_t>(i + j * rows)] = plain[static_cast<std::size_t>(i * cols + j)];
  return memory_array(reinterpret_cast<std::byte*>(values.data()), {rows, cols}, Dtype::complex128, {16, 16 * rows});
}

/// BLAS conjugates only what it transposes: whether a copy is needed is asked of where the tiles really lie, in memory
/// by rows and by columns and in a chunk that is the whole array.
TEST(TileTasks, WhatIsConjugatedHasRoomWhereverItLies) {
  const Index n = 4, k = 3;
  const std::string stored = (std::filesystem::temp_directory_path() / "flagstone-tiled-test.zarr").string();
  for (const bool across : {false, true})
    for (const bool transpose : {false, true})
      for (const bool conjugate : {false, true})
        for (const int place : {0, 1, 2})  // of C: by rows, by columns, a chunk
          for (const bool half : {false, true}) {
            SCOPED_TRACE(testing::Message() << across << transpose << conjugate << place << half);
            std::vector<Complex> a(12), c(16);
            for (std::size_t i = 0; i < 12; ++i)
              a[i] = Complex(0.5 + static_cast<double>(i), 1.0 - 0.25 * static_cast<double>(i * i));
            const std::vector<Complex> plain = a;
            const auto at = [&](Index i, Index p) {
              const Complex value = plain[static_cast<std::size_t>(transpose ? p * n + i : i * k + p)];
              return conjugate ? std::conj(value) : value;
            };
            const Array x = transpose ? laid(a, k, n, across) : laid(a, n, k, across);
            std::filesystem::remove_all(stored);
            const Array result = place == 2 ? create_zarr_array(stored, {n, n}, Dtype::complex128, {.chunks = {n, n}})
                                            : laid(c, n, n, place == 1);
            RuntimeOptions options;
            options.scratch = std::filesystem::temp_directory_path();
            const auto ring = make_ring();
            Executor(*ring, options, {options.scratch, "test", {}}, 16 * MiB, {}).run([&](Graph& graph) {
              const Tiled A({x, transpose, conjugate}, {n, n, n}, {k, k, k}), C({result}, {n, n, n}, {n, n, n});
              half ? herk(graph, 1, A(0, 0), 0, C(0, 0)) : gemm(graph, 1, A(0, 0), adjoint(A(0, 0)), 0, C(0, 0));
            });
            std::vector<Complex> found(16);
            read_box(*ring, result, whole({n, n}),
                     {reinterpret_cast<std::byte*>(found.data()), Dtype::complex128, {n, n}, {16 * n, 16}, 256},
                     1 << 20);
            for (Index i = 0; i < n; ++i)
              for (Index j = 0; j < (half ? i + 1 : n); ++j) {
                Complex want = 0;
                for (Index p = 0; p < k; ++p) want += at(i, p) * std::conj(at(j, p));
                EXPECT_LE(std::abs(found[static_cast<std::size_t>(i * n + j)] - want), 1e-11) << i << ", " << j;
              }
          }
  std::filesystem::remove_all(stored);
}

}  // namespace
}  // namespace flagstone::linalg
