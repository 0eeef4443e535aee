// Kernels of factorizations on each device, by formulas; what one memory left another one reads.
#include <gmock/gmock.h>

#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/kernel/factor/getrf.hpp"
#include "flagstone/kernel/factor/qr.hpp"
#include "flagstone/testing/device_table.hpp"

namespace flagstone {
namespace {

using namespace test;
using kernel::Side;
using kernel::Uplo;

class DeviceFactors : public DeviceFixture {};

TEST_P(DeviceFactors, RankKUpdates) {
  for (const Layout a_layout : layouts())
    for (const Layout c_layout : layouts())
      for (const bool transpose : {false, true})
        for (const bool conjugate : conjugations())
          for (const bool lower : {false, true}) {
            tiles_.clear();
            const Index n = n_, k = 17;
            const std::uint32_t a = place(dtype_, transpose ? k : n, transpose ? n : k, a_layout),
                                c = place(dtype_, n, n, c_layout), s = scratch(16 * n * k + 4096);
            for (Index i = 0; i < n; ++i) set(here(c), i, i, get(here(c), i, i).real());
            const Matrix x = op(read(a), transpose, conjugate), before = read(c);
            const Matrix want = sum(1.5, x * op(x, true, true), -0.5, before);
            run(call::herk(dtype_, lower ? Uplo::lower : Uplo::upper, 1.5, {a, transpose, conjugate, {}}, -0.5, {c}, s),
                {c});
            const Matrix after = read(c);
            expect_near(triangle(after, lower), triangle(want, lower), 20 * x.norm() * x.norm(), "triangle");
            Matrix other = sum(1, after, -1, before);
            for (Index i = 0; i < n; ++i)
              for (Index j = 0; j < n; ++j)
                if (lower ? i >= j : i <= j) other.at(i, j) = 0;
            EXPECT_EQ(other.norm(), 0) << "the other triangle was touched";
          }
}

TEST_P(DeviceFactors, TriangularSolves) {
  for (const Layout a_layout : layouts())
    for (const Layout b_layout : layouts())
      for (int how = 0; how < 32; ++how) {
        const bool left = how & 1, lower = how & 2, unit = how & 4, transpose = how & 8, conjugate = how & 16;
        if (conjugate && !complex_) continue;
        tiles_.clear();
        const Index n = n_, other = 19;
        const std::uint32_t a = place(dtype_, n, n, a_layout),
                            b = place(dtype_, left ? n : other, left ? other : n, b_layout);
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < n; ++j)
            set(here(a), i, j, i == j ? 2.0 + get(here(a), i, j) * 0.1 : get(here(a), i, j) / static_cast<double>(n));
        const std::uint32_t kept = place(dtype_, 1, n, Layout::rows);
        tiles_[kept].here.shape = tiles_[kept].there.shape = {n};
        tiles_[kept].here.strides = tiles_[kept].there.strides = {static_cast<Index>(size_of(dtype_))};
        const Wide alpha = scalar(1.5, 0.5);
        const Matrix x = triangle(op(read(a), transpose, conjugate), lower, unit), before = read(b);
        run(call::trsm(dtype_, left ? Side::left : Side::right, lower ? Uplo::lower : Uplo::upper, unit, alpha,
                       {a, transpose, conjugate, {}}, {b}, {}, TilePart{kept}),
            {b, kept});
        const Matrix solved = read(b), back = left ? x * solved : solved * x;
        expect_near(back, sum(alpha, before, 0, before), 30 * x.norm() * solved.norm(), "how " + std::to_string(how));
        Tile& diagonal = tiles_[kept].here;
        diagonal.shape = {1, n}, diagonal.strides = {0, static_cast<Index>(size_of(dtype_))};
        for (Index i = 0; i < n; ++i) EXPECT_EQ(get(here(kept), 0, i), get(here(a), i, i));
      }
}

TEST_P(DeviceFactors, ASingularTriangleIsRefused) {
  const std::uint32_t a = place(dtype_, 9, 9, Layout::rows), b = place(dtype_, 9, 3, Layout::rows);
  set(here(a), 6, 6, 0), set(here(a), 7, 7, 0);
  try {
    run(call::trsm(dtype_, Side::left, Uplo::lower, false, 1, {a}, {b}, {"test", 100, 100}), {b});
    FAIL();
  } catch (const PivotError& error) {
    EXPECT_EQ(error.index, 107);
  }
}

TEST_P(DeviceFactors, CholeskyFactors) {
  for (const Layout layout : layouts())
    for (const bool lower : {false, true})
      for (const bool turned : {false, true}) {
        tiles_.clear();
        const std::uint32_t a = place(dtype_, n_, n_, layout);
        const Matrix g = read(a), definite = sum(1, g * op(g, true, true), 1, matrix(n_, n_));
        for (Index i = 0; i < n_; ++i)
          for (Index j = 0; j < n_; ++j)  // the other triangle says nothing
            set(here(a), turned ? j : i, turned ? i : j,
                (lower ? i >= j : i <= j) ? definite.at(i, j) + (i == j ? 1.0 : 0.0) : std::nan(""));
        Matrix given = definite;
        for (Index i = 0; i < n_; ++i) given.at(i, i) = definite.at(i, i).real() + 1.0;
        for (Index i = 0; i < n_; ++i) set(here(a), i, i, given.at(i, i));
        run(call::potrf(dtype_, lower ? Uplo::lower : Uplo::upper, {a, turned, false, {}}, {"test", 0, 0}), {a});
        const Matrix factor = triangle(op(read(a), turned, false), lower);
        const Matrix back = lower ? factor * op(factor, true, true) : op(factor, true, true) * factor;
        expect_near(back, given, 3 * given.norm(), "factor");
      }
}

TEST_P(DeviceFactors, AMatrixThatIsNotDefiniteIsRefused) {
  for (const double pivot : {-1.0, std::nan("")})
    for (const Layout layout : layouts()) {
      tiles_.clear();
      const std::uint32_t a = place(dtype_, n_, n_, layout);
      for (Index i = 0; i < n_; ++i)
        for (Index j = 0; j < n_; ++j) set(here(a), i, j, i == j ? (i == 12 ? pivot : 4) : 0);
      try {
        run(call::potrf(dtype_, Uplo::lower, {a}, {"test", 100, 100}), {a});
        FAIL();
      } catch (const PivotError& error) {
        EXPECT_EQ(error.index, 113);
      }
    }
}

TEST_P(DeviceFactors, PanelsAndTheirExchanges) {
  for (const Layout layout : layouts()) {
    tiles_.clear();
    const Index m = 2 * n_, n = n_;
    const std::uint32_t a = place(dtype_, m, n, layout), p = place(Dtype::int64, 1, n, Layout::rows),
                        s = scratch(static_cast<Index>(kernel::getrf_work_bytes(dtype_, m)));
    const Matrix given = read(a);
    run(call::getrf(dtype_, 1000, {a}, {p}, s), {a, p});
    const Matrix factors = read(a);
    Matrix l = triangle(factors, true, true), u = triangle(rows(factors, 0, n), false);
    for (const Wide& x : l.x) EXPECT_LE(std::abs(x), 1.5);  // |Re| + |Im| chooses
    const std::vector<std::int64_t> pivots(here(p).as<std::int64_t>(), here(p).as<std::int64_t>() + n);
    Matrix permuted = given;
    for (Index i = 0; i < n; ++i) {
      ASSERT_GE(pivots[i], 1000 + i);
      ASSERT_LT(pivots[i], 1000 + m);
      for (Index j = 0; j < n; ++j) std::swap(permuted.at(i, j), permuted.at(pivots[i] - 1000, j));
    }
    // ‖P A - L U‖ ≤ n ‖A‖ ε; SLATE's testers allow three times that.
    expect_near(l * u, permuted, static_cast<double>(n) * given.norm(), "LU");
    // The same exchanges of other rows, cut in two tiles, and back.
    for (const Layout other : layouts()) {
      const std::uint32_t upper = place(dtype_, 40 < m ? 40 : m / 2, 11, other);
      const Index above = here(upper).shape[0];
      const std::uint32_t lower = place(dtype_, m - above, 11, other);
      const Matrix before_upper = read(upper), before_lower = read(lower);
      run(call::laswp(dtype_, 1000, 1000, false, {p}, {lower}, TilePart{upper}), {upper, lower});
      const Matrix after = read(upper), after_lower = read(lower);
      Matrix want = matrix(m, 11);
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < 11; ++j)
          want.at(i, j) = i < above ? before_upper.at(i, j) : before_lower.at(i - above, j);
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < 11; ++j) std::swap(want.at(i, j), want.at(pivots[i] - 1000, j));
      EXPECT_EQ(after.x, rows(want, 0, above).x);
      EXPECT_EQ(after_lower.x, rows(want, above, m).x);
      run(call::laswp(dtype_, 1000, 1000, true, {p}, {lower}, TilePart{upper}), {upper, lower});
      EXPECT_EQ(read(upper).x, before_upper.x);
      EXPECT_EQ(read(lower).x, before_lower.x);
    }
  }
}

