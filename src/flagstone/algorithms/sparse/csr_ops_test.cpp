#include "flagstone/algorithms/sparse/csr_ops.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

#include "flagstone/algorithms/sparse/folds.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/kernel/reference/reference.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/csr_sample.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::sparse {
namespace {

namespace reference = kernel::reference;
using namespace test;

std::vector<double> disk_rows(const Array& y) {
  const std::vector<std::byte> bytes = test::read_elements(y, whole(y.shape()));
  std::vector<double> numbers;
  for (Index i = 0; i < count(y.shape()); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * 4, 4);
    numbers.push_back(value);
  }
  return numbers;
}

void check_all(const Kind& kind, Index m, Index n, Index b, Dtype real, bool centred,
               const std::vector<Index>& rows = {}, Index chunk_rows = 0) {
  Sample s(m, n, kind);
  if (!rows.empty()) s.choose(rows), m = s.rows;
  std::vector<double> mean(static_cast<std::size_t>(n));
  for (Index j = 0; j < n; ++j) mean[j] = std::cos(static_cast<double>(j)) * 3;
  const Array mu = memory_array(reinterpret_cast<std::byte*>(mean.data()), {1, n}, Dtype::float64, {});
  const Array* shift = centred ? &mu : nullptr;
  const auto dense = s.dense(centred ? mean.data() : nullptr);
  Held x(n, b, real, 5), u(m, b, real, 6), y(m, b, real, 0), ut(n, b, Dtype::float64, 7), g(n, b, Dtype::float64, 0),
      z(n, b, Dtype::float64, 0), gram(n, n, Dtype::float64, 0);
  const std::vector<double> before = ut.get();
  ZarrOptions blocks;
  blocks.chunks = {chunk_rows ? chunk_rows : s.a.panel_rows(), b};
  const Array scores = create_zarr_array(s.directory / "scores", {m, b}, Dtype::float32, blocks);
  Runtime runtime(options());
  runtime.run([&](Graph& graph) {
    multiply(graph, s.a, x.array, shift, y.array);
    multiply_transposed(graph, s.a, u.array, shift, ut.array);
    gram_multiply(graph, s.a, x.array, shift, g.array);
    multiply_and_project(graph, s.a, x.array, shift, scores, z.array);
    gram_matrix(graph, s.a, gram.array);
    graph.barrier();
  });
  const auto t = reference::multiply(dense, m, n, x.get(), b, false);
  const auto both = reference::multiply(dense, m, n, t, b, true);
  auto want = reference::multiply(dense, m, n, u.get(), b, true);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += before[i];
  expect_near(y.get(), t, real, "A X");
  expect_near(ut.get(), want, real, "Aᵀ X");
  expect_near(g.get(), both, real, "Gram");
  expect_near(z.get(), both, real, "project");
  expect_near(disk_rows(scores), t, Dtype::float32, "scores");
  const auto plain = s.dense(nullptr);
  for (Index j = 0; j < n; ++j)
    for (Index k = 0; k <= j; ++k) {
      double sum = 0;
      for (Index i = 0; i < m; ++i) sum += plain[i * n + j] * plain[i * n + k];
      ASSERT_EQ(gram.wide[j * n + k], sum) << "integers add up without rounding";
    }
}

TEST(CsrOps, MatchDenseProductsForEveryKindOfStorage) {
  for (const Kind& kind : kinds)
    for (bool centred : {false, true}) {
      const bool wide = centred == (kind.storage == Storage::packed);
      check_all(kind, 300, 70, 19, wide ? Dtype::float64 : Dtype::float32, centred);
    }
}

