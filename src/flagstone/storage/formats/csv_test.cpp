#include "flagstone/storage/formats/csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace flagstone {
namespace {

using testing::ElementsAre;

struct Rows {
  ParsedCsv parsed;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  std::vector<std::uint8_t> seen;
};

Rows rows(const std::string& text, const std::vector<std::int32_t>& place, bool integers = false, char delimiter = ',',
          Index most = 8) {
  Rows made;
  CsvTarget to;
  to.delimiter = delimiter;
  to.fields = static_cast<Index>(place.size()), to.place = place.data();
  for (const std::int32_t column : place) to.columns = std::max<Index>(to.columns, column + 1);
  to.most = most;
  made.reals.assign(static_cast<std::size_t>(most * to.columns), -7);
  made.integers.assign(static_cast<std::size_t>(most * to.columns), -7);
  made.seen.assign(static_cast<std::size_t>(to.columns), 0);
  (integers ? (void)(to.integers = made.integers.data()) : (void)(to.reals = made.reals.data()));
  to.seen = made.seen.data();
  made.parsed = parse_csv(text.data(), text.size(), to);
  made.reals.resize(static_cast<std::size_t>(made.parsed.rows * to.columns));
  made.integers.resize(static_cast<std::size_t>(made.parsed.rows * to.columns));
  return made;
}

TEST(Csv, RowsOfNumbers) {
  const Rows made = rows("1,2.5,-3e2\r\n\n +4 ,.5,1e400\n1e-400,-0,000123456789012345678.5\n", {0, 1, 2});
  EXPECT_EQ(made.parsed.stop, CsvStop::none);
  EXPECT_EQ(made.parsed.lines, 4);
  EXPECT_THAT(made.reals, ElementsAre(1, 2.5, -300, 4, .5, HUGE_VAL, 0, 0, 123456789012345678.5));
  EXPECT_TRUE(std::signbit(made.reals[7]));
  EXPECT_THAT(made.seen,
              ElementsAre(CsvSeen::integer | CsvSeen::real, CsvSeen::integer | CsvSeen::real, CsvSeen::real));
}

TEST(Csv, WhatIsMissing) {
  const Rows made = rows("1,,NA\n\"\",null,-nan\nNone,#N/A N/A, \n", {0, 1, 2});
  ASSERT_EQ(made.parsed.rows, 3);
  for (std::size_t i = 1; i < 9; ++i) EXPECT_TRUE(std::isnan(made.reals[i])) << i;
}

TEST(Csv, QuotesTruthAndWhatIsLeftOut) {
  const Rows made = rows("\"a,\"\"b\nc\",\" 1.5 \",True\nx\"y\",-2,false\n", {-1, 0, 1});
  EXPECT_EQ(made.parsed.stop, CsvStop::none);
  EXPECT_EQ(made.parsed.lines, 3);
  EXPECT_THAT(made.reals, ElementsAre(1.5, 1, -2, 0));
  const Rows turned = rows("1;2;3\n4;5;6\n", {1, -1, 0}, true, ';');
  EXPECT_THAT(turned.integers, ElementsAre(3, 1, 6, 4));
}

TEST(Csv, IntegersOf64Bits) {
  const Rows made = rows("9223372036854775807,-9223372036854775808\n123456789012345678,1\n", {0, 1}, true);
  EXPECT_THAT(made.integers, ElementsAre(INT64_MAX, INT64_MIN, 123456789012345678, 1));
  const Rows none = rows("1,2\n3,4.0\n", {0, 1}, true);
  EXPECT_EQ(none.parsed.stop, CsvStop::not_integer);
  EXPECT_EQ(none.parsed.lines, 1);
  EXPECT_EQ(none.parsed.field, 1);
  EXPECT_EQ(rows("9223372036854775808\n", {0}, true).parsed.stop, CsvStop::not_integer);
  EXPECT_EQ(rows("1\n\"\"\n", {0}, true).parsed.stop, CsvStop::not_integer);
}

TEST(Csv, IntegersThatFloatsRound) {
  const Rows made =
      rows("9007199254740992,1\n9007199254740993,9223372036854775807\n9007199254740995,18446744073709551615\n", {0, 1});
  ASSERT_EQ(made.parsed.rounded.size(), 2u);
  EXPECT_EQ(made.parsed.rounded[0].column, 0);
  EXPECT_EQ(made.parsed.rounded[0].line, 2);
  EXPECT_EQ(made.parsed.rounded[0].text, "9007199254740993");
  EXPECT_EQ(made.parsed.rounded[1].text, "9223372036854775807");
  EXPECT_TRUE(rows("9007199254740994\n18446744073709549568\n", {0}).parsed.rounded.empty());
  EXPECT_TRUE(rows("9007199254740993.0\n", {0}).parsed.rounded.empty());
}

TEST(Csv, WhatIsWrong) {
  const Rows few = rows("1,2,3\n4,5\n", {0, 1, 2});
  EXPECT_EQ(few.parsed.stop, CsvStop::ragged);
  EXPECT_EQ(few.parsed.lines, 1);
  EXPECT_EQ(few.parsed.field, 2);
  EXPECT_EQ(rows("1,2,3\n4,5,6,\"7,8\",9\n", {0, 1, 2}).parsed.field, 5);
  const Rows text = rows("1,2\n\n3,1.2.3\n", {0, 1});
  EXPECT_EQ(text.parsed.stop, CsvStop::text);
  EXPECT_EQ(text.parsed.text, "1.2.3");
  EXPECT_EQ(text.parsed.lines, 2);
  EXPECT_EQ(text.parsed.field, 1);
  for (const char* word : {"0x1p3", "1 2", "--1", "+-1", "1e", "information", "12a", "-", "+"})
    EXPECT_EQ(rows(std::string(word) + "\n", {0}).parsed.stop, CsvStop::text) << word;
  EXPECT_EQ(rows("1,\"2\n3,4\n", {0, 1}).parsed.stop, CsvStop::quote);
  EXPECT_EQ(rows(std::string("1\n2\n\0\n", 6), {0}).parsed.stop, CsvStop::zero);
  const Rows full = rows("1\n2\n3\n", {0}, false, ',', 2);
  EXPECT_EQ(full.parsed.stop, CsvStop::room);
  EXPECT_EQ(full.parsed.bytes, 4u);
}

TEST(Csv, WholeRecords) {
  const auto taken = [](const std::string& text, Index most) {
    return csv_records(text.data(), text.size(), ',', most);
  };
  EXPECT_EQ(taken("a,b\nc,d\ne", 9), 8u);
  EXPECT_EQ(taken("a,b\nc,d\ne", 1), 4u);
  EXPECT_EQ(taken("\"a\nb\",1\n\"c\n", 9), 8u);
  EXPECT_EQ(taken("a\"\n\"\n,\"\"\"\n\"\n5", 9), 10u);  // a quote inside a field opens nothing; two are one
  EXPECT_EQ(taken("", 9), 0u);
  Index records = 0;
  const std::string text = "1\n2\n3\n";
  EXPECT_EQ(csv_records(text.data(), text.size(), ',', 9, &records), 6u);
  EXPECT_EQ(records, 3);
}

template <class T>
std::string formatted(Index rows, Index columns, const std::vector<T>& values, char delimiter) {
  std::string text(values.size() * most_csv, '?');
  return text.substr(
      0, static_cast<std::size_t>(format_csv(rows, columns, values.data(), delimiter, text.data()) - text.data()));
}

TEST(Csv, WhatIsWrittenReadsBack) {
  const std::vector<double> values{0.1, -0.0, 1e22, 5, NAN, -HUGE_VAL};
  const std::string text = formatted(2, 3, values, '\t');
  EXPECT_EQ(text, "0.1\t-0.0\t1e+22\n5.0\tnan\t-inf\n");
  const Rows made = rows(text, {0, 1, 2}, false, '\t');
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(made.reals[i] == values[i] || std::isnan(values[i])) << i;
  const std::vector<float> singles{0.1F, 16777216.0F};
  EXPECT_EQ(formatted(1, 2, singles, ','), "0.1,16777216.0\n");
  const std::vector<std::uint64_t> whole{UINT64_MAX, 0};
  EXPECT_EQ(formatted(2, 1, whole, ','), "18446744073709551615\n0\n");
  const std::vector<double> long_ones{-2.2250738585072014e-308, -1.7976931348623157e+308, -1234567890123456.7};
  EXPECT_LE(formatted(3, 1, long_ones, ',').size(), 3 * most_csv);
}

}  // namespace
}  // namespace flagstone
