// The kernels of each device that is here, the emulated one always, by what they promise: on tiles of any layout, with
// memory around them that nothing may touch, outputs poisoned, fresh random data in each run (GTEST_RANDOM_SEED).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <random>

#include "flagstone/algorithms/kernels/dense.hpp"
#include "flagstone/algorithms/kernels/factor.hpp"
#include "flagstone/algorithms/kernels/qr.hpp"
#include "flagstone/base/pivot_error.hpp"
#include "flagstone/kernel/factor/getrf.hpp"
#include "flagstone/kernel/factor/qr.hpp"
#include "flagstone/kernel/reference/reference.hpp"
#include "flagstone/runtime/spaces/cuda_loader.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"

namespace flagstone {
namespace {

using kernel::Part;
using kernel::Side;
using kernel::Uplo;
using kernel::reference::get;
using kernel::reference::set;
using kernel::reference::Wide;

std::shared_ptr<Device> opened(const std::string& kind) {
  static std::shared_ptr<Device> emulated, cuda;
  if (kind == "cuda") return cuda ? cuda : cuda = open_cuda(0, std::uint64_t{1} << 29);
  return emulated ? emulated : emulated = open_emulated({.memory = std::uint64_t{1} << 26});
}

std::vector<std::string> kinds() {
  std::vector<std::string> found{"emulated"};
  if (!cuda_devices().empty()) found.push_back("cuda");
  return found;
}

enum class Layout { rows, columns, strided };

/// A matrix in wide numbers, for what is promised of it.
struct Matrix {
  Index m = 0, n = 0;
  std::vector<Wide> x;
  Wide& at(Index i, Index j) { return x[i * n + j]; }
  Wide at(Index i, Index j) const { return x[i * n + j]; }
  double norm() const {
    double sum = 0;
    for (const Wide& v : x) sum += std::norm(v);
    return std::sqrt(sum);
  }
};
Matrix matrix(Index m, Index n) { return {m, n, std::vector<Wide>(static_cast<std::size_t>(m * n))}; }
Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c = matrix(a.m, b.n);
  for (Index i = 0; i < a.m; ++i)
    for (Index k = 0; k < a.n; ++k)
      for (Index j = 0; j < b.n; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}
Matrix sum(Wide alpha, const Matrix& a, Wide beta, const Matrix& b) {
  Matrix c = a;
  for (std::size_t i = 0; i < c.x.size(); ++i) c.x[i] = alpha * a.x[i] + beta * b.x[i];
  return c;
}
Matrix op(const Matrix& a, bool transpose, bool conjugate) {
  Matrix c = transpose ? matrix(a.n, a.m) : a;
  for (Index i = 0; i < c.m; ++i)
    for (Index j = 0; j < c.n; ++j) {
      const Wide x = transpose ? a.at(j, i) : a.at(i, j);
      c.at(i, j) = conjugate ? std::conj(x) : x;
    }
  return c;
}
Matrix triangle(const Matrix& a, bool lower, bool unit = false) {
  Matrix c = a;
  for (Index i = 0; i < a.m; ++i)
    for (Index j = 0; j < a.n; ++j) c.at(i, j) = i == j && unit ? 1 : (lower ? i >= j : i <= j) ? a.at(i, j) : 0;
  return c;
}
Matrix matrix(const Tile& t) {
  Matrix a = matrix(t.shape[0], t.shape[1]);
  for (Index i = 0; i < a.m; ++i)
    for (Index j = 0; j < a.n; ++j) a.at(i, j) = get(t, i, j);
  return a;
}
Matrix rows(const Matrix& a, Index first, Index end) {
  Matrix c = matrix(end - first, a.n);
  for (Index i = first; i < end; ++i)
    for (Index j = 0; j < a.n; ++j) c.at(i - first, j) = a.at(i, j);
  return c;
}

struct Param {
  std::string kind;
  Dtype dtype;
};

class DeviceTable : public testing::TestWithParam<Param> {
 protected:
  /// A tile inside memory with something around it, here and on the device.
  struct Placed {
    std::vector<std::byte> memory, given;
    Tile here, there;
  };

  const bool cuda_ = GetParam().kind == "cuda";
  const Dtype dtype_ = GetParam().dtype;
  const bool complex_ = is_complex(dtype_);
  const double eps_ = real_part_of(dtype_) == Dtype::float32 ? 0x1p-23 : 0x1p-52;
  const Index n_ = cuda_ ? 150 : 21;  // where blocks of the vendor's kernels begin to matter
  std::shared_ptr<Device> device_ = opened(GetParam().kind);
  std::mt19937 random_{static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed())};
  std::vector<Placed> tiles_;

