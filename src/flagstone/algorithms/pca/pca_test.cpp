#include "flagstone/algorithms/pca/pca.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "flagstone/algorithms/operator/operator.hpp"
#include "flagstone/algorithms/pca/source.hpp"
#include "flagstone/algorithms/spectral/basis.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/dense/blas3.hpp"
#include "flagstone/kernel/dense/lapack.hpp"
#include "flagstone/storage/box/box.hpp"
#include "flagstone/storage/chunk/planned_array.hpp"
#include "flagstone/storage/formats/npy.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::spectral {
namespace {

using Vector = std::vector<double>;
constexpr double eps = std::numeric_limits<double>::epsilon();

/// A matrix in C order.
struct Matrix {
  Index rows, cols;
  Vector values;
  double& operator()(Index i, Index j) { return values[i * cols + j]; }
  double operator()(Index i, Index j) const { return values[i * cols + j]; }
};

/// Low-rank structure with noise and a mean: sigma falls like those of real data.
Matrix structured(Index m, Index n, double noise, double mean = 0, unsigned seed = 3) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  const Index rank = std::min<Index>({8, m, n});
  Matrix u{m, rank, Vector(m * rank)}, v{rank, n, Vector(rank * n)}, x{m, n, Vector(m * n)};
  for (double& value : u.values) value = normal(engine);
  for (double& value : v.values) value = normal(engine);
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = mean * (1 + j % 3);
      for (Index r = 0; r < rank; ++r) sum += u(i, r) * v(r, j) / (1.0 + r);
      x(i, j) = sum + noise * normal(engine);
    }
  return x;
}

/// Zeroes most entries and rounds the rest to small counts.
Matrix counts(Index m, Index n, unsigned seed = 5) {
  std::mt19937_64 engine(seed);
  Matrix x{m, n, Vector(m * n, 0.0)};
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      std::poisson_distribution<int> poisson(((i % 4 == j % 4) ? 1.0 : 0.15) * 3.0 / (1.0 + j % 17));
      x(i, j) = poisson(engine);
    }
  return x;
}

struct Truth {
  Vector mean, sigma;
  Matrix centred;
  double squares = 0;
};

/// float64 LAPACK on the smaller Gram matrix.
Truth truth_of(const Matrix& x, bool center) {
  Truth t{Vector(x.cols, 0.0), {}, x};
  if (center) {
    for (Index i = 0; i < x.rows; ++i)
      for (Index j = 0; j < x.cols; ++j) t.mean[j] += x(i, j) / static_cast<double>(x.rows);
    for (Index i = 0; i < x.rows; ++i)
      for (Index j = 0; j < x.cols; ++j) t.centred(i, j) -= t.mean[j];
  }
  for (const double value : t.centred.values) t.squares += value * value;
  const bool tall = x.rows >= x.cols;
  const Index side = std::min(x.rows, x.cols);
  Vector g(side * side), values(side);
  const Tile a = matrix(t.centred.values.data(), x.rows, x.cols);
  kernel::gemm(1.0, a, {tall, false}, a, {!tall, false}, 0.0, matrix(g.data(), side, side), nullptr);
  EXPECT_EQ(kernel::symmetric_eigen(side, g.data(), values.data()), 0);
  for (Index j = side; j-- > 0;) t.sigma.push_back(std::sqrt(std::max(0.0, values[j])));
  return t;
}

class PcaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    kernel::set_blas_threads(1);  // as under the Python face: workers are the parallelism
  }

  std::string fresh() { return root_ / std::to_string(next_++); }

  Array stored(const Matrix& x, Dtype dtype, const std::string& kind, bool transpose = false) {
    const Shape shape = transpose ? Shape{x.cols, x.rows} : Shape{x.rows, x.cols};
    Array array;
    if (kind == "npy") {
      array = create_npy(fresh(), shape, dtype);
    } else {
      ZarrOptions options;
      options.chunks = {64, 32};
      array = create_zarr_array(fresh(), shape, dtype, options);
    }
    Vector values = x.values;
    Tile from = matrix(values.data(), x.rows, x.cols);
    if (transpose) std::swap(from.shape[0], from.shape[1]), std::swap(from.strides[0], from.strides[1]);
    const auto item = static_cast<Index>(size_of(dtype));
    std::vector<std::byte> bytes(x.values.size() * item);
    const Tile to{bytes.data(), dtype, shape, c_strides(shape, item), bytes.size()};
    if (dtype == Dtype::int16) {
      for (Index i = 0; i < shape[0]; ++i)
        for (Index j = 0; j < shape[1]; ++j)
          to.as<std::int16_t>()[i * shape[1] + j] = static_cast<std::int16_t>(
              *reinterpret_cast<double*>(from.data + i * from.strides[0] + j * from.strides[1]));
    } else {
      kernel::convert(from, nullptr, to);
    }
    write_box(*ring_, array, whole(shape), to, 1 * MiB);
    array.store().flush();
    return array;
  }

  sparse::CsrOperand packed(const Matrix& x, Dtype dtype) {
    const std::string directory = fresh();
    CsrWriter writer(directory, x.cols, dtype);
    std::vector<Index> pointers{0}, columns;
    std::vector<float> narrow;
    Vector wide;
    for (Index i = 0; i < x.rows; ++i) {
      for (Index j = 0; j < x.cols; ++j)
        if (x(i, j) != 0) columns.push_back(j), narrow.push_back(static_cast<float>(x(i, j))), wide.push_back(x(i, j));
      pointers.push_back(static_cast<Index>(columns.size()));
    }
    const void* values = dtype == Dtype::float32 ? static_cast<const void*>(narrow.data()) : wide.data();
    writer.append(x.rows, pointers.data(), columns.data(), values);
    return sparse::prepare(writer.finish());
  }

  struct Outcome {
    PcaResult result;
    Matrix scores;
    Statistics stats, planned;
    PcaChoice choice;
  };

  Outcome solve(const PcaInput& x, PcaOptions options, int workers = 2, std::uint64_t memory = 2 * GiB) {
    Runtime runtime({.memory = memory, .workers = workers, .scratch = root_.path()});
    const Shape shape{x.rows(), options.k};
    ZarrOptions zarr;
    zarr.chunks = scores_chunks(x, options.k);
    const Array scores = create_zarr_array(fresh(), shape, scores_dtype(x), zarr);
    Outcome out{{}, {shape[0], shape[1], Vector(count(shape))}, {}, {}, {}};
    const auto job = [&](const Array& to) {
      return [&, to](Graph& graph) {
        out.choice = choose_pca(x, options, graph.budget(), runtime.profile());
        pca(graph, x, options, out.choice, to, out.result);
      };
    };
    out.planned = runtime.plan(job(planned_array(shape, scores_dtype(x), zarr.chunks)));
    out.stats = runtime.run(job(scores));
    std::vector<std::byte> bytes(scores.nbytes());
    const Tile to{bytes.data(), scores.dtype(), shape, c_strides(shape, size_of(scores.dtype())), bytes.size()};
    read_box(*ring_, scores, whole(shape), to, 1 * MiB);
    kernel::convert(to, nullptr, matrix(out.scores.values.data(), shape[0], shape[1]));
    return out;
  }

  /// Everything that a result promises. `digits`: relative accuracy of scores and vectors' products.
  void check(const Matrix& x, const Outcome& out, const PcaOptions& o, double digits) {
    const Truth t = truth_of(x, o.center);
    const PcaResult& r = out.result;
    // A matrix that centring leaves nothing of: only rounding of its own size can be asked for.
    double size = 0;
    for (const double value : x.values) size += value * value;
    const double s1 = std::max(t.sigma[0], 1e-8 * std::sqrt(size) + 1e-300);
    for (Index j = 0; j < o.k; ++j) {
      // The truth itself is a root of a Gram matrix: sqrt(eps) sigma_1 near zero.
      EXPECT_NEAR(r.singular_values[j], t.sigma[j], std::max(o.tol, 10 * std::sqrt(eps)) * s1) << j;
      EXPECT_NEAR(r.explained_variance[j], std::pow(r.singular_values[j], 2) / std::max<double>(1, x.rows - 1),
                  4 * eps * s1 * s1);
      if (t.squares > 0) {
        EXPECT_NEAR(r.explained_variance_ratio[j], std::pow(r.singular_values[j], 2) / t.squares, digits);
      }
    }
    for (Index j = 0; j < x.cols; ++j) EXPECT_NEAR(r.mean[j], t.mean[j], digits * (1 + std::abs(t.mean[j])));
    for (Index a = 0; a < o.k; ++a) {
      const double* v = r.components.data() + a * x.cols;
      for (Index b = 0; b <= a; ++b) {
        double sum = a == b ? -1 : 0;
        for (Index i = 0; i < x.cols; ++i) sum += v[i] * r.components[b * x.cols + i];
        EXPECT_NEAR(sum, 0, std::max(digits, out.result.method == "krylov" ? 1e-3 * (x.rows < x.cols) : 0.0));
      }
      const double* largest =
          std::max_element(v, v + x.cols, [](double p, double q) { return std::abs(p) < std::abs(q); });
      EXPECT_GT(*largest, 0);
      // Scores are the centred matrix in the new coordinates; the residual is what it says it is.
      Vector back(x.cols, 0.0);
      double length = 0, off = 0;
      for (Index i = 0; i < x.rows; ++i) {
        double score = 0;
        for (Index j = 0; j < x.cols; ++j) score += t.centred(i, j) * v[j];
        off = std::max(off, std::abs(out.scores(i, a) - score));
        length += std::pow(out.scores(i, a), 2);
        for (Index j = 0; j < x.cols; ++j) back[j] += t.centred(i, j) * out.scores(i, a);
      }
      EXPECT_LE(off, (digits + r.residual[a] / s1) * 4 * s1) << a;
      EXPECT_NEAR(std::sqrt(length), r.singular_values[a], (digits + o.tol) * 4 * s1);
      const double sigma = r.singular_values[a];
      if (sigma < 1e-5 * s1 || x.rows < x.cols) continue;
      double residual = 0;
      for (Index j = 0; j < x.cols; ++j) residual += std::pow(back[j] / sigma - sigma * v[j], 2);
      EXPECT_NEAR(r.residual[a], std::sqrt(residual), 20 * digits * s1 * s1 / sigma) << a;
    }
  }

  TemporaryDirectory root_;  // of this process: two checkouts may test at once
  int next_ = 0;
  std::unique_ptr<Ring> ring_ = make_ring();
};

