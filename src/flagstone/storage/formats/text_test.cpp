
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "flagstone/storage/formats/matrixmarket.hpp"
#include "flagstone/storage/formats/svmlight.hpp"

namespace flagstone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Entries {
  std::vector<Index> rows = std::vector<Index>(8), columns = std::vector<Index>(8);
  std::vector<double> values = std::vector<double>(16);
  ParsedText parsed;
};

Entries coordinates(const std::string& text, TextField field, Index most = 8) {
  Entries e;
  e.parsed =
      parse_coordinates(text.data(), text.size(), field, {most, e.rows.data(), e.columns.data(), e.values.data()});
  return e;
}

TEST(Text, CoordinatesOfWholeLines) {
  const Entries e = coordinates("1 2 3.5\n\n% note\n 4\t5 -1e-3\r\n6 7 1.5D+02\n8 9", TextField::real);
  EXPECT_EQ(e.parsed.entries, 3);
  EXPECT_EQ(e.parsed.lines, 5);
  EXPECT_EQ(e.parsed.bytes, 40u);
  EXPECT_EQ(e.parsed.error, "");
  EXPECT_THAT(std::vector<Index>(e.rows.begin(), e.rows.begin() + 3), ElementsAre(0, 3, 5));
  EXPECT_THAT(std::vector<Index>(e.columns.begin(), e.columns.begin() + 3), ElementsAre(1, 4, 6));
  EXPECT_THAT(std::vector<double>(e.values.begin(), e.values.begin() + 3), ElementsAre(3.5, -1e-3, 150.0));
}

TEST(Text, StopsWhereTheTargetIsFull) {
  const Entries e = coordinates("1 1\n2 2\n3 3\n", TextField::pattern, 2);
  EXPECT_EQ(e.parsed.entries, 2);
  EXPECT_EQ(e.parsed.bytes, 8u);
  EXPECT_EQ(e.parsed.error, "");
}

TEST(Text, SaysWhatIsWrongAndOnWhichLine) {
  for (const auto& [line, words] : {std::pair{"1 x 3", "column"},
                                    {"1 2", "value"},
                                    {"1 2 a", "value"},
                                    {"1 2 3 4", "more on the line"},
                                    {"99999999999999999999 1 1", "row"}}) {
    const Entries e = coordinates("1 1 1\n" + std::string(line) + "\n", TextField::real);
    EXPECT_EQ(e.parsed.lines, 1) << line;
    EXPECT_THAT(e.parsed.error, HasSubstr(words)) << line;
  }
}

TEST(Text, NumbersAtTheEndsOfTheRange) {
  const Entries e = coordinates("1 1 1e400\n1 2 -1e-400\n1 3 +2\n1 4 nan\n1 5 -inf\n", TextField::real);
  EXPECT_EQ(e.parsed.entries, 5);
  EXPECT_EQ(e.values[0], HUGE_VAL);
  EXPECT_EQ(e.values[1], 0);
  EXPECT_EQ(e.values[2], 2);
  EXPECT_TRUE(std::isnan(e.values[3]));
  EXPECT_EQ(e.values[4], -HUGE_VAL);
}

TEST(Text, SvmlightRows) {
  const std::string text = "# head\n+1 qid:3 1:0.5 7:2 # note\n-1.5,2 3:1e2\n0\n1 2:x\n";
  std::vector<double> labels(4), values(8);
  std::vector<Index> pointers(5), columns(8);
  const auto parsed =
      parse_svmlight(text.data(), text.size(), {4, 8, labels.data(), pointers.data(), columns.data(), values.data()});
  EXPECT_EQ(parsed.entries, 3);
  EXPECT_EQ(parsed.values, 3);
  EXPECT_THAT(labels, ElementsAre(1, -1.5, 0, 1));
  EXPECT_THAT(std::vector<Index>(pointers.begin(), pointers.begin() + 4), ElementsAre(0, 2, 3, 3));
  EXPECT_THAT(std::vector<Index>(columns.begin(), columns.begin() + 3), ElementsAre(1, 7, 3));
  EXPECT_EQ(parsed.lines, 4);
  EXPECT_THAT(parsed.error, HasSubstr("index:value"));
  const auto narrow =
      parse_svmlight(text.data(), text.size(), {4, 2, labels.data(), pointers.data(), columns.data(), values.data()});
  EXPECT_EQ(narrow.entries, 1);
  EXPECT_EQ(narrow.values, 2);
}

