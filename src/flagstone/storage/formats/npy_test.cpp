#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::message_of;
using test::random_box;
using test::read_elements;
using test::Reference;
using test::write_elements;
using ::testing::HasSubstr;

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A .npy as some program wrote it: any header length, order and endianness.
struct Foreign {
  std::string description;
  bool fortran = false;
  std::size_t header = 118;  // bytes after the length field of version 1: the data starts at 128
  int version = 1;
};

std::string bytes_of(const Foreign& kind, const Reference& reference) {
  std::string extents;
  for (Index extent : reference.shape) extents += std::to_string(extent) + ",";
  std::string literal = "{'descr': '" + kind.description + "', 'fortran_order': " + (kind.fortran ? "True" : "False") +
                        ", 'shape': (" + extents + "), }";
  literal.resize(std::max(kind.header, literal.size() + 1), ' ');
  literal.back() = '\n';
  std::string text = "\x93NUMPY";
  text += static_cast<char>(kind.version);
  text += '\0';
  for (int byte = 0; byte < (kind.version == 1 ? 2 : 4); ++byte)
    text += static_cast<char>(literal.size() >> (8 * byte) & 0xFF);
  text += literal;
  const std::size_t item = size_of(reference.dtype);
  std::vector<std::byte> data(reference.data.size());
  Shape reversed(reference.shape.rbegin(), reference.shape.rend());
  Shape strides = c_strides(kind.fortran ? reversed : reference.shape, item);
  if (kind.fortran) std::reverse(strides.begin(), strides.end());
  copy({const_cast<std::byte*>(reference.data.data()), reference.dtype, reference.shape,
        c_strides(reference.shape, item), 0},
       {data.data(), reference.dtype, reference.shape, strides, 0});
  if (kind.description[0] == '>') swap_bytes(data.data(), data.size(), reference.dtype);
  return text + std::string(reinterpret_cast<char*>(data.data()), data.size());
}

struct Case {
  Shape shape;
  Dtype dtype;
  Foreign kind;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Shape& shape : {Shape{}, Shape{1000}, Shape{0, 3}, Shape{37, 53}, Shape{64, 1024}, Shape{300, 128},
                             Shape{1024, 64}, Shape{5, 128, 6}, Shape{6, 7, 128}, Shape{1, 4000}})
    for (const bool fortran : {false, true})
      for (const std::size_t header : {std::size_t{118}, std::size_t{4086}, std::size_t{99}, std::size_t{1000}}) {
        all.push_back({shape, Dtype::float32, {"<f4", fortran, header, header == 1000 ? 2 : 1}});
        all.push_back({shape, Dtype::complex128, {header == 99 ? ">c16" : "<c16", fortran, header, 1}});
        all.push_back({shape, Dtype::int16, {">i2", fortran, header, 3}});
        all.push_back({shape, Dtype::uint8, {"|u1", fortran, header, 1}});
      }
  return all;
}

TEST(Npy, RandomBoxesOfEveryKindMatchAnArrayInMemory) {
  std::mt19937_64 random(4);
  TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  for (const Case& c : cases()) {
    SCOPED_TRACE(to_string(c.shape) + " " + c.kind.description + (c.kind.fortran ? " fortran " : " c ") +
                 std::to_string(c.kind.header));
    Reference reference(c.shape, c.dtype);
    reference.randomize(random);
    write_file(path, bytes_of(c.kind, reference));
    const Array array = open_npy(path);
    EXPECT_EQ(array.shape(), c.shape);
    EXPECT_EQ(array.dtype(), c.dtype);
    EXPECT_EQ(read_elements(array, whole(c.shape)), reference.data);
    for (int i = 0; i < 12; ++i) {
      const Box box = random_box(c.shape, random);
      EXPECT_EQ(read_elements(array, box), reference.elements(box)) << to_string(box.shape);
    }
  }
}

TEST(Npy, WritesChangeOnlyTheirBox) {
  std::mt19937_64 random(5);
  TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  for (const Case& c : cases()) {
    SCOPED_TRACE(to_string(c.shape) + " " + c.kind.description + (c.kind.fortran ? " fortran " : " c ") +
                 std::to_string(c.kind.header));
    Reference reference(c.shape, c.dtype), source(c.shape, c.dtype);
    reference.randomize(random);
    write_file(path, bytes_of(c.kind, reference));
    const auto size = std::filesystem::file_size(path);
    Array array = open_npy(path, true);
    for (int i = 0; i < 6; ++i) {
      source.randomize(random);
      const Box box = random_box(c.shape, random);
      write_elements(array, box, source.elements(box));
      copy(source.tile(box), reference.tile(box));
    }
    array.store().flush();
    EXPECT_EQ(read_elements(open_npy(path), whole(c.shape)), reference.data);
    EXPECT_EQ(std::filesystem::file_size(path), size);
  }
}

