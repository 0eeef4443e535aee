// Short chunks that travel together: how many requests that takes, that nothing else changes, and what goes wrong.
#include "flagstone/storage/chunk/coalesce.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/maintenance/pack.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/ring/scripted_ring.hpp"
#include "flagstone/storage/transaction/transaction.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

Wanted wanted(std::uint64_t begin, std::uint64_t end) { return {nullptr, begin, end, 10 * MiB, 8192, 0}; }

std::vector<std::pair<std::uint64_t, std::uint64_t>> places(std::vector<Wanted> ranges, std::uint64_t most) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  std::size_t seen = 0;
  for (const Joined& joined : join(ranges, most)) {
    EXPECT_EQ(joined.first, seen);
    seen = joined.last;
    found.push_back({joined.segment.offset, joined.segment.offset + joined.segment.row_bytes});
  }
  EXPECT_EQ(seen, ranges.size());
  return found;
}

TEST(Join, NeighboursAndShortGaps) {
  using Places = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  constexpr std::uint64_t most = 64 * KiB;
  EXPECT_EQ(places({}, most), Places{});
  EXPECT_EQ(places({wanted(8192, 12288), wanted(0, 8192)}, most), (Places{{0, 12288}}));
  EXPECT_EQ(places({wanted(0, 100), wanted(12288, 12289)}, most), (Places{{0, 16384}}));  // two pages between
  EXPECT_EQ(places({wanted(0, 100), wanted(16384, 16385)}, most), (Places{{0, 4096}, {16384, 20480}}));
  EXPECT_EQ(places({wanted(0, 100), wanted(100, 200)}, 0), (Places{{0, 4096}, {0, 4096}}));  // never longer than told
  EXPECT_EQ(places({wanted(0, 40000), wanted(40960, 80000)}, most), (Places{{0, 40960}, {40960, 81920}}));
  EXPECT_EQ(places({wanted(0, 100000)}, most), (Places{{0, 102400}}));  // alone, however long
}

TEST(Join, TheLastPageMayEndBehindTheFile) {
  std::vector<Wanted> ranges{{nullptr, 4000, 5000, 5003, 0, 0}};
  EXPECT_EQ(join(ranges, 0).at(0).segment.slack, 8192u - 5003u);
}

TEST(Join, OnlyWhatFollowsInFileAndMemoryIsOneWrite) {
  const auto segment = [](std::uint64_t offset, std::size_t at) {
    return Segment{.offset = offset, .at = at, .row_bytes = 4096};
  };
  std::vector<Segment> segments{segment(0, 0),         segment(4096, 4096), segment(8192, 8192),
                                segment(16384, 12288), segment(20480, 0),   segment(24576, 4096)};
  join_neighbours(segments, 8192);
  const auto all = [&](auto what) {
    std::vector<std::uint64_t> values;
    for (const Segment& one : segments) values.push_back(what(one));
    return values;
  };
  using Values = std::vector<std::uint64_t>;
  EXPECT_EQ(all([](const Segment& s) { return s.offset; }), (Values{0, 8192, 16384, 20480}));
  EXPECT_EQ(all([](const Segment& s) { return s.bytes(); }), (Values{8192, 4096, 4096, 8192}));
  std::vector<Segment> none;
  join_neighbours(none, 8192);
  EXPECT_TRUE(none.empty());
}

/// A disk that counts, has spots that cannot be read, and does something when it is first asked.
class Watched final : public Ring {
 public:
  void submit(std::span<const Request> requests) override {
    if (at_first) std::exchange(at_first, {})();
    for (const Request& request : requests) {
      asked.push_back(request);
      const bool bad = request.offset < bad_end && request.offset + request.bytes() > bad_begin;
      if (bad)
        failed_.push_back({request.tag, -EIO});
      else
        ring_->submit({&request, 1}), ++waiting_;
    }
  }
  std::size_t reap(std::span<Completion> out) override {
    if (failed_.empty()) return ring_->reap(out);
    out[0] = failed_.back();
    failed_.pop_back();
    return 1;
  }
  void wake() override { ring_->wake(); }
  std::string describe() const override { return "watched"; }

  std::vector<Request> asked;
  std::uint64_t bad_begin = 0, bad_end = 0;
  std::function<void()> at_first;

 private:
  std::unique_ptr<Ring> ring_ = make_ring();
  std::vector<Completion> failed_;
  std::size_t waiting_ = 0;
};