  std::vector<Layout> layouts() const {
    // The host's kernels want one unit stride.
    return cuda_ ? std::vector{Layout::rows, Layout::columns, Layout::strided}
                 : std::vector{Layout::rows, Layout::columns};
  }
  std::vector<bool> conjugations() const { return complex_ ? std::vector{false, true} : std::vector{false}; }

  std::uint32_t place(Dtype dtype, Index m, Index n, Layout layout) {
    const auto item = static_cast<Index>(size_of(dtype)), pad = 3 * item;
    const Index step = layout == Layout::strided ? 2 * item : item;
    Tile t{nullptr, dtype, {m, n}, {n * step + pad, step}, 0};
    if (layout == Layout::columns) t.strides = {item, m * item + pad};
    const Index bytes = 2 * pad + m * t.strides[0] + n * t.strides[1];
    Placed made;
    made.memory.resize(static_cast<std::size_t>(bytes));
    for (std::byte& b : made.memory) b = static_cast<std::byte>(random_());
    t.bytes = static_cast<std::size_t>(m * n * item);
    made.here = made.there = t;
    made.here.data = made.memory.data() + pad;
    std::normal_distribution<double> normal;
    const bool number = is_complex(dtype) || dtype == Dtype::float32 || dtype == Dtype::float64;
    for (Index i = 0; number && i < m; ++i)
      for (Index j = 0; j < n; ++j) set(made.here, i, j, {normal(random_), is_complex(dtype) ? normal(random_) : 0});
    tiles_.push_back(std::move(made));
    return static_cast<std::uint32_t>(tiles_.size() - 1);
  }
  Tile& here(std::uint32_t i) { return tiles_[i].here; }
  Matrix read(std::uint32_t i) { return matrix(here(i)); }
  std::uint32_t scratch(Index bytes) { return place(Dtype::uint8, 1, bytes + 64, Layout::rows); }

  void wait(const std::function<void(Device::Done)>& ask) {
    std::promise<std::exception_ptr> done;
    ask([&](std::exception_ptr error) { done.set_value(error); });
    if (const std::exception_ptr error = done.get_future().get()) std::rethrow_exception(error);
  }
  static Tile bytes_of(std::byte* data, std::size_t n) { return {data, Dtype::uint8, {static_cast<Index>(n)}, {1}, n}; }

  /// Runs it `works` times over on tiles of each work's own; tiles_ become those of the first. `changes`: which may.
  void run(const Call& call, const std::vector<std::uint32_t>& changes, std::size_t works = 1) {
    std::vector<Tile> shapes;
    for (Placed& p : tiles_) shapes.push_back(p.there);
    const std::vector<Call> calls{call};
    ASSERT_TRUE(device_->runs(call));
    const std::size_t workspace = device_->workspace_bytes(calls, shapes);
    std::byte* at = device_->memory();
    const auto take = [&](std::size_t bytes) { return std::exchange(at, at + (bytes + 255) / 256 * 256); };
    std::vector<std::vector<Tile>> there(works, shapes);
    std::vector<DeviceWork> batch;
    std::vector<std::byte> poison(workspace, std::byte{0xFF});
    for (Placed& p : tiles_) p.given = p.memory;
    for (std::size_t w = 0; w < works; ++w) {
      for (std::size_t i = 0; i < tiles_.size(); ++i) {
        std::byte* const base = take(tiles_[i].memory.size());
        const Tile to = bytes_of(base, tiles_[i].memory.size());
        wait([&](auto done) { device_->copy_in(bytes_of(tiles_[i].memory.data(), to.bytes), to, done); });
        there[w][i].data = base + (here(static_cast<std::uint32_t>(i)).data - tiles_[i].memory.data());
      }
      std::byte* const space = take(workspace);
      if (workspace > 0)
        wait(
            [&](auto done) { device_->copy_in(bytes_of(poison.data(), workspace), bytes_of(space, workspace), done); });
      batch.push_back({calls, there[w], space});
    }
    ASSERT_LE(static_cast<std::uint64_t>(at - device_->memory()), device_->properties().memory);
    wait([&](auto done) { device_->launch(batch, 1, done); });
    for (std::size_t w = works; w-- > 0;)
      for (std::size_t i = 0; i < tiles_.size(); ++i) {
        std::vector<std::byte> back(tiles_[i].memory.size());
        const Tile from = bytes_of(there[w][i].data - (tiles_[i].here.data - tiles_[i].memory.data()), back.size());
        wait([&](auto done) { device_->copy_out(from, bytes_of(back.data(), back.size()), done); });
        if (w + 1 < works) {
          ASSERT_EQ(back, tiles_[i].memory) << "works of one batch differ";
        }
        std::copy(back.begin(), back.end(), tiles_[i].memory.begin());
      }
    check_surroundings(changes);
  }