/// The host's kernels read what the device's left: the format is one.
TEST_P(DeviceFactors, TilesOfQr) {
  std::vector<std::byte> work(std::size_t{1} << 20);
  for (const auto& [m, n] : {std::pair<Index, Index>{n_ + 9, n_}, {n_, n_ + 5}, {n_, n_}})
    for (const Index ib : {Index{8}, Index{32}, n_}) {
      tiles_.clear();
      const Index k = std::min(m, n);
      const std::uint32_t v = place(dtype_, m, n, Layout::columns), t = place(dtype_, ib, k, Layout::columns),
                          c = place(dtype_, m, 23, Layout::columns), s = scratch(16 * ib * (m + n));
      const Matrix given = read(v), other = read(c);
      call::QrOptions options{.ib = ib, .work = s};
      run(call::geqrt(dtype_, options, {t}, {v}), {t, v});
      std::vector<std::byte> memory(static_cast<std::size_t>(m * n) * size_of(dtype_));
      const auto item = static_cast<Index>(size_of(dtype_));
      Tile back{memory.data(), dtype_, {m, n}, {item, m * item}, memory.size()};
      const Matrix r = triangle(read(v), false);
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < n; ++j) set(back, i, j, i < k ? r.at(i, j) : 0);
      kernel::gemqrt(ib, false, here(v), here(t), back, work.data());
      expect_near(matrix(back), given, 20 * given.norm(), "Q R");
      // The device's Qᴴ C as the host's, and Q of that as C.
      std::vector<std::byte> twin_memory(static_cast<std::size_t>(m * 23) * size_of(dtype_));
      Tile twin{twin_memory.data(), dtype_, {m, 23}, {item, m * item}, twin_memory.size()};
      copy(here(c), twin);
      kernel::gemqrt(ib, true, here(v), here(t), twin, work.data());
      options.adjoint = true;
      run(call::gemqrt(dtype_, options, {v}, {t}, {c}), {c});
      expect_near(read(c), matrix(twin), 20 * other.norm(), "Qᴴ C");
      options.adjoint = false;
      run(call::gemqrt(dtype_, options, {v}, {t}, {c}), {c});
      expect_near(read(c), other, 30 * other.norm(), "Q Qᴴ C");
    }
}

