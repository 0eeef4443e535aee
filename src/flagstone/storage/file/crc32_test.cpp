#include "flagstone/storage/file/crc32.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace flagstone {
namespace {

TEST(Crc32, KnownValues) {
  for (const auto& sum : {crc32, crc32_by_table}) {
    EXPECT_EQ(sum("123456789", 9, 0), 0xCBF43926u);  // the check value of the polynomial
    EXPECT_EQ(sum("", 0, 0), 0u);
    EXPECT_EQ(sum("56789", 5, sum("1234", 4, 0)), 0xCBF43926u);
  }
}

TEST(Crc32, TableAndMultiplicationAgreeAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<unsigned char> bytes(700);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  for (std::size_t start = 0; start < 9; ++start)
    for (std::size_t size = 0; start + size <= bytes.size(); ++size) {
      const auto before = static_cast<std::uint32_t>(random());
      ASSERT_EQ(crc32(bytes.data() + start, size, before), crc32_by_table(bytes.data() + start, size, before)) << size;
    }
}

}  // namespace
}  // namespace flagstone
