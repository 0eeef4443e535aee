#include "flagstone/runtime/timeline/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "flagstone/base/error.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class TimelineTest : public ::testing::Test {
 protected:
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }

  TemporaryDirectory folder_;
  std::string path_ = folder_ / "run.json";
};

TEST_F(TimelineTest, EventsAreLinesOfAnArray) {
  Timeline timeline(path_);
  const int run = timeline.begin_run("matmul", 2);
  const auto now = Timeline::Clock::now();
  timeline.span(run, 1, "task", "gemm", now, now + std::chrono::microseconds(250), "tile \"4\" at 0", 0);
  timeline.mark(run, 1000, "evict", "evict", "a\\b", 4096);
  timeline.close();
  const std::string all = text();
  EXPECT_THAT(
      all,
      StartsWith(
          "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"run 1: matmul\"}},\n"));
  EXPECT_THAT(all, HasSubstr(R"("name":"worker 1")"));
  EXPECT_THAT(all, HasSubstr(R"("dur":250.000,"args":{"about":"tile \"4\" at 0"}},)"));
  EXPECT_THAT(all, HasSubstr(R"("args":{"about":"a\\b","bytes":4096}},)"));
  EXPECT_EQ(all.substr(all.size() - 5), "}}\n]\n");
}

TEST_F(TimelineTest, MemoryStaysAndNoLineIsLost) {
  constexpr int threads = 4, events = 4000;
  Timeline timeline(path_);
  std::vector<std::thread> writers;
  for (int t = 0; t < threads; ++t)
    writers.emplace_back([&, t] {
      for (int i = 0; i < events; ++i)
        timeline.span(1, t, "task", "x" + std::to_string(i), Timeline::Clock::now(), Timeline::Clock::now());
    });
  for (std::thread& writer : writers) writer.join();
  timeline.close();
  std::istringstream lines(text());
  std::string line;
  int found = 0;
  while (std::getline(lines, line)) found += line.find("\"ph\":\"X\"") != std::string::npos;
  EXPECT_EQ(found, threads * events);
}

TEST_F(TimelineTest, OneIsActive) {
  const auto first = std::make_shared<Timeline>(path_);
  Timeline::activate(first);
  EXPECT_EQ(Timeline::active(), first);
  EXPECT_THROW(Timeline::activate(std::make_shared<Timeline>(folder_ / "other.json")), Error);
  Timeline::activate(nullptr);
  EXPECT_EQ(Timeline::active(), nullptr);
}

TEST_F(TimelineTest, AFileThatIsThereIsNotReplaced) {
  std::ofstream(path_) << "mine";
  EXPECT_THROW(Timeline{path_}, StorageError);
  EXPECT_EQ(text(), "mine");
  Timeline(path_, true).close();
  EXPECT_THAT(text(), StartsWith("[\n"));
}

}  // namespace
}  // namespace flagstone
