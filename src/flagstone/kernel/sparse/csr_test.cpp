#include "flagstone/kernel/sparse/csr.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <random>

#include "flagstone/base/error.hpp"
#include "flagstone/kernel/reference/reference.hpp"
#include "flagstone/kernel/sparse/csr_rows.hpp"

namespace flagstone::kernel {
namespace {

template <class Real, class Column>
struct Sample {
  Index rows, cols;
  std::vector<Index> pointers;
  std::vector<Column> columns;
  std::vector<Real> values;

  /// Rows of very different lengths, every seventh empty; unsorted and repeated columns when `wild`.
  Sample(Index m, Index n, double density, bool wild = false) : rows(m), cols(n), pointers{1000} {
    std::mt19937 random(static_cast<unsigned>(m + 7 * n));
    std::uniform_real_distribution<double> uniform;
    std::normal_distribution<double> normal;
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n && i % 7 != 3; ++j)
        if (uniform(random) < density * (i % 5 + 1) / 3) {
          columns.push_back(static_cast<Column>(wild ? random() % static_cast<unsigned>(n) : j));
          values.push_back(static_cast<Real>(normal(random)));
        }
      pointers.push_back(1000 + static_cast<Index>(columns.size()));
    }
  }
  static constexpr Dtype column_dtype() {
    return sizeof(Column) == 2 ? Dtype::uint16 : sizeof(Column) == 4 ? Dtype::uint32 : Dtype::uint64;
  }
  CsrRows panel() const {
    return {rows,
            cols,
            pointers.data(),
            reinterpret_cast<const std::byte*>(values.data()),
            reinterpret_cast<const std::byte*>(columns.data()),
            column_dtype()};
  }
  std::vector<double> dense(const double* mu) const {
    return reference::densify(rows, cols, pointers.data(), columns.data(), values.data(), mu);
  }
};

/// A rows x width block with leading dimension width + pad, and its values in float64.
template <class Real>
struct Block {
  Index rows, width, ld;
  std::vector<Real> memory;
  Block(Index m, Index b, Index pad, bool random_values) : rows(m), width(b), ld(b + pad) {
    std::mt19937 random(static_cast<unsigned>(m + b));
    std::normal_distribution<double> normal;
    memory.resize(static_cast<std::size_t>(m * ld));
    for (auto& value : memory) value = random_values ? static_cast<Real>(normal(random)) : Real{};
  }
  Tile tile() {
    return {reinterpret_cast<std::byte*>(memory.data()),
            sizeof(Real) == 4 ? Dtype::float32 : Dtype::float64,
            {rows, width},
            {ld * static_cast<Index>(sizeof(Real)), sizeof(Real)},
            0};
  }
  std::vector<double> wide() const {
    std::vector<double> values;
    for (Index i = 0; i < rows; ++i)
      for (Index k = 0; k < width; ++k) values.push_back(static_cast<double>(memory[i * ld + k]));
    return values;
  }
};

template <class Real>
void expect_near(const std::vector<double>& got, const std::vector<double>& want, double terms) {
  ASSERT_EQ(got.size(), want.size());
  double scale = 1;
  for (double value : want) scale = std::max(scale, std::abs(value));
  const double bound = 4 * terms * std::numeric_limits<Real>::epsilon() * scale;
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << i;
}

constexpr Index widths[] = {1, 2, 3, 4, 5, 7, 8, 11, 15, 16, 17, 31, 32, 50, 64, 100, 127};

template <class Real, class Of>
void check_moments(const Of& a, Index m, Index n) {
  const auto dense = a.dense(nullptr);
  std::vector<double> moments(static_cast<std::size_t>(2 * n), 1), want(moments);
  csr_moments(a.panel(), sizeof(Real) == 4 ? Dtype::float32 : Dtype::float64, moments.data());
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      const double value = dense[static_cast<std::size_t>(i * n + j)];
      want[static_cast<std::size_t>(j)] += value, want[static_cast<std::size_t>(n + j)] += value * value;
    }
  expect_near<double>(moments, want, static_cast<double>(m));
}

