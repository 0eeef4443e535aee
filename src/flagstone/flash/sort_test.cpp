// Sorts by comparison on files and memory, in place and not: against std::stable_sort.
#include "flagstone/flash/sort.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::flash {
namespace {

struct Row {
  std::uint32_t key;
  std::uint16_t place;
  char rest[6];
  bool operator==(const Row&) const = default;
};

class FlashSortTest : public testing::Test {
 protected:
  std::vector<Row> rows(std::size_t n) const {
    std::mt19937 random(8);
    std::vector<Row> made(n);
    for (std::size_t i = 0; i < n; ++i)
      made[i] = {static_cast<std::uint32_t>(random() % 100), static_cast<std::uint16_t>(i), "abcde"};
    return made;
  }
  static bool by_key(const Row& a, const Row& b) { return a.key < b.key; }

  TemporaryDirectory folder_;
  Runtime runtime_{{.memory = 4 * GiB, .workers = 2, .scratch = folder_ / "scratch"}};
};

TEST_F(FlashSortTest, RecordsOnDiskAndInMemory) {
  for (const std::size_t n : {1u, 2u, 1000u, 500'000u}) {
    const auto x = rows(n);
    auto wanted = x;
    std::stable_sort(wanted.begin(), wanted.end(), by_key);
    const auto count = static_cast<Index>(n);
    auto in = flash_malloc<Row>(runtime_, n), out = flash_malloc<Row>(runtime_, n);
    write_sync(in, x.data(), Contiguous{count});
    sort(runtime_, in, out, count, by_key);
    std::vector<Row> found(n);
    read_sync(found.data(), out, Contiguous{count});
    EXPECT_EQ(found, wanted);
    read_sync(found.data(), in, Contiguous{count});
    EXPECT_EQ(found, x);  // as it was
    sort(runtime_, in, found.data(), count, by_key);
    EXPECT_EQ(found, wanted);
    sort(runtime_, in, in, count, by_key);
    read_sync(found.data(), in, Contiguous{count});
    EXPECT_EQ(found, wanted);
    auto memory = x;
    sort(runtime_, memory.data(), memory.data(), count, by_key);
    EXPECT_EQ(memory, wanted);
  }
}

TEST_F(FlashSortTest, ValuesGoWithTheirKeys) {
  std::vector<double> keys{3, 1, 2, 1};
  std::vector<std::uint8_t> values{0, 1, 2, 3};
  sort_by_key(runtime_, keys.data(), values.data(), keys.data(), values.data(), 4, std::greater<double>());
  EXPECT_EQ(keys, (std::vector<double>{3, 2, 1, 1}));
  EXPECT_EQ(values, (std::vector<std::uint8_t>{0, 2, 1, 3}));
}

TEST_F(FlashSortTest, KeysAndValuesMayLieSideBySide) {
  std::vector<std::int32_t> both{3, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0};  // four keys, and behind them four doubles
  auto* values = reinterpret_cast<double*>(both.data() + 4);
  for (int i = 0; i < 4; ++i) values[i] = i;
  sort_by_key(runtime_, both.data(), values, both.data(), values, 4, std::less<std::int32_t>());
  EXPECT_EQ(std::vector<std::int32_t>(both.begin(), both.begin() + 4), (std::vector<std::int32_t>{1, 1, 2, 3}));
  EXPECT_EQ(std::vector<double>(values, values + 4), (std::vector<double>{1, 3, 2, 0}));
}

TEST_F(FlashSortTest, BadInputIsNamed) {
  std::vector<int> x(10);
  const auto less = std::less<int>();
  EXPECT_THAT(test::message_of<ShapeError>([&] { sort(runtime_, x.data(), x.data(), -1, less); }),
              testing::HasSubstr("n is -1"));
  EXPECT_THAT(test::message_of<ShapeError>([&] { sort(runtime_, x.data(), x.data() + 2, 8, less); }),
              testing::HasSubstr("overlap and begin 8 bytes apart"));
  EXPECT_THAT(test::message_of<ShapeError>([&] { sort(runtime_, static_cast<int*>(nullptr), x.data(), 8, less); }),
              testing::HasSubstr("a null pointer"));
  EXPECT_NO_THROW(sort(runtime_, static_cast<int*>(nullptr), x.data(), 0, less));
}

}  // namespace
}  // namespace flagstone::flash
