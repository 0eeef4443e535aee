// Checksums beside the chunks: a flipped bit anywhere is noticed, a copy keeps them, a peer's rewrite makes them
// unknown.
#include "flagstone/storage/zarr/shard/chunk_checksums.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using test::read_elements;
using test::Reference;
using test::write_elements;

/// Flips one bit and puts the times back, as a disk does that lies.
void flip(const std::string& path, std::uint64_t bit) {
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0) << path;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(bit / 8));
  char byte = 0;
  file.get(byte);
  file.seekp(static_cast<std::streamoff>(bit / 8));
  file.put(static_cast<char>(byte ^ (1 << (bit % 8))));
  file.close();
  const timespec times[2] = {status.st_atim, status.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

std::string fails(const std::string& path) {
  try {
    const Array array = open_zarr_array(path);
    read_elements(array, whole(array.shape()));
  } catch (const FormatError& error) {
    return error.what();
  }
  return {};
}

struct Kind {
  Shape shape, chunks;
  std::string codec, checksum;
};

class Sums : public ::testing::TestWithParam<Kind> {
 protected:
  std::string made(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const Kind& kind = GetParam();
    const std::string path = directory_ / ("a" + std::to_string(seed));
    const Array array = create_zarr_array(path, kind.shape, Dtype::float32,
                                          {.chunks = kind.chunks, .codec = kind.codec, .checksum = kind.checksum});
    Reference reference(kind.shape, Dtype::float32);
    reference.randomize(random);
    write_elements(array, whole(kind.shape), reference.data);
    array.store().flush();
    return path;
  }
  TemporaryDirectory directory_;
};

TEST_P(Sums, AFlippedBitOfAnyStoredByteIsFoundOnRead) {
  const std::string path = made(1);
  ASSERT_EQ(fails(path), "");
  const Array array = open_zarr_array(path);
  const ZarrStore& store = *zarr_store(array);
  std::mt19937_64 random(7);
  std::vector<std::pair<std::string, std::uint64_t>> places;  // file, byte
  for (const Shape& chunk : store.layout().touched(whole(array.shape()))) {
    const StoredChunk stored = store.locate(chunk);
    for (int i = 0; i < 4; ++i) places.emplace_back(stored.file->path(), stored.offset + random() % stored.bytes);
    const std::uint64_t size = stored.file->size(), index = store.metadata().index_bytes();
    for (int i = 0; i < 2; ++i) places.emplace_back(stored.file->path(), size - index + random() % index);
  }
  if (GetParam().checksum == "sidecar") {
    const std::string sums = path + "/__flagstone/chunks.bin";
    for (std::uint64_t byte = 0; byte < fs::file_size(sums); ++byte) places.emplace_back(sums, byte);
  }
  for (const auto& [file, byte] : places) {
    const std::uint64_t bit = 8 * byte + random() % 8;
    flip(file, bit);
    EXPECT_NE(fails(path), "") << file << " byte " << byte;
    flip(file, bit);
    ASSERT_EQ(fails(path), "") << file << " byte " << byte;
  }
}

TEST_P(Sums, ADamagedChunkIsNamedAndTheOthersAreRead) {
  const std::string path = made(2);
  const Array array = open_zarr_array(path);
  const Shape last = zarr_store(array)->layout().touched(whole(array.shape())).back();
  const StoredChunk stored = zarr_store(array)->locate(last);
  flip(stored.file->path(), 8 * (stored.offset + stored.bytes / 2));
  const auto ring = make_ring({.kind = "threads"});
  const CheckReport report = check_array(*ring, path, 1 << 16);
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].chunk, last);
  EXPECT_EQ(report.damages[0].file, stored.file->path());
  EXPECT_EQ(report.stored, report.chunks);
  EXPECT_EQ(report.verified, report.chunks - 1);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Sums,
    ::testing::Values(Kind{{64, 64}, {32, 32}, "raw", "sidecar"}, Kind{{70, 45}, {32, 16}, "raw", "sidecar"},
                      Kind{{70, 45}, {32, 32}, "blosc-lz4", "sidecar"}, Kind{{70, 45}, {32, 32}, "raw", "inner"},
                      Kind{{70, 45}, {32, 32}, "blosc-lz4", "inner"}, Kind{{}, {}, "raw", "sidecar"}));

TEST(SumsFile, ACopyKeepsThemAndAnotherLayoutMakesThemUnknown) {
  TemporaryDirectory directory;
  const std::string path = directory / "a", copied = directory / "b";
  Array array = create_zarr_array(path, {64, 64}, Dtype::float32, {.chunks = {32, 32}});
  Reference reference({64, 64}, Dtype::float32);
  std::mt19937_64 random(3);
  reference.randomize(random);
  write_elements(array, whole({64, 64}), reference.data);
  array.store().flush();
  fs::copy(path, copied, fs::copy_options::recursive);  // other inodes, other times
  const auto ring = make_ring({.kind = "threads"});
  EXPECT_EQ(check_array(*ring, copied, 1 << 16).verified, 4u);
  flip(copied + "/c/0/0", 80);
  EXPECT_NE(fails(copied), "");

  // What a peer writes: chunks close together, no padding; other values.
  const std::string shard = path + "/c/0/0";
  fs::remove(shard);
  const auto file = File::open(shard, File::Mode::create);
  std::vector<ShardEntry> entries;
  const std::vector<char> chunk(32 * 32 * 4, 5);
  for (std::uint64_t i = 0; i < 4; ++i) {
    write_exactly(file->buffered(), *file, chunk.data(), chunk.size(), i * chunk.size());
    entries.push_back({i * chunk.size(), chunk.size()});
  }
  write_shard_index(*file, entries, 4 * chunk.size() + 68);
  EXPECT_EQ(fails(path), "");
  const CheckReport report = check_array(*ring, path, 1 << 16);
  EXPECT_TRUE(report.damages.empty());
  EXPECT_EQ(report.verified, 0u);
  EXPECT_EQ(report.notes.size(), 1u);
}

