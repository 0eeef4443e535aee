// A profile that is kept is found again by its disk; one of another machine, or a damaged one, is not taken.
#include "flagstone/gauge/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "flagstone/base/error.hpp"
#include "flagstone/runtime/runtime.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone::gauge {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// As Python writes it; `flops` of float32, `processors` of whoever took it.
std::string text_of(const Device& device, int processors, const std::string& flops = "146128567162.69952") {
  return R"({"version": 2, "source": "measured", "date": "2026-01-02T03:04:05+00:00", "device": {"machine": ")" +
         device.machine + R"(", "file_system": ")" + device.file_system + R"(", "number": ")" + device.number +
         R"(", "processor": ")" + device.processor + R"(", "processors": )" + std::to_string(processors) +
         R"(}, "rates": {"read_bytes_per_second": 1757703106.6, "write_bytes_per_second": 1282351059.0,
    "request_seconds": 8.25e-05, "request_overhead_seconds": 1.68e-05, "mixed_penalty": 0.87, "sync_seconds": 0.0005,
    "flops_float32": )" +
         flops + R"(, "flops_float64": 67196940555.9, "memory_bytes_per_second": 16064996230,
    "decode_bytes_per_second": 240578450.1}, "found": {"grid": [1, [2]]}, "loaded": false, "ratios": [1.25]})";
}

class KeptProfile : public ::testing::Test {
 protected:
  KeptProfile() { ::setenv("XDG_CACHE_HOME", (directory_ / "cache").c_str(), 1); }
  ~KeptProfile() override { ::unsetenv("XDG_CACHE_HOME"); }
  void keep(const std::string& text) {
    const fs::path file = profile_file(here_);
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string refusal() {
    try {
      kept_profile(directory_.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory_;
  const Device here_ = device_of(directory_.path());
};

TEST_F(KeptProfile, IsNamedAfterItsDisk) {
  struct stat status;
  ASSERT_EQ(::stat(directory_.path().c_str(), &status), 0);
  EXPECT_EQ(here_.number, std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev)));
  EXPECT_GE(here_.processors, 1);
  EXPECT_EQ(device_of(directory_ / "not/there/yet").number, here_.number);
  EXPECT_NE(device_of("/proc").number, here_.number);
  EXPECT_EQ(profile_file({.machine = "a/b", .file_system = "", .number = "259:1"}),
            directory_ / "cache/flagstone/machine-a_b-unknown-259-1.json");
}

TEST_F(KeptProfile, IsWhatPlansTake) {
  keep(text_of(here_, here_.processors));
  Runtime runtime({.scratch = directory_.path()});
  const double usual = runtime.profile().flops_float32;
  runtime.profile() = kept_profile(directory_.path());
  EXPECT_EQ(runtime.profile().flops_float32, 146128567162.69952);
  EXPECT_EQ(runtime.profile().memory_bytes_per_second, 16064996230);
  EXPECT_NE(runtime.profile().flops_float32, usual);
  const auto found = read_profile(profile_file(here_));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->source, "measured");
  EXPECT_EQ(found->date, "2026-01-02T03:04:05+00:00");
  EXPECT_EQ(found->text, text_of(here_, here_.processors));
}

TEST_F(KeptProfile, OfNobodyOrOfAnotherMachineIsRefused) {
  EXPECT_EQ(refusal(), "profile: none is kept for the disk of '" + directory_.path() + "'; run 'flagstone calibrate " +
                           directory_.path() + "', which measures it.");
  keep(text_of(here_, here_.processors + 5));
  EXPECT_THAT(refusal(), HasSubstr("was taken on another machine (" + std::to_string(here_.processors + 5) + " x "));
  EXPECT_THAT(refusal(), HasSubstr("; run 'flagstone calibrate " + directory_.path() + "' on this one."));
}

TEST_F(KeptProfile, DamagedIsNone) {
  const std::string file = profile_file(here_), whole = text_of(here_, 1);
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string(R"({"version": 2})"),
        whole.substr(0, whole.size() / 2), text_of(here_, 1, "1e30"), text_of(here_, 1, "\"fast\""),
        text_of(here_, 1, "null")}) {
    keep(text);
    EXPECT_FALSE(read_profile(file)) << text;
  }
  keep(whole);
  EXPECT_TRUE(read_profile(file));
  EXPECT_FALSE(read_profile(directory_ / "nothing"));
}

}  // namespace
}  // namespace flagstone::gauge