TEST(Text, WhatIsWrittenReadsBack) {
  const std::vector<Index> rows{0, 6}, columns{3, 4};
  const std::vector<double> values{0.1, -1e300};
  const auto formatted = [](Index n, const Index* i, const Index* j, TextField field, const void* numbers) {
    std::string text(most_text_bytes(n, i != nullptr, field), 0);
    text.resize(format_entries(n, i, j, field, numbers, text.data()));
    return text;
  };
  const std::string text = formatted(2, rows.data(), columns.data(), TextField::real, values.data());
  EXPECT_EQ(text, "1 4 0.1\n7 5 -1e+300\n");
  const Entries e = coordinates(text, TextField::real);
  EXPECT_EQ(e.parsed.entries, 2);
  EXPECT_EQ(e.values[1], -1e300);
  EXPECT_EQ(formatted(1, nullptr, nullptr, TextField::complex, values.data()), "0.1 -1e+300\n");
  EXPECT_EQ(formatted(1, rows.data(), columns.data(), TextField::pattern, nullptr), "1 4\n");
}

TEST(Text, RowsOfSvmlightReadBack) {
  const std::vector<Index> pointers{0, 2, 2, 3}, columns{0, 4, 2};
  const std::vector<double> labels{1, -0.5, 0}, values{0.1, 3, -1e300};
  const std::string text =
      format_svmlight(3, labels.data(), pointers.data(), columns.data(), 1, TextField::real, values.data());
  EXPECT_EQ(text, "1 1:0.1 5:3\n-0.5\n0 3:-1e+300\n");
  std::vector<double> found(3), numbers(3);
  std::vector<Index> ends(4), places(3);
  const SvmlightTarget to{3, 3, found.data(), ends.data(), places.data(), numbers.data()};
  const ParsedText parsed = parse_svmlight(text.data(), text.size(), to);
  EXPECT_EQ(parsed.entries, 3);
  EXPECT_EQ(ends, pointers);
  EXPECT_EQ(found, labels);
  EXPECT_EQ(numbers, values);
  EXPECT_EQ(places, (std::vector<Index>{1, 5, 3}));
  const std::vector<Index> whole{7, -8, 9};
  EXPECT_EQ(format_svmlight(1, labels.data(), pointers.data(), columns.data(), 0, TextField::integer, whole.data()),
            "1 0:7 4:-8\n");
  const std::string several = "1,2 1:3\n4 1:1\n";
  EXPECT_EQ(parse_svmlight(several.data(), several.size(), to).several, 1);
}

TEST(Text, EntriesOutsideTheMatrixAreNamedAsTheyStand) {
  Index row = 0, column = 0;
  double value = 0;
  const CoordinateTarget to{1, &row, &column, &value, 5, 5};
  for (const std::string text : {"6 1 1\n", "0 1 1\n", "1 -3 1\n"})
    EXPECT_THAT(parse_coordinates(text.data(), text.size(), TextField::real, to).error, testing::HasSubstr("5 x 5"));
  EXPECT_THAT(parse_coordinates("6 1 1\n", 6, TextField::real, to).error, testing::StartsWith("row 6, column 1"));
  EXPECT_EQ(parse_coordinates("5 5 1\n", 6, TextField::real, to).error, "");
}

TEST(Text, AnyBytesAreParsedOrRefused) {
  std::mt19937_64 random(7);
  const char letters[] = "0123456789 .:-+eEdD#%,\n\n\tq";
  for (int i = 0; i < 5000; ++i) {
    std::string text(random() % 80, '\0');
    for (char& c : text) c = letters[random() % (sizeof letters - 1)];
    const Entries e = coordinates(text, TextField::complex);
    EXPECT_LE(e.parsed.bytes, text.size());
    std::vector<double> labels(3), values(4);
    std::vector<Index> pointers(4), columns(4);
    const auto rows =
        parse_svmlight(text.data(), text.size(), {3, 4, labels.data(), pointers.data(), columns.data(), values.data()});
    EXPECT_LE(rows.values, 4);
  }
}

}  // namespace
}  // namespace flagstone