  /// What is not of a tile that may change has the bytes that it had.
  void check_surroundings(const std::vector<std::uint32_t>& changes) {
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      Placed& p = tiles_[i];
      if (p.here.dtype == Dtype::uint8) continue;
      std::vector<std::byte> masked = p.memory;
      if (std::find(changes.begin(), changes.end(), i) != changes.end()) {
        Tile from = p.here, to = p.here;
        from.data = p.given.data() + (p.here.data - p.memory.data());
        to.data = masked.data() + (p.here.data - p.memory.data());
        copy(from, to);
      }
      ASSERT_EQ(masked, p.given) << "tile " << i << " or what is around it was touched";
    }
  }

  void expect_near(const Matrix& got, const Matrix& want, double bound, const std::string& what) {
    const double error = sum(1, got, -1, want).norm();
    EXPECT_LE(error, bound * eps_) << what;
    EXPECT_TRUE(std::isfinite(error)) << what;
  }
  Wide scalar(double re, double im) const { return {re, complex_ ? im : 0}; }
};

TEST_P(DeviceTable, Products) {
  struct Extents {
    Index m, n, k;
  };
  std::vector<Extents> sizes{{13, 9, 21}, {70, 65, 40}};
  if (cuda_) sizes.push_back({520, 33, 40});  // the library's kernel, not that of small tiles
  for (const auto& [m, n, k] : sizes)
    for (const Layout a_layout : layouts())
      for (const Layout c_layout : layouts())
        for (int ops = 0; ops < (complex_ ? 16 : 4); ++ops) {
          if (m > 100 && a_layout == Layout::strided && c_layout != Layout::rows) continue;
          const bool ta = ops & 1, tb = ops & 2, ca = ops & 4, cb = ops & 8;
          tiles_.clear();
          const Wide alpha = scalar(1.5, -0.5), beta = ops == 3 ? 0 : scalar(-0.5, 2);
          const std::uint32_t a = place(dtype_, ta ? k : m, ta ? m : k, a_layout),
                              b = place(dtype_, tb ? n : k, tb ? k : n, ops & 1 ? Layout::rows : Layout::columns),
                              c = place(dtype_, m, n, c_layout), s = scratch(16 * (m + n) * k + 4096);
          if (beta == 0.0)
            for (Index j = 0; j < n; ++j) set(here(c), m / 2, j, std::nan(""));
          const Matrix x = op(read(a), ta, ca), y = op(read(b), tb, cb), z = read(c), product = x * y;
          const Matrix want = beta == 0.0 ? sum(alpha, product, 0, product) : sum(alpha, product, beta, z);
          run(call::gemm(dtype_, alpha, {a, ta, ca, {}}, {b, tb, cb, {}}, beta, {c}, s), {c}, m == 70 ? 3 : 1);
          expect_near(read(c), want, 8 * std::sqrt(static_cast<double>(k)) * x.norm() * y.norm(),
                      std::to_string(m) + ", ops " + std::to_string(ops));
        }
}

TEST_P(DeviceTable, ProductsOfStacks) {
  tiles_.clear();
  const std::uint32_t a = place(dtype_, 6 * 5, 7, Layout::rows), b = place(dtype_, 7, 4, Layout::rows),
                      c = place(dtype_, 6 * 5, 4, Layout::rows);
  const Matrix want = read(a) * read(b);
  // Six matrices of five rows, all times the same one.
  for (const std::uint32_t i : {a, c})
    for (Tile* t : {&tiles_[i].here, &tiles_[i].there})
      t->shape = {6, 5, t->shape[1]}, t->strides = {5 * t->strides[0], t->strides[0], t->strides[1]};
  for (Tile* t : {&tiles_[b].here, &tiles_[b].there})
    t->shape.insert(t->shape.begin(), 1), t->strides.insert(t->strides.begin(), 0);
  run(call::gemm(dtype_, 1, {a}, {b}, 0, {c}), {c});
  Tile& t = tiles_[c].here;
  t.shape = {30, 4}, t.strides = {t.strides[1], t.strides[2]};
  expect_near(read(c), want, 8 * want.norm(), "stack");
}