TEST(Npy, CreatedFilesStartAtAPageAndKeepWhatIsWritten) {
  std::mt19937_64 random(6);
  TemporaryDirectory directory;
  int number = 0;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{100, 1024}, Shape{3, 4, 5}}) {
    const std::string path = directory / (std::to_string(number++) + ".npy");
    Reference reference(shape, Dtype::float64);
    reference.randomize(random);
    Array array = create_npy(path, shape, Dtype::float64);
    EXPECT_EQ(std::filesystem::file_size(path), 4096 + array.nbytes());
    write_elements(array, whole(shape), reference.data);
    array.store().flush();
    EXPECT_EQ(read_elements(open_npy(path), whole(shape)), reference.data);
    EXPECT_THROW(create_npy(path, shape, Dtype::float64), StorageError);
  }
}

TEST(Npy, WholeRowsTravelInOneDirectRequestWithoutACopy) {
  TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  Reference reference({1000, 300}, Dtype::float32);
  write_file(path, bytes_of({"<f4"}, reference));
  const Array array = open_npy(path);
  const Transfer rows = array.store().read({{100, 0}, {50, 300}});
  ASSERT_EQ(rows.segments.size(), 1u);
  EXPECT_TRUE(rows.segments[0].direct);
  EXPECT_FALSE(rows.convert);
  EXPECT_LE(rows.bytes(), 50 * 1200 + 1024u);
  EXPECT_EQ(rows.strides, (Shape{1200, 4}));
  EXPECT_EQ(array.store().run_bytes({50, 300}), 50 * 1200u);
  EXPECT_EQ(array.store().run_bytes({50, 100}), 400u);
}

TEST(Npy, TilesOfAlignedRowsArePaddedNotCopied) {
  TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  Reference reference({256, 8192}, Dtype::float32);
  write_file(path, bytes_of({"<f4"}, reference));
  const Transfer tile = open_npy(path).store().read({{0, 1024}, {256, 1024}});
  EXPECT_EQ(tile.segments.size(), 256u);
  EXPECT_FALSE(tile.convert);
  EXPECT_LE(tile.bytes(), 256 * (4096 + 4096u));
  EXPECT_GE(tile.strides[0], 4096);
}

TEST(Npy, DamagedFilesAreNamed) {
  TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  const std::string good = bytes_of({"<f4"}, Reference({100, 100}, Dtype::float32));
  const auto with = [&](const std::string& text) {
    write_file(path, text);
    return message_of([&] { open_npy(path); });
  };
  EXPECT_THROW(open_npy(directory / "missing.npy"), StorageError);
  EXPECT_EQ(with(good), "no error");
  EXPECT_THAT(with(""), HasSubstr("empty"));
  EXPECT_THAT(with("garbage that is no array"), HasSubstr("does not begin"));
  EXPECT_THAT(with(good.substr(0, 5000)),
              HasSubstr("truncated: the header says 40000 bytes of data, the file has 4872"));
  EXPECT_THAT(with(good.substr(0, 60)), HasSubstr("does not fit the file"));
  std::string changed = good;
  changed.replace(changed.find("<f4"), 3, "|O8");
  EXPECT_THAT(with(changed), HasSubstr("'|O8' is not supported"));
  changed = good;
  changed.replace(changed.find("100"), 3, "-10");
  EXPECT_THAT(with(changed), HasSubstr("not what NumPy writes"));
}

TEST(Npy, NoHeaderCrashes) {
  std::mt19937_64 random(7);
  TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  for (int i = 0; i < 400; ++i) {
    Foreign kind{i % 3 ? "<f4" : "|u1", i % 2 == 0, 118, 1 + i % 3};
    std::string text = bytes_of(kind, Reference({10, 12}, i % 3 ? Dtype::float32 : Dtype::uint8));
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
      text[random() % 130] = static_cast<char>(random() % 3 ? random() % 128 : random());
    if (random() % 4 == 0) text.resize(random() % text.size());
    write_file(path, text);
    try {
      const Array array = open_npy(path);
      if (array.nbytes() < 1'000'000) read_elements(array, whole(array.shape()));
    } catch (const FormatError&) {
    }
  }
}

}  // namespace
}  // namespace flagstone
