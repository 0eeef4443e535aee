#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/box/box_pieces.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/ring/scripted_ring.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

const BoxOptions staging{.staging = 1 * MiB};
const Shape shape{211, 150, 7};
const Shape chunks{64, 40, 7};

/// An array of one kind of storage; `path` for what needs a place.
Array make_array(const std::string& kind, const std::string& path) {
  if (kind == "zarr") return create_zarr_array(path, shape, Dtype::float32, {.chunks = chunks});
  if (kind == "packed") return create_zarr_array(path, shape, Dtype::float32, {.chunks = chunks, .codec = "blosc-lz4"});
  if (kind == "npy") return create_npy(path, shape, Dtype::float32);
  const auto memory = std::make_shared<std::vector<std::byte>>(count(shape) * 4);
  const Index items = 4;  // transposed: strides of a Fortran-order array
  return memory_array(memory->data(), shape, Dtype::float32, {items, items * 211, items * 211 * 150}, memory);
}

void write(Ring& ring, const Array& array, test::Reference& reference, const Box& box) {
  write_box(ring, array, box, reference.tile(box), staging);
}

/// Reads into memory with gaps between rows, so that wrong strides show.
void expect_equal(Ring& ring, const Array& array, test::Reference& reference, const Box& box) {
  Shape padded = box.shape;
  for (Index& extent : padded) extent += 3;
  std::vector<std::byte> memory(count(padded) * 4, std::byte{0xCD});
  const Tile to{memory.data(), Dtype::float32, box.shape, c_strides(padded, 4), 0};
  read_box(ring, array, box, to, staging);
  std::vector<std::byte> elements(count(box.shape) * 4);
  copy(to, {elements.data(), Dtype::float32, box.shape, c_strides(box.shape, 4), 0});
  ASSERT_EQ(elements, reference.elements(box)) << to_string(box.shape) << " at " << to_string(box.start);
}

/// The same with memory as the kernel gives it and rows of whole blocks.
void expect_equal_memory(Ring& ring, const Array& array, test::Reference& reference, const Box& box) {
  const auto item = static_cast<Index>(size_of(array.dtype()));
  Buffer memory = test::dirty_buffer(static_cast<std::size_t>(count(box.shape) * item));
  const Tile to{memory.data(), array.dtype(), box.shape, c_strides(box.shape, size_of(array.dtype())), 0};
  read_box(ring, array, box, to, staging);
  const std::vector<std::byte> elements(memory.data(), memory.data() + count(box.shape) * item);
  ASSERT_EQ(elements, reference.elements(box)) << to_string(box.shape) << " at " << to_string(box.start);
}

class BoxIo : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    const auto& [kind, io] = GetParam();
    if (io == "hostile")
      ring_ = make_memory_ring(
          {.faults = {{3, EINTR, 3}, {7, EAGAIN, 2}}, .step_bytes = 8192, .reorder = true, .delay = 1});
    else
      ring_ = make_ring({.kind = io});
    array_ = make_array(kind, directory_ / "a");
  }
  TemporaryDirectory directory_;
  std::unique_ptr<Ring> ring_;
  Array array_;
};

TEST_P(BoxIo, AnyBoxComesBack) {
  test::Reference reference(shape, Dtype::float32);
  std::mt19937_64 random(11);
  expect_equal(*ring_, array_, reference, whole(shape));  // nothing written yet: zeros
  for (int turn = 0; turn < 12; ++turn) {
    const Box box = turn == 4 ? whole(shape) : test::random_box(shape, random);
    test::Reference fresh(shape, Dtype::float32);
    fresh.randomize(random);
    copy(fresh.tile(box), reference.tile(box));
    write(*ring_, array_, reference, box);
    expect_equal(*ring_, array_, reference, box);
    expect_equal(*ring_, array_, reference, test::random_box(shape, random));
  }
  array_.store().flush();
  expect_equal(*ring_, array_, reference, whole(shape));
}

TEST_P(BoxIo, EmptyBoxesDoNothing) {
  const Box empty{{5, 5, 5}, {0, 10, 2}};
  Tile tile{nullptr, Dtype::float32, empty.shape, {40, 8, 4}, 0};
  read_box(*ring_, array_, empty, tile, staging);
  write_box(*ring_, array_, empty, tile, staging);
}

