#include "flagstone/storage/output/checkpoint.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void spill(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

TEST(Checkpoint, SavesAndLoads) {
  const TemporaryDirectory place;
  std::vector<double> numbers(300'000);
  std::iota(numbers.begin(), numbers.end(), 0.5);
  const std::int32_t step = 7;
  std::vector<int> heard;
  {
    Checkpoint first(place.path(), 0, [&](int number) { heard.push_back(number); });
    EXPECT_EQ(first.saves(), 0);
    EXPECT_FALSE(first.has("step"));
    ASSERT_TRUE(first.due());
    first.save(0.25, {Checkpoint::part("step", &step, 1)});
    first.save(0.5, {Checkpoint::part("step", &step, 1), Checkpoint::part("numbers", numbers.data(), numbers.size()),
                     Checkpoint::part("nothing", numbers.data(), 0)});
    EXPECT_EQ(first.load<double>("numbers"), numbers);
  }
  EXPECT_EQ(heard, (std::vector<int>{1, 2}));
  const Checkpoint second(place.path(), 30);
  EXPECT_EQ(second.saves(), 2);
  EXPECT_EQ(second.done(), 0.5);
  EXPECT_EQ(second.load<std::int32_t>("step"), std::vector<std::int32_t>{7});
  EXPECT_EQ(second.load<double>("numbers"), numbers);
  EXPECT_TRUE(second.has("nothing"));
  EXPECT_EQ(second.bytes_of("nothing"), 0u);
  double wrong = 0;
  EXPECT_THROW(second.load("numbers", &wrong, sizeof wrong), FormatError);
  EXPECT_THROW(second.load("absent", &wrong, sizeof wrong), FormatError);
}

TEST(Checkpoint, WaitsForItsTime) {
  const TemporaryDirectory place;
  Checkpoint seldom(place.path(), 1e6);
  EXPECT_FALSE(seldom.due());
}

/// Every byte counts, and every shorter file is noticed.
TEST(Checkpoint, NoticesDamage) {
  const TemporaryDirectory place;
  const std::vector<std::uint16_t> part{1, 2, 3};
  Checkpoint(place.path(), 0).save(0.5, {Checkpoint::part("part", part.data(), part.size())});
  const std::string path = place / "state", whole = slurp(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    spill(path, damaged);
    EXPECT_THROW(Checkpoint(place.path(), 0), FormatError) << "byte " << i;
    spill(path, whole.substr(0, i));
    EXPECT_THROW(Checkpoint(place.path(), 0), FormatError) << "length " << i;
  }
  spill(path, whole);
  EXPECT_EQ(Checkpoint(place.path(), 0).load<std::uint16_t>("part"), part);
}

/// What a writer that died in the middle of a save left does not count.
TEST(Checkpoint, KeepsTheLastThatWasCompleted) {
  const TemporaryDirectory place;
  const int step = 1;
  Checkpoint(place.path(), 0).save(0.5, {Checkpoint::part("step", &step, 1)});
  spill(place / "state.new", "half of one");
  EXPECT_EQ(Checkpoint(place.path(), 0).load<int>("step"), std::vector<int>{1});
}

}  // namespace
}  // namespace flagstone