TEST_P(DeviceFactors, TrianglesOnTilesOfQr) {
  std::vector<std::byte> work(std::size_t{1} << 20);
  for (const bool merge : {false, true})
    for (const Index ib : {Index{8}, Index{32}, n_}) {
      tiles_.clear();
      const Index n = n_, m = merge ? n : n + 7, width = 23;
      const std::uint32_t r = place(dtype_, n, n, Layout::columns), b = place(dtype_, m, n, Layout::columns),
                          t = place(dtype_, ib, n, Layout::columns), upper = place(dtype_, n, width, Layout::columns),
                          lower = place(dtype_, m, width, Layout::columns), s = scratch(16 * ib * (n + width));
      const Matrix given_r = triangle(read(r), false), below = merge ? triangle(read(b), false) : read(b);
      const Matrix below_r = sum(1, read(r), -1, given_r), below_b = sum(1, read(b), -1, below);
      call::QrOptions options{.ib = ib, .triangle = merge, .work = s};
      run(call::tpqrt(dtype_, options, {t}, {b}, {r}), {t, b, r});
      EXPECT_EQ(sum(1, read(r), -1, triangle(read(r), false)).x, below_r.x) << "below the triangle R was touched";
      if (merge) {
        EXPECT_EQ(sum(1, read(b), -1, triangle(read(b), false)).x, below_b.x);
      }
      // Q [R; 0] by the host's kernel.
      const auto item = static_cast<Index>(size_of(dtype_));
      std::vector<std::byte> top_memory(static_cast<std::size_t>(n * n * item)),
          low_memory(static_cast<std::size_t>(m * n * item));
      Tile top{top_memory.data(), dtype_, {n, n}, {item, n * item}, top_memory.size()},
          low{low_memory.data(), dtype_, {m, n}, {item, m * item}, low_memory.size()};
      const Matrix factor = triangle(read(r), false);
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) set(top, i, j, factor.at(i, j));
      kernel::tpmqrt(ib, false, merge, here(b), here(t), top, low, work.data());
      const double size = given_r.norm() + below.norm();
      expect_near(matrix(top), given_r, 20 * size, "R of Q R");
      expect_near(matrix(low), below, 20 * size, "B of Q R");
      const Matrix over = read(upper), under = read(lower);
      std::vector<std::byte> over_memory(static_cast<std::size_t>(n * width * item)),
          under_memory(static_cast<std::size_t>(m * width * item));
      Tile over_twin{over_memory.data(), dtype_, {n, width}, {item, n * item}, 0},
          under_twin{under_memory.data(), dtype_, {m, width}, {item, m * item}, 0};
      copy(here(upper), over_twin), copy(here(lower), under_twin);
      kernel::tpmqrt(ib, true, merge, here(b), here(t), over_twin, under_twin, work.data());
      options.adjoint = true;
      run(call::tpmqrt(dtype_, options, {b}, {t}, {upper}, {lower}), {upper, lower});
      expect_near(read(upper), matrix(over_twin), 20 * (over.norm() + under.norm()), "upper");
      expect_near(read(lower), matrix(under_twin), 20 * (over.norm() + under.norm()), "lower");
      options.adjoint = false;
      run(call::tpmqrt(dtype_, options, {b}, {t}, {upper}, {lower}), {upper, lower});
      expect_near(read(upper), over, 30 * (over.norm() + under.norm()), "upper again");
      expect_near(read(lower), under, 30 * (over.norm() + under.norm()), "lower again");
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceFactors, testing::ValuesIn(every_device_and_dtype()), name_of_param);

}  // namespace
}  // namespace flagstone
