// Numbers out of text, into NumPy arrays that the caller made.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <stdexcept>

#include "bindings/core/bindings.hpp"
#include "flagstone/storage/formats/matrixmarket.hpp"
#include "flagstone/storage/formats/svmlight.hpp"

namespace flagstone::python {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<Index, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Reals = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;  // int64, float64 or complex128

TextField field_named(const std::string& name) {
  if (name == "pattern") return TextField::pattern;
  if (name == "integer") return TextField::integer;
  return name == "complex" ? TextField::complex : TextField::real;
}

const char* text_of(const Bytes& bytes) { return reinterpret_cast<const char*>(bytes.data()); }

}  // namespace

void bind_text(nb::module_& m) {
  nb::class_<ParsedText>(m, "ParsedText")
      .def_ro("bytes", &ParsedText::bytes)
      .def_ro("lines", &ParsedText::lines)
      .def_ro("entries", &ParsedText::entries)
      .def_ro("values", &ParsedText::values)
      .def_ro("several", &ParsedText::several)
      .def_ro("error", &ParsedText::error);
  m.def("parse_coordinates",
        [](const Bytes& text, const std::string& field, const Integers& rows, const Integers& columns,
           const Values& values, Index extent_rows, Index extent_columns) {
          const auto most = static_cast<Index>(std::min({rows.shape(0), columns.shape(0), values.shape(0)}));
          const CoordinateTarget to{most, rows.data(), columns.data(), values.data(), extent_rows, extent_columns};
          nb::gil_scoped_release unlocked;
          return parse_coordinates(text_of(text), text.shape(0), field_named(field), to);
        });
  m.def("parse_values", [](const Bytes& text, const std::string& field, const Values& values) {
    nb::gil_scoped_release unlocked;
    return parse_values(text_of(text), text.shape(0), field_named(field), static_cast<Index>(values.shape(0)),
                        values.data());
  });
  m.def("parse_svmlight", [](const Bytes& text, const Reals& labels, const Integers& pointers, const Integers& columns,
                             const Reals& values) {
    if (pointers.shape(0) < labels.shape(0) + 1) throw std::invalid_argument("parse_svmlight: pointers are too few");
    const SvmlightTarget to{static_cast<Index>(labels.shape(0)),
                            static_cast<Index>(std::min(columns.shape(0), values.shape(0))),
                            labels.data(),
                            pointers.data(),
                            columns.data(),
                            values.data()};
    nb::gil_scoped_release unlocked;
    return parse_svmlight(text_of(text), text.shape(0), to);
  });
  m.def("format_svmlight", [](const Reals& labels, const Integers& pointers, const Integers& columns, Index base,
                              const std::string& field, const Values& values) {
    if (pointers.shape(0) != labels.shape(0) + 1 ||
        pointers.data()[labels.shape(0)] > static_cast<Index>(columns.shape(0)))
      throw std::invalid_argument("format_svmlight: labels, pointers and columns do not agree");
    const std::string text = format_svmlight(static_cast<Index>(labels.shape(0)), labels.data(), pointers.data(),
                                             columns.data(), base, field_named(field), values.data());
    return nb::bytes(text.data(), text.size());
  });
  m.def(
      "format_entries",
      [](const std::optional<Integers>& rows, const std::optional<Integers>& columns, const std::string& field,
         const Values& values) {
        std::string text;
        {
          const TextField kind = field_named(field);
          const nb::gil_scoped_release unlocked;
          text = format_entries(static_cast<Index>(values.shape(0)), rows ? rows->data() : nullptr,
                                columns ? columns->data() : nullptr, kind, values.data());
        }
        return nb::bytes(text.data(), text.size());
      },
      nb::arg("rows").none(), nb::arg("columns").none(), nb::arg("field"), nb::arg("values"));
}

}  // namespace flagstone::python
