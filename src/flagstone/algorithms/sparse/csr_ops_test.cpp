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
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::sparse {
namespace {

namespace reference = kernel::reference;

enum class Storage { memory, raw, packed };

struct Kind {
  Storage storage;
  Dtype values, columns, pointers;
  Index chunk;
};

const Kind kinds[] = {
    {Storage::packed, Dtype::float32, Dtype::uint16, Dtype::int64, 512},
    {Storage::packed, Dtype::float64, Dtype::uint8, Dtype::int64, 1 << 19},
    {Storage::packed, Dtype::uint8, Dtype::int64, Dtype::int32, 100},
    {Storage::raw, Dtype::float32, Dtype::int32, Dtype::int64, 1000},
    {Storage::memory, Dtype::float32, Dtype::int32, Dtype::int32, 0},
    {Storage::memory, Dtype::int16, Dtype::int64, Dtype::int64, 0},
};

template <class F>
void with_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::uint8:
      return f(std::uint8_t{});
    case Dtype::int16:
      return f(std::int16_t{});
    case Dtype::uint16:
      return f(std::uint16_t{});
    case Dtype::int32:
      return f(std::int32_t{});
    case Dtype::int64:
      return f(std::int64_t{});
    case Dtype::float32:
      return f(float{});
    default:
      return f(double{});
  }
}

/// One of a matrix's three arrays, stored as a kind says.
Array stored(const std::vector<double>& numbers, Dtype dtype, const Kind& kind, const std::string& path) {
  auto bytes = std::make_shared<std::vector<std::byte>>(numbers.size() * size_of(dtype));
  with_type(dtype, [&](auto sample) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      sample = static_cast<decltype(sample)>(numbers[i]);
      std::memcpy(bytes->data() + i * sizeof sample, &sample, sizeof sample);
    }
  });
  const Shape shape{static_cast<Index>(numbers.size())};
  if (kind.storage == Storage::memory) return memory_array(bytes->data(), shape, dtype, {}, bytes);
  ZarrOptions options;
  options.chunks = {kind.chunk};
  options.codec = kind.storage == Storage::packed ? "blosc-lz4" : "raw";
  const Array array = create_zarr_array(path, shape, dtype, options);
  if (shape[0] > 0) test::write_elements(array, whole(shape), *bytes);
  array.store().flush();
  return open_zarr_array(path);
}

/// A small matrix of small integers, ragged: empty rows, one full row, empty columns; and itself densely.
struct Sample {
  TemporaryDirectory directory;
  Index rows, cols;
  std::vector<Index> pointers{0};
  std::vector<std::int64_t> columns;
  std::vector<double> values;
  CsrOperand a;

  Sample(Index m, Index n, const Kind& kind, Index panel_rows = 64) : rows(m), cols(n) {
    std::mt19937 random(static_cast<unsigned>(m * 31 + n));
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n; ++j) {
        const bool here = i == m / 2 || (i % 9 != 4 && j % 11 != 3 && random() % 100 < 4 + 40 * (i % 4 == 1));
        if (here) columns.push_back(j), values.push_back(1 + static_cast<double>(random() % 100));
      }
      pointers.push_back(static_cast<Index>(columns.size()));
    }
    CsrMatrix matrix{m, n, static_cast<Index>(columns.size()), {}, {}, {}, directory.path(), 0};
    matrix.data = stored(values, kind.values, kind, directory / "data");
    matrix.indices = stored({columns.begin(), columns.end()}, kind.columns, kind, directory / "indices");
    matrix.indptr = stored({pointers.begin(), pointers.end()}, kind.pointers, kind, directory / "indptr");
    std::vector<CsrPanelRange> panels;
    for (Index row = 0; row < m; row += panel_rows) {
      const Index end = std::min(m, row + panel_rows);
      panels.push_back({row, end, pointers[row], pointers[end]});
    }
    a = prepare(matrix, panels);
  }
  /// Sees some of the rows, and is them densely.
  void choose(const std::vector<Index>& some) {
    const bool stretch = !some.empty() && some.back() - some.front() + 1 == static_cast<Index>(some.size());
    a = chosen(a, stretch ? RowChoice(some.front(), some.back() + 1) : RowChoice(some));
    const auto ends = std::exchange(pointers, {0});
    const auto stored_columns = std::exchange(columns, {});
    const auto stored_values = std::exchange(values, {});
    rows = static_cast<Index>(some.size());
    for (const Index row : some) {
      for (Index p = ends[row]; p < ends[row + 1]; ++p)
        columns.push_back(stored_columns[p]), values.push_back(stored_values[p]);
      pointers.push_back(static_cast<Index>(columns.size()));
    }
  }
  std::vector<double> dense(const double* mu) const {
    return reference::densify(rows, cols, pointers.data(), columns.data(), values.data(), mu);
  }
};

