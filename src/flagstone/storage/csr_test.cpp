#include "flagstone/storage/csr.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array_test_io.hpp"
#include "flagstone/storage/csr_sidecar.hpp"
#include "flagstone/storage/metadata.hpp"
#include "flagstone/storage/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::message_of;
using test::read_elements;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A matrix as rows of (column, value), any order, repeats allowed.
template <class V>
struct Rows {
  std::vector<Index> pointers{0}, columns;
  std::vector<V> values;

  void add(const std::vector<std::pair<Index, V>>& row) {
    for (const auto& [column, value] : row) columns.push_back(column), values.push_back(value);
    pointers.push_back(static_cast<Index>(columns.size()));
  }
  Index rows() const { return static_cast<Index>(pointers.size()) - 1; }
};

template <class V>
Rows<V> random_rows(Index rows, Index cols, double per_row, bool canonical, std::mt19937_64& random) {
  Rows<V> result;
  std::poisson_distribution<int> count(per_row);
  for (Index i = 0; i < rows; ++i) {
    std::map<Index, V> sorted;
    std::vector<std::pair<Index, V>> row;
    for (int n = count(random); n > 0; --n) {
      const auto column = static_cast<Index>(random() % static_cast<std::uint64_t>(cols));
      const auto value = static_cast<V>(random() % 7);
      row.push_back({column, value});
      sorted[column] = value;
    }
    if (canonical) row.assign(sorted.begin(), sorted.end());
    result.add(row);
  }
  return result;
}

/// What must be on disk: sorted, summed.
template <class V>
Rows<V> canonical(const Rows<V>& given) {
  Rows<V> result;
  for (Index i = 0; i < given.rows(); ++i) {
    std::map<Index, V> row;
    for (Index p = given.pointers[static_cast<std::size_t>(i)]; p < given.pointers[static_cast<std::size_t>(i) + 1];
         ++p)
      row[given.columns[static_cast<std::size_t>(p)]] += given.values[static_cast<std::size_t>(p)];
    result.add({row.begin(), row.end()});
  }
  return result;
}

template <class V>
void append_in_blocks(CsrWriter& writer, const Rows<V>& rows, Index block) {
  for (Index first = 0; first < rows.rows(); first += block) {
    const Index n = std::min(block, rows.rows() - first);
    const Index start = rows.pointers[static_cast<std::size_t>(first)];
    std::vector<Index> pointers(rows.pointers.begin() + first, rows.pointers.begin() + first + n + 1);
    for (Index& pointer : pointers) pointer -= start;
    writer.append(n, pointers.data(), rows.columns.data() + start, rows.values.data() + start);
  }
}

