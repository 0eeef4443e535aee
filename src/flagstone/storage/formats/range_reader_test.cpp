#include "flagstone/storage/formats/range_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/crc32.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

std::string random_text(std::size_t bytes) {
  std::mt19937 random(1);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string text_of(const RangeReader::Read& read) {
  return {reinterpret_cast<const char*>(read.bytes.data()), read.bytes.size()};
}

TEST(RangeReader, GivesTheBytesInOrderAndTheirChecksum) {
  TemporaryDirectory top;
  const std::string text = random_text(1'000'003);
  std::ofstream(top / "file", std::ios::binary) << text;
  for (const std::size_t offset : {0, 1, 4095, 4096, 70'001}) {
    const std::size_t bytes = text.size() - offset - 17;
    RangeReader reader(top / "file", offset, bytes);
    std::size_t at = 0;
    RangeReader::Read before;
    std::string said;
    for (std::size_t count : {10, 5000, 1, 100'000, 0, 100'000, 4096, 300'000, 1'000'000}) {
      const RangeReader::Read read = reader.read(count);
      EXPECT_EQ(text_of(before), said);  // valid for one more read
      const std::size_t expected = std::min(count, bytes - at);
      ASSERT_EQ(read.bytes.size(), expected);
      EXPECT_EQ(text_of(read), text.substr(offset + at, expected));
      at += expected, before = read, said = text_of(read);
    }
    EXPECT_EQ(at, bytes);
    EXPECT_EQ(reader.read(5).bytes.size(), 0u);
    EXPECT_EQ(reader.crc(), crc32(text.data() + offset, bytes));
  }
}

TEST(RangeReader, EndsWithTheFile) {
  TemporaryDirectory top;
  const std::string text = random_text(100'000);
  std::ofstream(top / "file", std::ios::binary) << text;
  RangeReader reader(top / "file", 90'000, 20'000);
  EXPECT_EQ(text_of(reader.read(4'000)), text.substr(90'000, 4'000));
  EXPECT_EQ(text_of(reader.read(16'000)), text.substr(94'000));
  EXPECT_TRUE(reader.read(1).bytes.empty());
  RangeReader behind(top / "file", 200'000, 10);
  EXPECT_TRUE(behind.read(10).bytes.empty());
}

TEST(RangeReader, GoesWhileSomethingIsReadAhead) {
  TemporaryDirectory top;
  std::ofstream(top / "file", std::ios::binary) << random_text(8 << 20);
  for (int i = 0; i < 20; ++i) RangeReader(top / "file", 0, 8 << 20).read(1 << 20);
  RangeReader::Read kept;
  {
    RangeReader reader(top / "file", 0, 8 << 20);
    kept = reader.read(1 << 20);
  }
  EXPECT_EQ(text_of(kept), random_text(1 << 20));  // its memory is its own
}

TEST(RangeReader, SaysWhatCannotBeRead) {
  TemporaryDirectory top;
  EXPECT_THROW(RangeReader(top / "missing", 0, 10), StorageError);
  EXPECT_THROW(RangeReader(top.path(), 0, 10), StorageError);
}

}  // namespace
}  // namespace flagstone
