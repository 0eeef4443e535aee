// Without a GPU: that what is missing is said in one sentence. With one: that a device opens and gives back.
#include "flagstone/runtime/spaces/cuda_loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flagstone/base/error.hpp"

namespace flagstone {
namespace {

TEST(CudaLoader, ListsDevicesOrSaysWhyThereIsNone) {
  std::string why_not = "untouched";
  const std::vector<DeviceProperties> devices = cuda_devices(&why_not);
  if (devices.empty()) {
    EXPECT_THAT(why_not, testing::AllOf(testing::StartsWith("cuda: "), testing::EndsWith(".")));
    try {
      open_cuda(0, 1 << 28);
      FAIL() << "opened a device that is not listed";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), why_not);
    }
    return;
  }
  EXPECT_EQ(why_not, "");
  EXPECT_EQ(devices[0].kind, "cuda");
  EXPECT_EQ(devices[0].name, "cuda:0");
  EXPECT_THROW(open_cuda(static_cast<int>(devices.size()), 1 << 28), Error);
  EXPECT_THROW(open_cuda(0, 1000), Error);
  EXPECT_NE(open_cuda(0, 1 << 28)->memory(), nullptr);
}

TEST(CudaLoader, RefusesAPrecisionThatItDoesNotKnow) { EXPECT_THROW(open_cuda(0, 1 << 28, "bf16"), Error); }

}  // namespace
}  // namespace flagstone