struct Stored {
  Stored(const std::string& path, const Shape& shape, const ZarrOptions& options, std::uint64_t seed = 1)
      : array(create_zarr_array(path, shape, Dtype::float32, options)), reference(shape, Dtype::float32) {
    std::mt19937_64 random(seed);
    reference.randomize(random);
    write();
  }
  void write() {
    const auto ring = make_ring();
    write_box(*ring, array, whole(array.shape()), reference.tile(whole(array.shape())));
    array.store().flush();
  }
  /// The requests that it takes to read a box, the same as in the reference.
  std::size_t requests(const Box& box, std::size_t staging = 16 * MiB) {
    Watched ring;
    EXPECT_EQ(read(ring, box, staging), reference.elements(box))
        << to_string(box.shape) << " at " << to_string(box.start);
    return ring.asked.size();
  }
  std::vector<std::byte> read(Ring& ring, const Box& box, std::size_t staging = 16 * MiB) {
    std::vector<std::byte> elements(count(box.shape) * 4);
    read_box(ring, array, box, {elements.data(), Dtype::float32, box.shape, c_strides(box.shape, 4), 0}, staging);
    return elements;
  }
  Array array;
  test::Reference reference;
};

TEST(JoinedReads, TakeAsFewRequestsAsTheFileHasRuns) {
  TemporaryDirectory directory;
  Stored stored(directory / "a", {512, 512}, {.chunks = {64, 64}});  // 8 x 8 chunks of 16 KiB, in C order
  EXPECT_EQ(stored.requests(whole({512, 512})), 8u);                 // 1 MiB in requests of 128 KiB
  EXPECT_EQ(stored.requests({{64, 0}, {64, 512}}), 1u);
  EXPECT_EQ(stored.requests({{64, 0}, {100, 512}}), 2u);
  EXPECT_EQ(stored.requests({{0, 64}, {512, 64}}), 8u);           // a column: 112 KiB between two chunks
  EXPECT_EQ(stored.requests({{128, 128}, {128, 128}}), 2u);       // two runs of two
  EXPECT_EQ(stored.requests({{3, 0}, {30, 512}}), 1u);            // three pages of every chunk, one between
  EXPECT_EQ(stored.requests({{3, 0}, {1, 512}}), 8u);             // a page of every chunk, three between
  EXPECT_EQ(stored.requests({{3, 5}, {20, 20}}), 1u);             // inside a chunk
  EXPECT_EQ(stored.requests(whole({512, 512}), 128 * KiB), 64u);  // buffers for one chunk each
  EXPECT_EQ(stored.requests(whole({512, 512}), 512 * KiB), 16u);
  EXPECT_EQ(stored.requests(whole({512, 512}), 0), 64u);
}

/// Chunks without neighbours go into memory that is as they are without a copy, as ever.
TEST(JoinedReads, WhatIsAloneGoesStraight) {
  TemporaryDirectory directory;
  Stored stored(directory / "a", {512, 512}, {.chunks = {64, 64}});
  const Box column{{0, 64}, {512, 64}};
  const Buffer memory = test::dirty_buffer(512 * 64 * 4);
  const Tile to{memory.data(), Dtype::float32, column.shape, c_strides(column.shape, 4), 0};
  const auto reads = stored.array.store().read_joined(column, to, most_joined_bytes);
  EXPECT_EQ(reads.size(), 8u);
  for (const PartRead& read : reads) EXPECT_EQ(read.transfer.staging_bytes, 0u);
  Watched ring;
  read_box(ring, stored.array, column, to);
  EXPECT_EQ(std::vector<std::byte>(memory.data(), memory.data() + memory.size()), stored.reference.elements(column));
}

TEST(JoinedReads, LongChunksTravelAlone) {
  TemporaryDirectory directory;
  Stored stored(directory / "a", {1024, 512}, {.chunks = {256, 256}});
  EXPECT_EQ(stored.requests(whole({1024, 512})), 8u);
}

/// What the runtime loads as one tile.
TEST(JoinedReads, ATileOfManyChunksToo) {
  TemporaryDirectory directory;
  Stored stored(directory / "a", {512, 512}, {.chunks = {64, 64}});
  EXPECT_EQ(stored.array.store().read(whole({512, 512})).segments.size(), 1u);
  EXPECT_EQ(stored.array.store().read({{0, 0}, {512, 64}}).segments.size(), 8u);
  EXPECT_EQ(stored.array.store().read({{64, 0}, {128, 256}}).segments.size(), 2u);
  EXPECT_EQ(test::read_elements(stored.array, {{3, 0}, {130, 512}}), stored.reference.elements({{3, 0}, {130, 512}}));
}

