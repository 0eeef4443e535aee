#include "flagstone/storage/sparse/csr.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <limits>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/store/encoded_chunks.hpp"
#include "flagstone/testing/csr_rows.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::all_values;
using test::append_in_blocks;
using test::canonical;
using test::expect_stored;
using test::random_rows;
using test::Rows;
using ::testing::ElementsAre;

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

TEST(Csr, BytesThatCannotBeSetAsideAreAnErrorOfStorage) {
  TemporaryDirectory directory;
  const Index n = (Index{1} << 19) + 1000;
  std::vector<Index> columns(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) columns[static_cast<std::size_t>(i)] = i;
  const Index pointers[] = {0, n};
  CsrWriter writer(directory / "g", n, Dtype::float32, true);
  std::filesystem::create_directories(directory / "g/data.bytes/in the way");
  try {
    writer.append(1, pointers, columns.data(), counting(n, 0.5f).data());
    writer.finish();
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.number, ENOTEMPTY);
    EXPECT_EQ(error.filename, directory / "g/data");
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
  EXPECT_THROW(CsrWriter(directory / "c", 3, Dtype::float16), FormatError);
  // A pattern: repeated ones stay one.
  CsrWriter writer(directory / "g", 4, Dtype::boolean);
  const Index pointers[] = {0, 3};
  const std::int32_t columns[] = {2, 0, 2};
  const std::uint8_t values[] = {255, 2, 1};  // every byte but 0 is true
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

}  // namespace
}  // namespace flagstone
