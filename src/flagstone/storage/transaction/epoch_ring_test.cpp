#include "flagstone/storage/transaction/epoch_ring.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/dying_process.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using test::read_elements;
using test::Reference;
using test::write_elements;

const Shape shape{96, 64};

std::vector<std::byte> filled(std::uint64_t seed) {
  Reference reference(shape, Dtype::float32);
  std::mt19937_64 random(seed);
  if (seed > 0) reference.randomize(random);
  return reference.data;
}

void make(const std::string& path, int slots = 2) {
  const ZarrOptions options{.chunks = {32, 32}};
  Epochs::create(path, {{"x", shape, Dtype::float32, options}, {"r", shape, Dtype::float32, options}}, slots, false);
}

void step(Epochs& ring) {
  const std::uint64_t e = ring.epoch() + 1;
  write_elements(ring.next(0), whole(shape), filled(e));
  write_elements(ring.next(1), whole(shape), filled(100 + e));
  ring.commit("{\"rho\": " + std::to_string(e) + "}");
}

/// -1 where the state is not that of the epoch it says.
std::int64_t state_of(const std::string& path) {
  Epochs ring(path, false);
  const auto e = ring.epoch();
  const bool right = read_elements(ring.current(0), whole(shape)) == filled(e) &&
                     read_elements(ring.current(1), whole(shape)) == filled(e == 0 ? 0 : 100 + e) &&
                     ring.values() == (e == 0 ? "{}" : "{\"rho\":" + std::to_string(e) + "}");
  return right ? static_cast<std::int64_t>(e) : -1;
}

TEST(Epochs, WholeNumbersBeyond64BitsAreRefused) {
  TemporaryDirectory directory;
  Epochs::create(directory / "ring", {{"x", {4}, Dtype::float32, {}}}, 2, false);
  Epochs ring(directory / "ring", true);
  for (const char* text : {"18446744073709551616", "-9223372036854775809", "1000000000000000000000"})
    EXPECT_THROW(ring.commit("{\"n\": [" + std::string(text) + "]}"), FormatError) << text;
  EXPECT_THROW(ring.commit("{"), FormatError);
  EXPECT_EQ(ring.epoch(), 0);
  ring.commit("{\"most\": 18446744073709551615, \"least\": -9223372036854775808, \"x\": 1e30}");
  EXPECT_EQ(ring.values(), "{\"least\":-9223372036854775808,\"most\":18446744073709551615,\"x\":1e+30}");
}

TEST(Epochs, RolesTurnAndTheLastCommitStays) {
  for (const int slots : {2, 3}) {
    TemporaryDirectory directory;
    const std::string path = directory / "g";
    make(path, slots);
    EXPECT_EQ(state_of(path), 0);
    {
      Epochs ring(path, true);
      for (int i = 0; i < 5; ++i) {
        step(ring);
        EXPECT_EQ(state_of(path), i + 1);
        EXPECT_EQ(read_elements(ring.current(), whole(shape)), filled(static_cast<std::uint64_t>(i) + 1));
      }
      write_elements(ring.next(), {{0, 0}, {32, 32}}, read_elements(ring.current(), {{0, 0}, {32, 32}}));
      EXPECT_EQ(state_of(path), 5);
    }
    EXPECT_EQ(state_of(path), 5);
    Epochs again(path, true);
    step(again);
    EXPECT_EQ(state_of(path), 6);
    EXPECT_EQ(committed(path + "/0/x"), std::nullopt);
  }
}

TEST(Epochs, AWriterThatDiesAnywhereLeavesTheLastEpoch) {
  TemporaryDirectory directory;
  const std::string path = directory / "g";
  make(path);
  std::int64_t at = 0;
  for (int dies = 0; dies < 400; ++dies) {
    const bool returned = test::returns_before_step(dies, [&] {
      Epochs ring(path, true);
      step(ring);
    });
    const std::int64_t now = state_of(path);
    ASSERT_TRUE(now == at || now == at + 1) << now << " after " << at << ", step " << dies;
    if (returned) {
      ASSERT_EQ(now, at + 1) << "lost after a returned commit";
      EXPECT_GT(dies, 15);
      return;
    }
    at = now;
  }
  FAIL() << "a commit has more steps than were tried";
}

