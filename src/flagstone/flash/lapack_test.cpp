// Factorizations and solves on disk pointers, against naive products in double precision.
#include "flagstone/flash/lapack.hpp"

#include <gmock/gmock.h>

#include "flagstone/base/error.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/testing/flash_matrices.hpp"

namespace flagstone::flash {
namespace {

using ::testing::HasSubstr;

template <class T>
struct FlashLapack : FlashMatrices<T> {};
TYPED_TEST_SUITE(FlashLapack, Elements);

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
    EXPECT_THAT(error.what(), HasSubstr("potrf: the matrix is not positive definite"));
  }
  for (int i = 0; i < 40; ++i) p.ptr[i] = i == 14 ? std::numeric_limits<double>::quiet_NaN() : i % 7;
  for (const Transpose trans : {Transpose::none, Transpose::plain})  // of A as it is given
    EXPECT_THAT(message([&] { gels(runtime, order, trans, 9, 3, Index{1}, p, 3, p + 100, 1); }),
                HasSubstr("gels: the matrix has NaN or Inf at row 4, column 2"));
  for (int i = 0; i < 9; ++i) p.ptr[i] = 0;
  std::vector<Index> three(3);
  EXPECT_EQ(message([&] { getrf(runtime, order, 3, p, 3, three.data()); }), "none");  // as LAPACK: info, no end
  EXPECT_NE(message([&] { getrs(runtime, order, Transpose::none, 3, 1, p, 3, three.data(), p + 20, 1); }), "none");
  EXPECT_EQ(message([&] { potrf(runtime, order, Uplo::lower, 0, p, 1); }), "none");
}

}  // namespace
}  // namespace flagstone::flash