/// Arrays of all kinds, boxes, limits and memory against a dense array.
TEST(JoinedReads, AreWhatOneByOneReads) {
  std::mt19937_64 random(7);
  for (int turn = 0; turn < 16; ++turn) {
    TemporaryDirectory directory;
    const std::string codec = turn % 3 == 0 ? "blosc-lz4" : turn % 3 == 1 ? "zstd" : "raw";
    const Shape shape{1 + Index(random() % 90), 1 + Index(random() % 70), 1 + Index(random() % 9)};
    const Shape chunks{4 + Index(random() % 20), 4 + Index(random() % 40), 1 + Index(random() % 9)};
    Stored stored(directory / "a", shape, {.chunks = chunks, .codec = codec}, random());
    const Tile hole = stored.reference.tile(test::random_box(shape, random));  // absent chunks inside runs
    const float zero = 0;
    fill(hole, &zero);
    stored.write();
    if (turn % 4 == 3) {  // dense: chunks begin anywhere
      const auto ring = make_ring();
      pack_array(*ring, directory / "a", directory / "b", {.checksum = turn % 8 == 3}, 1 * MiB, {});
      stored.array = open_zarr_array(directory / "b");
    }
    for (int read = 0; read < 6; ++read) {
      const Box box = read == 0 ? whole(shape) : test::random_box(shape, random);
      stored.requests(box, std::vector<std::size_t>{0, 64 * KiB, 1 * MiB, 16 * MiB}[random() % 4]);
    }
  }
}

std::size_t writes(const std::vector<Request>& asked) {
  return static_cast<std::size_t>(std::count_if(asked.begin(), asked.end(), [](const Request& r) { return r.write; }));
}

TEST(JoinedWrites, TakeAsFewRequestsAsTheirSlotsHaveRuns) {
  TemporaryDirectory directory;
  const Shape shape{512, 512};
  const Array array = create_zarr_array(directory / "a", shape, Dtype::float32, {.chunks = {64, 64}});
  test::Reference reference(shape, Dtype::float32);
  std::mt19937_64 random(2);
  reference.randomize(random);
  const auto put = [&](const Box& box, std::size_t staging = 16 * MiB) {
    Watched ring;
    write_box(ring, array, box, reference.tile(box), staging);
    return writes(ring.asked);
  };
  EXPECT_EQ(put(whole(shape)), 8u);
  EXPECT_EQ(put(whole(shape), 64 * KiB), 64u);
  EXPECT_EQ(put({{64, 128}, {64, 256}}), 1u);
  EXPECT_EQ(put({{64, 128}, {128, 256}}), 2u);    // two runs of four chunks
  EXPECT_EQ(put({{32, 0}, {96, 512}}), 8u + 1u);  // the first row of chunks in part: read, changed, one by one
  const float zero = 0;
  fill(reference.tile({{192, 192}, {64, 64}}), &zero);
  EXPECT_EQ(put({{192, 0}, {64, 512}}), 2u);  // a chunk that is all fill value lies between
  array.store().flush();
  Watched ring;
  test::Reference read(shape, Dtype::float32);
  read_box(ring, array, whole(shape), read.tile(whole(shape)));
  EXPECT_EQ(read.data, reference.data);
}

TEST(JoinedWrites, AreWhatOneByOneWrites) {
  std::mt19937_64 random(17);
  for (int turn = 0; turn < 12; ++turn) {
    TemporaryDirectory directory;
    const Shape shape{1 + Index(random() % 90), 1 + Index(random() % 70), 1 + Index(random() % 9)};
    const Shape chunks{4 + Index(random() % 20), 4 + Index(random() % 40), 1 + Index(random() % 9)};
    Stored stored(directory / "a", shape, {.chunks = chunks, .codec = turn % 2 ? "blosc-lz4" : "raw"}, random());
    for (int write = 0; write < 5; ++write) {
      const Box box = test::random_box(shape, random);
      test::Reference fresh(shape, Dtype::float32);
      if (write % 3) fresh.randomize(random);
      copy(fresh.tile(box), stored.reference.tile(box));
      const auto ring =
          make_memory_ring({.faults = {{3, EINTR, 2}}, .step_bytes = 8192, .reorder = true, .seed = random()});
      // From memory with gaps between its rows, which is only read.
      Shape padded = shape;
      for (Index& extent : padded) extent += 2;
      std::vector<std::byte> memory(count(padded) * 4, std::byte{0xCD});
      const Tile from{memory.data(), Dtype::float32, box.shape, c_strides(padded, 4), 0};
      copy(fresh.tile(box), from);
      const std::vector<std::byte> before = memory;
      write_box(*ring, stored.array, box, from, std::vector<std::size_t>{0, 64 * KiB, 16 * MiB}[random() % 3]);
      EXPECT_EQ(memory, before);
      if (write % 2) stored.array.store().flush();
      stored.requests(whole(shape));
    }
    EXPECT_EQ(open_zarr_array(directory / "a").shape(), shape);
  }
}

