// A process that ends at any step of a resize leaves the old shape or the new one, and nothing that was cut off
// returns.
#include "flagstone/storage/maintenance/resize.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/transaction/transaction.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/dying_process.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using test::read_elements;
using test::Reference;
using test::write_elements;

constexpr std::size_t staging = 1 << 20;

/// With several shards, and a fill value of its own.
void make(const std::string& path, const Shape& shape, const std::string& checksum, float fill = 0) {
  create_zarr_array(path, shape, Dtype::float32, {.chunks = {16, 16}, .checksum = "none"});
  auto root = nlohmann::json::parse(read_text(path + "/zarr.json"));
  root["chunk_grid"]["configuration"]["chunk_shape"] = {32, 32};
  root["fill_value"] = fill;
  if (checksum == "inner") root["codecs"][0]["configuration"]["codecs"].push_back({{"name", "crc32c"}});
  write_text(path + "/zarr.json", root.dump());
  if (checksum == "sidecar") {  // as create_zarr_array makes it
    const ArrayMetadata about = parse_array_metadata(read_text(path + "/zarr.json"), path);
    const Directory place(path);
    ChunkSums sums(place.descriptor(), path, about);
    sums.make();
    sums.sync();
  }
}

Reference random_elements(const Shape& shape, std::uint64_t seed) {
  Reference reference(shape, Dtype::float32);
  std::mt19937_64 random(seed);
  reference.randomize(random);
  return reference;
}

void write_all(const std::string& path, const Reference& reference, const Shape& shape) {
  const Array array = open_zarr_array(path, true);
  Transaction transaction;
  transaction.add(array);
  write_elements(array, whole(shape), reference.data);
  transaction.commit();
}

/// What is left of `from` in another shape.
Reference resized(const Reference& from, const Shape& before, const Shape& after, float fill) {
  Reference to(after, Dtype::float32);
  flagstone::fill(to.tile(whole(after)), &fill);
  Shape both = before;
  for (std::size_t d = 0; d < both.size(); ++d) both[d] = std::min(before[d], after[d]);
  Reference source = from;
  copy(source.tile(whole(both)), to.tile(whole(both)));
  return to;
}

class Resize : public ::testing::TestWithParam<std::string> {
 protected:
  TemporaryDirectory directory_;
  std::unique_ptr<Ring> ring_ = make_ring({.kind = "threads"});

  void expect_sound(const std::string& path) {
    const CheckReport report = check_array(*ring_, path, staging);
    EXPECT_TRUE(report.damages.empty()) << report.damages[0].what;
    EXPECT_EQ(report.verified, report.stored);
  }
};

TEST_P(Resize, EveryDimensionThereAndBack) {
  const std::string path = directory_ / "a";
  Shape shape{50, 40};
  for (float fill : {0.0f, 2.5f}) {
    fs::remove_all(path);
    shape = {50, 40};
    make(path, shape, GetParam(), fill);
    Reference model = random_elements(shape, 1);
    write_all(path, model, shape);
    for (const Shape& next : {Shape{50, 100}, Shape{7, 100}, Shape{90, 33}, Shape{16, 16}, Shape{0, 50}, Shape{40, 0},
                              Shape{40, 40}, Shape{33, 64}, Shape{70, 70}}) {
      resize_array(*ring_, path, next, {.staging = staging});
      model = resized(model, shape, next, fill);
      shape = next;
      const Array array = open_zarr_array(path);
      ASSERT_EQ(array.shape(), shape);
      EXPECT_EQ(read_elements(array, whole(shape)), model.data) << to_string(shape);
      expect_sound(path);
      if (count(shape) == 0) continue;
      model = random_elements(shape, static_cast<std::uint64_t>(shape[0]));
      write_all(path, model, shape);
      expect_sound(path);
    }
  }
}

