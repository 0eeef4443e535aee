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
