#include "flagstone/storage/file/crc32c.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace flagstone {
namespace {

TEST(Crc32c, KnownValues) {
  const unsigned char zeros[32] = {};
  for (const auto& sum : {crc32c, crc32c_by_table}) {
    EXPECT_EQ(sum("123456789", 9, 0), 0xE3069283u);  // the check value of the polynomial
    EXPECT_EQ(sum("", 0, 0), 0u);
    EXPECT_EQ(sum("56789", 5, sum("1234", 4, 0)), 0xE3069283u);
    EXPECT_EQ(sum(zeros, sizeof zeros, 0), 0x8A9136AAu);  // RFC 3720, B.4
  }
}

TEST(Crc32c, TableAndInstructionAgreeAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<unsigned char> bytes(300);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  for (std::size_t start = 0; start < 9; ++start)
    for (std::size_t size = 0; start + size <= bytes.size(); ++size)
      ASSERT_EQ(crc32c(bytes.data() + start, size), crc32c_by_table(bytes.data() + start, size));
}

TEST(Crc32c, RunsInThreePartsGiveTheSame) {
  std::mt19937 random(2);
  std::vector<unsigned char> bytes(40'000);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  for (const std::size_t size : {767u, 768u, 769u, 1536u, 12287u, 12288u, 12289u, 13056u, 24576u, 39'999u})
    for (const std::uint32_t before : {0u, 0xDEADBEEFu})
      for (const std::size_t start : {0u, 1u})
        ASSERT_EQ(crc32c(bytes.data() + start, size, before), crc32c_by_table(bytes.data() + start, size, before))
            << size;
}

}  // namespace
}  // namespace flagstone