template <class Real, class Column>
void check_verbs(Index m, Index n, double density, bool wild) {
  const Sample<Real, Column> a(m, n, density, wild);
  if (!wild) check_moments<Real>(a, m, n);  // each value is squared alone
  for (Index b : widths)
    for (bool centred : {false, true}) {
      std::vector<double> mu(static_cast<std::size_t>(n)), s(static_cast<std::size_t>(b)), sums(s), none(s);
      for (Index j = 0; j < n; ++j) mu[j] = centred ? std::sin(static_cast<double>(j)) : 0;
      Block<Real> x(n, b, b % 3, true), t(m, b, 2, true), y(n, b, 1, true), u(m, b, 0, true), z(n, b, 3, false);
      shift_row(mu.data(), x.tile(), s.data());
      const auto dense = a.dense(centred ? mu.data() : nullptr);
      const auto want_t = reference::multiply(dense, m, n, x.wide(), b, false);
      csr_multiply(a.panel(), x.tile(), centred ? s.data() : nullptr, t.tile());
      expect_near<Real>(t.wide(), want_t, static_cast<double>(n));

      // Y += Aᵀ U and the correction -mu 1ᵀU
      const auto before = y.wide();
      csr_multiply_transposed(a.panel(), u.tile(), y.tile(), centred ? sums.data() : nullptr);
      Block<double> merged(n, b, 1, false);
      shift_merge(y.tile(), centred ? mu.data() : nullptr, sums.data(), merged.tile());
      auto want_y = reference::multiply(dense, m, n, u.wide(), b, true);
      for (std::size_t i = 0; i < want_y.size(); ++i) want_y[i] += before[i];
      expect_near<Real>(merged.wide(), want_y, static_cast<double>(m + n));

      for (bool keep : {false, true}) {
        Block<Real> kept(m, b, 1, true), total(n, b, 0, false);
        std::fill(sums.begin(), sums.end(), 0.0);
        csr_gram(a.panel(), x.tile(), centred ? s.data() : nullptr, keep ? kept.tile() : Tile{}, total.tile(),
                 sums.data());
        Block<double> result(n, b, 0, false);
        shift_merge(total.tile(), centred ? mu.data() : nullptr, sums.data(), result.tile());
        expect_near<Real>(result.wide(), reference::multiply(dense, m, n, want_t, b, true), static_cast<double>(m + n));
        if (keep) {
          EXPECT_EQ(kept.wide(), t.wide());
        }
      }
    }
}

TEST(Sparse, VerbsMatchDenseLoops) {
  check_verbs<float, std::uint16_t>(37, 29, 0.3, false);
  check_verbs<float, std::uint32_t>(23, 61, 0.2, true);
  check_verbs<float, std::uint64_t>(16, 5, 0.5, true);
  check_verbs<double, std::uint16_t>(37, 29, 0.3, true);
  check_verbs<double, std::uint32_t>(1, 200, 0.5, false);
  check_verbs<double, std::uint64_t>(40, 1, 0.9, false);
}

