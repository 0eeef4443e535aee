#include "flagstone/storage/sparse/csr.hpp"

#include <gmock/gmock.h>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/sparse/panels.hpp"
#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/testing/csr_rows.hpp"
#include "flagstone/testing/temporary_directory.hpp"

namespace flagstone {
namespace {

using test::append_in_blocks;
using test::message_of;
using test::random_rows;
using test::Rows;
using ::testing::HasSubstr;

TEST(Csr, PanelsAreEqualRowsOfAFewMillionValues) {
  PanelChooser even;
  for (int i = 0; i < 400'000; ++i) even.add(280);
  EXPECT_EQ(even.panel_rows(), 4096);
  PanelChooser skewed;  // one huge row must not make all panels tiny
  for (int i = 0; i < 100'000; ++i) skewed.add(i == 5000 ? 5 << 20 : 300);
  EXPECT_EQ(skewed.panel_rows(), 4096);
  PanelChooser clustered;  // 2,000 long rows in a row: by the bound of 4 Mi
  for (int i = 0; i < 100'000; ++i) clustered.add(i < 2000 ? 20'000 : 10);
  EXPECT_EQ(clustered.panel_rows(), 128);
  PanelChooser wide;
  for (int i = 0; i < 10; ++i) wide.add(3 << 20);
  EXPECT_EQ(wide.panel_rows(), 1);
  PanelChooser empty;
  EXPECT_EQ(empty.panel_rows(), 65536);
  PanelChooser tail;  // the last, incomplete panel counts too
  for (int i = 0; i < 65536 + 1000; ++i) tail.add(i < 65536 ? 0 : 8000);
  EXPECT_EQ(tail.panel_rows(), 512);
}

TEST(Csr, PanelsCoverTheMatrix) {
  std::mt19937_64 random(13);
  TemporaryDirectory directory;
  const auto rows = random_rows<float>(70'000, 100, 3, true, random);
  CsrWriter writer(directory / "g", 100, Dtype::float32);
  append_in_blocks(writer, rows, 10'000);
  const CsrMatrix matrix = writer.finish();
  const auto panels = csr_panels(matrix);
  ASSERT_EQ(panels.size(), 2u);
  EXPECT_EQ(panels[0].row_end, 65536);
  EXPECT_EQ(panels[1].row, 65536);
  EXPECT_EQ(panels[1].row_end, 70'000);
  EXPECT_EQ(panels[1].first, rows.pointers[65536]);
  EXPECT_EQ(panels[1].last, matrix.nnz);
}

TEST(Csr, AnEmptyMatrixIsAMatrix) {
  TemporaryDirectory directory;
  CsrWriter writer(directory / "g", 7, Dtype::float32);
  const CsrMatrix matrix = writer.finish();
  EXPECT_EQ(matrix.rows, 0);
  EXPECT_EQ(matrix.nnz, 0);
  EXPECT_TRUE(csr_panels(matrix).empty());
  CsrWriter rows_only(directory / "h", 0, Dtype::float32);
  const Index pointers[] = {0, 0, 0};
  rows_only.append(2, pointers, static_cast<const Index*>(nullptr), nullptr);
  EXPECT_EQ(rows_only.finish().rows, 2);
}

TEST(Csr, WrongInputIsNamed) {
  TemporaryDirectory directory;
  int number = 0;
  const auto with = [&](const std::vector<std::vector<std::pair<Index, std::uint8_t>>>& rows) {
    CsrWriter writer(directory / std::to_string(number++), 10, Dtype::uint8);
    Rows<std::uint8_t> all;
    for (const auto& row : rows) all.add(row);
    return message_of([&] { append_in_blocks(writer, all, 100); });
  };
  EXPECT_THAT(with({{{1, 1}}, {{3, 1}, {10, 1}}}), HasSubstr("row 1 holds column 10; columns must be 0 to 9"));
  EXPECT_THAT(with({{{1, 1}}, {}, {{5, 1}, {-3, 1}}}), HasSubstr("row 2 holds column -3"));
  EXPECT_THAT(with({{{1, 200}, {1, 100}}}), HasSubstr("add up to more than uint8 holds"));
  CsrWriter writer(directory / "p", 10, Dtype::float32);
  const Index columns[] = {0, 1};
  const float values[] = {1, 1};
  const Index decreasing[] = {0, 2, 1}, late[] = {1, 2};
  EXPECT_THAT(message_of([&] { writer.append(2, decreasing, columns, values); }), HasSubstr("decrease at row 1"));
  EXPECT_THAT(message_of([&] { writer.append(1, late, columns, values); }), HasSubstr("start at 0"));
}

TEST(Csr, DamagedGroupsAreNamed) {
  TemporaryDirectory directory;
  const std::string path = directory / "g";
  CsrWriter writer(path, 5, Dtype::float32);
  Rows<float> rows;
  rows.add({{0, 1.f}, {2, 3.f}});
  append_in_blocks(writer, rows, 1);
  writer.finish();
  EXPECT_TRUE(is_csr_group(path));
  EXPECT_FALSE(is_csr_group(path + "/data"));
  const std::string attributes = read_text(path + "/zarr.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = attributes;
    for (std::size_t at = 0; (at = changed.find(from, at)) != std::string::npos; at += to.size())
      changed.replace(at, from.size(), to);
    write_text(path + "/zarr.json", changed);
    return message_of([&] { open_csr(path); });
  };
  EXPECT_EQ(with("zzz", ""), "no error");
  EXPECT_THAT(with("csr_matrix", "csc_matrix"), "no error");  // binsparse still says CSR
  std::string csc = with("CSR", "CSC");
  EXPECT_EQ(csc, "no error");
  write_group(path, R"({"encoding-type": "csc_matrix", "shape": [1, 5]})");
  EXPECT_THAT(message_of([&] { open_csr(path); }), HasSubstr("says 'csc_matrix'"));
  write_group(path, R"({"encoding-type": "csr_matrix", "shape": [1]})");
  EXPECT_THAT(message_of([&] { open_csr(path); }), HasSubstr("'shape'"));
  write_group(path, R"({"encoding-type": "csr_matrix", "shape": [2, 5]})");
  EXPECT_THAT(message_of([&] { open_csr(path); }), HasSubstr("indptr has 2 entries and 2 rows need one more"));
}

}  // namespace
}  // namespace flagstone
