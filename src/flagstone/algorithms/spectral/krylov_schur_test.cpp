#include "flagstone/algorithms/spectral/krylov_schur.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"

namespace flagstone::spectral {
namespace {

constexpr double eps = std::numeric_limits<double>::epsilon();
using Number = std::complex<double>;

/// diag(values), turned by a reflection I - 2 u uᴴ with a unit u, so that no vector of the start is special.
struct Turned {
  std::vector<double> values;
  Dtype dtype;
  std::vector<Number> u;

  Turned(std::vector<double> given, Dtype dtype) : values(std::move(given)), dtype(dtype), u(values.size()) {
    std::mt19937_64 engine(5);
    std::normal_distribution<double> normal;
    double square = 0;
    for (Number& x : u) x = {normal(engine), dtype == Dtype::complex128 ? normal(engine) : 0.0}, square += std::norm(x);
    for (Number& x : u) x /= std::sqrt(square);
  }
  template <class T>
  void reflect(std::vector<T>& column) const {
    Number along = 0;
    for (std::size_t i = 0; i < u.size(); ++i) along += std::conj(u[i]) * column[i];
    for (std::size_t i = 0; i < u.size(); ++i) {
      const Number turned = Number(column[i]) - 2.0 * along * u[i];
      if constexpr (std::is_same_v<T, double>)
        column[i] = turned.real();
      else
        column[i] = turned;
    }
  }
  template <class T>
  void apply(const Array& x, const Array& y) const {
    const auto n = static_cast<Index>(values.size()), b = x.shape()[1];
    const auto from = elements_of<T>(x), to = elements_of<T>(y);
    std::vector<T> column(n);
    for (Index j = 0; j < b; ++j) {
      for (Index i = 0; i < n; ++i) column[i] = from[i * b + j];
      reflect(column);
      for (Index i = 0; i < n; ++i) column[i] *= values[i];
      reflect(column);
      for (Index i = 0; i < n; ++i) to[i * b + j] += column[i];
    }
  }
  Operator op() const {
    return {static_cast<Index>(values.size()), [this](Graph& graph, const Array& x, const Array& y) {
              if (graph.planning()) return;
              dtype == Dtype::complex128 ? apply<Number>(x, y) : apply<double>(x, y);
            }};
  }
};

struct Outcome {
  SchurPairs pairs;
  std::vector<Number> vectors;  // n x k
  std::uint64_t written = 0;
};

/// `memory` 0: as little as works.
Outcome solve(const Turned& a, SchurOptions options, std::uint64_t memory = 2 * GiB, int workers = 2) {
  const auto n = static_cast<Index>(a.values.size());
  options.dtype = a.dtype;
  if (options.block == 0) options.block = schur_block(options.k, n);
  if (options.ncv == 0) options.ncv = schur_ncv(options.k, options.block, n);
  if (options.most == 0) options.most = 300;
  const Array out = memory_array({n, options.k}, a.dtype);
  const Operator op = a.op();
  Outcome found;
  const auto build = [&](Graph& graph) {
    BlockKrylovSchur solver(graph, op, options);
    found.pairs = solver.solve();
    solver.vectors(found.pairs, out);
    solver.measure(found.pairs, out);
  };
  RuntimeOptions use{.memory = 2 * GiB, .workers = workers, .scratch = ::testing::TempDir()};
  use.memory = memory > 0 ? memory : Runtime(use).least_memory(build);
  found.written = Runtime(use).run(build).bytes_written;
  for (Index i = 0; i < n * options.k; ++i)
    found.vectors.push_back(a.dtype == Dtype::complex128 ? elements_of<Number>(out)[i]
                                                         : Number(elements_of<double>(out)[i]));
  return found;
}

std::vector<double> spectrum(Index n, const std::function<double(Index)>& f) {
  std::vector<double> values(n);
  for (Index j = 0; j < n; ++j) values[j] = f(j);
  return values;
}

/// Computed here, from the vectors: residuals, orthonormality, and values against those that the matrix was made of.
void expect_right(const Turned& a, const Outcome& found, const SchurOptions& options) {
  const auto n = static_cast<Index>(a.values.size()), k = options.k;
  double norm = 0;
  for (const double value : a.values) norm = std::max(norm, std::abs(value));
  const double rounding = 1e3 * eps * norm;
  const double unit = norm > 0 ? norm : 1;  // squares of residuals at 1e-163 are zero
  ASSERT_TRUE(found.pairs.converged);
  const std::vector<Index> best = wanted(a.values, options.which, k);
  for (Index j = 0; j < k; ++j) {
    const double value = found.pairs.values[j];
    std::vector<Number> v(n), w(n);
    for (Index i = 0; i < n; ++i) w[i] = v[i] = found.vectors[i * k + j];
    a.reflect(w);
    for (Index i = 0; i < n; ++i) w[i] *= a.values[i];
    a.reflect(w);
    double square = 0;
    for (Index i = 0; i < n; ++i) square += std::norm((w[i] - value * v[i]) / unit);
    EXPECT_LE(std::sqrt(square) * unit, allowed_residual(value, norm, options.tol) + rounding) << "pair " << j;
    EXPECT_NEAR(std::sqrt(square) * unit, found.pairs.residuals[j], rounding);
    EXPECT_NEAR(value, a.values[best[j]], allowed_residual(value, norm, options.tol) + rounding) << "pair " << j;
  }
  for (Index i = 0; i < k; ++i)
    for (Index j = 0; j <= i; ++j) {
      Number sum = i == j ? -1 : 0;
      for (Index r = 0; r < n; ++r) sum += std::conj(found.vectors[r * k + i]) * found.vectors[r * k + j];
      EXPECT_LE(std::abs(sum), 1e3 * eps) << i << ", " << j;
    }
}

TEST(KrylovSchur, EndsOfManySpectra) {
  const Index n = 200;
  const std::vector<std::pair<const char*, std::vector<double>>> spectra = {
      {"indefinite", spectrum(n, [](Index j) { return (j % 2 ? -1.0 : 1.0) / (1.0 + j); })},
      {"flat", spectrum(n, [](Index j) { return 1.0 - 1e-3 * j; })},
      {"rank 9", spectrum(n, [](Index j) { return j < 9 ? 1.0 - 0.1 * j : 0.0; })},
      {"tiny units", spectrum(n, [](Index j) { return 1e-150 / (1.0 + j); })},
      {"huge units", spectrum(n, [](Index j) { return 1e150 / (1.0 + j); })},
  };
  for (const auto& [name, values] : spectra)
    for (const Dtype dtype : {Dtype::float64, Dtype::complex128})
      for (const Which which : {Which::largest_magnitude, Which::largest, Which::smallest, Which::both_ends}) {
        const bool units = name[0] == 't' || name[0] == 'h';  // the small end of these is hopeless
        if (units ? which > Which::largest : dtype == Dtype::complex128 && which != Which::both_ends) continue;
        SCOPED_TRACE(std::string(name) + ", " + std::to_string(static_cast<int>(which)));
        SchurOptions options{.k = 12, .block = 5, .ncv = 61, .which = which, .tol = 1e-7};
        const Turned a(values, dtype);
        expect_right(a, solve(a, options), options);
      }
}

TEST(KrylovSchur, EveryCopyIsFoundWhateverTheBlock) {
  const Turned a(spectrum(300, [](Index j) { return 1.0 / (1.0 + j / 5); }), Dtype::float64);
  for (const Index block : {1, 2, 3, 8}) {
    SCOPED_TRACE(block);
    SchurOptions options{.k = 20, .block = block, .ncv = 60, .tol = 1e-6};
    const Outcome found = solve(a, options);
    EXPECT_TRUE(found.pairs.verified);
    expect_right(a, found, options);
  }
}

TEST(KrylovSchur, DegenerateMatrices) {
  for (const Index n : {1, 2, 7, 25})
    for (const double scale : {0.0, 1.0})
      for (const bool same : {false, true})
        for (const Index k : {Index{1}, (n + 1) / 2, n}) {
          SCOPED_TRACE(std::to_string(n) + ", k " + std::to_string(k) + (same ? ", same" : ""));
          const Turned a(spectrum(n, [&](Index j) { return scale * (same ? 1.0 : 1.0 + j); }), Dtype::float64);
          for (const Index block : {Index{1}, Index{3}, n}) {
            SchurOptions options{.k = k, .block = block};
            SCOPED_TRACE("block " + std::to_string(block));
            EXPECT_NO_THROW(expect_right(a, solve(a, options), options));
          }
        }
}

TEST(KrylovSchur, BitsDependOnNeitherMemoryNorWorkers) {
  const Turned a(spectrum(40000, [](Index j) { return 1.0 / std::sqrt(1.0 + j); }), Dtype::float64);
  SchurOptions options{.k = 20, .block = 8, .ncv = 64, .most = 12};
  const Outcome least = solve(a, options, 0);  // first: what others leave in the process would make its limit roomier
  const Outcome one = solve(a, options, 2 * GiB, 1), two = solve(a, options, 2 * GiB, 2);
  EXPECT_EQ(one.vectors, two.vectors);
  EXPECT_EQ(one.pairs.values, two.pairs.values);
  EXPECT_EQ(one.vectors, least.vectors);
  EXPECT_GT(least.written, 0);  // some of the basis went out
}

TEST(KrylovSchur, WhatIsNotHermitianIsRefused) {
  SchurOptions options{.k = 2, .block = 2, .ncv = 10, .most = 10};
  const Operator op{30, [](Graph& graph, const Array& x, const Array& y) {
                      if (graph.planning()) return;
                      const auto from = elements_of<double>(x), to = elements_of<double>(y);
                      for (Index i = 0; i < 29; ++i)
                        for (Index j = 0; j < 2; ++j) to[i * 2 + j] += from[(i + 1) * 2 + j];
                    }};
  Runtime runtime({.memory = 1 * GiB, .workers = 1, .scratch = ::testing::TempDir()});
  EXPECT_THROW(runtime.run([&](Graph& graph) { BlockKrylovSchur(graph, op, options).solve(); }), NumericalError);
}

TEST(KrylovSchur, GivesUpWithWhatThereIs) {
  const Turned a(spectrum(2000, [](Index j) { return 1.0 - 1e-4 * j; }), Dtype::float64);
  SchurOptions options{.k = 10, .block = 2, .ncv = 30, .tol = 1e-10, .most = 5};
  const Outcome found = solve(a, options);
  EXPECT_FALSE(found.pairs.converged);
  EXPECT_EQ(found.pairs.applications, 5);
}

}  // namespace
}  // namespace flagstone::spectral
