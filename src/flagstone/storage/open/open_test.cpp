// Every format that is read here through one name; every other one by a sentence that says what it is and what to do.
#include "flagstone/storage/open/open.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/formats/npy.hpp"
#include "flagstone/storage/zarr/metadata/group.hpp"
#include "flagstone/storage/zarr/zarr.hpp"
#include "flagstone/testing/array_io.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

class OpenTest : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::ofstream(at(name), std::ios::binary) << bytes;
  }
  /// 6 x 4 of int32, all twos.
  std::string array(const std::string& name) const {
    const Array made = create_zarr_array(at(name), {6, 4}, Dtype::int32, {.chunks = {3, 2}});
    for (Index i : {0, 3})
      for (Index j : {0, 2}) test::write_elements(made, {{i, j}, {3, 2}}, test::twos({3, 2}, Dtype::int32));
    made.store().flush();
    return at(name);
  }
  std::string matrix(const std::string& name) const {
    CsrWriter writer(at(name), 5, Dtype::float32);
    const Index pointers[] = {0, 2, 2, 3}, columns[] = {1, 4, 0};
    const float values[] = {1, 2, 3};
    writer.append(3, pointers, columns, values);
    writer.finish();
    return at(name);
  }
  static void expect_array(const Array& found) {
    EXPECT_EQ(found.shape(), (Shape{6, 4}));
    EXPECT_EQ(test::read_elements(found, whole({6, 4})), test::twos({6, 4}, Dtype::int32));
  }

  TemporaryDirectory folder_;
};

TEST_F(OpenTest, ArraysOfBothVersionsAndNpy) {
  expect_array(open(array("a.zarr")));
  write("b.zarr/.zarray",
        R"({"zarr_format": 2, "shape": [6, 4], "chunks": [6, 4], "dtype": "<i4", "compressor": null,
            "fill_value": 0, "order": "C", "filters": null})");
  const auto twos = test::twos({6, 4}, Dtype::int32);
  write("b.zarr/0.0", std::string(reinterpret_cast<const char*>(twos.data()), twos.size()));
  expect_array(open(at("b.zarr")));
  test::write_elements(create_npy(at("c.npy"), {6, 4}, Dtype::int32), whole({6, 4}), twos);
  expect_array(open(at("c.npy")));
  fs::rename(at("c.npy"), at("c.dat"));  // the first bytes say what it is
  expect_array(open(at("c.dat")));
}

TEST_F(OpenTest, WritableAndVerified) {
  const Array a = open(array("a.zarr"), {.writable = true});
  test::write_elements(a, {{0, 0}, {3, 2}}, std::vector<std::byte>(24, std::byte{3}));
  a.store().flush();
  EXPECT_EQ(test::read_elements(open(at("a.zarr"), {.verify = true}), {{0, 0}, {1, 1}}),
            std::vector<std::byte>(4, std::byte{3}));
  create_npy(at("c.npy"), {2}, Dtype::float64);
  EXPECT_THAT(message_of([&] { open(at("c.npy"), {.verify = true}); }), HasSubstr("no checksums of chunks"));
}

TEST_F(OpenTest, MembersOfGroups) {
  write_group(at("g.zarr"), "{}");
  expect_array(open((array("g.zarr/only"), at("g.zarr"))));  // the only one
  array("g.zarr/layers/counts");
  write_group(at("g.zarr/layers"), "{}");
  expect_array(open(at("g.zarr"), {.member = "layers/counts"}));
  expect_array(open(at("g.zarr"), {.member = "layers"}));
  EXPECT_THAT(message_of([&] { open(at("g.zarr")); }),
              HasSubstr("is a group that holds only, layers/; name one of them (OpenOptions::member)."));
  for (const std::string away : {"other", "../g.zarr", ".", "/"})
    EXPECT_THAT(message_of<StorageError>([&] { open(at("g.zarr"), {.member = away}); }),
                AllOf(HasSubstr("that holds only, layers/, and has no member '" + away + "'")))
        << away;
}

TEST_F(OpenTest, AnnDataIsItsX) {
  write_group(at("cells.zarr"), R"({"encoding-type": "anndata"})");
  EXPECT_THAT(message_of([&] { open(at("cells.zarr")); }),
              HasSubstr("has no X; it is an AnnData group that holds nothing"));
  array("cells.zarr/other");
  fs::create_symlink("X", at("cells.zarr/X"));  // to itself
  EXPECT_THAT(message_of([&] { open(at("cells.zarr")); }), HasSubstr("has no X; it is an AnnData group"));
  fs::remove(at("cells.zarr/X"));
  matrix("cells.zarr/X");
  EXPECT_EQ(open_sparse(at("cells.zarr")).nnz, 3);
  expect_array(open(at("cells.zarr"), {.member = "other"}));
}

TEST_F(OpenTest, SparseAndDenseByTheirOwnNames) {
  const CsrMatrix found = open_sparse(matrix("m.zarr"));
  EXPECT_EQ(found.rows, 3);
  EXPECT_EQ(found.cols, 5);
  EXPECT_TRUE(std::holds_alternative<CsrMatrix>(open_any(at("m.zarr"))));
  EXPECT_TRUE(std::holds_alternative<Array>(open_any(array("a.zarr"))));
  EXPECT_THAT(message_of([&] { open(at("m.zarr")); }), HasSubstr("is a sparse matrix; open it with open_sparse."));
  EXPECT_THAT(message_of([&] { open_sparse(at("a.zarr")); }), HasSubstr("is a dense array; open it with open."));
  EXPECT_THAT(message_of([&] { open_sparse(at("m.zarr"), {.writable = true}); }), HasSubstr("not changed in place"));
  write_group(at("csc.zarr"), R"({"encoding-type": "csc_matrix", "shape": [3, 5]})");
  EXPECT_THAT(message_of([&] { open_sparse(at("csc.zarr")); }),
              AllOf(HasSubstr("columns (CSC)"), HasSubstr("flagstone convert " + at("csc.zarr") + " OUT.zarr")));
}

