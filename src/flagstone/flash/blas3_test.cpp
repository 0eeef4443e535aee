// Triangular solves, rank-k updates and products with structure on disk pointers, against naive products.
#include "flagstone/flash/blas3.hpp"

#include "flagstone/testing/flash_matrices.hpp"

namespace flagstone::flash {
namespace {

template <class T>
struct FlashBlas3 : FlashMatrices<T> {};
TYPED_TEST_SUITE(FlashBlas3, Elements);

TYPED_TEST(FlashBlas3, TriangularSolvesFromEitherSide) {
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

TYPED_TEST(FlashBlas3, RankKUpdatesOfOneTriangle) {
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
    if constexpr (!std::is_floating_point_v<T>)
      for (Index r = 0; r < n; ++r) c(r, r) += T(0, 0.25f);  // taken for 0, and 0 afterwards
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

TYPED_TEST(FlashBlas3, RankTwoKUpdatesOfOneTriangle) {
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
    if constexpr (complex)
      for (Index r = 0; r < n && hermitian; ++r) c(r, r) += T(0, 0.25f);  // taken for 0, and 0 afterwards
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
    for (Index r = 0; r < n && hermitian; ++r) ASSERT_EQ(Exact(c(r, r)).imag(), 0) << i;
  }
}

TYPED_TEST(FlashBlas3, ProductsWithStructureFromEitherSide) {
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

}  // namespace
}  // namespace flagstone::flash
