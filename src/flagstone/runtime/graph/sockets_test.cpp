#include "flagstone/runtime/graph/sockets.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

const std::vector<int> eight{0, 1, 2, 3, 4, 5, 6, 7};

std::string refused(const std::string& text, const std::vector<int>& there = eight) {
  try {
    sockets_from_text(text, there);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Sockets, AreListsOfProcessors) {
  EXPECT_EQ(sockets_from_text("0;1", eight), (Sockets{{0}, {1}}));
  EXPECT_EQ(sockets_from_text("0-2,7;4-6", eight), (Sockets{{0, 1, 2, 7}, {4, 5, 6}}));
  EXPECT_EQ(sockets_from_text("5,3", eight), (Sockets{{3, 5}}));
}

TEST(Sockets, OfTheSystemHaveTheSameNumberOfProcessorsOrAreNotUsed) {
  const Sockets listed{{0, 1, 2, 3}, {}, {4, 5, 6, 7}};
  EXPECT_EQ(even_sockets(listed, eight), (Sockets{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(even_sockets(listed, std::vector<int>{2, 3, 6, 7}), (Sockets{{2, 3}, {6, 7}}));
  EXPECT_TRUE(even_sockets(listed, std::vector<int>{0, 1, 2, 3, 4}).empty()) << "as a scheduler of jobs may give them";
  EXPECT_TRUE(even_sockets({{0, 1}, {2, 3}}, eight).empty()) << "processors that no list names";
}

TEST(Sockets, ABoundThreadStillKnowsWhatItCouldUse) {
  const std::vector<int> here = processors_here();
  ASSERT_FALSE(here.empty());
  std::thread([&] {
    bind_to(std::span(here).first(1));
    EXPECT_EQ(processors_here(), here);
    EXPECT_EQ(::sched_getcpu(), here.front());
  }).join();
}

TEST(Sockets, NameProcessorsThatAreThereOnce) {
  EXPECT_NE(refused("0;8").find("processor 8 is not there"), std::string::npos);
  EXPECT_NE(refused("0-1;1-2").find("processor 1 is named twice"), std::string::npos);
  EXPECT_NE(refused("0;2", {0, 1}).find("processor 2 is not there"), std::string::npos);
  for (const std::string text : {"", "0;", ";1", "a", "3-1", "0,", "-1", "0 1", "0;99999999999"})
    EXPECT_NE(refused(text).find("is no list of sockets"), std::string::npos) << text;
}

}  // namespace
}  // namespace flagstone