TEST(SumsFile, AWriterThatDiesBeforeItsFlushLeavesThemUnknown) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  Reference twos({64, 64}, Dtype::float32);
  std::fill(twos.data.begin(), twos.data.end(), std::byte{2});
  {
    const Array array = create_zarr_array(path, {64, 64}, Dtype::float32, {.chunks = {32, 32}});
    write_elements(array, whole({64, 64}), twos.data);
    array.store().flush();
  }
  const Array reader = open_zarr_array(path);  // has looked the checksums up
  read_elements(reader, whole({64, 64}));
  {
    const Array array = open_zarr_array(path, true);
    Reference other({32, 32}, Dtype::float32);
    std::fill(other.data.begin(), other.data.end(), std::byte{1});
    write_elements(array, {{0, 0}, {32, 32}}, other.data);
  }
  EXPECT_EQ(read_elements(reader, whole({64, 64}))[0], std::byte{1});
  EXPECT_EQ(fails(path), "");
}

TEST(SumsFile, AMillionChunksCostAThousandthAndOpenAtOnce) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  const Array array =
      create_zarr_array(path, {Index{1} << 20, 8192}, Dtype::float32, {.chunks = {1, 8192}, .codec = "blosc-lz4"});
  Reference row({1, 8192}, Dtype::float32);
  std::fill(row.data.begin(), row.data.end(), std::byte{3});
  for (const Index at : {Index{0}, Index{777'777}, (Index{1} << 20) - 1})
    write_elements(array, {{at, 0}, {1, 8192}}, row.data);
  array.store().flush();
  const ZarrStore& store = *zarr_store(array);
  const ArrayMetadata& metadata = store.metadata();
  const ChunkSums sums(-1, path, metadata);
  const double chunk = 8192 * 4, index = 16;
  EXPECT_LE(static_cast<double>(sums.bytes()) / (1 << 20) + index, chunk / 1000);
  const auto began = std::chrono::steady_clock::now();
  const Array again = open_zarr_array(path);
  EXPECT_EQ(read_elements(again, {{777'777, 0}, {1, 8192}}), row.data);
  EXPECT_EQ(read_elements(again, {{5, 0}, {1, 8192}})[0], std::byte{0});
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), 1.0);
}

TEST(Repair, AnIndexThatWasCutOffComesBackFromTheChecksums) {
  for (const std::string codec : {"raw", "blosc-lz4"}) {
    TemporaryDirectory directory;
    const std::string path = directory / "a", shard = path + "/c/0/0";
    const Shape shape{128, 64};
    Reference reference(shape, Dtype::float32);
    std::mt19937_64 random(11);
    reference.randomize(random);
    {
      const Array array = create_zarr_array(path, shape, Dtype::float32, {.chunks = {32, 32}, .codec = codec});
      write_elements(array, whole(shape), reference.data);
      array.store().flush();
    }
    const auto whole_size = fs::file_size(shard);
    flip(shard, 8 * (whole_size - 10));
    EXPECT_NE(fails(path), "");
    RepairReport report = repair_array(path, false);
    EXPECT_EQ(report.repaired.size(), 1u);
    EXPECT_TRUE(report.lost.empty());
    EXPECT_EQ(read_elements(open_zarr_array(path), whole(shape)), reference.data);
    // The last chunk is cut off too: it is lost, and says so; the others are there.
    const StoredChunk last = zarr_store(open_zarr_array(path))->locate({3, 1});
    fs::resize_file(shard, last.offset + last.bytes / 2);
    report = repair_array(path, false);
    ASSERT_EQ(report.lost.size(), 1u);
    EXPECT_EQ(report.lost[0].chunk, (Shape{3, 1}));
    EXPECT_EQ(fs::file_size(shard), whole_size);
    const Box rest{{0, 0}, {96, 64}};
    EXPECT_EQ(read_elements(open_zarr_array(path), rest), reference.elements(rest));
    EXPECT_NE(fails(path), "");
    // Damaged checksums are derived from the chunks.
    flip(path + "/__flagstone/chunks.bin", 8 * 70);
    EXPECT_FALSE(repair_array(path, false).repaired.empty());
  }
}

TEST(Repair, WhatCannotBeHadBackIsListedUntilItIsAccepted) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  {
    const Array array = create_zarr_array(path, {64, 64}, Dtype::float32, {.chunks = {32, 32}});
    Reference twos({64, 64}, Dtype::float32);
    std::fill(twos.data.begin(), twos.data.end(), std::byte{2});
    write_elements(array, whole({64, 64}), twos.data);
    array.store().flush();
  }
  flip(path + "/c/0/0", 8 * 5000);
  const RepairReport report = repair_array(path, false);
  ASSERT_EQ(report.lost.size(), 1u);
  EXPECT_EQ(report.lost[0].chunk, (Shape{0, 1}));
  EXPECT_NE(fails(path), "");
  EXPECT_TRUE(repair_array(path, true).lost.empty());
  EXPECT_EQ(fails(path), "");
}

}  // namespace
}  // namespace flagstone