Statistics check_fold(const Kind& kind, Dtype real, Fold fold, bool rows, const std::vector<Index>& some = {}) {
  Sample s(150, 31, kind, 16);
  if (!some.empty()) s.choose(some);
  const Index m = s.rows, n = 31;
  const Index results = rows ? m : n;
  const Index words = rows && fold == Fold::sum ? 1 : 2;
  Held out(rows ? m : 2, rows ? words : n, Dtype::float64, 0);
  Runtime runtime(options());
  const Statistics done = runtime.run([&](Graph& graph) {
    const FoldOptions with{fold, real};
    rows ? fold_rows(graph, s.a, with, out.array) : fold_columns(graph, s.a, with, out.array);
  });
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> first(static_cast<std::size_t>(results)), second(first.size());
  if (fold == Fold::min || fold == Fold::max) first.assign(first.size(), fold == Fold::min ? infinity : -infinity);
  for (Index i = 0; i < m; ++i)
    for (Index p = s.pointers[i]; p < s.pointers[i + 1]; ++p) {
      const std::size_t k = static_cast<std::size_t>(rows ? i : s.columns[p]);
      const double value = s.values[p];
      if (fold == Fold::min) first[k] = std::min(first[k], value);
      if (fold == Fold::max) first[k] = std::max(first[k], value);
      if (fold == Fold::sum || fold == Fold::moments || fold == Fold::counts) first[k] += value;
      if (fold == Fold::nonzero) first[k] += value != 0;
      second[k] += fold == Fold::moments ? value * value : fold == Fold::sum || fold == Fold::counts ? 0 : 1;
    }
  for (Index k = 0; k < results; ++k) {
    EXPECT_EQ(out.wide[rows ? words * k : k], first[k]) << "integers fold without rounding";
    if (words == 2) {
      EXPECT_EQ(out.wide[rows ? 2 * k + 1 : n + k], second[k]);
    }
  }
  return done;
}

TEST(CsrOps, ChosenRowsMatchTheirDenseProducts) {
  const auto all = row_choices(300);
  const std::vector<Index> some{3, 4, 5, 20, 21, 75, 100, 101, 149};
  for (std::size_t k = 0; k < std::size(kinds); ++k) {
    const Kind& kind = kinds[k];
    for (const std::size_t i : {k % all.size(), (k + 3) % all.size()}) {
      const bool wide = i % 2 == 0;
      check_all(kind, 300, 40, 7, wide ? Dtype::float64 : Dtype::float32, wide, all[i], i % 3 == 0 ? 0 : 24);
    }
    if (k % 3 != 0) continue;
    for (const Fold fold : {Fold::sum, Fold::min, Fold::max, Fold::nonzero, Fold::moments, Fold::counts})
      for (const bool rows : {false, true}) {
        const Statistics done = check_fold(kind, Dtype::float64, fold, rows, some);
        EXPECT_EQ(done.of(Kernel::csr_fold).calls, 5u);  // of ten panels those that hold a chosen row
      }
  }
}

/// The products of complex vectors with a matrix of real values, against loops; whole numbers, so that sums are exact.
template <class T>
void check_complex(const Kind& kind, Index m, Index n, Index b) {
  const Sample s(m, n, kind);
  std::mt19937 random(2);
  const auto numbers = [&](Index count) {
    std::vector<T> made(static_cast<std::size_t>(count));
    for (T& one : made) one = T(static_cast<float>(random() % 9) - 4, static_cast<float>(random() % 9) - 4);
    return made;
  };
  using Wide = std::complex<double>;
  std::vector<T> x = numbers(n * b), u = numbers(m * b), t(u.size()), wanted_t(u.size());
  std::vector<Wide> y(x.size()), g(x.size()), wanted_y(x.size()), wanted_g(x.size());
  for (const bool second : {false, true})
    for (Index i = 0; i < m; ++i)
      for (Index p = s.pointers[i]; p < s.pointers[i + 1]; ++p)
        for (Index k = 0; k < b; ++k) {
          const auto value = static_cast<Wide>(s.values[p]);
          const Index from = s.columns[p] * b + k, to = i * b + k;
          if (!second) wanted_t[to] += T(value) * x[from], wanted_y[from] += value * Wide(u[to]);
          if (second) wanted_g[from] += value * Wide(wanted_t[to]);
        }
  Runtime runtime(options());
  runtime.run([&](Graph& graph) {
    multiply(graph, s.a, memory_array(x.data(), {n, b}), nullptr, memory_array(t.data(), {m, b}));
    multiply_transposed(graph, s.a, memory_array(u.data(), {m, b}), nullptr, memory_array(y.data(), {n, b}));
    gram_multiply(graph, s.a, memory_array(x.data(), {n, b}), nullptr, memory_array(g.data(), {n, b}));
    graph.barrier();
  });
  EXPECT_EQ(t, wanted_t);
  EXPECT_EQ(y, wanted_y);
  EXPECT_EQ(g, wanted_g);
}

