#include "flagstone/storage/zarr/metadata/json.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace flagstone {
namespace {

TEST(Json, MembersAreSortedAndNumbersKeepTheirKind) {
  const Json value = Json::object({{"z", 1},
                                   {"a", Json::array({true, Json(), "x", 0.5})},
                                   {"m", std::numeric_limits<std::uint64_t>::max()},
                                   {"n", std::vector<std::int64_t>{-3, 4}}});
  const std::string text = R"({"a":[true,null,"x",0.5],"m":18446744073709551615,"n":[-3,4],"z":1})";
  EXPECT_EQ(value.dump(), text);
  const Json read = Json::parse(text);
  EXPECT_TRUE(read == value);
  EXPECT_TRUE(read["n"][1].is_number_unsigned());
  EXPECT_FALSE(read["n"][0].is_number_unsigned());
  EXPECT_TRUE(read["n"][0].is_number_integer());
  EXPECT_EQ(read["n"][0].get<std::int64_t>(), -3);
  EXPECT_EQ(Json::object({{"a", Json::object()}}).dump(2), "{\n  \"a\": {}\n}");
}

TEST(Json, APartKeepsTheWholeAndChangesIt) {
  Json part;
  {
    const Json whole = Json::parse(R"({"a": {"b": [1, 2]}})");
    part = whole["a"];
    part.set("c", "d");
    EXPECT_EQ(whole.dump(), R"({"a":{"b":[1,2],"c":"d"}})");
    part.erase("c");
  }
  EXPECT_EQ(part.dump(), R"({"b":[1,2]})");
  EXPECT_EQ(part["b"].elements().size(), 2U);
  EXPECT_EQ(part.value("e", 5), 5);
}

TEST(Json, WhatIsOfAnotherKindIsSaid) {
  EXPECT_THROW(Json::parse("{"), JsonError);
  EXPECT_THROW(Json(3).get<std::string>(), JsonError);
  EXPECT_THROW(Json("x").at("a"), JsonError);
  try {
    Json::object().at("done");
    FAIL();
  } catch (const JsonError& error) {
    EXPECT_STREQ(error.what(), "[json.exception.out_of_range.403] key 'done' not found");
  }
}

TEST(Json, OneMemberIsReplacedAndTheOthersKeepTheirOrder) {
  EXPECT_EQ(with_member(R"({"z":1,"shape":[5],"a":null})", "shape", std::vector<std::int64_t>{7, 8}),
            "{\n  \"z\": 1,\n  \"shape\": [\n    7,\n    8\n  ],\n  \"a\": null\n}\n");
}

TEST(Json, WholeNumbersBeyond64Bits) {
  EXPECT_EQ(beyond_64_bits("[1, 18446744073709551615, -9223372036854775808, 1e30, 0.5]"), "");
  EXPECT_EQ(beyond_64_bits("[1, {\"a\": 18446744073709551616}, 99999999999999999999]"), "18446744073709551616");
  EXPECT_EQ(beyond_64_bits("no JSON"), "");
}

}  // namespace
}  // namespace flagstone