template <class V>
std::vector<V> all_values(const Array& array) {
  const auto bytes = read_elements(array, whole(array.shape()));
  std::vector<V> values(bytes.size() / sizeof(V));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class V>
void expect_stored(const CsrMatrix& matrix, const Rows<V>& expected) {
  EXPECT_EQ(matrix.rows, expected.rows());
  EXPECT_EQ(matrix.nnz, static_cast<Index>(expected.values.size()));
  EXPECT_EQ(read_integers(matrix.indptr, 0, matrix.rows + 1), expected.pointers);
  EXPECT_EQ(read_integers(matrix.indices, 0, matrix.nnz), expected.columns);
  EXPECT_EQ(all_values<V>(matrix.data), expected.values);
}

TEST(Csr, WhatIsAppendedIsStoredSortedAndSummed) {
  std::mt19937_64 random(8);
  for (const Index cols : {Index{3}, Index{200}, Index{5000}, Index{100'000}})
    for (const bool tidy : {true, false})
      for (const Index block : {Index{1}, Index{50}}) {
        SCOPED_TRACE(std::to_string(cols) + (tidy ? " tidy " : " untidy ") + std::to_string(block));
        TemporaryDirectory directory;
        const auto rows = random_rows<float>(120, cols, 11, tidy, random);
        CsrWriter writer(directory / "g", cols, Dtype::float32);
        append_in_blocks(writer, rows, block);
        const CsrMatrix matrix = writer.finish();
        expect_stored(matrix, canonical(rows));
        expect_stored(open_csr(directory / "g"), canonical(rows));
        EXPECT_EQ(matrix.indices.dtype(), cols <= 256 ? Dtype::uint8 : cols <= 65536 ? Dtype::uint16 : Dtype::uint32);
        EXPECT_EQ(matrix.cols, cols);
      }
}

/// One row of `n` small integers, value i % 200, and `last` at the end.
std::vector<float> counting(Index n, float last) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 200);
  values.back() = last;
  return values;
}

TEST(Csr, SmallIntegersMayTakeAByteEach) {
  const Index n = (Index{1} << 19) + 1000;  // more than a chunk before the last value
  std::vector<Index> columns(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) columns[static_cast<std::size_t>(i)] = i;
  const Index pointers[] = {0, n};
  for (const float last : {255.f, 256.f, 0.5f, -1.f, -0.f, std::numeric_limits<float>::infinity(), 1e30f}) {
    SCOPED_TRACE(last);
    TemporaryDirectory directory;
    const std::vector<float> values = counting(n, last);
    CsrWriter writer(directory / "g", n, Dtype::float32, true);
    writer.append(1, pointers, columns.data(), values.data());
    writer.append(1, pointers, columns.data(), values.data());  // after it has been decided
    const CsrMatrix matrix = writer.finish();
    EXPECT_EQ(matrix.value_dtype(), Dtype::float32);
    EXPECT_EQ(open_csr(directory / "g").value_dtype(), Dtype::float32);
    EXPECT_EQ(matrix.data.dtype(), last == 255.f ? Dtype::uint8 : Dtype::float32);
    EXPECT_FALSE(std::filesystem::exists(directory / "g/data.bytes"));
    std::vector<float> stored;
    if (last == 255.f) {
      const auto bytes = all_values<std::uint8_t>(matrix.data);
      stored.assign(bytes.begin(), bytes.end());
    } else {
      stored = all_values<float>(matrix.data);
    }
    ASSERT_EQ(stored.size(), 2 * values.size());
    EXPECT_EQ(std::memcmp(stored.data(), values.data(), values.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(stored.data() + n, values.data(), values.size() * sizeof(float)), 0);
  }
}

template <class V>
void round_trip(Dtype dtype, Dtype stored) {
  SCOPED_TRACE(std::string(name_of(dtype)));
  std::mt19937_64 random(9);
  TemporaryDirectory directory;
  const auto rows = random_rows<V>(50, 40, 6, false, random);
  CsrWriter writer(directory / "g", 40, dtype);
  append_in_blocks(writer, rows, 9);
  const CsrMatrix matrix = writer.finish();
  EXPECT_EQ(matrix.data.dtype(), stored);
  expect_stored(matrix, canonical(rows));
}

TEST(Csr, EveryValueTypeIsKept) {
  round_trip<std::int8_t>(Dtype::int8, Dtype::int8);
  round_trip<std::int16_t>(Dtype::int16, Dtype::int16);
  round_trip<std::int32_t>(Dtype::int32, Dtype::int32);
  round_trip<std::int64_t>(Dtype::int64, Dtype::int64);
  round_trip<std::uint8_t>(Dtype::uint8, Dtype::uint8);
  round_trip<std::uint16_t>(Dtype::uint16, Dtype::uint16);
  round_trip<std::uint32_t>(Dtype::uint32, Dtype::uint32);
  round_trip<std::uint64_t>(Dtype::uint64, Dtype::uint64);
  round_trip<float>(Dtype::float32, Dtype::float32);
  round_trip<double>(Dtype::float64, Dtype::float64);
  TemporaryDirectory directory;
  EXPECT_THROW(CsrWriter(directory / "c", 3, Dtype::complex64), FormatError);
  // A pattern: repeated ones stay one.
  CsrWriter writer(directory / "g", 4, Dtype::boolean);
  const Index pointers[] = {0, 3};
  const std::int32_t columns[] = {2, 0, 2};
  const bool values[] = {true, true, true};
  writer.append(1, pointers, columns, values);
  const CsrMatrix matrix = writer.finish();
  EXPECT_EQ(matrix.data.dtype(), Dtype::uint8);
  EXPECT_THAT(all_values<std::uint8_t>(matrix.data), ElementsAre(1, 1));
}

TEST(Csr, ManyChunksAndNarrowIndicesStreamThrough) {
  std::mt19937_64 random(10);
  TemporaryDirectory directory;
  const auto rows = random_rows<float>(20'000, 3000, 80, true, random);
  ASSERT_GT(rows.values.size(), std::size_t{3} << 19);
  CsrWriter writer(directory / "g", 3000, Dtype::float32);
  append_in_blocks(writer, rows, 3001);
  const CsrMatrix matrix = writer.finish();
  expect_stored(matrix, rows);
  EXPECT_EQ(chunk_coding(matrix.data), ChunkCoding::blosc);
  EXPECT_LT(matrix.stored_bytes, rows.values.size() * 4);
}

TEST(Csr, RandomMantissasStayRaw) {
  std::mt19937_64 random(11);
  TemporaryDirectory directory;
  Rows<double> rows = random_rows<double>(6000, 500, 150, true, random);
  for (double& value : rows.values) value = std::generate_canonical<double, 53>(random);
  CsrWriter writer(directory / "g", 500, Dtype::float64);
  append_in_blocks(writer, rows, 1000);
  const CsrMatrix matrix = writer.finish();
  EXPECT_EQ(chunk_coding(matrix.data), ChunkCoding::raw);
  EXPECT_EQ(chunk_coding(matrix.indices), ChunkCoding::blosc);
  expect_stored(matrix, rows);
}

TEST(Csr, StatisticsAreThoseOfTheMatrix) {
  std::mt19937_64 random(12);
  TemporaryDirectory directory;
  const auto given = random_rows<double>(300, 20, 9, false, random);
  const auto rows = canonical(given);
  CsrWriter writer(directory / "g", -1, Dtype::float64);  // columns not known: the widest row says
  append_in_blocks(writer, given, 100);
  const CsrMatrix matrix = writer.finish();
  EXPECT_EQ(matrix.cols, 20);
  const auto statistics = csr_statistics(open_csr(directory / "g"));
  ASSERT_TRUE(statistics);
  std::vector<double> sums(20), squares(20);
  double pairs = 0, all = 0;
  for (std::size_t i = 0; i + 1 < rows.pointers.size(); ++i)
    pairs += std::pow(static_cast<double>(rows.pointers[i + 1] - rows.pointers[i]), 2);
  for (std::size_t p = 0; p < rows.values.size(); ++p) {
    sums[static_cast<std::size_t>(rows.columns[p])] += rows.values[p];
    squares[static_cast<std::size_t>(rows.columns[p])] += rows.values[p] * rows.values[p];
    all += rows.values[p] * rows.values[p];
  }
  EXPECT_EQ(statistics->column_sums, sums);
  EXPECT_EQ(statistics->column_squares, squares);
  EXPECT_EQ(statistics->sum_squares, all);
  EXPECT_EQ(statistics->sum_row_nnz_squared, pairs);
  EXPECT_EQ(statistics->bad_row, -1);
}

TEST(Csr, TheFirstNanOrInfinityIsRemembered) {
  TemporaryDirectory directory;
  CsrWriter writer(directory / "g", 5, Dtype::float32);
  Rows<float> rows;
  rows.add({{0, 1.f}});
  rows.add({});
  rows.add({{1, 1.f}, {3, std::numeric_limits<float>::infinity()}, {4, NAN}});
  rows.add({{2, NAN}});
  append_in_blocks(writer, rows, 4);
  writer.finish();
  const auto statistics = csr_statistics(open_csr(directory / "g"));
  EXPECT_EQ(statistics->bad_row, 2);
  EXPECT_EQ(statistics->bad_column, 3);
}

TEST(Csr, SumsOfManyChunksAreAddedInOrder) {
  const Index chunk = Index{1} << 19, n = 700, rows = 4 * chunk / n + 1;  // rows that cross chunks
  for (const bool narrow : {false, true}) {
    SCOPED_TRACE(narrow);
    TemporaryDirectory directory;
    CsrWriter writer(directory / "g", -1, Dtype::float32, narrow);
    std::vector<double> sums(static_cast<std::size_t>(n));
    std::vector<float> values(sums.size());
    std::vector<std::int32_t> columns(sums.size());
    const Index pointers[] = {0, n};
    for (Index i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < values.size(); ++j) {
        columns[j] = static_cast<std::int32_t>(j);
        values[j] =
            narrow ? static_cast<float>((static_cast<std::size_t>(i) + j) % 9) : 1.f / static_cast<float>(i + 3);
        if (i == rows - 2 && j == 5 && !narrow) values[j] = INFINITY;
        sums[j] += static_cast<double>(values[j]);
      }
      writer.append(1, pointers, columns.data(), values.data());
    }
    const CsrMatrix matrix = writer.finish();
    const auto statistics = csr_statistics(matrix);
    ASSERT_TRUE(statistics);
    EXPECT_EQ(statistics->column_sums, sums);  // the same additions in the same order
    EXPECT_EQ(statistics->bad_row, narrow ? -1 : rows - 2);
    EXPECT_EQ(statistics->bad_column, narrow ? -1 : 5);
    EXPECT_EQ(matrix.nnz, rows * n);
    EXPECT_EQ(read_integers(matrix.indices, matrix.nnz - 2, 2), (std::vector<Index>{n - 2, n - 1}));
  }
}

TEST(Csr, AWriterGoesOnFromItsState) {
  TemporaryDirectory directory;
  const Index chunk = Index{1} << 19, n = 700, rows = 3 * chunk / n + 1;
  std::vector<double> values(static_cast<std::size_t>(n));
  std::vector<Index> columns(values.size());
  const Index pointers[] = {0, n};
  const auto append = [&](CsrWriter& writer, Index first, Index end) {
    for (Index i = first; i < end; ++i) {
      for (std::size_t j = 0; j < values.size(); ++j) {
        columns[j] = static_cast<Index>(2 * j) + i % 2;
        values[j] = 1. / static_cast<double>(i + static_cast<Index>(j) + 3);
      }
      writer.append(1, pointers, columns.data(), values.data());
    }
  };
  CsrWriter whole(directory / "whole", 2 * n, Dtype::float64);
  append(whole, 0, rows);
  const CsrMatrix expected = whole.finish();
  for (const Index at : {Index{0}, Index{1}, rows / 2, rows}) {
    SCOPED_TRACE(at);
    const std::string place = directory / ("half" + std::to_string(at));
    std::vector<std::byte> state;
    {
      CsrWriter died(place, 2 * n, Dtype::float64);
      append(died, 0, at);
      state = died.state();
      append(died, at, std::min(rows, at + rows / 4));  // further than what is noted
      if (at == rows) died.finish();                    // and all of it
    }
    CsrWriter again(place, 2 * n, Dtype::float64, state);
    ASSERT_EQ(again.rows(), at);
    append(again, at, rows);
    const CsrMatrix found = again.finish();
    EXPECT_EQ(found.nnz, expected.nnz);
    EXPECT_EQ(csr_statistics(found)->column_sums, csr_statistics(expected)->column_sums);
    EXPECT_EQ(csr_statistics(found)->sum_row_nnz_squared, csr_statistics(expected)->sum_row_nnz_squared);
    for (const char* part : {"/data/c/0", "/indices/c/0", "/indptr/c/0", "/zarr.json", "/data/zarr.json"})
      EXPECT_EQ(read_text(found.path + part, GiB), read_text(expected.path + part, GiB)) << part;
    const std::vector<std::byte> cut(state.begin(), state.end() - 1);
    EXPECT_THROW(CsrWriter(place, 2 * n, Dtype::float64, cut), FormatError);
  }
  EXPECT_THROW(CsrWriter(directory / "narrow", 9, Dtype::float64, true).state(), Error);
}

TEST(Csr, AFullDiskIsAnErrorOfTheCallThatNoticesIt) {
  TemporaryDirectory directory;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!mount_small(directory.path(), 8 * MiB)) ::_exit(2);
    try {
      CsrWriter writer(directory / "g", 100, Dtype::float64);
      std::vector<Index> columns(100);
      std::vector<double> values(100);
      for (std::size_t j = 0; j < 100; ++j) columns[j] = static_cast<Index>(j);
      const Index pointers[] = {0, 100};
      double random = 1;
      for (int i = 0; i < 60'000; ++i) {
        for (double& value : values) value = random = std::fmod(random * 997.123456789, 10.0);
        writer.append(1, pointers, columns.data(), values.data());
      }
      writer.finish();
    } catch (const StorageError& error) {
      ::_exit(error.number == ENOSPC ? 0 : 3);
    }
    ::_exit(4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no mounts here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Csr, StatisticsOfChangedArraysAreUnknownNotWrong) {
  TemporaryDirectory directory;
  CsrWriter writer(directory / "g", 5, Dtype::float32);
  Rows<float> rows;
  rows.add({{0, 1.f}});
  append_in_blocks(writer, rows, 1);
  writer.finish();
  const CsrMatrix held = open_csr(directory / "g");
  ASSERT_TRUE(csr_statistics(held));
  const std::string file = directory / "g/data/__flagstone/statistics.bin";
  const auto time = std::filesystem::last_write_time(file);
  std::fstream(file, std::ios::in | std::ios::out).put('x');  // damaged, with its old time
  std::filesystem::last_write_time(file, time);
  EXPECT_FALSE(csr_statistics(open_csr(directory / "g")));
  const CsrMatrix copy = held;
  EXPECT_TRUE(csr_statistics(copy)) << "it was read once, and its file is what it was";
  std::filesystem::last_write_time(directory / "g/data/c/0", std::filesystem::file_time_type::clock::now());
  EXPECT_FALSE(csr_statistics(held));
  EXPECT_FALSE(csr_statistics(open_csr(directory / "g")));
  EXPECT_EQ(csr_panels(open_csr(directory / "g")).size(), 1u);
}

TEST(Csr, PanelsAreEqualRowsOfAFewMillionValues) {
  PanelChooser even;
  for (int i = 0; i < 400'000; ++i) even.add(280);
  EXPECT_EQ(even.panel_rows(), 4096);
  PanelChooser skewed;  // one huge row must not make all panels tiny
  for (int i = 0; i < 100'000; ++i) skewed.add(i == 5000 ? 5 << 20 : 300);
  EXPECT_EQ(skewed.panel_rows(), 4096);
  PanelChooser clustered;  // 2,000 long rows in a row: by the bound of 4 Mi
  for (int i = 0; i < 100'000; ++i) clustered.add(i < 2000 ? 20'000 : 10);
  EXPECT_EQ(clustered.panel_rows(), 128);
  PanelChooser wide;
  for (int i = 0; i < 10; ++i) wide.add(3 << 20);
  EXPECT_EQ(wide.panel_rows(), 1);
  PanelChooser empty;
  EXPECT_EQ(empty.panel_rows(), 65536);
  PanelChooser tail;  // the last, incomplete panel counts too
  for (int i = 0; i < 65536 + 1000; ++i) tail.add(i < 65536 ? 0 : 8000);
  EXPECT_EQ(tail.panel_rows(), 512);
}

TEST(Csr, PanelsCoverTheMatrix) {
  std::mt19937_64 random(13);
  TemporaryDirectory directory;
  const auto rows = random_rows<float>(70'000, 100, 3, true, random);
  CsrWriter writer(directory / "g", 100, Dtype::float32);
  append_in_blocks(writer, rows, 10'000);
  const CsrMatrix matrix = writer.finish();
  const auto panels = csr_panels(matrix);
  ASSERT_EQ(panels.size(), 2u);
  EXPECT_EQ(panels[0].row_end, 65536);
  EXPECT_EQ(panels[1].row, 65536);
  EXPECT_EQ(panels[1].row_end, 70'000);
  EXPECT_EQ(panels[1].first, rows.pointers[65536]);
  EXPECT_EQ(panels[1].last, matrix.nnz);
}

TEST(Csr, AnEmptyMatrixIsAMatrix) {
  TemporaryDirectory directory;
  CsrWriter writer(directory / "g", 7, Dtype::float32);
  const CsrMatrix matrix = writer.finish();
  EXPECT_EQ(matrix.rows, 0);
  EXPECT_EQ(matrix.nnz, 0);
  EXPECT_TRUE(csr_panels(matrix).empty());
  CsrWriter rows_only(directory / "h", 0, Dtype::float32);
  const Index pointers[] = {0, 0, 0};
  rows_only.append(2, pointers, static_cast<const Index*>(nullptr), nullptr);
  EXPECT_EQ(rows_only.finish().rows, 2);
}

TEST(Csr, WrongInputIsNamed) {
  TemporaryDirectory directory;
  int number = 0;
  const auto with = [&](const std::vector<std::vector<std::pair<Index, std::uint8_t>>>& rows) {
    CsrWriter writer(directory / std::to_string(number++), 10, Dtype::uint8);
    Rows<std::uint8_t> all;
    for (const auto& row : rows) all.add(row);
    return message_of([&] { append_in_blocks(writer, all, 100); });
  };
  EXPECT_THAT(with({{{1, 1}}, {{3, 1}, {10, 1}}}), HasSubstr("row 1 holds column 10; columns must be 0 to 9"));
  EXPECT_THAT(with({{{1, 1}}, {}, {{5, 1}, {-3, 1}}}), HasSubstr("row 2 holds column -3"));
  EXPECT_THAT(with({{{1, 200}, {1, 100}}}), HasSubstr("add up to more than uint8 holds"));
  CsrWriter writer(directory / "p", 10, Dtype::float32);
  const Index columns[] = {0, 1};
  const float values[] = {1, 1};
  const Index decreasing[] = {0, 2, 1}, late[] = {1, 2};
  EXPECT_THAT(message_of([&] { writer.append(2, decreasing, columns, values); }), HasSubstr("decrease at row 1"));
  EXPECT_THAT(message_of([&] { writer.append(1, late, columns, values); }), HasSubstr("start at 0"));
}

TEST(Csr, DamagedGroupsAreNamed) {
  TemporaryDirectory directory;
  const std::string path = directory / "g";
  CsrWriter writer(path, 5, Dtype::float32);
  Rows<float> rows;
  rows.add({{0, 1.f}, {2, 3.f}});
  append_in_blocks(writer, rows, 1);
  writer.finish();
  EXPECT_TRUE(is_csr_group(path));
  EXPECT_FALSE(is_csr_group(path + "/data"));
  const std::string attributes = read_text(path + "/zarr.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = attributes;
    for (std::size_t at = 0; (at = changed.find(from, at)) != std::string::npos; at += to.size())
      changed.replace(at, from.size(), to);
    write_text(path + "/zarr.json", changed);
    return message_of([&] { open_csr(path); });
  };
  EXPECT_EQ(with("zzz", ""), "no FormatError");
  EXPECT_THAT(with("csr_matrix", "csc_matrix"), "no FormatError");  // binsparse still says CSR
  std::string csc = with("CSR", "CSC");
  EXPECT_EQ(csc, "no FormatError");
  write_group(path, R"({"encoding-type": "csc_matrix", "shape": [1, 5]})");
  EXPECT_THAT(message_of([&] { open_csr(path); }), HasSubstr("says 'csc_matrix'"));
  write_group(path, R"({"encoding-type": "csr_matrix", "shape": [1]})");
  EXPECT_THAT(message_of([&] { open_csr(path); }), HasSubstr("'shape'"));
  write_group(path, R"({"encoding-type": "csr_matrix", "shape": [2, 5]})");
  EXPECT_THAT(message_of([&] { open_csr(path); }), HasSubstr("indptr has 2 entries and 2 rows need one more"));
}

}  // namespace
}  // namespace flagstone