/// What is left of the table's kernels when those of the other rooms are taken away: each against its naive twin.
TEST(CsrOps, EveryKernelOfPanelsComputesWhatItsTwinDoes) {
  const Kernel here[] = {Kernel::csr_multiply, Kernel::csr_multiply_transposed,
                         Kernel::csr_gram,     Kernel::csr_gram_matrix,
                         Kernel::csr_fold,     Kernel::csr_fold_join};
  for (const Kernel kernel : here) {
    int entries = 0;
    for (int d = 0; d <= static_cast<int>(Dtype::complex128); ++d) {
      const auto dtype = static_cast<Dtype>(d);
      if (host_kernels().find(kernel, dtype) == nullptr) continue;
      ++entries;
      if (dtype == Dtype::complex64) check_complex<std::complex<float>>(kinds[0], 120, 33, 7);
      if (dtype == Dtype::complex128) check_complex<std::complex<double>>(kinds[4], 120, 33, 20);
      if (is_complex(dtype)) continue;
      const bool folds = kernel == Kernel::csr_fold || kernel == Kernel::csr_fold_join;
      if (!folds) check_all(kinds[entries % 2], 120, 33, 7, dtype, entries % 2 == 0);
      for (const Fold fold : {Fold::sum, Fold::min, Fold::max, Fold::nonzero, Fold::moments, Fold::counts})
        for (const bool rows : {false, true}) {
          if (!folds) continue;
          const Statistics done = check_fold(kinds[entries % 2], dtype, fold, rows);
          EXPECT_EQ(done.of(Kernel::csr_fold).calls, 10u);  // 150 rows in panels of 16
          EXPECT_EQ(done.of(Kernel::csr_fold_join).calls, rows ? 0u : 10u);
        }
    }
    const bool product = kernel != Kernel::csr_gram_matrix && kernel < Kernel::csr_fold;
    EXPECT_EQ(entries, kernel == Kernel::csr_fold_join ? 1 : product ? 4 : 2) << name_of(kernel);
  }
}

TEST(CsrOps, AsTheWriterLeavesItWithDuplicatesSummed) {
  TemporaryDirectory directory;
  const Index m = 500, n = 40;
  std::mt19937 random(3);
  std::vector<double> dense(static_cast<std::size_t>(m * n));
  CsrWriter writer(directory / "matrix", n, Dtype::float32);
  for (Index start = 0; start < m; start += 100) {
    std::vector<Index> pointers{0}, columns;
    std::vector<float> values;
    for (Index i = 0; i < 100; ++i) {
      for (unsigned p = random() % 30; p > 0; --p) {  // in any order, some twice
        columns.push_back(random() % n), values.push_back(static_cast<float>(random() % 9));
        dense[(start + i) * n + columns.back()] += values.back();
      }
      pointers.push_back(static_cast<Index>(columns.size()));
    }
    writer.append(100, pointers.data(), columns.data(), values.data());
  }
  const CsrOperand a = prepare(writer.finish());
  EXPECT_TRUE(a.values.encoded && a.columns.encoded && a.pointers.encoded);
  Held x(n, 16, Dtype::float64, 4), z(n, 16, Dtype::float64, 0);
  Runtime runtime(options());
  runtime.run([&](Graph& graph) { gram_multiply(graph, a, x.array, nullptr, z.array); });
  const auto t = reference::multiply(dense, m, n, x.get(), 16, false);
  expect_near(z.get(), reference::multiply(dense, m, n, t, 16, true), Dtype::float64, "Gram");
}

TEST(CsrOps, RaggedShapesAndWidths) {
  for (Index b : {1, 3, 16, 50, 64, 100}) check_all(kinds[0], 130, 41, b, Dtype::float32, true);
  check_all(kinds[0], 1, 41, 4, Dtype::float32, true);
  check_all(kinds[0], 64, 1, 2, Dtype::float64, true);
  check_all(kinds[4], 65, 1, 1, Dtype::float32, false);
}

