#include "flagstone/storage/array/memory_array.hpp"

#include <gtest/gtest.h>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

TEST(MemoryArray, NewOnesHoldZerosOfAnyShape) {
  const Array made = memory_array({2, 3}, Dtype::float64);
  EXPECT_EQ(elements_of<double>(made).size(), 6u);
  for (const double element : elements_of<double>(made)) EXPECT_EQ(element, 0);
  EXPECT_EQ(elements_of<float>(memory_array({}, Dtype::float32)).size(), 1u);
  EXPECT_TRUE(elements_of<float>(memory_array({4, 0}, Dtype::float32)).empty());
}

TEST(MemoryArray, ShapesBeyondAllMemoryAreRefused) {
  const Index half = Index{1} << 32;  // 2^64 elements are 0
  for (const Shape& shape : {Shape{half, half}, Shape{Index{1} << 61}, Shape{half, 0, half}, Shape{-1, 3}})
    EXPECT_THROW(memory_array(shape, Dtype::float64), ShapeError) << to_string(shape);
}

TEST(MemoryArray, ElementsAreThoseOfAnArrayInMemoryOfThatDtypeInOrder) {
  double elements[] = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(elements_of<double>(memory_array(elements, {2, 3}))[4], 5);
  EXPECT_THROW(elements_of<float>(memory_array(elements, {2, 3})), ShapeError);
  const auto bytes = reinterpret_cast<std::byte*>(elements);
  EXPECT_THROW(elements_of<double>(memory_array(bytes, {2, 3}, Dtype::float64, {8, 16})), ShapeError);
}

}  // namespace
}  // namespace flagstone