TEST(Epochs, WhoReadsWhatIsOverwrittenHearsSo) {
  TemporaryDirectory directory;
  const std::string path = directory / "g";
  make(path);
  Epochs ring(path, true);
  step(ring);
  Epochs reader(path, false);
  const Array seen = reader.current();
  EXPECT_EQ(read_elements(seen, whole(shape)), filled(1));
  step(ring);
  EXPECT_EQ(read_elements(seen, whole(shape)), filled(1));  // nobody writes there yet
  write_elements(ring.next(), {{0, 0}, {32, 32}}, filled(3));
  for (int again = 0; again < 2; ++again) EXPECT_THROW(seen.store().look(), StorageError);
  EXPECT_THROW(read_elements(open_zarr_array(path + "/1/x"), whole(shape)), StorageError);
  reader.refresh();
  EXPECT_EQ(reader.epoch(), 2u);
  EXPECT_EQ(read_elements(reader.current(), whole(shape)), filled(2));
  step(ring);
  for (int again = 0; again < 2; ++again) {
    try {
      read_elements(seen, whole(shape));
      FAIL() << "a later epoch, of which this handle is not";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.number, ESTALE);
    }
  }
  reader.refresh();
  EXPECT_EQ(read_elements(reader.current(), whole(shape)), filled(3));
}

TEST(Epochs, AReaderHoldsTheEpochItSays) {
  TemporaryDirectory directory;
  const std::string path = directory / "g";
  make(path);
  Epochs ring(path, true);
  for (int k = 2; k < 9; k += 2) {
    Epochs reader(path, false);
    step(ring);
    step(ring);  // into the slot that was the current one
    const auto x = read_elements(reader.current(0), whole(shape)), r = read_elements(reader.current(1), whole(shape));
    ASSERT_EQ(reader.epoch(), static_cast<std::uint64_t>(k));
    EXPECT_EQ(x, filled(reader.epoch()));
    EXPECT_EQ(r, filled(100 + reader.epoch()));
  }
}

TEST(Epochs, AReplacedRingIsNotWritten) {
  TemporaryDirectory directory;
  const std::string path = directory / "g";
  make(path);
  Epochs ring(path, true), reader(path, false);
  step(ring);
  const EpochField field{"y", shape, Dtype::float32, {}};
  try {
    Epochs::create(path, {field}, 50, true);
    FAIL() << "somebody writes it";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.number, EBUSY);
  }
  step(ring);
  fs::rename(path, path + ".aside");
  Epochs::create(path, {field}, 12, true);
  const std::string text = read_text(path + "/zarr.json");
  for (const auto& use : std::vector<std::function<void()>>{[&] { ring.commit(); }, [&] { ring.next(); },
                                                            [&] { reader.refresh(); }, [&] { reader.current(); }}) {
    try {
      use();
      FAIL() << "it is another ring";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.number, ESTALE) << error.what();
    }
  }
  EXPECT_EQ(read_text(path + "/zarr.json"), text);
}

TEST(Epochs, ABitThatFlippedInTheRecordIsNoticed) {
  TemporaryDirectory directory;
  const std::string path = directory / "g", file = path + "/zarr.json";
  make(path);
  {
    Epochs ring(path, true);
    step(ring);
  }
  const std::string text = read_text(file);
  const std::size_t begin = text.find("\"epochs\""), end = text.find("\"node_type\"");
  ASSERT_LT(begin, end);
  int noticed = 0;
  for (std::size_t byte = begin; byte < end; ++byte) {
    if (std::isspace(static_cast<unsigned char>(text[byte]))) continue;
    std::string flipped = text;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 1);
    write_text(file, flipped);
    try {
      Epochs ring(path, false);
      EXPECT_EQ(ring.epoch(), 1u) << flipped;  // what was flipped does not count: a bracket's neighbour, a comma
    } catch (const FormatError&) {
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 60);
}

TEST(Epochs, CommittedEpochsAndForeignWritersAreRefused) {
  TemporaryDirectory directory;
  const std::string path = directory / "g";
  make(path);
  Epochs ring(path, true);
  step(ring);
  EXPECT_THROW(write_elements(ring.current(), whole(shape), filled(9)), StorageError);
  try {
    Epochs second(path, true);
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.number, EBUSY);
  }
  Transaction transaction;
  EXPECT_THROW(transaction.add(open_zarr_array(path + "/1/x", true)), StorageError);
  EXPECT_FALSE(transaction.add(ring.next()));
  EXPECT_THROW(Epochs(path, false).next(), StorageError);
  write_group(directory / "plain", "{}");
  EXPECT_THROW(Epochs(directory / "plain", false), FormatError);
  const EpochField field{"x", shape, Dtype::float32, {}};
  for (const auto& [fields, slots] : {std::pair{std::vector{field}, 1}, std::pair{std::vector{field, field}, 2},
                                      std::pair{std::vector<EpochField>{}, 2}})
    EXPECT_THROW(Epochs::create(directory / "bad", fields, slots, false), ShapeError);
}

}  // namespace
}  // namespace flagstone