TEST(CsrOps, RowsLongerThanADecodedStep) {
  // 3 rows of up to 150,000 values: a step of 2^17 ends inside a row, chunks too.
  const Kind kind{Storage::packed, Dtype::float32, Dtype::int32, Dtype::int64, 1 << 16};
  TemporaryDirectory directory;
  const Index n = 200000, lengths[] = {150000, 0, 140000};
  std::vector<double> columns, values, pointers{0};
  for (Index length : lengths) {
    for (Index j = 0; j < length; ++j) columns.push_back(static_cast<double>(j)), values.push_back(1);
    pointers.push_back(static_cast<double>(columns.size()));
  }
  CsrMatrix matrix{3, n, static_cast<Index>(columns.size()), {}, {}, {}, directory.path(), 0};
  matrix.data = stored(values, kind.values, kind, directory / "data");
  matrix.indices = stored(columns, kind.columns, kind, directory / "indices");
  matrix.indptr = stored(pointers, kind.pointers, kind, directory / "indptr");
  const CsrOperand a = prepare(matrix, {{0, 3, 0, matrix.nnz}});
  Held x(n, 1, Dtype::float64, 0), y(3, 1, Dtype::float64, 0);
  for (Index j = 0; j < n; ++j) x.wide[j] = static_cast<double>(j);
  Runtime runtime(options());
  runtime.run([&](Graph& graph) { multiply(graph, a, x.array, nullptr, y.array); });
  EXPECT_EQ(y.wide[0], 150000.0 * 149999 / 2);
  EXPECT_EQ(y.wide[1], 0);
  EXPECT_EQ(y.wide[2], 140000.0 * 139999 / 2);
}

TEST(CsrOps, WideGramMatrixIsMadeInStrips) {
  Sample s(300, 1100, kinds[0]);
  Held g(1100, 1100, Dtype::float64, 0);
  Runtime runtime(options());
  runtime.run([&](Graph& graph) { gram_matrix(graph, s.a, g.array), graph.barrier(); });
  const auto plain = s.dense(nullptr);
  for (Index j = 0; j < 1100; j += 7)
    for (Index k = 0; k <= j; ++k) {
      double sum = 0;
      for (Index i = 0; i < 300; ++i) sum += plain[i * 1100 + j] * plain[i * 1100 + k];
      ASSERT_EQ(g.wide[j * 1100 + k], sum) << j << " " << k;
    }
}

TEST(CsrOps, SameBitsForEveryWorkerCountAndLimit) {
  Sample s(2000, 90, kinds[0]);
  std::vector<double> first;
  std::vector<float> first_rows;
  for (int workers : {1, 2, 4})
    for (bool tight : {true, false}) {
      Held x(90, 33, Dtype::float32, 9), z(90, 33, Dtype::float64, 0), y(2000, 33, Dtype::float32, 0);
      const auto build = [&](Graph& graph) {
        multiply_and_project(graph, s.a, x.array, nullptr, y.array, z.array);
        gram_multiply(graph, s.a, x.array, nullptr, z.array);
        graph.barrier();
      };
      std::uint64_t memory = GiB;
      if (tight) memory = Runtime(options(workers)).least_memory(build) + 2 * MiB;
      Runtime runtime(options(workers, memory));
      runtime.run(build);
      if (first.empty()) first = z.wide, first_rows = y.narrow;
      EXPECT_EQ(0, std::memcmp(first.data(), z.wide.data(), first.size() * 8)) << workers << " " << tight;
      EXPECT_EQ(0, std::memcmp(first_rows.data(), y.narrow.data(), first_rows.size() * 4)) << workers << " " << tight;
    }
}

