// Products of wide matrices, whose sums over rows go by stripes: values, centring, what one read gives, bits.
#include "flagstone/algorithms/sparse/stripe_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <type_traits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::sparse {
namespace {

template <class T>
Array held(std::vector<T>& data, Index rows, Dtype dtype) {
  const Index cols = static_cast<Index>(data.size()) / rows;
  return memory_array(reinterpret_cast<std::byte*>(data.data()), {rows, cols}, dtype, {});
}

/// A few long rows and many short ones, some of them empty, in panels of 7; the first columns are dense.
template <class Real>
struct Wide {
  static constexpr Index rows = 60;
  Index cols;
  std::vector<Index> pointers{0};
  std::vector<std::int32_t> columns;
  std::vector<Real> values;
  CsrOperand a;

  Wide(Index n, Dtype dtype) : cols(n) {
    std::mt19937 random(3);
    for (Index i = 0; i < rows; ++i) {
      const Index most = i % 9 == 4 ? 0 : i % 10 == 1 ? 2 * n / 3 : 300;
      for (Index j = i % 3; j < n && static_cast<Index>(columns.size()) < pointers.back() + most;
           j += 1 + static_cast<Index>(random() % (j < 200 ? 2 : 3)))
        columns.push_back(static_cast<std::int32_t>(j)), values.push_back(draw(random));
      pointers.push_back(static_cast<Index>(columns.size()));
    }
    const auto array = [](auto& data, Dtype of) {
      return memory_array(reinterpret_cast<std::byte*>(data.data()), {static_cast<Index>(data.size())}, of, {});
    };
    const Index nnz = pointers.back();
    const CsrMatrix matrix{
        rows, n, nnz, array(values, dtype), array(columns, Dtype::int32), array(pointers, Dtype::int64), "wide", 0};
    std::vector<CsrPanelRange> panels;
    for (Index row = 0; row < rows; row += 7) {
      const Index end = std::min(rows, row + 7);
      panels.push_back({row, end, pointers[row], pointers[end]});
    }
    a = prepare(matrix, panels);
  }
  static Real draw(std::mt19937& random) {
    const auto one = [&] { return static_cast<double>(static_cast<int>(random() % 64) - 30) / 8; };
    if constexpr (std::is_floating_point_v<Real>)
      return static_cast<Real>(one());
    else
      return {static_cast<typename Real::value_type>(one()), static_cast<typename Real::value_type>(one())};
  }
};

using Complex = std::complex<double>;
template <class Real>
using Exact = std::conditional_t<std::is_floating_point_v<Real>, double, Complex>;

double adjoint(double value) { return value; }
Complex adjoint(const Complex& value) { return std::conj(value); }

/// (A - 1 muᵀ) X, value by value; no mu: A X.
template <class Real>
std::vector<Exact<Real>> times(const Wide<Real>& s, const std::vector<Real>& x, Index b,
                               const std::vector<double>& mu) {
  using Number = Exact<Real>;
  std::vector<Number> t(static_cast<std::size_t>(s.rows * b)), shift(static_cast<std::size_t>(b));
  for (Index j = 0; j < static_cast<Index>(mu.size()); ++j)
    for (Index k = 0; k < b; ++k) shift[k] += mu[j] * Number(x[j * b + k]);
  for (Index i = 0; i < s.rows; ++i)
    for (Index k = 0; k < b; ++k) {
      t[i * b + k] = -shift[k];
      for (Index p = s.pointers[i]; p < s.pointers[i + 1]; ++p)
        t[i * b + k] += Number(s.values[p]) * Number(x[s.columns[p] * b + k]);
    }
  return t;
}

/// (A - 1 muᵀ)ᴴ T, or with the transpose where `plain`.
template <class Real>
std::vector<Exact<Real>> adjoint_times(const Wide<Real>& s, const std::vector<Exact<Real>>& t, Index b,
                                       const std::vector<double>& mu, bool plain) {
  std::vector<Exact<Real>> y(static_cast<std::size_t>(s.cols * b)), sums(static_cast<std::size_t>(b));
  for (Index i = 0; i < s.rows; ++i)
    for (Index k = 0; k < b; ++k) {
      sums[k] += t[i * b + k];
      for (Index p = s.pointers[i]; p < s.pointers[i + 1]; ++p) {
        const Exact<Real> value(s.values[p]);
        y[s.columns[p] * b + k] += (plain ? value : adjoint(value)) * t[i * b + k];
      }
    }
  for (Index j = 0; j < static_cast<Index>(mu.size()); ++j)
    for (Index k = 0; k < b; ++k) y[j * b + k] -= mu[j] * sums[k];
  return y;
}

template <class T, class Number>
void expect_near(const std::vector<T>& got, const std::vector<Number>& want, double eps, const char* what) {
  double scale = 0, off = 0;
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    scale = std::max(scale, std::norm(want[i]));
    const double here = std::norm(Number(got[i]) - want[i]);
    off = std::isnan(off) || here <= off ? off : here;
  }
  EXPECT_LE(std::sqrt(off), 60 * eps * std::sqrt(scale)) << what;
}