struct Shaped {
  Index m, n, k;
};

TEST_F(PcaTest, DenseShapesMethodsAndDtypes) {
  for (const Shaped s : {Shaped{300, 40, 7}, {40, 300, 7}, {64, 64, 64}, {500, 3, 3}, {3, 500, 3}, {7, 1, 1}})
    for (const char* method : {"gram", "krylov"})
      for (const Dtype dtype : {Dtype::float32, Dtype::float64})
        for (const char* kind : {"npy", "zarr"}) {
          SCOPED_TRACE(to_string({s.m, s.n}) + " " + method + " " + std::string(name_of(dtype)) + " " + kind);
          Matrix x = structured(s.m, s.n, 0.1, 5.0);
          if (dtype == Dtype::float32)
            for (double& value : x.values) value = static_cast<float>(value);
          PcaOptions options{.k = s.k, .method = method};
          const Outcome out = solve({stored(x, dtype, kind), false, {}}, options);
          EXPECT_EQ(out.result.method, method);
          check(x, out, options, dtype == Dtype::float32 ? 2e-6 : 1e-9);
        }
}

TEST_F(PcaTest, TransposedAndIntegers) {
  const Matrix x = counts(200, 70);
  for (const char* method : {"gram", "krylov"})
    for (const bool center : {true, false})
      for (const bool transpose : {false, true}) {
        SCOPED_TRACE(std::string(method) + (center ? " centred" : "") + (transpose ? " transposed" : ""));
        PcaOptions options{.k = 6, .center = center, .method = method};
        const Array array = stored(x, Dtype::int16, "zarr", transpose);
        check(x, solve({array, transpose, {}}, options), options, 2e-6);
      }
}

TEST_F(PcaTest, SparseShapesMethodsAndDtypes) {
  for (const Shaped s : {Shaped{400, 60, 9}, {60, 400, 9}, {50, 50, 50}, {90, 2, 2}, {30, 90, 30}})
    for (const char* method : {"gram", "krylov"})
      for (const bool center : {true, false})
        for (const Dtype dtype : {Dtype::float32, Dtype::float64}) {
          SCOPED_TRACE(to_string({s.m, s.n}) + " " + method + (center ? " centred " : " ") +
                       std::string(name_of(dtype)));
          const Matrix x = counts(s.m, s.n);
          PcaOptions options{.k = s.k, .center = center, .method = method};
          const sparse::CsrOperand operand = packed(x, dtype);
          // Sparse matrices go over the columns whatever the shape: the checks for tall ones hold.
          check(x, solve({{}, false, operand}, options), options, dtype == Dtype::float32 ? 2e-6 : 1e-8);
        }
}