/// Panels unpacked by the host, in the stretches that it computes in itself.
TEST(CsrOps, DevicesGiveTheHostsBits) {
  const Index m = 260, n = 260;
  const auto device = open_emulated({.memory = 32 * MiB, .reorder = 4});
  for (const Kind& kind : kinds)
    for (const bool rows : {false, true}) {
      Sample s(m, n, kind);
      if (rows) s.choose({3, 4, 64, 70, 130, 200, 201, 259});
      for (const Index b : {1, 3, 19}) {
        const Dtype real = b == 3 ? Dtype::float64 : Dtype::float32;
        std::vector<std::vector<double>> first;
        for (const bool spread : {false, true}) {
          Held x(n, b, real, 5), u(s.rows, b, real, 6), mean(1, n, Dtype::float64, 7), y(s.rows, b, Dtype::float64, 0),
              t(n, b, Dtype::float64, 8), g(n, b, Dtype::float64, 0), z(n, b, Dtype::float64, 0),
              moments(2, n, Dtype::float64, 0), both(n, b, Dtype::float64, 0), scores(s.rows, b, Dtype::float64, 0);
          RuntimeOptions with = options();
          if (spread) with.devices = {device};
          Runtime runtime(with);
          const Statistics done = runtime.run([&](Graph& graph) {
            multiply(graph, s.a, x.array, &mean.array, y.array);
            multiply_transposed(graph, s.a, u.array, &mean.array, t.array);
            gram_multiply(graph, s.a, x.array, &mean.array, g.array, moments.array);
            multiply_and_project(graph, s.a, x.array, nullptr, scores.array, z.array);
            if (!rows) symmetric_multiply(graph, s.a, x.array, both.array);
            graph.barrier();
          });
          const std::vector<std::vector<double>> all{y.wide,      t.wide, g.wide,   moments.wide,
                                                     scores.wide, z.wide, both.wide};
          if (first.empty()) first = all;
          EXPECT_EQ(all, first) << b << " " << rows;
          const std::uint64_t panels = s.a.panels.size();
          EXPECT_EQ(done.of(Kernel::csr_unpack).calls, spread ? panels * (rows ? 4 : 5) : 0);
          if (spread) {
            EXPECT_GE(done.spaces[1].tasks, panels * (rows ? 4 : 5));
            EXPECT_EQ(done.spaces[0].tasks, panels * (rows ? 4 : 5));
          }
        }
      }
    }
}

TEST(CsrOps, PlanCountsTheBytesOfTheRun) {
  Sample s(3000, 90, kinds[0]);
  Held x(90, 16, Dtype::float32, 9), z(90, 16, Dtype::float64, 0);
  const auto build = [&](Graph& graph) {
    gram_multiply(graph, s.a, x.array, nullptr, z.array);
    graph.barrier();
  };
  Runtime runtime(options());
  const Statistics planned = runtime.plan(build), done = runtime.run(build);
  EXPECT_GT(done.bytes_read, 0u);
  EXPECT_EQ(planned.bytes_read, done.bytes_read);
  EXPECT_EQ(planned.flops, 4.0 * static_cast<double>(s.a.matrix.nnz) * 16);
  EXPECT_EQ(done.flops, planned.flops);
}

TEST(CsrOps, DamageIsNamed) {
  const auto run = [](const CsrOperand& a) {
    Held x(a.matrix.cols, 2, Dtype::float32, 1), y(a.matrix.rows, 2, Dtype::float32, 0);
    Runtime runtime(options());
    runtime.run([&](Graph& graph) { multiply(graph, a, x.array, nullptr, y.array); });
  };
  Sample bad_column(100, 30, kinds[4]);
  bad_column.a.matrix.indices.store().memory()[4 * 17 + 2] = std::byte{1};
  try {
    run(bad_column.a);
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("stored value 17"), std::string::npos) << error.what();
  }
  Sample bad_pointer(100, 30, kinds[5]);
  bad_pointer.a.matrix.indptr.store().memory()[8 * 20 + 6] = std::byte{1};
  EXPECT_THROW(run(bad_pointer.a), FormatError);
}

TEST(CsrOps, RefusesWhatDoesNotConform) {
  Sample s(100, 30, kinds[4]);
  Held x(29, 2, Dtype::float32, 1), good(30, 2, Dtype::float32, 1), y(100, 2, Dtype::float32, 0);
  Held narrow(30, 2, Dtype::float32, 0);
  Runtime runtime(options());
  EXPECT_THROW(runtime.run([&](Graph& graph) { multiply(graph, s.a, x.array, nullptr, y.array); }), ShapeError);
  EXPECT_THROW(runtime.run([&](Graph& graph) { gram_multiply(graph, s.a, good.array, nullptr, narrow.array); }),
               ShapeError);
  Array turned = memory_array(good.array.store().memory(), {30, 2}, Dtype::float32, {4, 120});
  EXPECT_THROW(runtime.run([&](Graph& graph) { multiply(graph, s.a, turned, nullptr, y.array); }), ShapeError);
}

}  // namespace
}  // namespace flagstone::sparse