INSTANTIATE_TEST_SUITE_P(Stores, BoxIo,
                         testing::Combine(testing::Values("zarr", "packed", "npy", "memory"),
                                          testing::Values("auto", "threads", "hostile")),
                         [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

TEST(BoxIoTemporary, WholeTilesAreWrittenAnyBoxIsRead) {
  TemporaryDirectory directory;
  const auto ring = make_ring();
  const Array array = temporary_array(shape, Dtype::float32, chunks, directory.path());
  test::Reference reference(shape, Dtype::float32);
  std::mt19937_64 random(4);
  reference.randomize(random);
  write(*ring, array, reference, whole(shape));
  for (int turn = 0; turn < 10; ++turn) expect_equal(*ring, array, reference, test::random_box(shape, random));
}

TEST(BoxIoErrors, WrongBoxesAndMemory) {
  TemporaryDirectory directory;
  const auto ring = make_ring();
  const Array array = create_npy(directory / "a.npy", {10, 10}, Dtype::float32);
  std::vector<std::byte> memory(400);
  const auto tile = [&](Shape extents, Dtype dtype) {
    return Tile{memory.data(), dtype, extents, c_strides(extents, size_of(dtype)), 0};
  };
  EXPECT_THROW(read_box(*ring, array, {{5, 0}, {6, 10}}, tile({6, 10}, Dtype::float32), staging), ShapeError);
  EXPECT_THROW(read_box(*ring, array, {{-1, 0}, {6, 10}}, tile({6, 10}, Dtype::float32), staging), ShapeError);
  EXPECT_THROW(read_box(*ring, array, {{0, 0}, {5, 5}}, tile({5, 4}, Dtype::float32), staging), ShapeError);
  EXPECT_THROW(write_box(*ring, array, {{0, 0}, {5, 5}}, tile({5, 5}, Dtype::float64), staging), ShapeError);
  EXPECT_THROW(write_box(*ring, array, {{0}, {5}}, tile({5}, Dtype::float32), staging), ShapeError);
}

TEST(BoxIoErrors, TruncatedFilesAreNamed) {
  TemporaryDirectory directory;
  const auto ring = make_ring();
  const Array array = create_npy(directory / "a.npy", {1000, 1000}, Dtype::float32);
  ASSERT_EQ(::truncate((directory / "a.npy").c_str(), 2'000'000), 0);
  std::vector<std::byte> memory(4'000'000);
  const Tile to{memory.data(), Dtype::float32, {1000, 1000}, {4000, 4}, 0};
  try {
    read_box(*ring, array, whole({1000, 1000}), to, staging);
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("a.npy is truncated"), std::string::npos) << error.what();
  }
  const Box first{{0, 0}, {400, 1000}};  // what is there can still be read
  read_box(*ring, array, first, {memory.data(), Dtype::float32, {400, 1000}, {4000, 4}, 0}, staging);
}

/// What a store was asked for, and by which way.
class Straight final : public ArrayStore {
 public:
  explicit Straight(Array array) : array_(std::move(array)) {}
  Transfer read(const Box& box) const override {
    ++copied;
    return array_.store().read(box);
  }
  std::optional<Transfer> read_straight(const Box& box, const Tile& to) const override {
    auto transfer = array_.store().read_straight(box, to);
    if (transfer) ++straight;
    return transfer;
  }
  Transfer write(const Box& box) override { return array_.store().write(box); }
  std::size_t run_bytes(const Shape& box) const override { return array_.store().run_bytes(box); }
  mutable int copied = 0, straight = 0;

 private:
  Array array_;
};

TEST(BoxIoStraight, WholeChunksAndTheirRowsGoToTheirPlaces) {
  TemporaryDirectory directory;
  const auto ring = make_ring();
  const Shape extents{1000, 1000};
  const Array inner = create_zarr_array(directory / "a", extents, Dtype::float64, {.chunks = {256, 128}});
  test::Reference reference(extents, Dtype::float64);
  std::mt19937_64 random(5);
  reference.randomize(random);
  write_box(*ring, inner, whole(extents), reference.tile(whole(extents)), staging);
  inner.store().flush();
  const auto store = std::make_shared<Straight>(inner);
  const Array array(extents, Dtype::float64, inner.chunks(), store);
  const auto read = [&](const Box& box, Index pitch, std::size_t shift = 0) {
    Buffer memory = test::dirty_buffer(static_cast<std::size_t>(box.shape[0] * pitch) + shift);
    const Tile to{memory.data() + shift, Dtype::float64, box.shape, {pitch, 8}, 0};
    store->straight = store->copied = 0;
    read_box(*ring, array, box, to, staging);
    std::vector<std::byte> elements(count(box.shape) * 8);
    copy(to, {elements.data(), Dtype::float64, box.shape, c_strides(box.shape, 8), 0});
    EXPECT_EQ(elements, reference.elements(box)) << to_string(box.shape) << " at " << to_string(box.start);
    return std::pair{store->straight, store->copied};
  };
  using Ways = std::pair<int, int>;
  EXPECT_EQ(read({{0, 0}, {512, 896}}, 896 * 8), (Ways{14, 0}));
  EXPECT_EQ(read({{256, 128}, {256, 128}}, 1024), (Ways{1, 0}));     // as it is stored
  EXPECT_EQ(read({{256, 128}, {256, 128}}, 4096), (Ways{1, 0}));     // with gaps in memory
  EXPECT_EQ(read({{5, 128}, {777, 128}}, 1024), (Ways{4, 0}));       // rows of chunks
  EXPECT_EQ(read({{0, 0}, {256, 100}}, 1024), (Ways{0, 1}));         // gaps in the chunk
  EXPECT_EQ(read({{256, 128}, {256, 128}}, 1024, 8), (Ways{1, 0}));  // the memory begins anywhere
  EXPECT_EQ(read({{256, 128}, {256, 128}}, 1032), (Ways{1, 0}));     // and its rows
  EXPECT_EQ(read({{768, 128}, {232, 128}}, 1024),
            (Ways{0, 1}));  // all of a chunk that has a checksum, less its padding
  EXPECT_EQ(read({{768, 128}, {231, 128}}, 1024), (Ways{1, 0}));
}

TEST(BoxIoStraight, ShortRowsAreCopiedLongOnesAreNot) {
  TemporaryDirectory directory;
  const auto ring = make_ring();
  const Shape extents{64, 16384};
  for (const Index width : {64, 512, 4096, 8192}) {  // rows of 512 bytes to 64 KiB
    const Array array =
        create_zarr_array(directory / std::to_string(width), extents, Dtype::float64, {.chunks = {16, width}});
    test::Reference reference(extents, Dtype::float64);
    std::mt19937_64 random(3);
    reference.randomize(random);
    write_box(*ring, array, whole(extents), reference.tile(whole(extents)), staging);
    array.store().flush();
    const Box chunk{{16, width}, {16, width}};
    const Buffer memory(static_cast<std::size_t>(count(extents)) * 8);
    const Tile all{memory.data(), Dtype::float64, extents, c_strides(extents, 8), 0};
    const auto transfer = array.store().read_straight(chunk, subtile(all, chunk));
    ASSERT_TRUE(transfer);
    const bool copied = width < 4096;
    EXPECT_EQ(transfer->staging_bytes > 0, copied) << width;
    EXPECT_EQ(transfer->segments.at(0).rows, copied ? 1u : 16u) << width;
    expect_equal_memory(*ring, array, reference, whole(extents));
    expect_equal_memory(*ring, array, reference, {{3, 0}, {40, 2 * width}});
  }
}

TEST(BoxIoStraight, ADamagedChunkIsFoundOnTheWay) {
  TemporaryDirectory directory;
  const Shape extents{512, 512};
  for (const Index rows : {512, 128}) {  // one chunk of several requests; several chunks
    const std::string path = directory / std::to_string(rows);
    const Array array = create_zarr_array(path, extents, Dtype::float64, {.chunks = {rows, 512}});
    test::Reference reference(extents, Dtype::float64);
    std::mt19937_64 random(1);
    reference.randomize(random);
    const auto good = make_ring();
    write_box(*good, array, whole(extents), reference.tile(whole(extents)), staging);
    array.store().flush();
    const auto file = File::open(path + "/c/0/0", File::Mode::update);
    const std::byte flipped{0x10};
    ASSERT_EQ(::pwrite(file->buffered(), &flipped, 1, 1'500'000), 1);
    file->sync();
    Buffer memory(4 * MiB);
    for (const Index pitch : {4096, 8192}) {  // as they are stored; row by row
      const Tile to{memory.data(), Dtype::float64, extents, {pitch, 8}, 0};
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        const auto ring = make_memory_ring({.reorder = true, .seed = seed});
        EXPECT_THROW(read_box(*ring, open_zarr_array(path), whole(extents), to, staging), FormatError);
      }
    }
  }
}