TEST_F(PcaTest, ProductsAreFloat64WhereNobodyCountedTheColumns) {
  const Index rows = (Index{1} << 20) + 1;  // values: below that products are float64 whatever the dtype
  std::vector<Index> pointers(static_cast<std::size_t>(rows) + 1), columns(static_cast<std::size_t>(rows));
  const std::vector<float> values(columns.size(), 1);
  for (std::size_t i = 0; i < columns.size(); ++i) pointers[i + 1] = static_cast<Index>(i) + 1, columns[i] = i % 7;
  for (const Index more : {0, 1}) {
    CsrWriter writer(fresh(), most_counted_columns + more, Dtype::float32);
    writer.append(rows, pointers.data(), columns.data(), values.data());
    const PcaInput input{{}, false, sparse::prepare(writer.finish())};
    for (const bool center : {true, false}) {
      const PcaOptions options{.k = 4, .center = center, .tol = 1e-4};
      EXPECT_EQ(product_dtype(input, options), more && center ? Dtype::float64 : Dtype::float32);
    }
  }
}

TEST_F(PcaTest, Float32ProductsOfLargerMatrices) {
  // More than a million values: below that products are float64 whatever the dtype.
  Matrix tall = structured(20000, 60, 0.1, 5.0), wide = structured(60, 20000, 0.1, 5.0);
  const Matrix sparse = counts(90000, 100);
  for (Matrix* x : {&tall, &wide})
    for (double& value : x->values) value = static_cast<float>(value);
  const std::pair<const Matrix*, PcaInput> inputs[] = {{&tall, {stored(tall, Dtype::float32, "zarr"), false, {}}},
                                                       {&wide, {stored(wide, Dtype::float32, "npy"), false, {}}},
                                                       {&sparse, {{}, false, packed(sparse, Dtype::float32)}}};
  for (const auto& [x, input] : inputs)
    for (const char* method : {"gram", "krylov"}) {
      SCOPED_TRACE(to_string({x->rows, x->cols}) + " " + method);
      PcaOptions options{.k = 4, .method = method, .tol = 1e-4};
      ASSERT_EQ(product_dtype(input, options), Dtype::float32);
      const Outcome one = solve(input, options, 1), three = solve(input, options, 3);
      check(*x, one, options, 1e-5);
      EXPECT_EQ(one.result.components, three.result.components);
      EXPECT_EQ(one.scores.values, three.scores.values);
    }
}

TEST_F(PcaTest, LargeMeanCostsNoDigits) {
  // Spread 1e-3 on a mean of 1000 in float64; in float32 the data's own rounding is what is left.
  Matrix x = structured(400, 30, 0.2);
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < x.cols; ++j) x(i, j) = 1000.0 + 1e-3 * x(i, j);
  const Truth t = truth_of(x, true);
  for (const char* method : {"gram", "krylov"}) {
    PcaOptions options{.k = 5, .method = method, .tol = 1e-8};
    const Outcome out = solve({stored(x, Dtype::float64, "npy"), false, {}}, options);
    for (Index j = 0; j < 5; ++j) EXPECT_NEAR(out.result.singular_values[j], t.sigma[j], 1e-7 * t.sigma[0]);
  }
}

TEST_F(PcaTest, RankDeficientConstantAndZero) {
  Matrix low = structured(150, 40, 0.0);  // rank 8
  Matrix constant = structured(150, 40, 0.1);
  for (Index i = 0; i < 150; ++i) constant(i, 3) = 7, constant(i, 11) = -2;
  const Matrix zero{60, 20, Vector(1200, 0.0)}, same{60, 20, Vector(1200, 3.5)}, row{1, 9, Vector(9, 2.0)};
  for (const char* method : {"gram", "krylov"})
    for (const Matrix* x : std::initializer_list<const Matrix*>{&low, &constant, &zero, &same, &row})
      for (const Index k : {Index{1}, std::min(x->rows, x->cols)}) {
        SCOPED_TRACE(std::string(method) + " " + to_string({x->rows, x->cols}) + " k " + std::to_string(k));
        PcaOptions options{.k = k, .method = method};
        check(*x, solve({stored(*x, Dtype::float64, "npy"), false, {}}, options), options, 1e-7);
        check(*x, solve({{}, false, packed(*x, Dtype::float64)}, options), options, 1e-7);
      }
}

