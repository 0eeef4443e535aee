// Flat files at any offset, pitch, order and byte order, against a model of the whole file in memory: every byte of the
// file is compared after every write, so that a neighbour that changes is seen.
#include "flagstone/storage/formats/flat.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/ring/ring.hpp"
#include "flagstone/storage/ring/scripted_ring.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::message_of;
using test::random_box;
using test::read_elements;
using test::write_elements;
using ::testing::HasSubstr;

constexpr Dtype all_dtypes[] = {Dtype::boolean, Dtype::int8,    Dtype::int16,     Dtype::int32,     Dtype::int64,
                                Dtype::uint8,   Dtype::uint16,  Dtype::uint32,    Dtype::uint64,    Dtype::float16,
                                Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};

std::vector<std::byte> file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// The file in memory, and where each element of it is: written naively, one element after the other.
struct Model {
  RawLayout layout;
  std::vector<std::byte> bytes;

  std::size_t place(const Shape& at) const {
    std::size_t step = 1, place = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const std::size_t d = layout.column_major ? i : at.size() - 1 - i;
      place += static_cast<std::size_t>(at[d]) * step;
      step *= static_cast<std::size_t>(i == 0 && layout.leading ? layout.leading : layout.shape[d]);
    }
    return layout.offset + place * size_of(layout.dtype);
  }
  /// Calls f(byte offset in the file) for every element of a box, in C order.
  template <class F>
  void each(const Box& box, F&& f) const {
    Shape at(box.start.size(), 0);
    if (count(box.shape) == 0) return;
    do {
      Shape global = at;
      for (std::size_t d = 0; d < at.size(); ++d) global[d] += box.start[d];
      f(place(global));
    } while (advance(at, box.shape));
  }
  std::vector<std::byte> elements(const Box& box) const {
    std::vector<std::byte> out;
    const std::size_t item = size_of(layout.dtype);
    each(box, [&](std::size_t at) { out.insert(out.end(), &bytes[at], &bytes[at] + item); });
    if (layout.big_endian) swap_bytes(out.data(), out.size(), layout.dtype);
    return out;
  }
  void write(const Box& box, std::vector<std::byte> values) {
    if (layout.big_endian) swap_bytes(values.data(), values.size(), layout.dtype);
    const std::size_t item = size_of(layout.dtype);
    std::size_t from = 0;
    each(box, [&](std::size_t at) {
      std::copy_n(&values[from], item, &bytes[at]);
      from += item;
    });
  }
};

std::vector<std::byte> random_bytes(std::size_t n, std::mt19937_64& random) {
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// A random flat file with bytes of others before, between and behind the elements.
Model random_file(const std::string& path, std::mt19937_64& random) {
  const Shape shapes[] = {{3000},     {60, 1030}, {1030, 60}, {7, 5000},   {1, 900},  {900, 1},
                          {6, 5, 33}, {40, 1024}, {256, 16},  {3, 2, 700}, {128, 128}};
  const std::uint64_t offsets[] = {0, 1, 7, 8, 64, 128, 511, 512, 4090, 4096, 5000, random() % 9000};
  Model model;
  RawLayout& layout = model.layout;
  layout.shape = shapes[random() % std::size(shapes)];
  layout.dtype = all_dtypes[random() % std::size(all_dtypes)];
  layout.column_major = random() % 2;
  layout.big_endian = random() % 4 == 0;
  layout.offset = offsets[random() % std::size(offsets)];
  if (layout.shape.size() > 1 && random() % 3 > 0) {
    const Index pads[] = {0, 1, 3, 24, 1000};
    layout.leading = (layout.column_major ? layout.shape.front() : layout.shape.back()) + pads[random() % 5];
  }
  model.bytes = random_bytes(end_of(layout) + random() % 5000, random);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(model.bytes.data()), static_cast<std::streamsize>(model.bytes.size()));
  return model;
}

