#include "flagstone/base/bytes.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

TEST(ParseBytes, TakesWhatPeopleWrite) {
  const std::pair<const char*, std::uint64_t> sizes[] = {{"4GiB", 4 * GiB},
                                                         {" 512 MiB ", 512 * MiB},
                                                         {"1.5g", GiB + GiB / 2},
                                                         {"300MB", 300'000'000},
                                                         {"1000", 1000},
                                                         {"1e9", 1'000'000'000},
                                                         {"1e3 kB", 1'000'000},
                                                         {"7b", 7},
                                                         {"2 tIb\n", 2048 * GiB},
                                                         {".5KiB", 512},
                                                         {"2.5PB", 2'500'000'000'000'000},
                                                         {"0", 0},
                                                         {"0.5", 0},
                                                         {"0 GiB", 0}};
  for (const auto& [text, bytes] : sizes) EXPECT_EQ(parse_bytes(text), bytes) << text;
}

TEST(ParseBytes, RefusesTheRest) {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {""sv,       " "sv,     "GiB"sv,        "much"sv, "5 apples"sv, "0 apples"sv,   "-1"sv,     "-4GiB"sv,
        "1e30"sv,   "1e400"sv, "nan"sv,        "inf"sv,  "infinity"sv, "0x10"sv,       "4 G iB"sv, "4GiB4"sv,
        "4,5GiB"sv, "1_000"sv, "4GiB\0much"sv, "\0"sv,   "9EB"sv,      "10000000 TB"sv})
    EXPECT_THROW(parse_bytes(text), Error) << text;
}

}  // namespace
}  // namespace flagstone