TEST_F(OpenTest, FormatsOfPythonAloneAreNamedWithTheWayOut) {
  const std::string hdf5("\x89HDF\r\n\x1a\n", 8);
  const struct {
    std::string name, bytes, what;
  } files[] = {{"x.npz", "PK\x03\x04 and so on", "an .npz archive"},
               {"x.zip", "PK\x03\x04 and so on", "a zip archive"},
               {"x.h5ad", hdf5 + "...", "an HDF5 file"},
               {"behind.h5", std::string(2048, ' ') + hdf5, "an HDF5 file"},
               {"x.nc", std::string("CDF\x01") + "....", "a NetCDF file"},
               {"x.parquet", "PAR1....", "a Parquet file"},
               {"x.arrow", "ARROW1\0\0", "an Arrow file"},
               {"x.mtx", "%%MatrixMarket matrix", "a MatrixMarket file"},
               {"banner", "%%matrixmarket MATRIX", "a MatrixMarket file"},
               {"x.mtx.gz", "\x1f\x8b\x08", "a MatrixMarket file"},
               {"x.svm", "1 2:3\n", "an SVMlight file"},
               {"x.csv", "a,b\n1,2\n", "a CSV file"},
               {"y.csv", "5\n3\n2\n1 3 5\n", "a CSV file"},
               {"words", "5\n3\n2\n1 3 5\n2 1 1\n", "a UCI docword file"},
               {"docword.a.txt", "5\n3\n0\n", "a UCI docword file"},
               {"docword.b.txt.gz", "\x1f\x8b\x08", "a UCI docword file"},
               {"x.tsv.gz", "\x1f\x8b\x08", "a CSV file"},
               {"x.txt.gz", "\x1f\x8b\x08", "an SVMlight file"}};
  for (const auto& [name, bytes, what] : files) {
    write(name, bytes);
    EXPECT_EQ(message_of([&, file = name] { open(at(file)); }),
              "open: '" + at(name) + "' is " + what +
                  ", which only the Python package reads; convert it first: "
                  "flagstone convert " +
                  at(name) + " OUT.zarr");
  }
}

TEST_F(OpenTest, WhatNobodyReads) {
  write("x.bin", std::string(800, '\1'));
  EXPECT_THAT(message_of([&] { open(at("x.bin")); }),
              AllOf(HasSubstr("'" + at("x.bin") + "' is no format that is read here"), HasSubstr("open_raw")));
  write("x.dat", "1,2\n");
  EXPECT_THAT(message_of([&] { open(at("x.dat")); }), HasSubstr("is no format that is read here"));
  write("sizes.txt", "5\n3\n0\n");
  EXPECT_THAT(message_of([&] { open(at("sizes.txt")); }), HasSubstr("is no format that is read here"));
  write("empty.npy", "");
  EXPECT_THAT(message_of([&] { open(at("empty.npy")); }), HasSubstr("is empty"));
  fs::create_directories(at("folder"));
  EXPECT_THAT(message_of([&] { open(at("folder")); }), HasSubstr("is a directory without zarr.json"));
  try {
    open(at("nothing"));
    FAIL() << "opened";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.number, ENOENT);
  }
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { open(at("pipe")); }), HasSubstr("is a pipe, a socket or a device"));  // does not wait
  EXPECT_THAT(message_of([&] { open("/dev/null"); }), HasSubstr("is a pipe, a socket or a device"));
}

TEST_F(OpenTest, DamageIsNamed) {
  array("a.zarr");
  write("a.zarr/zarr.json", "{");
  EXPECT_THAT(message_of([&] { open(at("a.zarr")); }), HasSubstr("a.zarr/zarr.json"));
  write_group(at("g.zarr"), "{}");
  array("g.zarr/good");
  write("g.zarr/bad/zarr.json", "{");
  EXPECT_THAT(message_of([&] { open(at("g.zarr")); }), HasSubstr("g.zarr/bad/zarr.json"));  // not the only other one
}

TEST_F(OpenTest, LongMetadataAskForRoomBeforeTheyAreParsed) {
  const std::string place = array("a");
  std::ifstream in(place + "/zarr.json");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  std::string numbers = "\"attributes\": {\"x\": [1";
  while (numbers.size() < MiB) numbers += ", 2";
  write("a/zarr.json", "{" + numbers + "]}," + text.substr(text.find('{') + 1));
  std::uint64_t least = 0;
  try {
    open(place, {.memory = resident_bytes() + 8 * MiB});
  } catch (const BudgetError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("zarr.json"), HasSubstr("OpenOptions::memory")));
    least = error.least;
  }
  EXPECT_GT(least, resident_bytes() + 24 * MiB);  // 8 x 1 MiB of text and 80 bytes for each of 350,000 commas
  EXPECT_THROW(open(at(""), {.member = "a", .memory = least / 2}), Error);
  try {
    open(place, {.memory = least + 8 * MiB});
  } catch (const BudgetError&) {
    ADD_FAILURE() << "the limit that was named is refused";
  } catch (const Error&) {  // its text is not what was written: any other complaint
  }
}

}  // namespace
}  // namespace flagstone