/// A X, Aᵀ U, Aᴴ U and Aᴴ (A X) of complex numbers against loops, at every width and twice at once: bits do not depend
/// on the width of a block, nor on where the columns of A are cut.
template <class Real, class Column>
void check_complex(Index m, Index n, double density) {
  using T = std::complex<Real>;
  constexpr Dtype dtype = sizeof(Real) == 4 ? Dtype::complex64 : Dtype::complex128;
  Sample<T, Column> a(m, n, density, false);
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  const auto number = [&] { return T(static_cast<Real>(normal(random)), static_cast<Real>(normal(random))); };
  for (T& value : a.values) value = number();
  const auto tile = [](std::vector<T>& of, Index rows, Index width) {
    const auto item = static_cast<Index>(sizeof(T));
    return Tile{reinterpret_cast<std::byte*>(of.data()), dtype, {rows, width}, {width * item, item}, 0};
  };
  std::vector<T> all(static_cast<std::size_t>(n * 127));
  for (T& value : all) value = number();
  std::vector<T> first_column;
  for (const Index b : widths) {
    std::vector<T> x(static_cast<std::size_t>(n * b)), u(static_cast<std::size_t>(m * b)), t(u.size());
    for (Index j = 0; j < n; ++j)
      for (Index k = 0; k < b; ++k) x[j * b + k] = all[j * 127 + k];
    for (T& value : u) value = number();
    std::vector<T> y(x.size()), h(x.size()), g(x.size()), t_want(u.size()), y_want(x.size()), h_want(x.size()),
        g_want(x.size());
    for (Index i = 0; i < m; ++i)
      for (Index p = a.pointers[i] - 1000; p < a.pointers[i + 1] - 1000; ++p)
        for (Index k = 0; k < b; ++k) t_want[i * b + k] += a.values[p] * x[a.columns[p] * b + k];
    for (Index i = 0; i < m; ++i)
      for (Index p = a.pointers[i] - 1000; p < a.pointers[i + 1] - 1000; ++p)
        for (Index k = 0; k < b; ++k) {
          const auto at = static_cast<std::size_t>(a.columns[p] * b + k);
          y_want[at] += a.values[p] * u[i * b + k];
          h_want[at] += std::conj(a.values[p]) * u[i * b + k];
          g_want[at] += std::conj(a.values[p]) * t_want[i * b + k];
        }
    csr_multiply(a.panel(), tile(x, n, b), nullptr, tile(t, m, b));
    csr_multiply_transposed(a.panel(), tile(u, m, b), tile(y, n, b), nullptr);
    csr_multiply_transposed(a.panel(), tile(u, m, b), tile(h, n, b), nullptr, true);
    csr_gram(a.panel(), tile(x, n, b), nullptr, {}, tile(g, n, b), nullptr);
    const auto near = [&](const std::vector<T>& got, const std::vector<T>& want, double terms) {
      double scale = 1;
      for (const T& value : want) scale = std::max(scale, static_cast<double>(std::abs(value)));
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_LE(std::abs(got[i] - want[i]), 8 * terms * std::numeric_limits<Real>::epsilon() * scale)
            << b << " " << i;
    };
    const auto terms = static_cast<double>(m + n);
    near(t, t_want, terms), near(y, y_want, terms), near(h, h_want, terms), near(g, g_want, terms);
    std::vector<T> column(static_cast<std::size_t>(m));
    for (Index i = 0; i < m; ++i) column[i] = t[i * b];
    if (first_column.empty()) first_column = column;
    ASSERT_EQ(column, first_column) << b;
    // In two stretches of columns, the second of which goes on.
    std::vector<T> again(u.size(), T(9, 9));
    for (const bool later : {false, true}) {
      Sample<T, Column> part = a;
      part.pointers = {1000}, part.columns.clear(), part.values.clear();
      for (Index i = 0; i < m; ++i) {
        for (Index p = a.pointers[i] - 1000; p < a.pointers[i + 1] - 1000; ++p)
          if ((static_cast<Index>(a.columns[p]) >= n / 3) == later)
            part.columns.push_back(a.columns[p]), part.values.push_back(a.values[p]);
        part.pointers.push_back(1000 + static_cast<Index>(part.columns.size()));
      }
      csr_multiply_ordered(part.panel(), tile(x, n, b), later, tile(again, m, b));
    }
    ASSERT_EQ(again, t) << b;
  }
}

TEST(Sparse, ComplexVerbsMatchLoops) {
  check_complex<float, std::uint16_t>(37, 29, 0.3);
  check_complex<double, std::uint32_t>(23, 61, 0.2);
  check_complex<float, std::uint64_t>(9, 300, 0.2);
  check_complex<double, std::uint16_t>(1, 1, 1.0);
}

TEST(Sparse, StripsOfColumnsAndGroupsOfRows) {
  const Index m = 600, n = 2000, b = 64;  // X is larger than a strip, the rows more than a group
  for (bool wild : {false, true}) {
    const Sample<float, std::uint16_t> a(m, n, 0.05, wild);
    Block<float> x(n, b, 0, true), t(m, b, 0, false), y(n, b, 0, false);
    csr_gram(a.panel(), x.tile(), nullptr, t.tile(), y.tile(), nullptr);
    const auto dense = a.dense(nullptr), want = reference::multiply(dense, m, n, x.wide(), b, false);
    expect_near<float>(t.wide(), want, 100);
    expect_near<float>(y.wide(), reference::multiply(dense, m, n, want, b, true), 100);
  }
}

TEST(Sparse, EveryInstructionSetGivesTheSameNumbers) {
  const Sample<float, std::uint16_t> a(60, 45, 0.4);
  std::vector<const SparseTable*> tables{&sparse_baseline};
#ifdef FLAGSTONE_WIDE_KERNELS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&sparse_avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) tables.push_back(&sparse_avx512);
#endif
  for (Index b : widths) {
    Block<float> x(a.cols, b, 1, true);
    std::vector<double> shift(static_cast<std::size_t>(b), 0.5);
    std::vector<std::vector<double>> results;
    for (const SparseTable* table : tables) {
      Block<float> t(a.rows, b, 2, false), y(a.cols, b, 0, false);
      std::vector<double> sums(static_cast<std::size_t>(b));
      SparseJob job{};
      job.rows = a.rows, job.cols = a.cols, job.pointers = a.pointers.data(), job.values = a.values.data(),
      job.columns = a.columns.data();
      job.x = x.memory.data(), job.ldx = x.ld, job.y = y.memory.data(), job.ldy = y.ld;
      job.t = t.memory.data(), job.ldt = t.ld, job.shift = shift.data(), job.sums = sums.data(), job.width = b;
      table->at[0][0](job);
      auto all = t.wide();
      const auto more = y.wide();
      all.insert(all.end(), more.begin(), more.end()), all.insert(all.end(), sums.begin(), sums.end());
      results.push_back(all);
    }
    for (const auto& result : results) expect_near<float>(result, results[0], 100);
  }
}