std::string chunk_file(const TemporaryDirectory& directory) { return directory / "a" + "/c/0/0"; }

TEST(JoinedReads, ADamagedChunkIsNamed) {
  for (const std::string codec : {"raw", "blosc-lz4"}) {
    TemporaryDirectory directory;
    Stored stored(directory / "a", {512, 512}, {.chunks = {64, 64}, .codec = codec});
    const StoredChunk chunk = zarr_store(stored.array)->locate({2, 5});
    const auto file = File::open(chunk_file(directory), File::Mode::update);
    std::byte old{};
    ASSERT_EQ(::pread(file->buffered(), &old, 1, static_cast<off_t>(chunk.offset + 100)), 1);
    old ^= std::byte{4};
    ASSERT_EQ(::pwrite(file->buffered(), &old, 1, static_cast<off_t>(chunk.offset + 100)), 1);
    file->sync();
    stored.array = open_zarr_array(directory / "a");
    Watched ring;
    const std::string said = test::message_of([&] { stored.read(ring, whole({512, 512})); });
    EXPECT_NE(said.find("chunk (2, 5) does not match its checksum"), std::string::npos) << said;
    EXPECT_EQ(stored.requests({{128, 0}, {64, 320}}), 1u);  // its neighbours are whole
  }
}

TEST(JoinedReads, WhatCannotBeReadIsNamed) {
  TemporaryDirectory directory;
  Stored stored(directory / "a", {512, 512}, {.chunks = {64, 64}});
  const StoredChunk chunk = zarr_store(stored.array)->locate({2, 5});
  Watched ring;
  ring.bad_begin = chunk.offset + 8192, ring.bad_end = ring.bad_begin + 512;
  try {
    stored.read(ring, whole({512, 512}));
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.number, EIO);
    EXPECT_NE(error.filename.find("/c/0/0"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("cannot read 16384 bytes at offset " + std::to_string(chunk.offset)),
              std::string::npos)
        << error.what();
  }
  // What is wanted of this chunk ends before the bad spot, which is read because it lies between two that are.
  const Box rows{{128, 0}, {32, 512}};
  ring.asked.clear();
  EXPECT_EQ(stored.read(ring, rows), stored.reference.elements(rows));
  EXPECT_EQ(ring.asked.size(), 9u);  // together, then one by one
}

TEST(JoinedReads, AFileThatEndsTooEarlyIsNamed) {
  TemporaryDirectory directory;
  Stored stored(directory / "a", {512, 512}, {.chunks = {64, 64}});
  const StoredChunk chunk = zarr_store(stored.array)->locate({7, 7});
  ASSERT_EQ(::truncate(chunk_file(directory).c_str(), static_cast<off_t>(chunk.offset + 5000)), 0);
  Watched ring;
  const std::string said = test::message_of([&] { stored.read(ring, whole({512, 512})); });
  EXPECT_NE(said.find("/c/0/0 is truncated"), std::string::npos) << said;
  EXPECT_NE(said.find("at least " + std::to_string(chunk.offset + 16384)), std::string::npos) << said;
}

/// Two commits between looking chunks up and reading them: the second one overwrites what the first one freed.
TEST(JoinedReads, OfChunksThatAreReplacedMeanwhileAreOfOneMoment) {
  TemporaryDirectory directory;
  Stored stored(directory / "a", {512, 512}, {.chunks = {64, 64}});
  const Array reader = open_zarr_array(directory / "a");
  std::mt19937_64 random(5);
  Watched ring;
  ring.at_first = [&] {
    for (int turn = 0; turn < 2; ++turn) {
      const Array writer = open_zarr_array(directory / "a", true);
      stored.reference.randomize(random);
      const auto other = make_ring();
      Transaction transaction;
      transaction.add(writer);
      write_box(*other, writer, whole({512, 512}), stored.reference.tile(whole({512, 512})));
      transaction.commit();
    }
  };
  stored.array = reader;
  EXPECT_EQ(stored.read(ring, whole({512, 512})), stored.reference.data);
  EXPECT_GT(ring.asked.size(), 8u);  // it was read twice
}

}  // namespace
}  // namespace flagstone
