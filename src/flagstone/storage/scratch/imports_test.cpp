#include "flagstone/storage/scratch/imports.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using std::chrono::seconds;

class ImportsTest : public testing::Test {
 protected:
  std::string import(const std::string& name) const {
    const std::string place = scratch_ / "imports/" + name + ".zarr";
    std::filesystem::create_directories(place);
    std::ofstream(place + "/zarr.json") << std::string(8192, 'x');
    return place;
  }
  std::string used(const std::string& name) const { return scratch_ / "imports/" + name + ".used"; }

  TemporaryDirectory scratch_;
};

TEST_F(ImportsTest, UnusedOnesGoWithTheirNotes) {
  const std::string place = import("old"), other = import("of-an-older-version");
  use_import(place).close();
  EXPECT_EQ(sweep_imports(scratch_.path()), 0u);
  EXPECT_GE(sweep_imports(scratch_.path(), seconds(-1)), 2 * 8192u);
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "imports"));
}

TEST_F(ImportsTest, ThoseInUseStay) {
  const std::string place = import("mine");
  const FileLock mine = use_import(place);
  EXPECT_EQ(sweep_imports(scratch_.path(), seconds(-1)), 0u);
  EXPECT_TRUE(path_exists(place + "/zarr.json"));
  EXPECT_TRUE(mine.is_at(used("mine")));
}

/// Two sweepers: the second found the import useless before the first removed it, and it was imported anew since.
TEST_F(ImportsTest, OneThatWasMadeAnewStays) {
  const std::string place = import("again");
  std::ofstream(scratch_ / "gone") << "source";
  std::ofstream(scratch_ / "imports/again.json") << "{\"source\": \"" << scratch_ / "gone"
                                                 << "\"}";
  use_import(place).close();
  struct stat before, after;
  ASSERT_EQ(::stat(used("again").c_str(), &before), 0);
  std::filesystem::remove(scratch_ / "gone");
  const FileLock lock = FileLock::take(used("again"));  // of the first sweeper
  ASSERT_TRUE(lock);
  EXPECT_EQ(sweep_imports(scratch_.path()), 0u);
  EXPECT_TRUE(path_exists(place));
  ASSERT_EQ(::stat(used("again").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

}  // namespace
}  // namespace flagstone