/// Finishes everything that was submitted at once, and remembers how much that was: a disk that comes in batches.
class Batches final : public Ring {
 public:
  explicit Batches(std::unique_ptr<Ring> ring) : ring_(std::move(ring)) {}
  void submit(std::span<const Request> requests) override {
    for (const Request& request : requests) waiting_ += request.bytes();
    count_ += requests.size();
    ring_->submit(requests);
  }
  std::size_t reap(std::span<Completion> out) override {
    batches.push_back(waiting_);
    std::size_t n = 0;
    while (count_ > 0 && n < out.size()) {
      const std::size_t more = ring_->reap(out.subspan(n));
      n += more, count_ -= more;
    }
    if (count_ == 0) waiting_ = 0;
    return n;
  }
  void wake() override { ring_->wake(); }
  std::string describe() const override { return "batches"; }
  std::vector<std::size_t> batches;  // bytes under way at each reap

 private:
  std::unique_ptr<Ring> ring_;
  std::size_t waiting_ = 0, count_ = 0;
};

TEST(BoxIoStraight, TheNextBatchLeavesBeforeTheLastIsCopied) {
  TemporaryDirectory directory;
  const Shape extents{512, 4096};
  const Array array = create_zarr_array(directory / "a", extents, Dtype::float64, {.chunks = {64, 512}});  // 256 KiB
  test::Reference reference(extents, Dtype::float64);
  std::mt19937_64 random(1);
  reference.randomize(random);
  const auto good = make_ring();
  write_box(*good, array, whole(extents), reference.tile(whole(extents)), staging);
  array.store().flush();
  Batches ring(make_ring());
  int taken = 0, given = 0;
  const BufferShelf shelf{.take = [&](std::size_t) { return ++taken, Buffer(); }, .give = [&](Buffer) { ++given; }};
  test::Reference read(extents, Dtype::float64);
  read_box(ring, array, whole(extents), read.tile(whole(extents)), {.staging = 2 * MiB, .shelf = shelf});
  EXPECT_EQ(read.data, reference.data);
  // Half of the buffers is with the disk at any time, the other half is copied meanwhile.
  EXPECT_EQ(ring.batches, std::vector<std::size_t>(16, 1 * MiB));
  EXPECT_EQ(taken, 8);
  EXPECT_EQ(given, 8);
}