std::string to_string(const RawLayout& l) {
  return flagstone::to_string(l.shape) + " " + std::string(name_of(l.dtype)) + (l.column_major ? " F" : " C") +
         (l.big_endian ? " big" : "") + " offset " + std::to_string(l.offset) + " leading " + std::to_string(l.leading);
}

TEST(Raw, RandomBoxesOfRandomFilesMatchTheModelByteForByte) {
  std::mt19937_64 random(11);
  TemporaryDirectory directory;
  const std::string path = directory / "a.bin";
  for (int file = 0; file < 250; ++file) {
    Model model = random_file(path, random);
    SCOPED_TRACE(to_string(model.layout) + ", file " + std::to_string(file));
    const Array array = open_raw(path, model.layout, true);
    for (int i = 0; i < 6; ++i) {
      const Box box = random_box(model.layout.shape, random);
      EXPECT_EQ(read_elements(array, box), model.elements(box)) << flagstone::to_string(box.shape);
      const auto values =
          random_bytes(static_cast<std::size_t>(count(box.shape)) * size_of(model.layout.dtype), random);
      write_elements(array, box, values);
      model.write(box, values);
      ASSERT_TRUE(file_bytes(path) == model.bytes) << flagstone::to_string(box.shape);
    }
    EXPECT_EQ(read_elements(array, whole(model.layout.shape)), model.elements(whole(model.layout.shape)));
  }
}

// Columns of odd width: every sector of the file belongs to several boxes that are on their way together.
TEST(Raw, ConcurrentWritesThatShareSectorsAreByteExact) {
  std::mt19937_64 random(12);
  TemporaryDirectory directory;
  const std::string path = directory / "a.bin";
  for (const char* kind : {"auto", "threads"}) {
    Model model;
    model.layout = {.shape = {300, 700}, .dtype = Dtype::float32, .offset = 77, .leading = 719};
    model.bytes = random_bytes(end_of(model.layout) + 100, random);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(model.bytes.data()), static_cast<std::streamsize>(model.bytes.size()));
    const Array array = open_raw(path, model.layout, true);
    const auto ring = make_ring({.kind = kind});
    std::vector<Transfer> transfers;
    std::vector<Buffer> buffers;
    std::vector<Request> requests;
    for (Index column = 0; column < 700; column += 37) {
      const Box box{{0, column}, {300, std::min<Index>(37, 700 - column)}};
      const auto values = random_bytes(static_cast<std::size_t>(count(box.shape)) * 4, random);
      model.write(box, values);
      const Transfer& transfer = transfers.emplace_back(array.store().write(box));
      const Buffer& buffer = buffers.emplace_back(transfer.buffer_bytes);
      ASSERT_EQ(transfer.staging_bytes, 0u);
      copy({const_cast<std::byte*>(values.data()), Dtype::float32, box.shape, c_strides(box.shape, 4), 0},
           {buffer.data() + transfer.origin, Dtype::float32, box.shape, transfer.strides, 0});
      for (const Segment& segment : transfer.segments)
        requests.push_back({.write = true,
                            .fd = segment.direct ? segment.file->direct() : segment.file->buffered(),
                            .offset = segment.offset,
                            .memory = buffer.data() + segment.at,
                            .row_bytes = segment.row_bytes});
    }
    std::shuffle(requests.begin(), requests.end(), random);
    ring->submit(requests);
    Completion done[64];
    for (std::size_t landed = 0; landed < requests.size();) {
      const std::size_t n = ring->reap(done);
      for (std::size_t i = 0; i < n; ++i) EXPECT_GT(done[i].result, 0);
      landed += n;
    }
    EXPECT_TRUE(file_bytes(path) == model.bytes) << kind;
  }
}

