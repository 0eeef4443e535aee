#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/requests.hpp"
#include "flagstone/storage/array/scratch_array.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

std::vector<Box> grid(const Shape& shape, const Shape& tile) {
  std::vector<Box> boxes;
  for (Index i = 0; i < shape[0]; i += tile[0])
    for (Index j = 0; j < shape[1]; j += tile[1]) boxes.push_back(intersect({{i, j}, tile}, whole(shape)));
  return boxes;
}

TEST(TemporaryArray, TilesComeBackAsWritten) {
  TemporaryDirectory directory;
  const Shape shape{300, 170}, tile{64, 100};
  const Array array = temporary_array(shape, Dtype::float64, tile, directory.path());
  test::Reference reference(shape, Dtype::float64);
  std::mt19937_64 random(1);
  reference.randomize(random);
  auto boxes = grid(shape, tile);
  std::shuffle(boxes.begin(), boxes.end(), random);
  for (const Box& box : boxes) test::write_elements(array, box, reference.elements(box));
  for (const Box& box : boxes) EXPECT_EQ(test::read_elements(array, box), reference.elements(box));
  // A tile lies contiguous and in C order, also at the edge; parts of tiles can be read.
  const Transfer edge = array.store().read({{256, 100}, {44, 70}});
  EXPECT_EQ(edge.strides, c_strides({44, 70}, 8));
  EXPECT_EQ(edge.origin, 0u);
  EXPECT_EQ(edge.buffer_bytes, 7u * 4096);  // 44 * 70 * 8 = 24640
  const Box part{{260, 110}, {20, 33}};
  EXPECT_EQ(test::read_elements(array, part), reference.elements(part));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));  // no name
}

TEST(KeptArray, IsGoneOnWithWhereItsFileIsWhole) {
  TemporaryDirectory directory;
  const Shape shape{300, 170}, tile{64, 100};
  const auto boxes = grid(shape, tile);
  const std::string path = directory / "between";
  test::Reference reference(shape, Dtype::float64);
  std::mt19937_64 random(1);
  reference.randomize(random);
  std::vector<std::uint8_t> written(boxes.size());
  {
    const Array array = kept_array(shape, Dtype::float64, tile, path, {});
    for (std::size_t i = 0; i < boxes.size(); i += 2) {
      test::write_elements(array, boxes[i], reference.elements(boxes[i]));
      written[i] = 1;
    }
    array.store().checkpoint();
  }
  const auto stored = [&](const Array& array) {
    std::vector<std::uint8_t> tiles;
    for (const Box& box : boxes) tiles.push_back(array.store().stored(box));
    return tiles;
  };
  {
    const Array again = kept_array(shape, Dtype::float64, tile, path, written);
    EXPECT_EQ(stored(again), written);
    for (std::size_t i = 0; i < boxes.size(); i += 2)
      EXPECT_EQ(test::read_elements(again, boxes[i]), reference.elements(boxes[i]));
    for (std::size_t i = 1; i < boxes.size(); i += 2)
      test::write_elements(again, boxes[i], reference.elements(boxes[i]));
    for (const Box& box : boxes) EXPECT_EQ(test::read_elements(again, box), reference.elements(box));
  }
  const std::vector<std::uint8_t> none(boxes.size());
  std::filesystem::resize_file(path, 100);
  EXPECT_EQ(stored(kept_array(shape, Dtype::float64, tile, path, written)), none);
  EXPECT_EQ(stored(kept_array(shape, Dtype::float64, tile, path, {1, 1})), none);  // of another grid
  std::filesystem::remove(path);
  const Array anew = kept_array(shape, Dtype::float64, tile, path, written);
  EXPECT_EQ(stored(anew), none);
  test::write_elements(anew, boxes[0], reference.elements(boxes[0]));
  EXPECT_EQ(test::read_elements(anew, boxes[0]), reference.elements(boxes[0]));
}

TEST(TemporaryArray, MisuseIsNamed) {
  TemporaryDirectory directory;
  const Array array = temporary_array({100, 100}, Dtype::float32, {50, 50}, directory.path());
  std::byte nowhere{};
  const Transfer never_written = array.store().read({{0, 0}, {50, 50}});
  EXPECT_EQ(never_written.buffer_bytes, 3u * 4096);  // geometry can be had, the content cannot
  EXPECT_THROW(requests_of(never_written, &nowhere, false, 0), Error);
  EXPECT_THROW(array.store().write({{0, 0}, {50, 49}}), ShapeError);
  EXPECT_THROW(array.store().write({{25, 0}, {50, 50}}), ShapeError);
  EXPECT_THROW(array.store().write({{0, 0}, {100, 50}}), ShapeError);
  EXPECT_THROW(temporary_array({100, 100}, Dtype::float32, {50, 0}, directory.path()), ShapeError);
  EXPECT_THROW(temporary_array({100, 100}, Dtype::float32, {50}, directory.path()), ShapeError);
}

TEST(TemporaryArray, NothingIsMadeBeforeTheFirstWrite) {
  const Array array = temporary_array({10}, Dtype::float32, {10}, "/does/not/exist");
  EXPECT_EQ(array.store().run_bytes({10}), 40u);
  EXPECT_EQ(array.store().write_staging({{0}, {10}}), 0u);
  EXPECT_EQ(array.store().read({{0}, {10}}).buffer_bytes, 4096u);
  EXPECT_THROW(array.store().write({{0}, {10}}), StorageError);
}

TEST(TemporaryArray, InScratchIsPromisedItsBytes) {
  TemporaryDirectory directory;
  const std::uint64_t bytes = 4 * 4096;  // four tiles of a page each
  const ScratchSpace space{directory.path(), "call", bytes};
  {
    const Array one = temporary_array({64, 64}, Dtype::float32, {32, 32}, space);
    EXPECT_EQ(scratch_held(directory.path()), 0u);  // nothing before it is needed
    one.store().reserve();
    EXPECT_EQ(scratch_held(directory.path()), bytes);
    const Array two = temporary_array({64, 64}, Dtype::float32, {32, 32}, space);
    try {
      two.store().reserve();
      ADD_FAILURE() << "twice the quota was promised";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.number, EDQUOT);
      EXPECT_TRUE(std::string(error.what()).starts_with("call: needs 16 KiB of scratch")) << error.what();
    }
  }
  EXPECT_EQ(scratch_held(directory.path()), 0u);
}

TEST(TemporaryArray, ZeroDimensional) {
  TemporaryDirectory directory;
  const Array array = temporary_array({}, Dtype::float64, {}, directory.path());
  test::Reference reference({}, Dtype::float64);
  test::write_elements(array, {}, reference.elements({}));
  EXPECT_EQ(test::read_elements(array, {}), reference.data);
}

}  // namespace
}  // namespace flagstone
