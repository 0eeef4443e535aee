// The array of an output: made, found again with what was written, refused where it is another one.
#include "flagstone/runtime/resume/zarr_output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/output/record.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

const Box first{{0, 0}, {64, 64}};

Record operation() { return Record("fill", RecordArguments().value("rows", 256)); }

/// One chunk is written and noted; then the disk is full.
void fail(const std::string& path, const std::vector<std::byte>& elements) {
  Record record = operation();
  const auto fill = [&](const Output& output) {
    const Array out = zarr_output(output, {256, 64}, Dtype::float64, {.chunks = {64, 64}});
    test::write_elements(out, first, elements);
    out.store().checkpoint();
    record.checkpoint()->save(0.25, {});
    throw StorageError("full", ENOSPC, path);
  };
  EXPECT_THROW(record.build(path, false, fill), StorageError);
}

TEST(ZarrOutput, HoldsWhatADeadProcessHadWritten) {
  TemporaryDirectory top;
  const std::vector<std::byte> elements(64 * 64 * 8, std::byte{7});
  fail(top / "out", elements);
  Record record = operation();
  record.build(top / "out", false, [&](const Output& output) {
    EXPECT_TRUE(output.adopted());
    const Array out = zarr_output(output, {256, 64}, Dtype::float64, {.chunks = {64, 64}});
    EXPECT_TRUE(out.store().stored(first));
    EXPECT_FALSE(out.store().stored({{64, 0}, {64, 64}}));
    out.store().flush();
  });
  EXPECT_EQ(test::read_elements(open_zarr_array(top / "out"), first), elements);
}

TEST(ZarrOutput, OfAnotherShapeIsRefused) {
  TemporaryDirectory top;
  fail(top / "out", std::vector<std::byte>(64 * 64 * 8));
  const auto refusal = [&](const Shape& shape, Dtype dtype) {
    const auto output = operation().output(top / "out", false);
    output->leave();
    return test::message_of<ShapeError>([&] { zarr_output(*output, shape, dtype, {.chunks = {64, 64}}); });
  };
  EXPECT_THAT(refusal({128, 64}, Dtype::float64), ::testing::HasSubstr("as 256 x 64 float64 and now it is to be 128 x "
                                                                       "64 float64; give the record an argument"));
  EXPECT_THAT(refusal({256, 64}, Dtype::float32), ::testing::HasSubstr("256 x 64 float32"));
  EXPECT_EQ(refusal({256, 64}, Dtype::float64), "no error");
}

}  // namespace
}  // namespace flagstone