TEST(BoxIoStraight, ThePulseEndsAReadAndDrains) {
  TemporaryDirectory directory;
  const Shape extents{2048, 1024};
  const Array array = create_zarr_array(directory / "a", extents, Dtype::float64, {.chunks = {64, 1024}});
  const auto ring = make_ring({.depth = 4});
  const Buffer memory = test::dirty_buffer(16 * MiB);
  const Tile to{memory.data(), Dtype::float64, extents, {8192, 8}, 0};
  write_box(*ring, array, whole(extents), to, staging);
  array.store().flush();
  int pulses = 0;
  const auto pulse = [&] {
    if (++pulses == 3) throw std::runtime_error("enough");
  };
  EXPECT_THROW(read_box(*ring, array, whole(extents), to, {.pulse = pulse, .between_pulses = {}}), std::runtime_error);
  EXPECT_EQ(pulses, 3);
  read_box(*ring, array, whole(extents), to, staging);  // nothing of the ended one is left in the ring
}

/// Every request fails in turn, others being in flight: the error arrives as itself, and nothing stays in the ring.
TEST(BoxIoErrors, EveryFailureArrivesAndTheRestIsDrained) {
  TemporaryDirectory directory;
  const Array array = create_zarr_array(directory / "a", {1024, 1024}, Dtype::float64, {.chunks = {128, 256}});
  test::Reference reference({1024, 1024}, Dtype::float64);
  std::mt19937_64 random(1);
  reference.randomize(random);
  const auto good = make_ring();
  write_box(*good, array, whole(array.shape()), reference.tile(whole(array.shape())), staging);
  const Box box{{3, 3}, {1018, 1018}};  // all chunks; those at the border in part
  for (int error : {EIO, ENOSPC}) {
    for (std::uint64_t n = 0; n < 64; n += 3) {
      const auto ring = make_memory_ring({.faults = {{n, error}}, .reorder = true, .seed = n});
      bool failed = false;
      try {
        if (error == EIO)
          read_box(*ring, array, box, reference.tile(box), staging);
        else
          write_box(*ring, array, box, reference.tile(box), staging);
      } catch (const StorageError& caught) {
        failed = true;
        EXPECT_EQ(caught.number, error);
        EXPECT_NE(caught.filename.find("/c/0/0"), std::string::npos) << caught.filename;
      }
      EXPECT_EQ(failed, error == EIO ? n < 32 : n < 32 + 20) << n;  // 32 chunks, 20 of them also read first
      std::byte byte{};
      const Request last{.fd = -1, .memory = &byte, .row_bytes = 1, .tag = 12345};
      ring->submit({&last, 1});
      Completion completion;
      while (ring->reap({&completion, 1}) == 0) {
      }
      EXPECT_EQ(completion.tag, 12345u);  // nothing of the failed call is left before it
    }
  }
}

