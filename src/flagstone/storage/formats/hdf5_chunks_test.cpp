#include "flagstone/storage/formats/hdf5_chunks.hpp"

#include <numeric>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/file/file.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::read_elements;

/// A file of raw chunks of 10 x 6 bytes-sized elements at odd places, in any order, the last at the file's end.
struct Scattered {
  explicit Scattered(std::uint64_t most_gap, unsigned seed) : random(seed) {
    table.shape = {95, 40};
    table.chunks = {10, 6};
    table.dtype = Dtype::int16;
    table.fill = {std::byte{7}, std::byte{0}};
    truth.assign(95 * 40, 7);
    table.entries.resize(10 * 7);
    std::vector<std::size_t> order(table.entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::byte> bytes(33);
    for (const std::size_t chunk : order) {
      if (random() % 5 == 0) continue;  // absent
      table.entries[chunk] = {bytes.size(), 120, 0};
      for (Index i = 0; i < 60; ++i) {
        const auto value = static_cast<std::int16_t>(random() % 1000);
        bytes.push_back(static_cast<std::byte>(value & 0xFF));
        bytes.push_back(static_cast<std::byte>(value >> 8));
        const Index row = static_cast<Index>(chunk) / 7 * 10 + i / 6,
                    column = static_cast<Index>(chunk) % 7 * 6 + i % 6;
        if (row < 95 && column < 40) truth[static_cast<std::size_t>(row * 40 + column)] = value;
      }
      bytes.resize(bytes.size() + random() % (most_gap + 1), std::byte{0xEE});
    }
    const auto file = File::open(directory / "f", File::Mode::create);
    write_exactly(file->buffered(), *file, bytes.data(), bytes.size(), 0);
    file->sync();
  }

  void expect(const Array& array, const Box& box) const {
    const std::vector<std::byte> found = read_elements(array, box);
    for (Index i = 0; i < box.shape[0]; ++i)
      for (Index j = 0; j < box.shape[1]; ++j) {
        std::int16_t value;
        std::memcpy(&value, found.data() + 2 * (i * box.shape[1] + j), 2);
        ASSERT_EQ(value, truth[static_cast<std::size_t>((box.start[0] + i) * 40 + box.start[1] + j)]) << i << " " << j;
      }
  }

  TemporaryDirectory directory;
  std::mt19937 random;
  ChunkTable table;
  std::vector<std::int16_t> truth;
};

TEST(ChunkTable, EveryBoxIsWhatWasStoredWhereverChunksLie) {
  for (const std::uint64_t gap : {std::uint64_t{0}, std::uint64_t{50}, std::uint64_t{40'000}})
    for (unsigned seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(std::to_string(gap) + " " + std::to_string(seed));
      Scattered file(gap, seed);
      const Array array = open_chunk_table(file.directory / "f", file.table, "f/x");
      file.expect(array, {{0, 0}, {95, 40}});
      for (int i = 0; i < 60; ++i) {
        Box box{{static_cast<Index>(file.random() % 95), static_cast<Index>(file.random() % 40)}, {0, 0}};
        box.shape = {1 + static_cast<Index>(file.random() % static_cast<unsigned>(95 - box.start[0])),
                     1 + static_cast<Index>(file.random() % static_cast<unsigned>(40 - box.start[1]))};
        file.expect(array, box);
      }
    }
}

TEST(ChunkTable, SmallNeighboursTravelTogether) {
  Scattered file(30, 1);
  const Array array = open_chunk_table(file.directory / "f", file.table, "f/x");
  const Transfer together = array.store().read({{0, 0}, {95, 40}});
  EXPECT_EQ(together.segments.size(), 1u);  // some 60 chunks of 120 bytes within three pages
  EXPECT_TRUE(together.segments[0].direct);
  Scattered apart(200'000, 1);
  const Array far = open_chunk_table(apart.directory / "f", apart.table, "f/x");
  EXPECT_GT(far.store().read({{0, 0}, {95, 40}}).segments.size(), 30u);
  EXPECT_LT(far.store().read({{0, 0}, {95, 40}}).bytes(), 70 * 4 * page_bytes);  // gaps are not read
}

}  // namespace
}  // namespace flagstone