TEST_P(DeviceTable, RankKUpdates) {
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

TEST_P(DeviceTable, TriangularSolves) {
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

TEST_P(DeviceTable, ASingularTriangleIsRefused) {
  const std::uint32_t a = place(dtype_, 9, 9, Layout::rows), b = place(dtype_, 9, 3, Layout::rows);
  set(here(a), 6, 6, 0), set(here(a), 7, 7, 0);
  try {
    run(call::trsm(dtype_, Side::left, Uplo::lower, false, 1, {a}, {b}, {"test", 100, 100}), {b});
    FAIL();
  } catch (const PivotError& error) {
    EXPECT_EQ(error.index, 107);
  }
}

TEST_P(DeviceTable, CholeskyFactors) {
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

TEST_P(DeviceTable, AMatrixThatIsNotDefiniteIsRefused) {
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

TEST_P(DeviceTable, PanelsAndTheirExchanges) {
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
TEST_P(DeviceTable, TilesOfQr) {
  std::vector<std::byte> work(std::size_t{1} << 20);
  for (const auto& [m, n] : {std::pair<Index, Index>{n_ + 9, n_}, {n_, n_ + 5}, {n_, n_}})
    for (const Index ib : {8, 32}) {
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

TEST_P(DeviceTable, TrianglesOnTilesOfQr) {
  std::vector<std::byte> work(std::size_t{1} << 20);
  for (const bool merge : {false, true})
    for (const Index ib : {8, 32}) {
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

TEST_P(DeviceTable, ElementsAsTheyAre) {
  for (const Layout from_layout : layouts())
    for (const Layout to_layout : layouts()) {
      tiles_.clear();
      const Index m = 45, n = 70;
      const std::uint32_t a = place(dtype_, m, n, from_layout), b = place(dtype_, m, n, to_layout),
                          c = place(dtype_, n, m, to_layout), q = place(dtype_, n, n, to_layout);
      const Matrix x = read(a), y = read(b), w = read(q);
      run(call::add(dtype_, {a}, {b}), {b});
      expect_near(read(b), sum(1, x, 1, y), 2 * x.norm(), "add");
      run(call::copy(dtype_, {a}, {b}), {b});
      EXPECT_EQ(read(b).x, x.x);
      run(call::scale(dtype_, 2, {b}), {b});
      EXPECT_EQ(read(b).x, sum(2, x, 0, x).x);
      set(here(b), 3, 3, std::nan(""));
      run(call::scale(dtype_, 0, {b}), {b});
      EXPECT_EQ(read(b).norm(), 0);
      run(call::fill(dtype_, scalar(2.5, -3), {b, false, false, {{2, 3}, {10, 20}}}), {b});
      EXPECT_EQ(get(here(b), 11, 22), scalar(2.5, -3));
      EXPECT_EQ(get(here(b), 12, 22), 0.0);
      EXPECT_NEAR(read(b).norm(), std::sqrt(200 * std::norm(scalar(2.5, -3))), 1e-3);
      run(call::zero(dtype_, {b, false, false, {{0, 0}, {12, 70}}}), {b});
      EXPECT_EQ(read(b).norm(), 0);
      for (const bool conjugate : conjugations()) {
        run(call::mirror(dtype_, conjugate, {a}, {c}), {c});
        EXPECT_EQ(read(c).x, op(x, true, conjugate).x);
        run(call::mirror(dtype_, conjugate, {q}, {q}), {q});
        const Matrix mirrored = read(q), low = triangle(w, true);
        EXPECT_EQ(mirrored.at(50, 20), low.at(50, 20));
        EXPECT_EQ(mirrored.at(20, 50), conjugate ? std::conj(low.at(50, 20)) : low.at(50, 20));
        if (conjugate) {
          EXPECT_EQ(mirrored.at(7, 7), low.at(7, 7).real());
        }
      }
      run(call::identity(dtype_, 2, {b}), {b});
      EXPECT_EQ(get(here(b), 5, 7), 1.0);
      EXPECT_NEAR(read(b).norm(), std::sqrt(45.0), 1e-5);
      if (complex_) continue;
      const std::uint32_t other = place(dtype_ == Dtype::float32 ? Dtype::float64 : Dtype::float32, m, n, from_layout);
      const Matrix wide = read(other);
      run(call::convert(dtype_, {other}, {b}), {b});
      expect_near(read(b), wide, wide.norm(), "convert");
    }
}

TEST_P(DeviceTable, PartsAreTaken) {
  for (const Layout from_layout : layouts())
    for (const Layout to_layout : layouts()) {
      if (to_layout == Layout::strided) continue;  // the host has no order of it either
      for (const Part part : {Part::all, Part::lower, Part::upper, Part::unit_lower})
        for (const bool transpose : {false, true})
          for (const bool conjugate : conjugations()) {
            tiles_.clear();
            const Index n = 37;
            const std::uint32_t a = place(dtype_, n, n, from_layout), b = place(dtype_, n, n, to_layout);
            Matrix want = op(read(a), transpose, conjugate);
            if (part != Part::all) want = triangle(want, part != Part::upper);
            for (Index i = 0; i < n; ++i) want.at(i, i) = part == Part::unit_lower ? 1.0 : want.at(i, i) + 5.0;
            run(call::take(dtype_, part, {a, transpose, conjugate, {}}, 5, {b}, {"test", 0, 0}), {b});
            expect_near(read(b), want, n, "taken");
            if (part != Part::lower) continue;
            set(here(a), transpose ? 4 : 20, transpose ? 20 : 4, std::numeric_limits<double>::infinity());
            set(here(a), transpose ? 20 : 4, transpose ? 4 : 20, std::nan(""));  // in the triangle that is not taken
            try {
              run(call::take(dtype_, part, {a, transpose, conjugate, {}}, 0, {b}, {"test", 100, 200}), {b});
              FAIL();
            } catch (const PivotError& error) {
              EXPECT_EQ(error.index, 205);
              EXPECT_THAT(error.what(), testing::HasSubstr("row 120, column 204"));
            }
          }
    }
}

TEST_P(DeviceTable, CopiesOfStridedBoxes) {
  const auto item = static_cast<Index>(size_of(dtype_));
  for (int round = 0; round < 40; ++round) {
    const std::size_t dims = 1 + random_() % 4;
    Shape shape, order(dims);
    for (std::size_t d = 0; d < dims; ++d)
      shape.push_back(1 + static_cast<Index>(random_() % 9)), order[d] = static_cast<Index>(d);
    const auto strided = [&](std::vector<std::byte>& memory) {
      Tile t{nullptr, dtype_, shape, Shape(dims), 0};
      if (round % 3 == 0) std::shuffle(order.begin(), order.end(), random_);
      Index step = item * (round % 5 == 0 ? 2 : 1);
      for (const Index d : order) t.strides[d] = step, step *= shape[d] + static_cast<Index>(random_() % 3);
      memory.assign(static_cast<std::size_t>(step + item), std::byte{0});
      for (std::byte& b : memory) b = static_cast<std::byte>(random_());
      return t;
    };
    std::vector<std::byte> from_memory, there_memory, to_memory;
    Tile from = strided(from_memory), there = strided(there_memory), to = strided(to_memory);
    from.data = from_memory.data(), to.data = to_memory.data(), there.data = device_->memory();
    std::vector<std::byte> want = to_memory;
    Tile twin = to;
    twin.data = want.data();
    copy(from, twin);
    wait([&](auto done) { device_->copy_in(from, there, done); });
    wait([&](auto done) { device_->copy_out(there, to, done); });
    ASSERT_EQ(to_memory, want) << to_string(shape);
  }
}

TEST_P(DeviceTable, LongCopiesLockedInPlaceAndNot) {
  const auto item = static_cast<Index>(size_of(dtype_));
  const Index m = cuda_ ? 3000 : 300, n = (cuda_ ? 20'000'000 : 2'000'000) / item / m,
              pitch = (n + 5) * item;  // beyond any buffer on the way
  std::vector<std::byte> memory(static_cast<std::size_t>(m * pitch)), back(memory.size());
  for (std::size_t i = 0; i < memory.size(); i += 61) memory[i] = static_cast<std::byte>(random_());
  for (const Index rows : {m, Index{1}}) {
    const Tile from{memory.data(), dtype_, {rows, rows == 1 ? m * n : n}, {pitch, item}, 0};
    Tile there = from, to = from;
    there.data = device_->memory(), there.strides = c_strides(from.shape, size_of(dtype_)), to.data = back.data();
    for (const bool locked : {false, true}) {
      std::fill(back.begin(), back.end(), std::byte{0});
      if (locked) device_->lock_pages(memory), device_->lock_pages(back);
      wait([&](auto done) { device_->copy_in(from, there, done); });
      wait([&](auto done) { device_->copy_out(there, to, done); });
      if (locked) device_->unlock_pages(memory), device_->unlock_pages(back);
      for (Index i = 0; i < rows; ++i)
        ASSERT_EQ(
            std::memcmp(from.data + i * pitch, to.data + i * pitch, static_cast<std::size_t>(from.shape[1] * item)), 0)
            << "row " << i;
    }
  }
}

TEST_P(DeviceTable, OneRunAsTheOther) {
  for (const Index m : {60, 530}) {
    tiles_.clear();
    const std::uint32_t a = place(dtype_, m, 40, Layout::rows), b = place(dtype_, 40, 50, Layout::rows),
                        c = place(dtype_, m, 50, Layout::rows);
    const Call product = call::gemm(dtype_, 1, {a}, {b}, 0, {c});
    run(product, {c});
    const std::vector<std::byte> first = tiles_[c].memory;
    run(product, {c}, m == 60 ? 60 : 5);  // whatever runs beside it
    EXPECT_EQ(tiles_[c].memory, first);
  }
}

/// The mantissa is cut where it was asked for, and there alone.
TEST_P(DeviceTable, Tf32IsComputedWhereItIsNamed) {
  if (!cuda_ || dtype_ != Dtype::float32) GTEST_SKIP() << "of cards and float32";
  const std::uint32_t a = place(dtype_, 520, 64, Layout::rows), b = place(dtype_, 64, 520, Layout::rows),
                      c = place(dtype_, 520, 520, Layout::rows);
  const Matrix want = read(a) * read(b);
  const double size = read(a).norm() * read(b).norm();
  const Call product = call::gemm(dtype_, 1, {a}, {b}, 0, {c});
  run(product, {c});
  EXPECT_LE(sum(1, read(c), -1, want).norm(), 1e-6 * size);
  device_ = open_cuda(0, std::uint64_t{1} << 28, "tf32");
  run(product, {c});
  EXPECT_GT(sum(1, read(c), -1, want).norm(), 1e-6 * size);
  EXPECT_LE(sum(1, read(c), -1, want).norm(), 1e-3 * size);
}

TEST_P(DeviceTable, WhatIsNotThereIsRefused) {
  if (!cuda_) GTEST_SKIP() << "of cards";
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([] { open_cuda(0, std::uint64_t{1} << 50); }), testing::HasSubstr("is free; give less"));
  EXPECT_THAT(message([] { open_cuda(0, 1000); }), testing::HasSubstr("at least 64 MiB is needed"));
  EXPECT_THAT(message([] { open_cuda(99, std::uint64_t{1} << 28); }), testing::HasSubstr("device 99 was asked for"));
  EXPECT_FALSE(device_->runs(Call(Kernel::csr_multiply, dtype_, {})));
  EXPECT_FALSE(device_->runs(call::gemm(Dtype::int32, 1, {0}, {1}, 0, {2})));
  const auto memory = open_cuda_memory(0, 1000);
  EXPECT_EQ(memory->properties().memory, 1024u);
  EXPECT_FALSE(memory->runs(call::zero(dtype_, {0})));
}

/// Ends CUDA for the process: run by itself, with --gtest_also_run_disabled_tests.
TEST_P(DeviceTable, DISABLED_ALostDeviceSaysSo) {
  if (!cuda_) GTEST_SKIP() << "of cards";
  const std::uint32_t a = place(dtype_, 64, 64, Layout::rows);
  std::vector<Tile> nowhere{tiles_[a].there};
  nowhere[0].data = device_->memory() + (std::int64_t{1} << 44);
  const std::vector<Call> calls{call::identity(dtype_, 0, {0})};
  const std::vector<DeviceWork> batch{{calls, nowhere, nullptr}};
  for (int queue = 0; queue < 3; ++queue) {  // the others hear of it, too
    try {
      wait([&](auto done) { device_->launch(batch, queue, done); });
      FAIL();
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("nothing more in this process"));
    }
  }
  Tile there = tiles_[a].there;
  there.data = device_->memory();
  EXPECT_THROW(wait([&](auto done) { device_->copy_in(tiles_[a].here, there, done); }), DeviceError);
  EXPECT_THROW(open_cuda(0, std::uint64_t{1} << 28), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, DeviceTable, testing::ValuesIn([] {
      std::vector<Param> all;
      for (const std::string& kind : kinds())
        for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128})
          all.push_back({kind, dtype});
      return all;
    }()),
    [](const auto& info) { return info.param.kind + "_" + std::string(name_of(info.param.dtype)); });

}  // namespace
}  // namespace flagstone
