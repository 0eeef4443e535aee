// CSR groups: opening, writing by row blocks, and what ingest recorded.
#include "flagstone/storage/sparse/csr.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/storage/zarr/store/encoded_chunks.hpp"

namespace flagstone::python {
namespace {

using Vector = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void append(CsrWriter& writer, const Vector& pointers, const Vector& columns, const Vector& values) {
  const auto rows = static_cast<Index>(pointers.shape(0)) - 1;
  const auto* first = static_cast<const Index*>(pointers.data());
  const bool narrow = columns.itemsize() == 4;
  const void* indices = columns.data();
  const void* data = values.data();
  nb::gil_scoped_release unlocked;
  if (narrow)
    writer.append(rows, first, static_cast<const std::int32_t*>(indices), data);
  else
    writer.append(rows, first, static_cast<const Index*>(indices), data);
}

/// The words of a layout, in any order: "bitpacked pattern triangle"; of "csr" none.
CsrLayout layout_named(const std::string& text) {
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  return {.bitpacked = has("bitpacked"), .pattern = has("pattern"), .triangle = has("triangle")};
}

}  // namespace

void bind_csr(nb::module_& m) {
  using unlocked = nb::call_guard<nb::gil_scoped_release>;

  nb::class_<CsrStatistics>(m, "CsrStatistics")
      .def_ro("sum_row_nnz_squared", &CsrStatistics::sum_row_nnz_squared)
      .def_ro("sum_squares", &CsrStatistics::sum_squares)
      .def_ro("bad_row", &CsrStatistics::bad_row)
      .def_ro("bad_column", &CsrStatistics::bad_column)
      .def_ro("column_sums", &CsrStatistics::column_sums)
      .def_ro("column_squares", &CsrStatistics::column_squares);

  nb::class_<CsrMatrix>(m, "CsrMatrix")
      .def_ro("rows", &CsrMatrix::rows)
      .def_ro("cols", &CsrMatrix::cols)
      .def_ro("nnz", &CsrMatrix::nnz)
      .def_ro("data", &CsrMatrix::data)
      .def_prop_ro("value_dtype", [](const CsrMatrix& matrix) { return std::string(name_of(matrix.value_dtype())); })
      .def_ro("indices", &CsrMatrix::indices)
      .def_ro("indptr", &CsrMatrix::indptr)
      .def_ro("triangle", &CsrMatrix::triangle)
      .def_ro("path", &CsrMatrix::path)
      .def_ro("stored_bytes", &CsrMatrix::stored_bytes);
  m.def("is_csr_group", &is_csr_group);
  m.def("open_csr", &open_csr, unlocked());
  m.def(
      "csr_of",
      [](Index rows, Index cols, const Array& data, const Array& indices, const Array& indptr,
         const std::string& path) {
        return csr_of({.rows = rows, .cols = cols, .data = data, .indices = indices, .indptr = indptr, .path = path});
      },
      unlocked());
  m.def("csr_bitpacked", [](const CsrMatrix& matrix) { return is_bitpacked(matrix.indices); });
  m.def("csr_is_pattern", [](const CsrMatrix& matrix) {  // what is not stored is no zero
    const std::vector<std::byte> element = element_of_absent_chunks(matrix.data);
    return matrix.nnz > 0 && matrix.data.store().pass_bytes() == 0 &&
           std::any_of(element.begin(), element.end(), [](std::byte b) { return b != std::byte{}; });
  });
  m.def("csr_statistics", &csr_statistics, unlocked());

  // The caller checks dtypes: int64 pointers; int32 or int64 columns; values of value_dtype.
  m.attr("most_counted_columns") = most_counted_columns;
  nb::class_<CsrWriter>(m, "CsrWriter")
      .def("__init__",
           [](CsrWriter* self, const std::string& directory, Index cols, const std::string& value_dtype, bool narrow,
              const std::string& layout) {
             new (self) CsrWriter(directory, cols, dtype_from_name(value_dtype), narrow, layout_named(layout));
           })
      .def_static("memory_bytes",
                  [](Index cols, const std::string& value_dtype) {
                    return CsrWriter::memory_bytes(cols, dtype_from_name(value_dtype));
                  })
      .def_static(
          "resumed",
          [](const std::string& directory, Index cols, const std::string& value_dtype, const nb::bytes& state,
             const std::string& layout) {
            const auto* first = static_cast<const std::byte*>(state.data());
            return std::make_unique<CsrWriter>(directory, cols, dtype_from_name(value_dtype),
                                               std::span(first, state.size()), layout_named(layout));
          },
          nb::arg("directory"), nb::arg("cols"), nb::arg("value_dtype"), nb::arg("state"), nb::arg("layout"))
      .def("append", &append)
      .def("state",
           [](CsrWriter& writer) {
             std::vector<std::byte> bytes;
             {
               nb::gil_scoped_release unlocked;
               bytes = writer.state();
             }
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def_prop_ro("rows", &CsrWriter::rows)
      .def("finish", &CsrWriter::finish, unlocked());

  nb::class_<sparse::CsrOperand>(m, "CsrOperand")
      .def_ro("matrix", &sparse::CsrOperand::matrix)
      .def_prop_ro("read_values",
                   [](const sparse::CsrOperand& a) {
                     return std::accumulate(a.panels.begin(), a.panels.end(), Index{0},
                                            [](Index sum, const CsrPanelRange& p) { return sum + p.last - p.first; });
                   })
      .def_prop_ro("panel_rows", &sparse::CsrOperand::panel_rows);
  m.def(
      "prepare_csr", [](const CsrMatrix& matrix) { return sparse::prepare(matrix); }, unlocked());
}

}  // namespace flagstone::python
