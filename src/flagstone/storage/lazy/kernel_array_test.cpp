// Kernel matrices as arrays: any box has the elements of the whole, of points in memory, on disk, by columns.
#include "flagstone/storage/lazy/kernel_array.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "flagstone/base/element_type.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/memory_array.hpp"
#include "flagstone/storage/formats/flat.hpp"
#include "flagstone/storage/lazy/computed_array.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::message_of;
using test::random_box;
using test::read_elements;
using ::testing::HasSubstr;

class KernelArray : public testing::Test {
 protected:
  std::vector<double> coordinates(Index n, Index d) {
    std::vector<double> made(static_cast<std::size_t>(n * d));
    for (double& x : made) x = std::normal_distribution<double>()(random_);
    return made;
  }
  static Array in_memory(std::vector<double>& values, const Shape& shape) {
    return memory_array(reinterpret_cast<std::byte*>(values.data()), shape, Dtype::float64, c_strides(shape, 8));
  }
  Array on_disk(const std::vector<double>& values, const Shape& shape, bool column_major) {
    Array made = create_raw(directory_ / std::to_string(++made_),
                            {.shape = shape, .dtype = Dtype::float64, .column_major = column_major, .offset = 24});
    std::vector<std::byte> bytes(values.size() * 8);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    test::write_elements(made, whole(shape), bytes);
    made.store().flush();
    return made;
  }

  TemporaryDirectory directory_;
  std::mt19937_64 random_{5};
  int made_ = 0;
};

TEST_F(KernelArray, BoxesAreParts) {
  for (const Index d : {2, 40}) {
    auto x = coordinates(170, d), y = coordinates(33, d);
    const Array mx = in_memory(x, {170, d}), my = in_memory(y, {33, d});
    const kernel::PointKernel kernel{.value = kernel::PairValue::matern32};
    const Array k = kernel_array(kernel, {mx}, {my}, Dtype::float64);
    EXPECT_EQ(k.shape(), (Shape{170, 33}));
    EXPECT_TRUE(k.store().computed_anew());
    EXPECT_EQ(k.store().pass_bytes(), 0u);
    const auto all = read_elements(k, whole(k.shape()));
    for (const bool column_major : {false, true}) {
      const Array stored = kernel_array(kernel, {on_disk(x, {170, d}, column_major)}, {my}, Dtype::float64);
      EXPECT_GE(stored.store().pass_bytes(), static_cast<std::uint64_t>(170 * d * 8));
      ASSERT_EQ(read_elements(stored, whole(k.shape())), all);
      for (int i = 0; i < 10; ++i) {
        const Box box = random_box(k.shape(), random_);
        ASSERT_EQ(read_elements(stored, box), read_elements(k, box));
      }
    }
  }
}

TEST_F(KernelArray, TheSamePointsAreLoadedOnce) {
  auto x = coordinates(100, 3);
  const Array stored = on_disk(x, {100, 3}, false);
  const Array k = kernel_array({}, {stored}, {stored}, Dtype::float32);
  const Transfer diagonal = k.store().read({{20, 20}, {30, 30}}), beside = k.store().read({{20, 60}, {30, 30}});
  EXPECT_EQ(beside.bytes(), 2 * diagonal.bytes());
  EXPECT_EQ(diagonal.flops, 900 * kernel::pair_flops({}, 3));
  EXPECT_GE(diagonal.work_bytes, kernel::pair_scratch(3));
  ASSERT_EQ(k.store().operands().size(), 1u);
}

TEST_F(KernelArray, RefusesWhatDoesNotFit) {
  auto x = coordinates(6, 2);
  const Array two = in_memory(x, {6, 2}), three = in_memory(x, {4, 3});
  EXPECT_THAT(message_of<ShapeError>([&] { kernel_array({}, {two}, {three}, Dtype::float64); }),
              HasSubstr("have 2 coordinates and those of Y 3"));
  EXPECT_THAT(message_of<ShapeError>([&] { kernel_array({}, {two}, {two}, Dtype::int32); }),
              HasSubstr("choose float32 or float64"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                kernel_array({.length = {1, 2, 3}}, {two}, {two}, Dtype::float64);
              }),
              HasSubstr("one length is needed"));
}

TEST_F(KernelArray, AFunctionOfPlacesFillsAnyBox) {
  Computation how;
  how.compute = [](const Box& box, std::span<const Tile>, const Tile& to, std::byte*) {
    for (Index i = 0; i < box.shape[0]; ++i) to.as<std::int64_t>()[i] = (box.start[0] + i) * (box.start[0] + i);
  };
  how.flops = 2;
  const Array squares = computed_array({50}, Dtype::int64, how);
  std::int64_t found[3];
  std::memcpy(found, read_elements(squares, {{7}, {3}}).data(), sizeof found);
  EXPECT_THAT(found, testing::ElementsAre(49, 64, 81));
  EXPECT_EQ(squares.store().read({{7}, {3}}).flops, 6);
  EXPECT_TRUE(read_elements(squares, {{50}, {0}}).empty());
}

}  // namespace
}  // namespace flagstone