TEST(Sparse, NaNStaysWhereItBelongs) {
  Sample<float, std::uint16_t> a(20, 30, 0.5);
  Block<float> x(30, 20, 0, true), t(20, 20, 0, true);
  for (Index j = 0; j < 30; ++j) x.memory[j * 20 + 7] = NAN;
  csr_multiply(a.panel(), x.tile(), nullptr, t.tile());
  for (Index i = 0; i < 20; ++i)
    for (Index k = 0; k < 20; ++k)
      EXPECT_EQ(std::isnan(t.memory[i * 20 + k]), k == 7 && a.pointers[i + 1] > a.pointers[i]) << i << " " << k;
}

TEST(Sparse, NoRowsAndNoColumnsOfXAreLegal) {
  const Sample<double, std::uint16_t> none(0, 10, 1), some(5, 10, 1);
  Block<double> x(10, 4, 0, true), t(0, 4, 0, false), y(10, 4, 0, false), x0(10, 0, 0, true), t0(5, 0, 0, true);
  csr_gram(none.panel(), x.tile(), nullptr, {}, y.tile(), nullptr);
  csr_multiply(none.panel(), x.tile(), nullptr, t.tile());
  csr_multiply(some.panel(), x0.tile(), nullptr, t0.tile());
  for (double value : y.memory) EXPECT_EQ(value, 0);
}

TEST(Sparse, RefusesWrongBlocks) {
  const Sample<double, std::uint16_t> a(5, 10, 0.5);
  Block<double> x(9, 4, 0, true), t(5, 4, 0, true), good(10, 4, 0, true);
  Block<float> narrow(10, 4, 0, true);
  EXPECT_THROW(csr_multiply(a.panel(), x.tile(), nullptr, t.tile()), ShapeError);
  EXPECT_THROW(csr_multiply(a.panel(), narrow.tile(), nullptr, t.tile()), ShapeError);
  Tile turned = good.tile();
  turned.strides = {8, 80};
  EXPECT_THROW(csr_multiply(a.panel(), turned, nullptr, t.tile()), ShapeError);
}

template <class Real, class Column>
void check_gram_matrix(Index m, Index n, double density, bool wild, bool dense) {
  const Sample<Real, Column> a(m, n, density, wild);
  double pairs = 0;
  for (Index i = 0; i < m; ++i) pairs += std::pow(static_cast<double>(a.pointers[i + 1] - a.pointers[i]), 2);
  EXPECT_EQ(gram_matrix_cost(m, n, pairs).dense, dense);
  std::vector<double> want(static_cast<std::size_t>(n * n));
  const auto full = a.dense(nullptr);
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j)
      for (Index k = 0; k < n; ++k) want[j * n + k] += full[i * n + j] * full[i * n + k];
  std::vector<std::byte> scratch(gram_matrix_scratch(n));
  for (Index parts : {Index{1}, std::min<Index>(3, n)}) {
    Block<double> g(n, n, 2, false);
    for (Index part = 0; part < parts; ++part) {
      const Index first = part * n / parts, last = (part + 1) * n / parts;
      csr_gram_matrix(a.panel(), sizeof(Real) == 4 ? Dtype::float32 : Dtype::float64, first,
                      subtile(g.tile(), {{first, 0}, {last - first, n}}), scratch.data());
    }
    for (Index j = 0; j < n; ++j)
      for (Index k = 0; k <= j; ++k)
        ASSERT_NEAR(g.memory[j * g.ld + k], want[j * n + k], 1e-12 * static_cast<double>(m + 10)) << j << " " << k;
  }
}

TEST(Sparse, GramMatrixScatteredAndDense) {
  check_gram_matrix<float, std::uint16_t>(300, 90, 0.1, false, false);
  check_gram_matrix<double, std::uint32_t>(300, 90, 0.1, true, false);
  check_gram_matrix<float, std::uint64_t>(200, 37, 0.9, false, true);
  check_gram_matrix<double, std::uint16_t>(150, 37, 0.9, true, true);
  check_gram_matrix<float, std::uint16_t>(9000, 60, 0.02, false, false);  // more rows than one group of cursors
}

