// Norms of matrices on disk pointers, against naive ones.
#include "flagstone/flash/norms.hpp"

#include "flagstone/testing/flash_matrices.hpp"

namespace flagstone::flash {
namespace {

template <class T>
struct FlashNorms : FlashMatrices<T> {};
TYPED_TEST_SUITE(FlashNorms, Elements);

TYPED_TEST(FlashNorms, AreThoseOfALoop) {
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
      for (const bool lower : {false, true}) {
        Dense trapezoid = a.values();
        for (Index i = 0; i < m; ++i)
          for (Index j = 0; j < n; ++j)
            if (lower ? j > i : j < i) trapezoid(i, j) = 0;
        near(lantr(this->runtime, order, which, lower ? Uplo::lower : Uplo::upper, Diagonal::stored, m, n, a.begin,
                   a.leading),
             largest(trapezoid, which));
      }
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

}  // namespace
}  // namespace flagstone::flash