/// A store that counts what it is asked for.
class Watched final : public ArrayStore {
 public:
  explicit Watched(Array array) : array_(std::move(array)) {}
  Transfer read(const Box& box) const override {
    ++reads;
    return array_.store().read(box);
  }
  Transfer write(const Box& box) override {
    ++writes;
    return array_.store().write(box);
  }
  void written(const Box& box) override {
    done.push_back(box);
    array_.store().written(box);
  }
  std::size_t run_bytes(const Shape& box) const override { return array_.store().run_bytes(box); }
  mutable int reads = 0, writes = 0;
  std::vector<Box> done;

 private:
  Array array_;
};

TEST(BoxIo, OnlyChunksCoveredInPartAreReadBeforeAWrite) {
  TemporaryDirectory directory;
  const auto ring = make_ring();
  const Array inner = create_zarr_array(directory / "a", {100, 100}, Dtype::float64, {.chunks = {32, 32}});
  const auto store = std::make_shared<Watched>(inner);
  const Array array(inner.shape(), inner.dtype(), inner.chunks(), store);
  test::Reference reference({100, 100}, Dtype::float64);
  const auto put = [&](const Box& box) {
    store->reads = store->writes = 0;
    store->done.clear();
    write_box(*ring, array, box, reference.tile(box), staging);
  };
  put(whole({100, 100}));  // chunks at the edge count as covered
  EXPECT_EQ(store->reads, 0);
  EXPECT_EQ(store->writes, 16);
  EXPECT_EQ(store->done.size(), 16u);
  put({{32, 64}, {32, 36}});  // whole chunks
  EXPECT_EQ(store->reads, 0);
  EXPECT_EQ(store->writes, 2);
  put({{31, 64}, {33, 36}});  // and one row of two others
  EXPECT_EQ(store->reads, 2);
  EXPECT_EQ(store->writes, 4);
}

TEST(BoxPieces, CoverEveryElementOnce) {
  std::mt19937_64 random(3);
  for (int turn = 0; turn < 200; ++turn) {
    const Shape extents{1 + Index(random() % 30), 1 + Index(random() % 30)};
    const Shape chunk{1 + Index(random() % 12), 1 + Index(random() % 12)};
    const Shape cell{1 + Index(random() % 12), 1 + Index(random() % 12)};
    const Box box = test::random_box(extents, random);
    BoxPieces pieces(box, chunk, cell);
    std::vector<int> seen(count(extents));
    while (const auto piece = pieces.next())
      for (Index i = piece->start[0]; i < piece->start[0] + piece->shape[0]; ++i)
        for (Index j = piece->start[1]; j < piece->start[1] + piece->shape[1]; ++j) {
          ++seen[i * extents[1] + j];
          EXPECT_EQ(i / chunk[0], piece->start[0] / chunk[0]);
          EXPECT_EQ(j / chunk[1], piece->start[1] / chunk[1]);
          EXPECT_LE(piece->shape[0], cell[0]);
          EXPECT_LE(piece->shape[1], cell[1]);
        }
    for (Index i = 0; i < extents[0]; ++i)
      for (Index j = 0; j < extents[1]; ++j)
        EXPECT_EQ(seen[i * extents[1] + j], overlap({{i, j}, {1, 1}}, box) ? 1 : 0);
  }
}

TEST(BoxPieces, LargeFilesAreCutAlongStorage) {
  TemporaryDirectory directory;
  const Array array = create_npy(directory / "a.npy", {4096, 4096}, Dtype::float32);
  BoxPieces pieces = pieces_to_read(array, whole(array.shape()), 16 * MiB);
  int n = 0;
  for (; const auto piece = pieces.next(); ++n) {
    EXPECT_EQ(piece->shape[1], 4096);
    EXPECT_LE(count(piece->shape) * 4, static_cast<Index>(1 * MiB));
  }
  EXPECT_EQ(n, 64);
  EXPECT_TRUE(takes_any_box(array));
  const Array zarr = create_zarr_array(directory / "z", {16, 16}, Dtype::float32, {.chunks = {16, 16}});
  EXPECT_FALSE(takes_any_box(zarr));
}

}  // namespace
}  // namespace flagstone