TEST(Raw, WholeBoxesSurviveShortAndReorderedTransfersAndNameTheFileOfAFault) {
  std::mt19937_64 random(13);
  TemporaryDirectory directory;
  const std::string path = directory / "a.bin";
  for (int file = 0; file < 40; ++file) {
    Model model = random_file(path, random);
    SCOPED_TRACE(to_string(model.layout));
    const Array array = open_raw(path, model.layout, true);
    const auto ring = make_memory_ring({.faults = {{0, EINTR, 3}, {1, EAGAIN, 2}}, .step_bytes = 700, .reorder = true});
    const Box box = random_box(model.layout.shape, random);
    auto values = random_bytes(static_cast<std::size_t>(count(box.shape)) * size_of(model.layout.dtype), random);
    const Tile tile{values.data(), model.layout.dtype, box.shape, c_strides(box.shape, size_of(model.layout.dtype)), 0};
    write_box(*ring, array, box, tile, 1 << 20);
    model.write(box, values);
    ASSERT_TRUE(file_bytes(path) == model.bytes);
    std::fill(values.begin(), values.end(), std::byte{0});
    read_box(*ring, array, box, tile, 1 << 20);
    EXPECT_EQ(values, model.elements(box));
    const auto broken = make_memory_ring({.faults = {{0, EIO}}});
    try {
      write_box(*broken, array, box, tile, 1 << 20);
      ADD_FAILURE() << "no error";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.number, EIO);
      EXPECT_EQ(error.filename, path);
    }
  }
}

TEST(Raw, CreatedFilesAreZerosOfFullLength) {
  TemporaryDirectory directory;
  const RawLayout layout{.shape = {20, 30}, .dtype = Dtype::float64, .column_major = true, .offset = 24, .leading = 25};
  EXPECT_EQ(end_of(layout), 24 + (29 * 25 + 20) * 8u);
  const Array array = create_raw(directory / "a.bin", layout);
  EXPECT_EQ(file_bytes(directory / "a.bin"), std::vector<std::byte>(end_of(layout)));
  EXPECT_THROW(create_raw(directory / "a.bin", layout), StorageError);
  EXPECT_EQ(array.path(), directory / "a.bin");
}

TEST(Raw, WhatDoesNotConformIsSaidInOneSentence) {
  TemporaryDirectory directory;
  const std::string path = directory / "a.bin";
  std::ofstream(path) << std::string(1000, 'x');
  const auto format = [&](const RawLayout& layout) { return message_of<FormatError>([&] { open_raw(path, layout); }); };
  const auto shape = [&](const RawLayout& layout) { return message_of<ShapeError>([&] { open_raw(path, layout); }); };
  EXPECT_THAT(format({.shape = {11, 10}, .offset = 200}),
              HasSubstr("has 1000 bytes and 11 x 10 of float64 from offset 200 needs 1080"));
  EXPECT_THAT(format({.shape = {10, 10}, .dtype = Dtype::float32, .leading = 40}),
              HasSubstr("with leading 40 needs 1480"));
  EXPECT_THAT(shape({.shape = {10, 10}, .leading = 9}), HasSubstr("a row holds 10 elements"));
  EXPECT_THAT(shape({.shape = {10, 5}, .column_major = true, .leading = 9}), HasSubstr("a column holds 10 elements"));
  EXPECT_THAT(shape({.shape = {10}, .leading = 20}), HasSubstr("leave it out"));
  EXPECT_THAT(shape({.shape = {-1, 10}}), HasSubstr("must not be negative"));
  EXPECT_THAT(shape({.shape = {Index{1} << 40, Index{1} << 40}}), HasSubstr("2^63"));
  EXPECT_THAT(shape({.shape = {2, 2}, .leading = std::numeric_limits<Index>::max()}), HasSubstr("2^63"));
  EXPECT_THROW(open_raw(directory / "missing", {.shape = {1}}), StorageError);
  EXPECT_EQ(open_raw(path, {.shape = {0, 10}, .offset = 1000}).nbytes(), 0u);
  const Array read_only = open_raw(path, {.shape = {100}});
  EXPECT_THROW(read_only.store().write({{0}, {1}}), StorageError);
}

}  // namespace
}  // namespace flagstone
