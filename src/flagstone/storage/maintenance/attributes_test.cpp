// A process that ends at any step leaves the old attributes or the new ones, and all elements.
#include "flagstone/storage/maintenance/attributes.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/dying_process.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using Names = std::vector<std::string>;

ArrayMetadata about(const std::string& path) { return parse_array_metadata(read_text(path + "/zarr.json"), path); }

TEST(Attributes, OldOrNewAfterEveryStep) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  bool returned = false;
  int kept = 0;
  for (int step = 0; !returned && step < 20; ++step) {
    std::filesystem::remove_all(path);
    Array array = create_zarr_array(path, {4, 6}, Dtype::float32, {.attributes = R"({"a": 1})"});
    test::write_elements(array, whole(array.shape()), test::twos(array.shape(), array.dtype()));
    array.store().flush();
    returned = test::returns_before_step(step, [&] { set_attributes(path, R"({"b": [2, "c"]})", {"y", ""}); });
    const ArrayMetadata now = about(path);
    const bool fresh = now.attributes == R"({"b":[2,"c"]})" && now.dimension_names == Names{"y", ""};
    const bool old = now.attributes == R"({"a":1})" && now.dimension_names == Names{"dim_0", "dim_1"};
    EXPECT_TRUE(fresh || (old && !returned)) << now.attributes;
    kept += old ? 1 : 0;
    const Array again = open_zarr_array(path);  // its stamp is of what it holds
    EXPECT_EQ(test::read_elements(again, whole(again.shape())), test::twos(again.shape(), again.dtype()));
  }
  EXPECT_TRUE(returned);
  EXPECT_GE(kept, 1);
}

TEST(Attributes, RefusesWhatIsNoObjectAndOtherCounts) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  create_zarr_array(path, {4, 6}, Dtype::float32);
  const std::string before = read_text(path + "/zarr.json");
  EXPECT_THROW(set_attributes(path, "[1]", {}), FormatError);
  EXPECT_THROW(set_attributes(path, "{", {}), FormatError);
  EXPECT_THROW(set_attributes(path, "{}", {"x"}), ShapeError);
  EXPECT_THROW(set_attributes(directory / "b", "{}", {}), StorageError);
  EXPECT_EQ(read_text(path + "/zarr.json"), before);
  set_attributes(path, "{}", {});
  EXPECT_TRUE(about(path).dimension_names.empty());
}

TEST(Attributes, AFillValueIsWhatReadsWhereNothingIs) {
  TemporaryDirectory directory;
  const float value = 2.5f;
  std::vector<std::byte> fill(sizeof value);
  std::memcpy(fill.data(), &value, sizeof value);
  create_zarr_array(directory / "a", {3, 5}, Dtype::float32, {.fill = fill});
  const auto read = test::read_elements(open_zarr_array(directory / "a"), whole({3, 5}));
  for (std::size_t at = 0; at < read.size(); at += sizeof value)
    EXPECT_EQ(std::memcmp(read.data() + at, &value, sizeof value), 0);
  EXPECT_THROW(create_zarr_array(directory / "b", {3}, Dtype::float64, {.fill = fill}), ShapeError);
}

}  // namespace
}  // namespace flagstone