/// All products of one dtype. `b` columns of X make long sums; more workers, a least limit, a device: the same bits.
template <class Real, class Sum>
void check(Dtype dtype, Dtype sum_dtype, Index n, Index b, bool centred) {
  Wide<Real> s(n, dtype);
  ASSERT_TRUE(sums_in_order(n, b, dtype, true));
  std::mt19937 random(5);
  std::vector<Real> x(static_cast<std::size_t>(n * b)), u(static_cast<std::size_t>(s.rows * b));
  for (Real& one : x) one = s.draw(random);
  for (Real& one : u) one = s.draw(random);
  std::vector<double> mu(static_cast<std::size_t>(n)), none;
  for (Index j = 0; j < n; ++j) mu[j] = std::cos(static_cast<double>(j));
  const Array mean = held(mu, 1, Dtype::float64);
  const Array* shift = centred ? &mean : nullptr;
  std::vector<std::vector<Sum>> first;
  std::vector<Real> scores;
  for (const int run : {0, 1, 2}) {
    std::vector<Sum> gram(x.size()), turned(x.size()), projected(x.size());
    std::vector<double> moments(static_cast<std::size_t>(2 * n));
    std::vector<Real> y(static_cast<std::size_t>(s.rows * (b + 3)));  // of which columns [2, 2 + b) are made
    const auto build = [&](Graph& graph) {
      const Array z = held(gram, n, sum_dtype);
      if (is_complex(dtype))
        gram_multiply(graph, s.a, held(x, n, dtype), shift, z);
      else
        gram_multiply(graph, s.a, held(x, n, dtype), shift, z, held(moments, 2, Dtype::float64));
      multiply_transposed(graph, s.a, held(u, s.rows, dtype), shift, held(turned, n, sum_dtype));
      multiply_and_project(graph, s.a, held(x, n, dtype), shift, held(y, s.rows, dtype), held(projected, n, sum_dtype),
                           2);
      graph.barrier();
    };
    RuntimeOptions options;
    options.workers = run == 1 ? 4 : 1 + run / 2, options.memory = GiB;
    if (run == 1) options.memory = Runtime(options).least_memory(build) + 2 * MiB;
    if (run == 2) options.devices = {open_emulated({.memory = 256 * MiB, .reorder = 4})};
    Runtime(options).run(build);
    const std::vector<std::vector<Sum>> all{gram, turned, projected};
    if (first.empty()) first = all, scores = y;
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(0, std::memcmp(all[i].data(), first[i].data(), x.size() * sizeof(Sum))) << run << " " << i;
    EXPECT_EQ(0, std::memcmp(y.data(), scores.data(), y.size() * sizeof(Real))) << run;
    if (is_complex(dtype)) continue;
    double total = 0;
    for (Index j = 0; j < n; ++j) total += moments[static_cast<std::size_t>(n + j)];
    double wanted = 0;
    for (const Real& value : s.values) wanted += std::norm(Complex(value));
    EXPECT_DOUBLE_EQ(total, wanted);  // eighths: exact
  }
  const std::vector<double>& used = centred ? mu : none;
  const double eps = size_of(real_part_of(dtype)) == 4 ? 0x1p-24 : 0x1p-53;
  const auto t = times(s, x, b, used);
  const auto both = adjoint_times(s, t, b, used, false);
  expect_near(first[0], both, eps * s.rows, "Gram");
  expect_near(first[2], both, eps * s.rows, "project");
  expect_near(first[1], adjoint_times(s, {u.begin(), u.end()}, b, used, true), eps * s.rows, "transposed");
  std::vector<Real> kept;
  for (Index i = 0; i < s.rows; ++i)
    kept.insert(kept.end(), scores.begin() + i * (b + 3) + 2, scores.begin() + i * (b + 3) + 2 + b);
  expect_near(kept, t, eps * s.rows, "T");
}

TEST(StripeSums, EveryProductOfAWideMatrix) {
  check<float, double>(Dtype::float32, Dtype::float64, 21011, 150, false);
  check<float, double>(Dtype::float32, Dtype::float64, 50001, 64, true);
  check<double, double>(Dtype::float64, Dtype::float64, 50001, 33, true);
}

TEST(StripeSums, ComplexOnesTakeTheAdjoint) {
  check<std::complex<float>, Complex>(Dtype::complex64, Dtype::complex128, 36021, 45, false);
  check<Complex, Complex>(Dtype::complex128, Dtype::complex128, 100001, 8, false);
}

TEST(StripeSums, ShortSumsKeepTheTree) {
  EXPECT_FALSE(sums_in_order(5000, 64, Dtype::float32, true));
  EXPECT_FALSE(sums_in_order(36000, 64, Dtype::float32, true));
  EXPECT_TRUE(sums_in_order(131072, 256, Dtype::float32, true));
  EXPECT_TRUE(sums_in_order(32000, 64, Dtype::float32, false));
}

}  // namespace
}  // namespace flagstone::sparse