TEST_P(Resize, CrashAtEveryStep) {
  const Shape before{50, 40}, after{20, 70}, then{50, 70};
  const std::string pristine = directory_ / "pristine", path = directory_ / "a";
  make(pristine, before, GetParam());
  const Reference model = random_elements(before, 3);
  write_all(pristine, model, before);
  int old_ones = 0, new_ones = 0;
  for (int step = 0; step < 300; ++step) {
    fs::remove_all(path);
    fs::copy(pristine, path, fs::copy_options::recursive);
    const bool returned = test::returns_before_step(
        step, [&] { resize_array(*make_ring({.kind = "threads"}), path, after, {.staging = staging}); });
    const Array array = open_zarr_array(path);
    const bool done = array.shape() == after;
    ASSERT_TRUE(done || array.shape() == before);
    ASSERT_TRUE(done || !returned);
    const Reference expected = done ? resized(model, before, after, 0) : model;
    ASSERT_EQ(read_elements(array, whole(array.shape())), expected.data) << "after step " << step;
    (done ? new_ones : old_ones)++;
    // Grown again, nothing that was cut off is there.
    resize_array(*ring_, path, then, {.staging = staging});
    const Reference grown = resized(expected, array.shape(), then, 0);
    ASSERT_EQ(read_elements(open_zarr_array(path), whole(then)), grown.data) << "after step " << step;
    expect_sound(path);
    if (returned) break;
  }
  EXPECT_GE(old_ones, 2);  // before the checksums are carried over, and before zarr.json is replaced
  EXPECT_GT(new_ones, 5);
}

TEST_P(Resize, EndedAtEveryPulse) {
  const Shape before{50, 40}, after{20, 70}, then{50, 70};
  const std::string path = directory_ / "a";
  const Reference model = random_elements(before, 3);
  bool returned = false;
  int pulses = 0;
  for (; !returned && pulses < 300; ++pulses) {
    fs::remove_all(path);
    make(path, before, GetParam());
    write_all(path, model, before);
    int left = pulses;
    const auto pulse = [&] {
      if (left-- == 0) throw std::runtime_error("enough");
    };
    try {
      resize_array(*ring_, path, after, {.staging = staging, .pulse = pulse, .between_pulses = {}});
      returned = true;
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "enough");
    }
    const Shape shape = open_zarr_array(path).shape();
    ASSERT_TRUE(shape == after || shape == before);
    const Reference expected = shape == after ? resized(model, before, after, 0) : model;
    ASSERT_EQ(read_elements(open_zarr_array(path), whole(shape)), expected.data) << "after pulse " << pulses;
    resize_array(*ring_, path, then, {.staging = staging});
    const Reference grown = resized(expected, shape, then, 0);
    ASSERT_EQ(read_elements(open_zarr_array(path), whole(then)), grown.data) << "after pulse " << pulses;
    expect_sound(path);
  }
  EXPECT_TRUE(returned);
  EXPECT_GT(pulses, 5);
}

INSTANTIATE_TEST_SUITE_P(Checksums, Resize, ::testing::Values("sidecar", "inner"));

TEST(ResizeHandles, OldOnesAreToldInTime) {
  TemporaryDirectory directory;
  const std::string path = directory / "a";
  const Shape shape{50, 40};
  make(path, shape, "sidecar");
  const Reference model = random_elements(shape, 5);
  write_all(path, model, shape);
  const auto ring = make_ring({.kind = "threads"});
  const Array reader = open_zarr_array(path), writer = open_zarr_array(path, true);
  resize_array(*ring, path, {60, 60}, {.staging = staging});
  reader.store().look();
  EXPECT_EQ(read_elements(reader, whole(shape)), model.data);  // undisturbed
  Transaction late;
  EXPECT_THROW(late.add(writer), StorageError);  // it would write chunks at the old edge
  resize_array(*ring, path, {30, 60}, {.staging = staging});
  EXPECT_THROW(reader.store().look(), StorageError);
  EXPECT_THROW(resize_array(*ring, path, {30}, {.staging = staging}), ShapeError);
  EXPECT_THROW(resize_array(*ring, path, {30, -1}, {.staging = staging}), ShapeError);
  const Array holder = open_zarr_array(path, true);
  Transaction open;
  open.add(holder);
  EXPECT_THROW(resize_array(*ring, path, {30, 61}, {.staging = staging}), StorageError);  // one writer
}

}  // namespace
}  // namespace flagstone