TEST_F(PcaTest, SameBitsForWorkersAndLimits) {
  const Matrix tall = structured(3000, 120, 0.1), wide = structured(120, 3000, 0.1);
  const Matrix sparse = counts(5000, 100);
  const PcaInput inputs[] = {{stored(tall, Dtype::float32, "zarr"), false, {}},
                             {stored(wide, Dtype::float32, "npy"), false, {}},
                             {{}, false, packed(sparse, Dtype::float32)}};
  for (const PcaInput& x : inputs)
    for (const char* method : {"gram", "krylov"}) {
      PcaOptions options{.k = 10, .method = method};
      Outcome first;
      for (const int workers : {1, 2, 4}) {
        Runtime probe({.memory = 8 * GiB, .workers = workers, .scratch = root_.path()});
        PcaResult ignored;
        const std::uint64_t least = probe.least_memory([&](Graph& graph) {
          const Array to = planned_array({x.rows(), 10}, scores_dtype(x), scores_chunks(x, 10));
          pca(graph, x, options, choose_pca(x, options, graph.budget(), probe.profile()), to, ignored);
        });
        for (const std::uint64_t memory : {least + 16 * MiB, least + 512 * MiB}) {
          const Outcome out = solve(x, options, workers, memory);
          if (first.result.method.empty()) first = out;
          EXPECT_EQ(out.result.singular_values, first.result.singular_values);
          EXPECT_EQ(out.result.components, first.result.components);
          EXPECT_EQ(out.result.residual, first.result.residual);
          EXPECT_EQ(out.scores.values, first.scores.values);
        }
      }
    }
}

TEST_F(PcaTest, PlanAndRunAgree) {
  const Matrix x = structured(4000, 100, 0.1);
  const Matrix s = counts(4000, 100);
  const PcaInput inputs[] = {{stored(x, Dtype::float32, "zarr"), false, {}}, {{}, false, packed(s, Dtype::float32)}};
  for (const PcaInput& input : inputs)
    for (const char* method : {"gram", "krylov"}) {
      PcaOptions options{.k = 5, .method = method};
      const Outcome out = solve(input, options, 2, 1 * GiB);
      EXPECT_LE(out.result.passes, out.choice.passes);
      // Scores and the index of their shard; partial sums may spill into temporary files.
      EXPECT_GE(out.stats.bytes_written, out.planned.bytes_written);
      EXPECT_LE(out.stats.bytes_written, out.planned.bytes_written + 256 * KiB);
      // Everything fits in the cache here: the matrix is read once however many the passes.
      EXPECT_NEAR(static_cast<double>(out.stats.bytes_read), static_cast<double>(out.planned.bytes_read),
                  0.01 * static_cast<double>(out.planned.bytes_read));
      EXPECT_LE(out.stats.peak_budget, out.planned.peak_budget * 11 / 10);
    }
}

TEST_F(PcaTest, NotANumberIsNamed) {
  for (const auto& [m, n] : {std::pair<Index, Index>{300, 20}, {20, 300}})
    for (const char* method : {"gram", "krylov"})
      for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
        Matrix x = structured(m, n, 0.1);
        x(17, 5) = x(17, 3) = bad;
        x(19, 1) = bad;
        PcaOptions options{.k = 3, .method = method};
        const auto expect = [&](const PcaInput& input) {
          try {
            solve(input, options);
            FAIL() << "no error";
          } catch (const NumericalError& error) {
            EXPECT_THAT(error.what(), ::testing::HasSubstr("row 17, column 3;"));
          }
        };
        expect({stored(x, Dtype::float32, "npy"), false, {}});
        expect({stored(x, Dtype::float64, "zarr", true), true, {}});
        expect({{}, false, packed(x, Dtype::float64)});
      }
}

TEST_F(PcaTest, BadArguments) {
  const Array x = stored(structured(20, 10, 0.1), Dtype::float64, "npy");
  const auto error_of = [&](PcaOptions options, const Array& array) {
    try {
      check_pca({array, false, {}}, options);
    } catch (const ShapeError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of({.k = 11}, x), "pca: k is 11 and X is 20 x 10; k must lie between 1 and 10.");
  EXPECT_NE(error_of({.k = 0}, x), "");
  EXPECT_NE(error_of({.k = 1, .method = "svd"}, x), "");
  EXPECT_NE(error_of({.k = 1, .tol = 0}, x), "");
  EXPECT_NE(error_of({.k = 1, .tol = std::nan("")}, x), "");
  EXPECT_NE(error_of({.k = 1}, create_npy(fresh(), {4, 4}, Dtype::complex64)), "");
  EXPECT_NE(error_of({.k = 1}, create_npy(fresh(), {4, 4, 4}, Dtype::float32)), "");
}

}  // namespace
}  // namespace flagstone::spectral
