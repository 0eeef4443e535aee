#include "flagstone/storage/zarr/zarr.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::message_of;
using test::random_box;
using test::random_chunk_box;
using test::read_elements;
using test::Reference;
using test::write_elements;
using ::testing::HasSubstr;

struct Case {
  Shape shape, chunks;
  Dtype dtype;
  std::string codec = "raw";
  bool column_major = false;
};

std::string name_of_case(const Case& c) {
  return to_string(c.shape) + " in " + to_string(c.chunks) + " " + std::string(name_of(c.dtype)) + " " + c.codec +
         (c.column_major ? " by columns" : "");
}

const std::vector<Case> cases = {
    {{}, {}, Dtype::float64},
    {{0}, {16}, Dtype::float32},
    {{7}, {16}, Dtype::uint8},
    {{100'000}, {4096}, Dtype::int64},
    {{100'000}, {1000}, Dtype::uint16, "blosc-lz4"},
    {{300, 500}, {64, 128}, Dtype::float32},  // scattered: rows of 512 bytes
    {{256, 512}, {64, 128}, Dtype::float64},  // no ragged edge
    {{300, 50}, {64, 50}, Dtype::float32},    // one chunk across, no whole pages
    {{300, 50}, {128, 64}, Dtype::float32},   // one chunk across, whole pages, padded columns
    {{33, 77}, {10, 9}, Dtype::complex128},   // odd chunks
    {{33, 77}, {10, 9}, Dtype::complex64, "blosc-lz4"},
    {{0, 40}, {8, 8}, Dtype::float32},
    {{13, 70, 90}, {1, 32, 128}, Dtype::float32},
    {{13, 40, 30}, {4, 16, 32}, Dtype::float64},
    {{5, 6, 7, 8}, {2, 3, 4, 5}, Dtype::int16},
    {{65, 65}, {1, 1024}, Dtype::boolean},
    {{300, 500}, {64, 128}, Dtype::float32, "raw", true},
    {{33, 77}, {10, 9}, Dtype::complex64, "blosc-lz4", true},
    {{13, 40, 30}, {4, 16, 32}, Dtype::float64, "raw", true},
};

TEST(Zarr, RandomBoxesOfEveryLayoutMatchAnArrayInMemory) {
  std::mt19937_64 random(1);
  for (const Case& c : cases) {
    SCOPED_TRACE(name_of_case(c));
    TemporaryDirectory directory;
    const std::string path = directory / "a";
    Reference reference(c.shape, c.dtype);
    Array array = create_zarr_array(path, c.shape, c.dtype, {c.chunks, c.codec, c.column_major});
    EXPECT_EQ(read_elements(array, whole(c.shape)), reference.data) << "absent chunks must read as zeros";
    Reference source(c.shape, c.dtype);
    for (int i = 0; i < 12; ++i) {
      source.randomize(random);
      const Box box = i == 11 ? whole(c.shape) : random_chunk_box(c.shape, c.chunks, random);
      write_elements(array, box, source.elements(box));
      copy(source.tile(box), reference.tile(box));
      const Box other = random_box(c.shape, random);
      EXPECT_EQ(read_elements(array, other), reference.elements(other)) << to_string(other.shape);
      if (i == 5) {  // half written: a second handle sees what was flushed
        array.store().flush();
        EXPECT_EQ(read_elements(open_zarr_array(path), whole(c.shape)), reference.data);
      }
    }
    array.store().flush();
    Array again = open_zarr_array(path);
    EXPECT_EQ(again.shape(), c.shape);
    EXPECT_EQ(again.dtype(), c.dtype);
    for (int i = 0; i < 30; ++i) {
      const Box box = random_box(c.shape, random);
      EXPECT_EQ(read_elements(again, box), reference.elements(box)) << to_string(box.shape);
    }
  }
}

TEST(Zarr, PlansTransferWhatTheArrayTransfers) {
  std::mt19937_64 random(2);
  for (const Case& c : cases) {
    if (c.codec != "raw") continue;
    SCOPED_TRACE(name_of_case(c));
    TemporaryDirectory directory;
    Array array = create_zarr_array(directory / "a", c.shape, c.dtype, {c.chunks, c.codec, c.column_major});
    const Array planned = planned_array(c.shape, c.dtype, c.chunks, c.codec, c.column_major);
    Reference full(c.shape, c.dtype);
    full.randomize(random);
    write_elements(array, whole(c.shape), full.data);
    for (int i = 0; i < 20; ++i) {
      const Box box = i % 2 ? random_box(c.shape, random) : random_chunk_box(c.shape, c.chunks, random);
      const Transfer real = array.store().read(box), plan = planned.store().read(box);
      EXPECT_EQ(real.bytes(), plan.bytes());
      EXPECT_EQ(real.buffer_bytes, plan.buffer_bytes);
      EXPECT_EQ(real.staging_bytes, plan.staging_bytes);
      EXPECT_EQ(real.strides, plan.strides);
      EXPECT_EQ(real.origin, plan.origin);
    }
  }
}

TEST(Zarr, OneChunkTravelsWithoutACopyAndSeveralAreScattered) {
  TemporaryDirectory directory;
  Array array = create_zarr_array(directory / "a", {4096, 4096}, Dtype::float32);
  EXPECT_EQ(array.chunks(), (Shape{1024, 1024}));
  const Transfer one = array.store().write({{1024, 2048}, {1024, 1024}});
  ASSERT_EQ(one.segments.size(), 1u);
  EXPECT_EQ(one.segments[0].bytes(), 4 * MiB);
  EXPECT_TRUE(one.segments[0].direct);
  EXPECT_EQ(one.staging_bytes, 0u);  // it is only looked at: is it all fill value, and what is its checksum
  const Transfer four = array.store().write({{0, 0}, {2048, 2048}});
  ASSERT_EQ(four.segments.size(), 4u);
  EXPECT_EQ(four.segments[1].at, 4096u);
  EXPECT_EQ(four.segments[1].rows, 1024u);
  EXPECT_EQ(four.segments[1].pitch, 8192u);
  EXPECT_EQ(four.staging_bytes, 0u);
}

TEST(Zarr, ARangeOfRowsReadsOnlyItsPages) {
  TemporaryDirectory directory;
  Array array = create_zarr_array(directory / "a", {1000, 1024}, Dtype::float32);
  write_elements(array, whole(array.shape()), test::twos(array.shape(), array.dtype()));
  const Transfer rows = array.store().read({{100, 0}, {10, 1024}});
  EXPECT_EQ(rows.bytes(), 10 * 4096u);
  EXPECT_EQ(rows.staging_bytes, 0u);
}

TEST(Zarr, WritingPartOfAChunkIsRefused) {
  TemporaryDirectory directory;
  Array array = create_zarr_array(directory / "a", {100, 100}, Dtype::float32, {{64, 64}});
  EXPECT_THAT(message_of<ShapeError>([&] { array.store().write({{0, 0}, {10, 64}}); }), HasSubstr("in part"));
  EXPECT_THAT(message_of<ShapeError>([&] { array.store().read({{0, 90}, {10, 11}}); }), HasSubstr("does not lie"));
  const Array reading = open_zarr_array(directory / "a");
  EXPECT_EQ(message_of<StorageError>([&] { reading.store().write({{0, 0}, {64, 64}}); }).find("write: "), 0u);
}

TEST(Zarr, SlotsAndLengthsAreWholePagesAndPadsAreZero) {
  TemporaryDirectory directory;
  Array array = create_zarr_array(directory / "a", {65, 70}, Dtype::float32, {{40, 50}});
  Reference ones(array.shape(), array.dtype());
  std::fill(ones.data.begin(), ones.data.end(), std::byte{0xFF});
  write_elements(array, whole(array.shape()), ones.data);
  array.store().flush();
  std::size_t full = 0, bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory / "a/c")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(entry.file_size() % 4096, 0u);
    std::ifstream file(entry.path(), std::ios::binary);
    std::string text(4 * 8192, '\0');  // the slots; the index follows
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    bytes += text.size();
    for (char c : text) {
      EXPECT_TRUE(c == '\0' || c == '\xFF') << "memory of the process reached the disk";
      full += c == '\xFF';
    }
  }
  EXPECT_EQ(bytes, 4 * 8192u);
  EXPECT_EQ(full, array.nbytes());
}

TEST(Zarr, ShardsAreAboutAGibibyteAndFewerThan4096Chunks) {
  EXPECT_EQ(default_shards({16384, 16384}, {1024, 1024}, 4 * MiB), (Shape{16384, 16384}));
  EXPECT_EQ(default_shards({20000, 16384}, {1024, 1024}, 4 * MiB), (Shape{10240, 16384}));
  EXPECT_EQ(default_shards({}, {}, 4096), Shape{});
  EXPECT_EQ(default_shards({0, 5}, {8, 8}, 4096), (Shape{8, 8}));
  for (const Shape& shape :
       {Shape{1'000'000, 300}, Shape{Index{1} << 40}, Shape{77'777, 99'999}, Shape{128, 128, 128, 128}}) {
    const Shape chunks(shape.size(), 16);
    const Shape shards = default_shards(shape, chunks, 4096);
    EXPECT_LT(count(shards) / count(chunks), 4096) << to_string(shape);
    EXPECT_GE(count(shards) / count(chunks), 512) << to_string(shape);
  }
}

TEST(Zarr, AnArrayBeyondTwoToTheThirtyOneElementsIsAddressed) {
  TemporaryDirectory directory;
  const Index rows = (Index{1} << 33) + 5;  // sparse: only the last shard is made
  Array array = create_zarr_array(directory / "a", {rows}, Dtype::uint8);
  const Box last{{rows - 5}, {5}};
  write_elements(array, last, std::vector<std::byte>(5, std::byte{9}));
  array.store().flush();
  EXPECT_EQ(
      read_elements(open_zarr_array(directory / "a"), {{rows - 6}, {6}}),
      (std::vector<std::byte>{std::byte{0}, std::byte{9}, std::byte{9}, std::byte{9}, std::byte{9}, std::byte{9}}));
}

TEST(Zarr, DefaultChunksAreSquarePowersOfTwoNoLargerThanNeeded) {
  EXPECT_EQ(default_chunks({16384, 16384}, Dtype::float32), (Shape{1024, 1024}));
  EXPECT_EQ(default_chunks({16384, 16384}, Dtype::float64), (Shape{512, 512}));
  EXPECT_EQ(default_chunks({1'000'000, 50}, Dtype::float32), (Shape{16384, 64}));
  EXPECT_EQ(default_chunks({50, 1'000'000}, Dtype::float32), (Shape{64, 16384}));
  EXPECT_EQ(default_chunks({3, 5}, Dtype::float64), (Shape{4, 8}));
  EXPECT_EQ(default_chunks({1'000'000'000}, Dtype::float64), (Shape{524288}));
  EXPECT_EQ(default_chunks({100}, Dtype::float64), (Shape{128}));
  EXPECT_EQ(default_chunks({}, Dtype::float64), Shape{});
  EXPECT_EQ(default_chunks({0, 7}, Dtype::float64), (Shape{1, 8}));
  EXPECT_EQ(default_chunks({1000, 3, 3}, Dtype::float64), (Shape{1024, 4, 4}));
  EXPECT_EQ(default_chunks({10, 5000, 5000}, Dtype::float32), (Shape{1, 1024, 1024}));
}

TEST(Zarr, DamagedFilesAreNamed) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  EXPECT_THAT(message_of<StorageError>([&] { open_zarr_array(path); }), HasSubstr("No such file"));
  {
    Array array = create_zarr_array(path, {64, 64}, Dtype::float32);
    write_elements(array, whole(array.shape()), test::twos(array.shape(), array.dtype()));
    array.store().flush();
  }
  const std::string shard = path + "/c/0/0";
  const auto size = std::filesystem::file_size(shard);
  const auto read = [&] { read_elements(open_zarr_array(path), {{0, 0}, {1, 1}}); };
  read();
  std::filesystem::resize_file(shard, 10);
  EXPECT_THAT(message_of<FormatError>(read), HasSubstr("c/0/0"));
  std::filesystem::resize_file(shard, size);
  EXPECT_THAT(message_of<FormatError>(read), HasSubstr("checksum of its index"));
  const std::string metadata = path + "/zarr.json";
  const std::string text = read_text(metadata);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return message_of<FormatError>([&] { parse_array_metadata(changed, metadata); });
  };
  EXPECT_THAT(with("\"crc32c\"", "\"lzma\""), HasSubstr("codec 'lzma' is not read"));
  EXPECT_THAT(with("float32", "float3"), HasSubstr("zarr.json: dtype: 'float3'"));
  EXPECT_THAT(with("\"zarr_format\": 3", "\"zarr_format\": 2"), HasSubstr("zarr_format 3"));
  write_text(metadata, "");
  EXPECT_THAT(message_of<FormatError>(read), HasSubstr("empty"));
  write_text(metadata, "{\"zarr_format\": 3");
  EXPECT_THAT(message_of<FormatError>(read), HasSubstr("JSON"));
}

TEST(Zarr, GroupsListTheirMembersAndLinks) {
  TemporaryDirectory directory;
  write_group(directory / "g", R"({"encoding-type": "x"})");
  create_zarr_array(directory / "g/b", {3}, Dtype::int8);
  create_zarr_array(directory / "g/a", {3}, Dtype::int8);
  std::filesystem::create_directory_symlink("a", directory / "g/link");
  write_group(directory / "g/inner", "");
  const GroupInfo info = open_group(directory / "g");
  EXPECT_EQ(info.arrays, (std::vector<std::string>{"a", "b", "link"}));
  EXPECT_EQ(info.groups, (std::vector<std::string>{"inner"}));
  EXPECT_THAT(info.attributes, HasSubstr("encoding-type"));
  EXPECT_TRUE(is_zarr_group(directory / "g") && is_zarr_array(directory / "g/a"));
  EXPECT_FALSE(is_zarr_group(directory / "g/a") || is_zarr_array(directory / "nothing"));
  EXPECT_THAT(message_of<FormatError>([&] { open_zarr_array(directory / "g"); }), HasSubstr("holds a group"));
}

TEST(Zarr, TheDirtyMarkStaysUntilItIsCleared) {
  TemporaryDirectory directory;
  Array array = create_zarr_array(directory / "a", {3}, Dtype::int8);
  EXPECT_FALSE(is_dirty(array));
  mark_dirty(array, true);
  EXPECT_TRUE(is_dirty(open_zarr_array(directory / "a")));
  mark_dirty(array, false);
  mark_dirty(array, false);
  EXPECT_FALSE(is_dirty(array));
}

TEST(Zarr, WhoHasAnArrayOpenKeepsItWhenItsPathIsReplaced) {
  TemporaryDirectory directory;
  for (const Index rows : {Index{100}, Index{200 * 4095}}) {  // the second has more shards than are held open
    const std::string path = directory / ("a" + std::to_string(rows)), other = path + ".other";
    const Box box{{rows - 1, 0}, {1, 4}};
    const std::vector<std::byte> ones(4, std::byte{1}), twos(4, std::byte{2});
    const auto make = [&](const std::string& where, const std::vector<std::byte>& values) {
      Array array = create_zarr_array(where, {rows, 4}, Dtype::uint8, {{1, 4}, "blosc-lz4"});
      write_elements(array, box, values);
      array.store().flush();
    };
    make(path, ones);
    make(other, twos);
    const Array old = open_zarr_array(path);
    std::filesystem::rename(path, path + ".old");
    std::filesystem::rename(other, path);
    EXPECT_EQ(read_elements(old, box), ones);
    EXPECT_EQ(read_elements(open_zarr_array(path), box), twos);
    const Array moved = open_zarr_array(path + ".old");
    std::filesystem::remove_all(path + ".old");
    EXPECT_EQ(read_elements(old, box), ones);
    if (rows == 100) {
      EXPECT_EQ(read_elements(moved, box), ones);
    } else {
      EXPECT_THAT(message_of<StorageError>([&] { read_elements(moved, box); }), HasSubstr("replaced or removed"));
    }
  }
}

TEST(Zarr, ThreadsReadAndWriteTheirBoxesOfOneArray) {
  TemporaryDirectory directory;
  // More shards than are held open; every thread touches all of them.
  const Index shards = 36;
  Array array = create_zarr_array(directory / "a", {shards * 4095, 16}, Dtype::int32, {{1, 16}, "blosc-lz4"});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (Index row = t; row < array.shape()[0]; row += 2048) {
        const std::vector<std::byte> values(64, static_cast<std::byte>(1 + row % 200));
        write_elements(array, {{row, 0}, {1, 16}}, values);
        wrong += read_elements(array, {{row, 0}, {1, 16}}) != values;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (Index row = 3; row < array.shape()[0]; row += 2048)
    EXPECT_EQ(read_elements(array, {{row, 5}, {1, 1}})[0], static_cast<std::byte>(1 + row % 200));
}

TEST(Zarr, EncodedChunksAreTheStoredBytes) {
  TemporaryDirectory directory;
  std::mt19937_64 random(3);
  for (const std::string codec : {"raw", "blosc-lz4"}) {
    Array array = create_zarr_array(directory / codec, {5000}, Dtype::int32, {{512}, codec});
    EXPECT_EQ(chunk_coding(array), codec == "raw" ? ChunkCoding::raw : ChunkCoding::blosc);
    Reference reference(array.shape(), array.dtype());
    for (std::size_t i = 0; i < 5000; i += 3) reference.data[4 * i] = static_cast<std::byte>(random());
    write_elements(array, {{0}, {4096}}, reference.elements({{0}, {4096}}));
    const Array encoded = encoded_chunks(array);
    ASSERT_EQ(encoded.shape(), Shape{10});
    for (Index i = 0; i < 10; ++i) {
      const Transfer transfer = encoded.store().read({{i}, {1}});
      if (i >= 8) {
        EXPECT_EQ(transfer.tile_bytes, 0u);
        continue;
      }
      Buffer buffer = test::dirty_buffer(transfer.buffer_bytes);
      test::move(transfer, buffer.data(), false);
      std::vector<std::byte> chunk(2048);
      CodecChain chain;
      if (codec != "raw") chain.steps = {{Codec::blosc}};
      decode_chunk(chain, Dtype::int32, {buffer.data() + transfer.origin, transfer.tile_bytes}, chunk, nullptr, "test");
      EXPECT_EQ(chunk, reference.elements({{i * 512}, {512}}));
      EXPECT_EQ(transfer.tile_bytes < 2048, chain.blosc_alone());
    }
  }
}

TEST(MemoryArray, TransfersCopyAndViewsDoNot) {
  std::vector<float> values(12);
  for (int i = 0; i < 12; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  // Fortran order: element (i, j) at i + 3 j
  Array array = memory_array(reinterpret_cast<std::byte*>(values.data()), {3, 4}, Dtype::float32, {4, 12});
  EXPECT_TRUE(array.in_memory());
  const auto elements = read_elements(array, {{1, 2}, {2, 2}});
  float got[4];
  std::memcpy(got, elements.data(), sizeof got);
  EXPECT_THAT(got, ::testing::ElementsAre(7, 10, 8, 11));
  EXPECT_TRUE(memory_array(nullptr, {0, 4}, Dtype::float32, {}).in_memory());
}

}  // namespace
}  // namespace flagstone
