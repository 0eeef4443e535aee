#pragma once
// Matrices on disk pointers beside naive products in double precision, for the tests of flash. The other triangle, what
// lies between rows and what is beside a matrix must not change.
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <functional>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/flash/map.hpp"
#include "flagstone/flash/matrix_argument.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::flash {

using Exact = std::complex<double>;

/// A matrix in double precision, by rows.
struct Dense {
  Index rows, cols;
  std::vector<Exact> values = std::vector<Exact>(static_cast<std::size_t>(rows * cols));
  Exact& operator()(Index i, Index j) { return values[static_cast<std::size_t>(i * cols + j)]; }
  Exact operator()(Index i, Index j) const { return values[static_cast<std::size_t>(i * cols + j)]; }
};

inline Dense product(const Dense& a, const Dense& b) {
  Dense c{a.rows, b.cols};
  for (Index i = 0; i < a.rows; ++i)
    for (Index k = 0; k < a.cols; ++k)
      for (Index j = 0; j < b.cols; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}
inline Dense op(const Dense& a, Transpose how) {
  if (how == Transpose::none) return a;
  Dense t{a.cols, a.rows};
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) t(j, i) = how == Transpose::plain ? a(i, j) : std::conj(a(i, j));
  return t;
}
inline Dense triangle(const Dense& a, Uplo uplo, Diagonal diagonal) {
  Dense t{a.rows, a.cols};
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j)
      if (i == j ? diagonal == Diagonal::stored : (i > j) == (uplo == Uplo::lower))
        t(i, j) = a(i, j);
      else if (i == j)
        t(i, j) = 1;
  return t;
}

inline Dense scaled_sum(Exact alpha, const Dense& a, Exact beta, const Dense& b) {
  Dense sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] = alpha * a.values[i] + beta * b.values[i];
  return sum;
}

/// The whole of a matrix of which one triangle counts.
inline Dense whole_of(const Dense& a, Uplo uplo, bool hermitian) {
  Dense t = a;
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) {
      const bool mine = (i > j) == (uplo == Uplo::lower);
      if (i == j)
        t(i, j) = hermitian ? Exact(a(i, i).real()) : a(i, i);
      else if (!mine)
        t(i, j) = hermitian ? std::conj(a(j, i)) : a(j, i);
    }
  return t;
}

template <class T>
struct FlashMatrices : testing::Test {
  static constexpr double eps = std::numeric_limits<decltype(std::abs(T{}))>::epsilon();

  FlashMatrices()
      : runtime({.memory = resident_bytes() + 384 * MiB, .workers = 2, .scratch = directory / "scratch"}),
        file(map_file<T>(directory / "m.bin", MapMode::create, 700'000)) {}

  /// Elements of a matrix that begins `first` elements into the file, `pad` more than its lines apart.
  struct Stored {
    flash_ptr<T> begin;
    Index rows, cols, leading;
    Order order;
    T& operator()(Index i, Index j) const {
      return begin.ptr[order == Order::row_major ? i * leading + j : j * leading + i];
    }
    Dense values() const {
      Dense x{rows, cols};
      for (Index i = 0; i < rows; ++i)
        for (Index j = 0; j < cols; ++j) x(i, j) = Exact((*this)(i, j));
      return x;
    }
  };
  Stored stored(Index first, Order order, Index rows, Index cols) {
    return {file + first, rows, cols, std::max<Index>(1, order == Order::row_major ? cols : rows) + 3, order};
  }
  T number() {
    const auto part = [&] { return static_cast<decltype(std::abs(T{}))>(static_cast<int>(random() % 201) - 100) / 64; };
    if constexpr (std::is_floating_point_v<T>)
      return part();
    else
      return {part(), part()};
  }
  void fill() {
    for (Index i = 0; i < 700'000; ++i) file.ptr[i] = number();
  }
  /// The diagonal outweighs rows; of `hermitian` ones it is real, and elements agree with their mirrors.
  void make_definite(const Stored& a, bool hermitian) {
    for (Index i = 0; i < a.rows; ++i) {
      a(i, i) = static_cast<T>(4 * static_cast<int>(a.rows));
      for (Index j = 0; hermitian && j < i; ++j) a(i, j) = conjugated(a(j, i));
    }
  }
  static T conjugated(T value) {
    if constexpr (std::is_floating_point_v<T>)
      return value;
    else
      return std::conj(value);
  }
  void remember() { before.assign(file.ptr, file.ptr + 700'000); }
  /// Everything but the elements that `mine` names is as it was.
  void expect_untouched(const std::vector<std::pair<Stored, std::function<bool(Index, Index)>>>& mine) {
    for (const auto& [x, wanted] : mine)
      for (Index i = 0; i < x.rows; ++i)
        for (Index j = 0; j < x.cols; ++j)
          if (wanted(i, j)) before[static_cast<std::size_t>(&x(i, j) - file.ptr)] = x(i, j);
    EXPECT_EQ(std::memcmp(before.data(), file.ptr, before.size() * sizeof(T)), 0) << "elements of others changed";
  }
  static void expect_near(const Dense& got, const Dense& exact, double bound, const std::string& text) {
    for (Index i = 0; i < exact.rows; ++i)
      for (Index j = 0; j < exact.cols; ++j)
        ASSERT_LE(std::abs(got(i, j) - exact(i, j)), bound) << i << " " << j << ": " << text;
  }

  TemporaryDirectory directory;
  Runtime runtime;
  flash_ptr<T> file;
  std::vector<T> before;
  std::mt19937_64 random{7};
};
using Elements = testing::Types<float, double, std::complex<float>, std::complex<double>>;

const auto all = [](Index, Index) { return true; };

}  // namespace flagstone::flash
