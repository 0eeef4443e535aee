// Sparse products and transposes on headerless files against naive loops; whole files are compared.
#include "flagstone/flash/csr.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::flash {
namespace {

/// Small whole numbers: every sum is exact.
template <class T, class I>
struct Files {
  Index rows, cols;
  std::vector<I> pointers{0}, columns;
  std::vector<T> values;
  flash_ptr<T> a;
  flash_ptr<I> ia, ja;

  Files(const TemporaryDirectory& folder, Index m, Index n) : rows(m), cols(n) {
    std::mt19937 random(static_cast<unsigned>(m + n));
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n && i % 7 != 3; ++j)
        if (random() % 6 == 0)
          columns.push_back(static_cast<I>(j)), values.push_back(static_cast<T>(static_cast<int>(random() % 9) - 4));
      pointers.push_back(static_cast<I>(columns.size()));
    }
    a = written(folder / "a.bin", values), ja = written(folder / "ja.bin", columns);
    ia = written(folder / "ia.bin", pointers);
  }
  template <class E>
  static flash_ptr<E> written(const std::string& path, const std::vector<E>& elements) {
    auto p = map_file<E>(path, MapMode::create, elements.size());
    write_sync(p, elements.data(), Contiguous{static_cast<Index>(elements.size())});
    return p;
  }
};

class FlashCsrTest : public testing::Test {
 protected:
  template <class T>
  std::vector<T> numbers(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<T> made(n);
    for (T& one : made) one = static_cast<T>(static_cast<int>(random() % 15) - 7);
    return made;
  }
  template <class T>
  static std::vector<T> all_of(const flash_ptr<T>& p, std::size_t n) {
    std::vector<T> found(n);
    read_sync(found.data(), p, Contiguous{static_cast<Index>(n)});
    return found;
  }

  /// C = 2 op(A) B - 3 C, B and C on disk or in memory; what lies between C's rows stays.
  template <class T, class I>
  void check(bool transposed, bool columns, bool on_disk, Index n) {
    const TemporaryDirectory folder;
    const Files<T, I> f(folder, 131, 57);
    const Index in = transposed ? f.rows : f.cols, out = transposed ? f.cols : f.rows;
    const Index ldb = (columns ? in : n) + 3, ldc = (columns ? out : n) + 5;
    const auto b = numbers<T>(static_cast<std::size_t>(ldb * (columns ? n : in)), 1);
    auto wanted = numbers<T>(static_cast<std::size_t>(ldc * (columns ? n : out)), 2), c = wanted;
    const auto at = [&](Index i, Index k, Index ld) {
      return static_cast<std::size_t>(columns ? k * ld + i : i * ld + k);
    };
    for (Index i = 0; i < out; ++i)
      for (Index k = 0; k < n; ++k) wanted[at(i, k, ldc)] *= -3;
    for (Index i = 0; i < f.rows; ++i)
      for (Index p = f.pointers[i]; p < f.pointers[i + 1]; ++p)
        for (Index k = 0; k < n; ++k) {
          const Index j = f.columns[p];
          wanted[at(transposed ? j : i, k, ldc)] += T(2) * f.values[p] * b[at(transposed ? i : j, k, ldb)];
        }
    const Transpose op = transposed ? Transpose::plain : Transpose::none;
    const Order order = columns ? Order::column_major : Order::row_major;
    if (on_disk) {
      auto x = Files<T, I>::written(folder / "b.bin", b), y = Files<T, I>::written(folder / "c.bin", c);
      csrmm(runtime_, op, f.rows, n, f.cols, 2, -3, f.a, f.ia, f.ja, order, x, y, ldb, ldc);
      EXPECT_EQ(all_of(y, c.size()), wanted);
    } else {
      csrmm(runtime_, op, f.rows, n, f.cols, 2, -3, f.a, f.ia, f.ja, order, b.data(), c.data(), ldb, ldc);
      EXPECT_EQ(c, wanted);
    }
  }

  TemporaryDirectory folder_;
  Runtime runtime_{{.memory = resident_bytes() + 512 * MiB, .workers = 2, .scratch = folder_ / "scratch"}};
};

TEST_F(FlashCsrTest, ProductsInEveryOrderOnDiskAndInMemory) {
  for (const bool transposed : {false, true})
    for (const bool columns : {false, true})
      for (const bool on_disk : {false, true}) {
        check<float, std::int32_t>(transposed, columns, on_disk, 1);
        check<float, std::int64_t>(transposed, columns, on_disk, 40);
        check<double, std::int32_t>(transposed, columns, on_disk, 5);
        check<std::complex<float>, std::int64_t>(transposed, columns, on_disk, 3);
      }
}

