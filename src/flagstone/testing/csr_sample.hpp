#pragma once
// For tests: small CSR matrices in every kind of storage, themselves densely, and what they are multiplied with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/base/bytes.hpp"
#include "flagstone/kernel/reference/reference.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::test {

enum class Storage { memory, raw, packed };

struct Kind {
  Storage storage;
  Dtype values, columns, pointers;
  Index chunk;
};

inline const Kind kinds[] = {
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
inline Array stored(const std::vector<double>& numbers, Dtype dtype, const Kind& kind, const std::string& path) {
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
  sparse::CsrOperand a;

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
    a = sparse::prepare(matrix, panels);
  }
  /// Sees some of the rows, and is them densely.
  void choose(const std::vector<Index>& some) {
    const bool stretch = !some.empty() && some.back() - some.front() + 1 == static_cast<Index>(some.size());
    a = sparse::chosen(a, stretch ? sparse::RowChoice(some.front(), some.back() + 1) : sparse::RowChoice(some));
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
    return kernel::reference::densify(rows, cols, pointers.data(), columns.data(), values.data(), mu);
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

inline RuntimeOptions options(int workers = 2, std::uint64_t memory = GiB) {
  RuntimeOptions made;
  made.workers = workers, made.memory = memory;
  return made;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want, Dtype dtype,
                        const char* what) {
  double scale = 0;
  for (double value : want) scale = std::max(scale, std::abs(value));
  const double bound = scale * (dtype == Dtype::float32 ? 3e-5 : 1e-12);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << what << " " << i;
}

/// A stretch inside panels, whole panels, one row, rows here and there, and rows that leave panels out.
inline std::vector<std::vector<Index>> row_choices(Index m) {
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

}  // namespace flagstone::test
