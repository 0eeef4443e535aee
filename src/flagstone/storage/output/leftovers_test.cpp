// A killed writer's build is taken over by who would build the same, listed, and swept by who would not.
#include "flagstone/storage/output/leftovers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/output/build_notes.hpp"
#include "flagstone/storage/output/output.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

const std::string record = R"({"operation": "matmul", "seed": 7})";

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

/// A writer that is killed after it has built `text`; `publishes`: and has exchanged it.
void die_building(const std::string& path, const std::string& text, const std::string& with, bool publishes = false) {
  const pid_t child = ::fork();
  if (child == 0) {
    Output output(path, true, 0, with);
    fs::create_directory(output.directory());
    put(output.directory() + "/part", text);
    if (!with.empty()) put(output.notes() + "/progress", "half of " + text);
    if (publishes) {  // as publish() until the exchange
      note_build(output.directory());
      ::renameat2(AT_FDCWD, output.directory().c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE);
    }
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(Leftovers, TheSameRecordGoesOnWithTheBuildAndItsNotes) {
  TemporaryDirectory top;
  const std::string path = top / "c.zarr";
  die_building(path, "built", record);
  {
    Output output(path, false, 0, record);
    ASSERT_TRUE(output.adopted());
    EXPECT_EQ(read_text(output.directory() + "/part"), "built");
    EXPECT_EQ(read_text(output.notes() + "/progress"), "half of built");
    output.leave();  // an error that passes
  }
  {
    Output output(path, false, 0, record);
    ASSERT_TRUE(output.adopted());
    {
      Output second(path, true, 0, record);  // the first one lives
      EXPECT_FALSE(second.adopted());
    }
    output.publish();
  }
  EXPECT_EQ(read_text(path + "/part"), "built");
  EXPECT_TRUE(leftovers_of(path).empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(top.path()), fs::directory_iterator{}), 1);
}

TEST(Leftovers, AnotherRecordOrNoneSweeps) {
  TemporaryDirectory top;
  const std::string path = top / "c.zarr";
  for (const std::string& other : {std::string(), record + " "}) {
    die_building(path, "built", record);
    ASSERT_EQ(leftovers_of(path).size(), 1u);
    { Output another(top / "d.zarr", false, 0, record); }
    ASSERT_EQ(leftovers_of(path).size(), 1u);
    Output output(path, false, 0, other);
    EXPECT_FALSE(output.adopted());
    EXPECT_FALSE(fs::exists(output.directory()));
    const auto left = leftovers_of(path);
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].build, output.directory());
    EXPECT_TRUE(left[0].live);
  }
  EXPECT_TRUE(leftovers_of(path).empty());
}

TEST(Leftovers, TheVersionThatWasReplacedIsNeverTakenForTheBuild) {
  TemporaryDirectory top;
  const std::string path = top / "c.zarr";
  fs::create_directory(path);
  put(path + "/part", "old");
  die_building(path, "new", record, true);
  EXPECT_EQ(read_text(path + "/part"), "new");
  ASSERT_EQ(leftovers_of(path).size(), 1u);
  EXPECT_EQ(leftovers_of(path)[0].record, "");
  Output output(path, true, 0, record);
  EXPECT_FALSE(output.adopted());
  EXPECT_FALSE(fs::exists(output.directory()));
}

TEST(Leftovers, ARefusalLeavesTheBuildForLater) {
  TemporaryDirectory top;
  const std::string path = top / "c.zarr";
  die_building(path, "built", record);
  put(path, "somebody else's");
  EXPECT_THROW(Output(path, false, 0, record), StorageError);
  EXPECT_THROW(Output(path, true, std::uint64_t{1} << 60, record), StorageError);
  Output output(path, true, 0, record);
  EXPECT_TRUE(output.adopted());
}

TEST(Leftovers, AreListedBelowADirectory) {
  TemporaryDirectory top;
  fs::create_directories(top / "group/deeper");
  die_building(top / "group/deeper/c.zarr", "built", record);
  die_building(top / "plain", "built", "");
  put(top / ".unrelated", "file");
  auto found = leftovers(top.path());
  ASSERT_EQ(found.size(), 2u);
  if (found[0].record.empty()) std::swap(found[0], found[1]);
  EXPECT_EQ(found[0].path, top / "group/deeper/c.zarr");
  EXPECT_EQ(found[0].record, record);
  EXPECT_EQ(read_text(found[0].notes + "/progress"), "half of built");
  EXPECT_GE(found[0].bytes, 8192u);
  EXPECT_FALSE(found[0].live);
  EXPECT_EQ(found[1].path, top / "plain");
  EXPECT_EQ(found[1].notes, "");
  sweep_leftovers(found[0].path);
  EXPECT_EQ(leftovers(top.path()).size(), 1u);
}

}  // namespace
}  // namespace flagstone