template <class From>
void check_columns(Dtype dtype, Index cols, std::vector<From> columns, Index want) {
  std::vector<std::uint64_t> to(columns.size());
  EXPECT_EQ(unpack_columns(reinterpret_cast<const std::byte*>(columns.data()), dtype,
                           static_cast<Index>(columns.size()), cols, reinterpret_cast<std::byte*>(to.data())),
            want)
      << name_of(dtype) << " " << cols;
  if (want >= 0) return;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::uint64_t got = 0;
    const std::size_t item = size_of(column_dtype_for(cols));
    std::memcpy(&got, reinterpret_cast<const char*>(to.data()) + i * item, item);
    EXPECT_EQ(got, static_cast<std::uint64_t>(columns[i]));
  }
}

TEST(Sparse, ColumnsOfEveryDtypeAreCheckedAndUnpacked) {
  EXPECT_EQ(column_dtype_for(65536), Dtype::uint16);
  EXPECT_EQ(column_dtype_for(65537), Dtype::uint32);
  check_columns<std::uint8_t>(Dtype::uint8, 256, {0, 255, 7}, -1);
  check_columns<std::uint8_t>(Dtype::uint8, 255, {0, 255, 7}, 1);
  check_columns<std::int8_t>(Dtype::int8, 70000, {0, 5, -1}, 2);
  check_columns<std::int16_t>(Dtype::int16, 70000, {0, 32767}, -1);
  check_columns<std::uint16_t>(Dtype::uint16, 65536, {65535, 0}, -1);
  check_columns<std::int32_t>(Dtype::int32, 100, {99, 100}, 1);
  check_columns<std::int32_t>(Dtype::int32, 100, {99, -2147483647}, 1);
  check_columns<std::uint32_t>(Dtype::uint32, Index{1} << 32, {4294967295u, 0}, -1);
  check_columns<std::int64_t>(Dtype::int64, 65536, {65535, 65536 * 65536LL}, 1);
  check_columns<std::int64_t>(Dtype::int64, Index{1} << 40, {(1LL << 40) - 1, 5}, -1);
  check_columns<std::uint64_t>(Dtype::uint64, Index{1} << 40, {~0ULL}, 0);
  check_columns<std::int64_t>(Dtype::int64, 0, {0}, 0);
  check_columns<std::int64_t>(Dtype::int64, 0, {}, -1);
}

/// Every width gives a column the bits that it has alone, and so does a product that goes on where another one ended.
template <class Real>
void check_ordered() {
  Sample<Real, std::uint16_t> s(90, 300, 0.2);
  const Block<Real> x(300, 85, 3, true);
  const auto product = [&](Index first, Index width) {
    Block<Real> t(90, width, 0, false), part(300, width, 0, false);
    for (Index j = 0; j < 300; ++j)
      for (Index k = 0; k < width; ++k) part.memory[j * width + k] = x.memory[j * x.ld + first + k];
    csr_multiply_ordered(s.panel(), part.tile(), false, t.tile());
    return t;
  };
  const Block<Real> all = product(0, 85);
  for (const Index width : {1, 2, 3, 5, 16, 40, 64})
    for (Index first = 0; first + width <= 85; first += 20) {
      const Block<Real> some = product(first, width);
      for (Index i = 0; i < 90; ++i)
        for (Index k = 0; k < width; ++k)
          ASSERT_EQ(some.memory[i * width + k], all.memory[i * all.ld + first + k]) << width << " " << first;
    }
  // Columns below and from 128 on, one after the other.
  Block<Real> halves(90, 85, 0, false);
  for (const bool second : {false, true}) {
    Sample<Real, std::uint16_t> part(0, 300, 0);
    for (Index i = 0; i < 90; ++i) {
      for (Index p = s.pointers[i] - 1000; p < s.pointers[i + 1] - 1000; ++p)
        if ((s.columns[p] >= 128) == second) part.columns.push_back(s.columns[p]), part.values.push_back(s.values[p]);
      part.pointers.push_back(1000 + static_cast<Index>(part.columns.size()));
    }
    part.rows = 90;
    Block<Real> given = x;
    csr_multiply_ordered(part.panel(), given.tile(), second, halves.tile());
  }
  EXPECT_EQ(halves.memory, all.memory);
}

TEST(Csr, OrderedProductsHaveTheSameBitsForEveryWidthAndCut) {
  check_ordered<float>();
  check_ordered<double>();
}

}  // namespace
}  // namespace flagstone::kernel
