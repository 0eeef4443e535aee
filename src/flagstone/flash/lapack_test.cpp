// Factorizations, solves and rank-k updates on disk pointers, against naive products in double precision. The other
// triangle, what lies between rows and what is beside a matrix must not change.
#include "flagstone/flash/lapack.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/flash/blas3.hpp"
#include "flagstone/flash/norms.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::flash {
namespace {

using ::testing::HasSubstr;
using Exact = std::complex<double>;

/// A matrix in double precision, by rows.
struct Dense {
  Index rows, cols;
  std::vector<Exact> values = std::vector<Exact>(static_cast<std::size_t>(rows * cols));
  Exact& operator()(Index i, Index j) { return values[static_cast<std::size_t>(i * cols + j)]; }
  Exact operator()(Index i, Index j) const { return values[static_cast<std::size_t>(i * cols + j)]; }
};

Dense product(const Dense& a, const Dense& b) {
  Dense c{a.rows, b.cols};
  for (Index i = 0; i < a.rows; ++i)
    for (Index k = 0; k < a.cols; ++k)
      for (Index j = 0; j < b.cols; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}
Dense op(const Dense& a, Transpose how) {
  if (how == Transpose::none) return a;
  Dense t{a.cols, a.rows};
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) t(j, i) = how == Transpose::plain ? a(i, j) : std::conj(a(i, j));
  return t;
}
Dense triangle(const Dense& a, Uplo uplo, Diagonal diagonal) {
  Dense t{a.rows, a.cols};
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j)
      if (i == j ? diagonal == Diagonal::stored : (i > j) == (uplo == Uplo::lower))
        t(i, j) = a(i, j);
      else if (i == j)
        t(i, j) = 1;
  return t;
}

template <class T>
struct FlashLapack : testing::Test {
  static constexpr double eps = std::numeric_limits<decltype(std::abs(T{}))>::epsilon();

  FlashLapack()
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
TYPED_TEST_SUITE(FlashLapack, Elements);

const auto all = [](Index, Index) { return true; };

TYPED_TEST(FlashLapack, CholeskyInOneTriangleAndItsSolves) {
  for (const Order order : {Order::row_major, Order::column_major})
    for (const Uplo uplo : {Uplo::lower, Uplo::upper})
      for (const Index n : {1, 6, 301}) {
        const std::string text = std::to_string(n) + " order " + std::to_string(static_cast<int>(order)) + " uplo " +
                                 std::to_string(static_cast<int>(uplo));
        const auto mine = [=](Index i, Index j) { return uplo == Uplo::lower ? i >= j : i <= j; };
        this->fill();
        const auto a = this->stored(5, order, n, n), b = this->stored(400'000, order, n, 3);
        this->make_definite(a, true);
        const Dense given = a.values(), right = b.values();
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < n; ++j)
            if (!mine(i, j)) a(i, j) = this->number();  // of A one triangle counts
        this->remember();
        const double bound = 30 * static_cast<double>(n) * static_cast<double>(n) * this->eps;
        posv(this->runtime, order, uplo, n, 3, a.begin, a.leading, b.begin, b.leading);
        this->expect_untouched({{a, mine}, {b, all}});
        this->expect_near(product(given, b.values()), right, bound, text);
        const Dense factor = triangle(a.values(), uplo, Diagonal::stored);
        const Dense adjoint = op(factor, Transpose::conjugate);
        this->expect_near(uplo == Uplo::lower ? product(factor, adjoint) : product(adjoint, factor), given, bound,
                          text);
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < 3; ++j) b(i, j) = static_cast<TypeParam>(i + j);
        potrs(this->runtime, order, uplo, n, 3, a.begin, a.leading, b.begin, b.leading);
        Dense ramp{n, 3};
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < 3; ++j) ramp(i, j) = static_cast<double>(i + j);
        this->expect_near(product(given, b.values()), ramp, bound, text);
        if (testing::Test::HasFailure()) return;
      }
}