/// An in-memory array of its own.
struct Held {
  std::vector<double> wide;
  std::vector<float> narrow;
  Array array;
  Held(Index m, Index b, Dtype dtype, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    wide.resize(static_cast<std::size_t>(m * b)), narrow.resize(wide.size());
    for (std::size_t i = 0; seed && i < wide.size(); ++i) wide[i] = narrow[i] = static_cast<float>(normal(random));
    array = dtype == Dtype::float64 ? memory_array(reinterpret_cast<std::byte*>(wide.data()), {m, b}, dtype, {})
                                    : memory_array(reinterpret_cast<std::byte*>(narrow.data()), {m, b}, dtype, {});
  }
  std::vector<double> get() const {
    return array.dtype() == Dtype::float64 ? wide : std::vector<double>(narrow.begin(), narrow.end());
  }
};

RuntimeOptions options(int workers = 2, std::uint64_t memory = GiB) {
  RuntimeOptions made;
  made.workers = workers, made.memory = memory;
  return made;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, Dtype dtype, const char* what) {
  double scale = 0;
  for (double value : want) scale = std::max(scale, std::abs(value));
  const double bound = scale * (dtype == Dtype::float32 ? 3e-5 : 1e-12);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << what << " " << i;
}

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

/// A stretch inside panels, whole panels, one row, rows here and there, and rows that leave panels out.
std::vector<std::vector<Index>> choices(Index m) {
  std::vector<std::vector<Index>> made(5);
  for (Index row = 0; row < m; ++row) {
    if (row >= 70 && row < 190) made[0].push_back(row);
    if (row >= 64 && row < 192) made[1].push_back(row);
    if (row == m / 2) made[2].push_back(row);
    if (row * 7 % 5 < 2 || row == m - 1) made[3].push_back(row);
    if (row % 3 == 1 && row % 128 < 64) made[4].push_back(row);
  }
  return made;
}

TEST(CsrOps, ChosenRowsMatchTheirDenseProducts) {
  const auto all = choices(300);
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

TEST(CsrOps, PanelsWithoutAChosenRowAreNotRead) {
  Sample s(3000, 90, {Storage::raw, Dtype::float32, Dtype::int32, Dtype::int64, 64});
  const CsrOperand some = chosen(s.a, RowChoice(640, 700));  // the second panel of twenty is whole, the third partly
  EXPECT_EQ(some.panels.size(), 1u);
  const CsrPanelRange panel = some.panels[0];
  Held x(90, 4, Dtype::float32, 9), y(60, 4, Dtype::float32, 0);
  const auto build = [&](Graph& graph) { multiply(graph, some, x.array, nullptr, y.array), graph.barrier(); };
  Runtime runtime(options());
  const Statistics planned = runtime.plan(build), done = runtime.run(build);
  EXPECT_EQ(planned.bytes_read, done.bytes_read);
  // Values, columns and pointers of the panel, by whole chunks of 64 elements, each of which is a page.
  const auto values = static_cast<std::uint64_t>(panel.last - panel.first);
  EXPECT_LE(done.bytes_read, (2 * (values / 64 + 2) + 3) * page_bytes);
  EXPECT_GE(done.bytes_read, 2 * (values / 64) * page_bytes);
  EXPECT_EQ(some.matrix.nnz, static_cast<Index>(std::llround(static_cast<double>(values) * 60 / 64)));
  EXPECT_THROW(chosen(s.a, RowChoice(2999, 3001)), ShapeError);
  EXPECT_THROW(chosen(some, RowChoice(0, 1)), ShapeError);
}

TEST(CsrOps, TransformsOfChosenRowsTakeFactorsOfThese) {
  for (const Kind& kind : {kinds[0], kinds[4]})
    for (const std::vector<Index>& rows : choices(300)) {
      Sample s(300, 40, kind);
      s.choose(rows);
      Transform transform;
      std::vector<double> factors;
      for (Index i = 0; i < s.rows; ++i) factors.push_back(static_cast<double>(1 + i % 5));
      transform.steps.push_back({Transform::Step::Kind::rows, factors});
      Index stay = 0;
      for (Index j = 0; j < 40; ++j) transform.place.push_back(j % 3 ? stay++ : -1);
      const CsrOperand a = transformed(s.a, transform);
      Held sums(s.rows, 1, Dtype::float64, 0), columns(2, stay, Dtype::float64, 0);
      Runtime runtime(options());
      runtime.run([&](Graph& graph) {
        fold_rows(graph, a, {Fold::sum, Dtype::float64}, sums.array);
        fold_columns(graph, a, {Fold::moments, Dtype::float64}, columns.array);
      });
      std::vector<double> along_rows(factors.size()), along_columns(static_cast<std::size_t>(stay));
      for (Index i = 0; i < s.rows; ++i)
        for (Index p = s.pointers[i]; p < s.pointers[i + 1]; ++p)
          if (const Index place = transform.place[s.columns[p]]; place >= 0)
            along_rows[i] += factors[i] * s.values[p], along_columns[place] += factors[i] * s.values[p];
      EXPECT_EQ(sums.wide, along_rows);
      EXPECT_EQ(std::vector<double>(columns.wide.begin(), columns.wide.begin() + stay), along_columns);
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