TEST_F(FlashCsrTest, VectorsAndOverlaps) {
  const Files<double, std::int64_t> f(folder_, 90, 90);
  const auto x = numbers<double>(90, 4);
  std::vector<double> wanted(90), y(90);
  for (Index i = 0; i < f.rows; ++i)
    for (Index p = f.pointers[i]; p < f.pointers[i + 1]; ++p) wanted[f.columns[p]] += f.values[p] * x[i];
  csrgemv(runtime_, Transpose::plain, 90, 90, f.a, f.ia, f.ja, x.data(), y.data());
  EXPECT_EQ(y, wanted);
  auto both = Files<double, std::int64_t>::written(folder_ / "x.bin", x);  // c is b
  csrgemv(runtime_, Transpose::plain, 90, 90, f.a, f.ia, f.ja, both, both);
  EXPECT_EQ(all_of(both, 90), wanted);
}

TEST_F(FlashCsrTest, ConjugateTransposesOfComplexMatrices) {
  using T = std::complex<double>;
  const std::vector<T> a{{1, 2}, {0, -3}, {4, 0}}, x{{1, 1}, {2, -1}};
  const auto values = Files<T, std::int32_t>::written(folder_ / "a.bin", a);
  const auto pointers = Files<T, std::int32_t>::written(folder_ / "ia.bin", std::vector<std::int32_t>{0, 2, 3});
  const auto columns = Files<T, std::int32_t>::written(folder_ / "ja.bin", std::vector<std::int32_t>{0, 2, 1});
  std::vector<T> y(3);
  csrgemv(runtime_, Transpose::conjugate, 2, 3, values, pointers, columns, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<T>{std::conj(a[0]) * x[0], std::conj(a[2]) * x[1], std::conj(a[1]) * x[0]}));
}

template <class T, class I>
void check_transpose(Runtime& runtime, Index m, Index n) {
  const TemporaryDirectory folder;
  const Files<T, I> f(folder, m, n);
  const auto nnz = f.columns.size();
  auto at = map_file<T>(folder / "at.bin", MapMode::create, nnz + 1);
  auto iat = map_file<I>(folder / "iat.bin", MapMode::create, static_cast<std::size_t>(n) + 1);
  auto jat = map_file<I>(folder / "jat.bin", MapMode::create, nnz + 1);
  csrcsc(runtime, m, n, f.a, f.ia, f.ja, at, iat, jat);
  std::vector<I> pointers{0}, rows(nnz + 1);
  std::vector<T> values(nnz + 1);
  std::size_t end = 0;
  for (Index j = 0; j < n; ++j) {
    for (Index i = 0; i < m; ++i)
      for (Index p = f.pointers[i]; p < f.pointers[i + 1]; ++p)
        if (f.columns[p] == j) rows[end] = static_cast<I>(i), values[end++] = f.values[p];
    pointers.push_back(static_cast<I>(end));
  }
  std::vector<I> found_pointers(pointers.size()), found_rows(nnz + 1);
  std::vector<T> found(nnz + 1);
  read_sync(found_pointers.data(), iat, Contiguous{n + 1});
  read_sync(found_rows.data(), jat, Contiguous{static_cast<Index>(nnz) + 1});
  read_sync(found.data(), at, Contiguous{static_cast<Index>(nnz) + 1});
  EXPECT_EQ(found_pointers, pointers);
  EXPECT_EQ(found_rows, rows);
  EXPECT_EQ(found, values);
}

TEST_F(FlashCsrTest, TransposesAreSortedByColumn) {
  check_transpose<float, std::int32_t>(runtime_, 131, 57);
  check_transpose<double, std::int64_t>(runtime_, 40, 300);
  check_transpose<std::int16_t, std::int32_t>(runtime_, 1, 9);
  check_transpose<std::complex<double>, std::int64_t>(runtime_, 30, 20);
}

TEST_F(FlashCsrTest, BadFilesAreRefused) {
  Files<float, std::int32_t> f(folder_, 20, 11);
  std::vector<float> x(20), y(20);
  const auto run = [&](Index rows, Index cols) {
    csrgemv(runtime_, Transpose::none, rows, cols, f.a, f.ia, f.ja, x.data(), y.data());
  };
  EXPECT_THROW(run(-1, 11), ShapeError);
  EXPECT_THROW(run(40, 11), Error);       // the pointers end before
  EXPECT_THROW(run(20, 5), FormatError);  // a column beyond
  EXPECT_THROW(csrcsc(runtime_, 20, 5, f.a, f.ia, f.ja, f.a + 0, f.ia, f.ja), ShapeError);
  auto iat = map_file<std::int32_t>(folder_ / "iat.bin", MapMode::create, 6),
       jat = map_file<std::int32_t>(folder_ / "jat.bin", MapMode::create, f.columns.size());
  auto at = map_file<float>(folder_ / "at.bin", MapMode::create, f.columns.size());
  EXPECT_THROW(csrcsc(runtime_, 20, 5, f.a, f.ia, f.ja, at, iat, jat), FormatError);
  EXPECT_THROW(
      csrmm(runtime_, Transpose::none, 20, 2, 11, 1, 0, f.a, f.ia, f.ja, Order::row_major, x.data(), y.data(), 1, 2),
      ShapeError);
}

}  // namespace
}  // namespace flagstone::flash