TYPED_TEST(FlashLapack, LuWithPivotsAndItsSolves) {
  for (const Order order : {Order::row_major, Order::column_major})
    for (const Index n : {1, 7, 300}) {
      this->fill();
      const auto a = this->stored(9, order, n, n), b = this->stored(400'001, order, n, 2);
      for (Index i = 0; i < n; ++i) a(i, (i + 1) % n) += static_cast<TypeParam>(4 * static_cast<int>(n));  // rows move
      const Dense given = a.values(), right = b.values();
      std::vector<Index> pivots(static_cast<std::size_t>(n));
      this->remember();
      const double bound = 30 * static_cast<double>(n) * static_cast<double>(n) * this->eps;
      gesv(this->runtime, order, n, 2, a.begin, a.leading, pivots.data(), b.begin, b.leading);
      this->expect_untouched({{a, all}, {b, all}});
      this->expect_near(product(given, b.values()), right, bound, std::to_string(n));
      Dense rows = given;
      for (Index i = 0; i < n; ++i) {
        const Index other = pivots[static_cast<std::size_t>(i)] - 1;
        for (Index j = 0; j < n && other != i; ++j) std::swap(rows(i, j), rows(other, j));
      }
      const Dense l = triangle(a.values(), Uplo::lower, Diagonal::unit),
                  u = triangle(a.values(), Uplo::upper, Diagonal::stored);
      this->expect_near(product(l, u), rows, bound, std::to_string(n));
      for (const Transpose how : {Transpose::none, Transpose::plain, Transpose::conjugate}) {
        const Dense asked = b.values();
        getrs(this->runtime, order, how, n, 2, a.begin, a.leading, pivots.data(), b.begin, b.leading);
        this->expect_near(product(op(given, how), b.values()), asked, bound, std::to_string(n));
      }
      if (testing::Test::HasFailure()) return;
    }
}

TYPED_TEST(FlashLapack, TriangularSolvesFromEitherSide) {
  const Index m = 37, n = 290;
  for (int i = 0; i < 48; ++i) {
    const Order order = i & 1 ? Order::row_major : Order::column_major;
    const Side side = i & 2 ? Side::left : Side::right;
    const Uplo uplo = i & 4 ? Uplo::lower : Uplo::upper;
    const Diagonal diagonal = i & 8 ? Diagonal::stored : Diagonal::unit;
    const Transpose trans[] = {Transpose::none, Transpose::plain, Transpose::conjugate};
    const Transpose how = trans[i / 16];
    const Index edge = side == Side::left ? m : n;
    this->fill();
    const auto a = this->stored(2, order, edge, edge), b = this->stored(400'003, order, m, n);
    for (Index r = 0; r < edge; ++r)
      for (Index c = 0; c < edge; ++c)
        a(r, c) = r == c ? static_cast<TypeParam>(3) : a(r, c) / static_cast<TypeParam>(static_cast<int>(edge));
    const Dense right = b.values(), t = op(triangle(a.values(), uplo, diagonal), how);
    const TypeParam alpha = this->number();
    this->remember();
    trsm(this->runtime, order, side, uplo, how, diagonal, m, n, alpha, a.begin, a.leading, b.begin, b.leading);
    this->expect_untouched({{b, all}});
    Dense scaled = right;
    for (Exact& value : scaled.values) value *= Exact(alpha);
    this->expect_near(side == Side::left ? product(t, b.values()) : product(b.values(), t), scaled, 4000 * this->eps,
                      std::to_string(i));
    if (testing::Test::HasFailure()) return;
  }
}

TYPED_TEST(FlashLapack, RankKUpdatesOfOneTriangle) {
  using T = TypeParam;
  for (int i = 0; i < 16; ++i) {
    const Order order = i & 1 ? Order::row_major : Order::column_major;
    const Uplo uplo = i & 2 ? Uplo::lower : Uplo::upper;
    const bool plain = i & 4;
    const Index n = i & 8 ? 270 : 5, k = i == 3 ? 0 : 33;
    const Transpose how = plain ? Transpose::none : Transpose::conjugate;
    this->fill();
    const auto a = this->stored(1, order, plain ? n : k, plain ? k : n), c = this->stored(400'000, order, n, n);
    this->make_definite(c, true);
    const Dense left = op(a.values(), plain ? Transpose::none : Transpose::conjugate), old = c.values();
    this->remember();
    if constexpr (std::is_floating_point_v<T>)
      syrk(this->runtime, order, uplo, how, n, k, T(1.5), a.begin, a.leading, T(-0.5), c.begin, c.leading);
    else
      herk(this->runtime, order, uplo, how, n, k, 1.5f, a.begin, a.leading, -0.5f, c.begin, c.leading);
    const auto mine = [=](Index r, Index s) { return uplo == Uplo::lower ? r >= s : r <= s; };
    this->expect_untouched({{c, mine}});
    const Dense sum = product(left, op(left, Transpose::conjugate));
    for (Index r = 0; r < n; ++r)
      for (Index s = 0; s < n; ++s)
        if (mine(r, s)) {
          ASSERT_LE(std::abs(Exact(c(r, s)) - (1.5 * sum(r, s) - 0.5 * old(r, s))), 4000 * this->eps) << i;
        }
  }
}

Dense scaled_sum(Exact alpha, const Dense& a, Exact beta, const Dense& b) {
  Dense sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] = alpha * a.values[i] + beta * b.values[i];
  return sum;
}

/// The whole of a matrix of which one triangle counts.
Dense whole_of(const Dense& a, Uplo uplo, bool hermitian) {
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

TYPED_TEST(FlashLapack, RankTwoKUpdatesOfOneTriangle) {
  using T = TypeParam;
  constexpr bool complex = !std::is_floating_point_v<T>;
  for (int i = 0; i < (complex ? 24 : 12); ++i) {
    const Order order = i & 1 ? Order::row_major : Order::column_major;
    const Uplo uplo = i & 2 ? Uplo::lower : Uplo::upper;
    const bool plain = i & 4, hermitian = i & 8, twice = i < 16;  // from 16 on: complex symmetric of rank k
    const Index n = i % 3 ? 270 : 5, k = i == 3 ? 0 : 33;
    const Transpose turned = hermitian ? Transpose::conjugate : Transpose::plain;
    const Transpose how = plain ? Transpose::none : turned;
    if (hermitian && !complex) continue;
    this->fill();
    const auto a = this->stored(1, order, plain ? n : k, plain ? k : n);
    const auto b = this->stored(200'000, order, plain ? n : k, plain ? k : n), c = this->stored(400'000, order, n, n);
    this->make_definite(c, hermitian);
    const Dense x = op(a.values(), how), y = op(b.values(), how), old = c.values();
    const T alpha = this->number(), beta = static_cast<T>(-0.5f);
    this->remember();
    if (!twice && !hermitian)
      syrk(this->runtime, order, uplo, how, n, k, alpha, a.begin, a.leading, beta, c.begin, c.leading);
    else if (!hermitian)
      syr2k(this->runtime, order, uplo, how, n, k, alpha, a.begin, a.leading, b.begin, b.leading, beta, c.begin,
            c.leading);
    else if constexpr (complex)
      her2k(this->runtime, order, uplo, how, n, k, alpha, a.begin, a.leading, b.begin, b.leading, -0.5f, c.begin,
            c.leading);
    const auto mine = [=](Index r, Index s) { return uplo == Uplo::lower ? r >= s : r <= s; };
    this->expect_untouched({{c, mine}});
    const Exact other = hermitian ? std::conj(Exact(alpha)) : Exact(alpha);
    const Dense sum = twice || hermitian
                          ? scaled_sum(alpha, product(x, op(y, turned)), other, product(y, op(x, turned)))
                          : scaled_sum(alpha, product(x, op(x, turned)), 0, old);
    for (Index r = 0; r < n; ++r)
      for (Index s = 0; s < n; ++s)
        if (mine(r, s)) ASSERT_LE(std::abs(Exact(c(r, s)) - (sum(r, s) - 0.5 * old(r, s))), 8000 * this->eps) << i;
  }
}

TYPED_TEST(FlashLapack, ProductsWithStructureFromEitherSide) {
  using T = TypeParam;
  const Index m = 41, n = 283;
  for (int i = 0; i < 16; ++i) {
    const Order order = i & 1 ? Order::row_major : Order::column_major;
    const Side side = i & 2 ? Side::left : Side::right;
    const Uplo uplo = i & 4 ? Uplo::lower : Uplo::upper;
    const bool hermitian = i & 8;
    if (hermitian && std::is_floating_point_v<T>) continue;
    const Index edge = side == Side::left ? m : n;
    this->fill();
    const auto a = this->stored(2, order, edge, edge), b = this->stored(200'000, order, m, n),
               c = this->stored(400'003, order, m, n);
    const Dense seen = whole_of(a.values(), uplo, hermitian), old = c.values(), right = b.values();
    const T alpha = this->number(), beta = this->number();
    this->remember();
    if (!hermitian)
      symm(this->runtime, order, side, uplo, m, n, alpha, a.begin, a.leading, b.begin, b.leading, beta, c.begin,
           c.leading);
    else if constexpr (!std::is_floating_point_v<T>)
      hemm(this->runtime, order, side, uplo, m, n, alpha, a.begin, a.leading, b.begin, b.leading, beta, c.begin,
           c.leading);
    this->expect_untouched({{c, all}});
    const Dense exact = side == Side::left ? product(seen, right) : product(right, seen);
    this->expect_near(c.values(), scaled_sum(alpha, exact, beta, old), 8000 * this->eps, std::to_string(i));
    if (testing::Test::HasFailure()) return;
  }
  const Index large = 530;  // several tiles of a triangle
  for (int i = 0; i < 48; ++i) {
    const Order order = i & 1 ? Order::row_major : Order::column_major;
    const Side side = i & 2 ? Side::left : Side::right;
    const Uplo uplo = i & 4 ? Uplo::lower : Uplo::upper;
    const Diagonal diagonal = i & 8 ? Diagonal::stored : Diagonal::unit;
    const Transpose trans[] = {Transpose::none, Transpose::plain, Transpose::conjugate};
    const Index edge = i % 7 ? m : large, beside = 5;
    const Index rows = side == Side::left ? edge : beside, cols = side == Side::left ? beside : edge;
    this->fill();
    const auto a = this->stored(2, order, edge, edge), b = this->stored(400'003, order, rows, cols);
    const Dense t = op(triangle(a.values(), uplo, diagonal), trans[i / 16]), old = b.values();
    const T alpha = this->number();
    this->remember();
    trmm(this->runtime, order, side, uplo, trans[i / 16], diagonal, rows, cols, alpha, a.begin, a.leading, b.begin,
         b.leading);
    this->expect_untouched({{b, all}});
    const Dense exact = side == Side::left ? product(t, old) : product(old, t);
    this->expect_near(b.values(), scaled_sum(alpha, exact, 0, exact), 20'000 * this->eps, std::to_string(i));
    if (testing::Test::HasFailure()) return;
  }
}

TYPED_TEST(FlashLapack, LuOfAnyShape) {
  for (const Order order : {Order::row_major, Order::column_major})
    for (const auto& [m, n] : {std::pair<Index, Index>{300, 170}, {170, 301}, {1, 7}, {7, 1}}) {
      this->fill();
      const auto a = this->stored(9, order, m, n);
      const Dense given = a.values();
      const Index least = std::min(m, n);
      std::vector<Index> pivots(static_cast<std::size_t>(least));
      this->remember();
      getrf(this->runtime, order, m, n, a.begin, a.leading, pivots.data());
      this->expect_untouched({{a, all}});
      Dense rows = given, l{m, least}, u{least, n};
      for (Index i = 0; i < least; ++i) {
        const Index other = pivots[static_cast<std::size_t>(i)] - 1;
        for (Index j = 0; j < n && other != i; ++j) std::swap(rows(i, j), rows(other, j));
      }
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < n; ++j)
          if (i > j)
            l(i, j) = Exact(a(i, j));
          else
            u(i, j) = Exact(a(i, j));
      for (Index i = 0; i < least; ++i) l(i, i) = 1;
      this->expect_near(product(l, u), rows, 30 * static_cast<double>(m + n) * this->eps * 10, std::to_string(m));
      for (const Exact value : l.values) ASSERT_LE(std::abs(value), std::is_floating_point_v<TypeParam> ? 1 : 1.5);
      if (testing::Test::HasFailure()) return;
    }
}

TYPED_TEST(FlashLapack, LeastSquaresOfAnyShape) {
  const Transpose adjoint = Transpose::conjugate;
  for (const Order order : {Order::row_major, Order::column_major})
    for (const Transpose trans : {Transpose::none, adjoint})
      for (const auto& [m, n] : {std::pair<Index, Index>{290, 60}, {60, 290}, {9, 9}, {600, 530}}) {
        this->fill();
        const auto a = this->stored(3, order, m, n), b = this->stored(400'003, order, std::max(m, n), 3);
        for (Index i = 0; i < std::min(m, n); ++i) a(i, i) += static_cast<TypeParam>(40);
        const Dense seen = op(a.values(), trans), right = b.values();
        this->remember();
        gels(this->runtime, order, trans, m, n, Index{3}, a.begin, a.leading, b.begin, b.leading);
        this->expect_untouched({{b, all}});
        const Dense made = b.values();
        Dense x{seen.cols, 3}, asked{seen.rows, 3};
        for (Index j = 0; j < 3; ++j) {
          for (Index i = 0; i < seen.cols; ++i) x(i, j) = made(i, j);
          for (Index i = 0; i < seen.rows; ++i) asked(i, j) = right(i, j);
        }
        const Dense left = scaled_sum(1, asked, -1, product(seen, x));
        const double bound = 2000 * static_cast<double>(m + n) * this->eps;
        const std::string text = std::to_string(m) + " x " + std::to_string(n);
        if (seen.rows > seen.cols) {
          this->expect_near(product(op(seen, adjoint), left), Dense{seen.cols, 3}, 60 * bound, text);
          double rest = 0, residual = 0;
          for (Index i = seen.cols; i < seen.rows; ++i) rest += std::norm(made(i, 0));
          for (Index i = 0; i < seen.rows; ++i) residual += std::norm(left(i, 0));
          ASSERT_NEAR(rest, residual, bound * residual);
        } else {
          this->expect_near(left, Dense{seen.rows, 3}, bound, text);
        }
        if (seen.rows < seen.cols) {  // the shortest: orthogonal to the null space, x = Aᴴ y
          gels(this->runtime, order, trans == adjoint ? Transpose::none : adjoint, m, n, Index{3}, a.begin, a.leading,
               b.begin, b.leading);
          const Dense y = b.values();
          Dense rows{seen.rows, 3};
          for (Index i = 0; i < seen.rows; ++i)
            for (Index j = 0; j < 3; ++j) rows(i, j) = y(i, j);
          this->expect_near(product(op(seen, adjoint), rows), x, bound, text);
        }
        if (testing::Test::HasFailure()) return;
      }
}

TYPED_TEST(FlashLapack, Norms) {
  using Real = decltype(std::abs(TypeParam{}));
  const Index m = 143, n = 301;
  const auto largest = [](const Dense& x, Norm which) {
    double found = 0;
    if (which == Norm::max)
      for (const Exact value : x.values) found = std::max(found, std::abs(value));
    if (which == Norm::fro) {
      for (const Exact value : x.values) found += std::norm(value);
      return std::sqrt(found);
    }
    const bool one = which == Norm::one;
    for (Index i = 0; which != Norm::max && i < (one ? x.cols : x.rows); ++i) {
      double sum = 0;
      for (Index j = 0; j < (one ? x.rows : x.cols); ++j) sum += std::abs(one ? x(j, i) : x(i, j));
      found = std::max(found, sum);
    }
    return found;
  };
  for (const Order order : {Order::row_major, Order::column_major})
    for (const Norm which : {Norm::max, Norm::one, Norm::inf, Norm::fro}) {
      this->fill();
      const auto a = this->stored(7, order, m, n), s = this->stored(200'000, order, n, n);
      const auto near = [&](double got, double exact) { EXPECT_NEAR(got, exact, exact * 10 * this->eps); };
      near(lange(this->runtime, order, which, m, n, a.begin, a.leading), largest(a.values(), which));
      for (const Uplo uplo : {Uplo::lower, Uplo::upper}) {
        near(lansy(this->runtime, order, which, uplo, n, s.begin, s.leading),
             largest(whole_of(s.values(), uplo, false), which));
        near(lanhe(this->runtime, order, which, uplo, n, s.begin, s.leading),
             largest(whole_of(s.values(), uplo, true), which));
        near(lantr(this->runtime, order, which, uplo, Diagonal::unit, n, s.begin, s.leading),
             largest(triangle(s.values(), uplo, Diagonal::unit), which));
      }
      a(3, 5) = std::numeric_limits<Real>::infinity();
      EXPECT_TRUE(std::isinf(lange(this->runtime, order, which, m, n, a.begin, a.leading)));
      a(3, 5) = std::numeric_limits<Real>::quiet_NaN();
      EXPECT_TRUE(std::isnan(lange(this->runtime, order, which, m, n, a.begin, a.leading)));
    }
  const double far = std::is_same_v<Real, float> ? 1e30 : 1e200;
  for (const double scale : {far, 1 / far}) {
    const auto a = this->stored(7, Order::row_major, 2, 2);
    for (Index i = 0; i < 4; ++i) a(i / 2, i % 2) = static_cast<TypeParam>(static_cast<Real>((i + 1) * scale));
    EXPECT_NEAR(lange(this->runtime, Order::row_major, Norm::fro, 2, 2, a.begin, a.leading), std::sqrt(30) * scale,
                scale * 20 * this->eps);
  }
}

// Tiles are written in place, evicted and read again.
TEST(FlashLapackLimits, GiveTheBitsOfALargeOne) {
  TemporaryDirectory directory;
  const Index n = 1100, ld = n + 7;
  auto p = map_file<double>(directory / "m.bin", MapMode::create, static_cast<std::uint64_t>(2 * n * ld));
  const auto q = p + n * ld;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j)
      p.ptr[i * ld + j] = q.ptr[i * ld + j] = 1.0 / (1.0 + std::abs(double(i - j))) + (i == j ? 9 : 0);
  const auto run = [&](std::uint64_t memory, const flash_ptr<double>& a) {
    Runtime runtime({.memory = memory, .workers = 2, .scratch = directory / "scratch"});
    return potrf(runtime, Order::row_major, Uplo::lower, n, a, ld);
  };
  const auto least = [&]() -> std::uint64_t {
    try {
      run(MiB, q);
    } catch (const BudgetError& error) {
      return error.least;
    }
    return 0;
  };
  ASSERT_GT(least(), 0u);
  const Statistics roomy = run(resident_bytes() + 512 * MiB, p), tight = run(least() + 4 * MiB, q);
  EXPECT_GT(tight.bytes_read, roomy.bytes_read);
  EXPECT_EQ(std::memcmp(p.ptr, q.ptr, static_cast<std::size_t>((n - 1) * ld + n) * sizeof(double)), 0);
}

TEST(FlashLapackErrors, AreOneSentenceAndNothingIsTouched) {
  TemporaryDirectory directory;
  Runtime runtime({.memory = resident_bytes() + 256 * MiB, .workers = 1, .scratch = directory / "scratch"});
  auto p = map_file<double>(directory / "m.bin", MapMode::create, 1000);
  const auto message = [&](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const auto order = Order::row_major;
  std::vector<Index> pivots{1, 5};
  EXPECT_THAT(message([&] { potrf(runtime, order, Uplo::lower, 9, p, 8); }), HasSubstr("potrf: lda is 8"));
  EXPECT_THAT(message([&] { potrf(runtime, order, Uplo::lower, -1, p, 8); }), HasSubstr("n is -1"));
  EXPECT_THAT(message([&] { posv(runtime, order, Uplo::lower, 4, 2, p, 4, p + 15, 2); }), HasSubstr("share elements"));
  EXPECT_THAT(message([&] { getrf(runtime, order, 4, p, 4, nullptr); }), HasSubstr("ipiv is a null pointer"));
  EXPECT_THAT(message([&] { getrs(runtime, order, Transpose::none, 2, 1, p, 2, pivots.data(), p + 10, 1); }),
              HasSubstr("ipiv[1] is 5"));
  const auto reading = map_file<double>(directory / "m.bin");
  EXPECT_THAT(message([&] { potrf(runtime, order, Uplo::lower, 4, reading, 4); }), HasSubstr("mapped for reading"));
  for (int i = 0; i < 3; ++i) p.ptr[4 * i] = i == 1 ? -1 : 1;
  try {
    potrf(runtime, order, Uplo::lower, 3, p, 3);
    ADD_FAILURE() << "a negative pivot passed";
  } catch (const PivotError& error) {
    EXPECT_EQ(error.index, 2);
  }
  for (int i = 0; i < 9; ++i) p.ptr[i] = 0;
  std::vector<Index> three(3);
  EXPECT_EQ(message([&] { getrf(runtime, order, 3, p, 3, three.data()); }), "none");  // as LAPACK: info, no end
  EXPECT_NE(message([&] { getrs(runtime, order, Transpose::none, 3, 1, p, 3, three.data(), p + 20, 1); }), "none");
  EXPECT_EQ(message([&] { potrf(runtime, order, Uplo::lower, 0, p, 1); }), "none");
}

}  // namespace
}  // namespace flagstone::flash
