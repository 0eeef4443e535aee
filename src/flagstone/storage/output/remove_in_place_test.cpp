#include "flagstone/storage/output/remove_in_place.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;

TEST(RemoveInPlace, TakesMembersAndLinksAndNothingBehindThem) {
  TemporaryDirectory folder;
  const std::string store = folder / "store.zarr", elsewhere = folder / "elsewhere";
  for (const std::string& place : {store, store + "/member", elsewhere}) {
    fs::create_directories(place);
    std::ofstream(place + "/zarr.json") << "{}";
  }
  fs::create_directory_symlink(elsewhere, store + "/link");
  fs::create_symlink("round", store + "/round");  // a link to itself
  EXPECT_FALSE(half_removed(store));
  EXPECT_TRUE(remove_in_place(store));
  EXPECT_FALSE(path_exists(store));
  EXPECT_TRUE(path_exists(elsewhere + "/zarr.json"));
}

TEST(RemoveInPlace, GoesOnWithWhatIsHalfRemoved) {
  TemporaryDirectory folder;
  const std::string store = folder / "store.zarr";
  fs::create_directories(store + "/member");
  EXPECT_TRUE(half_removed(store));
  EXPECT_TRUE(remove_in_place(store));
  EXPECT_FALSE(path_exists(store));
}

}  // namespace
}  // namespace flagstone
