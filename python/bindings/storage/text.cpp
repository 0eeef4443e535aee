// Numbers out of text, into NumPy arrays that the caller made.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "bindings/core/bindings.hpp"
#include "flagstone/storage/formats/csv.hpp"
#include "flagstone/storage/formats/labelled.hpp"
#include "flagstone/storage/formats/matrixmarket.hpp"
#include "flagstone/storage/formats/svmlight.hpp"

namespace flagstone::python {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<Index, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Reals = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bits = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;   // one of the types that format_csv knows
using Values = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;  // int64, float64 or complex128

TextField field_named(const std::string& name) {
  if (name == "pattern") return TextField::pattern;
  if (name == "integer") return TextField::integer;
  return name == "complex" ? TextField::complex : TextField::real;
}

const char* text_of(const Bytes& bytes) { return reinterpret_cast<const char*>(bytes.data()); }

const char* name_of(CsvStop stop) {
  switch (stop) {
    case CsvStop::none:
      return "";
    case CsvStop::room:
      return "room";
    case CsvStop::ragged:
      return "ragged";
    case CsvStop::text:
      return "text";
    case CsvStop::not_integer:
      return "not_integer";
    case CsvStop::quote:
      return "quote";
    default:
      return "zero";
  }
}

/// Text of a file, which may be no UTF-8.
nb::object shown(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

ParsedCsv parse_rows(const Bytes& text, char delimiter, const Places& place, const Table& rows, const Bits& seen) {
  CsvTarget to;
  to.delimiter = delimiter;
  to.fields = static_cast<Index>(place.shape(0)), to.place = place.data();
  to.columns = static_cast<Index>(rows.shape(1)), to.most = static_cast<Index>(rows.shape(0));
  if (rows.dtype() == nb::dtype<double>())
    to.reals = static_cast<double*>(rows.data());
  else if (rows.dtype() == nb::dtype<std::int64_t>())
    to.integers = static_cast<std::int64_t*>(rows.data());
  else
    throw std::invalid_argument("parse_csv: rows are float64 or int64");
  if (static_cast<Index>(seen.shape(0)) < to.columns ||
      std::any_of(to.place, to.place + to.fields, [&](std::int32_t column) { return column >= to.columns; }))
    throw std::invalid_argument("parse_csv: places and columns do not agree");
  to.seen = seen.data();
  const nb::gil_scoped_release unlocked;
  return parse_csv(text_of(text), text.shape(0), to);
}

template <class T>
bool put_rows(const Table& rows, char delimiter, char* text, char*& stop) {
  if (rows.dtype() != nb::dtype<T>()) return false;
  const nb::gil_scoped_release unlocked;
  stop = format_csv(static_cast<Index>(rows.shape(0)), static_cast<Index>(rows.shape(1)),
                    static_cast<const T*>(rows.data()), delimiter, text);
  return true;
}

std::size_t rows_as_text(const Table& rows, char delimiter, const Bits& room) {
  if (room.shape(0) < rows.size() * most_csv) throw std::invalid_argument("format_csv: the text has no room");
  char* const text = reinterpret_cast<char*>(room.data());
  char* stop = text;
  if (!put_rows<double>(rows, delimiter, text, stop) && !put_rows<float>(rows, delimiter, text, stop) &&
      !put_rows<std::int64_t>(rows, delimiter, text, stop) && !put_rows<std::uint64_t>(rows, delimiter, text, stop) &&
      !put_rows<bool>(rows, delimiter, text, stop))
    throw std::invalid_argument("format_csv: rows are float64, float32, int64, uint64 or bool");
  return static_cast<std::size_t>(stop - text);
}

void bind_csv(nb::module_& m) {
  nb::class_<ParsedCsv>(m, "ParsedCsv")
      .def_ro("bytes", &ParsedCsv::bytes)
      .def_ro("lines", &ParsedCsv::lines)
      .def_ro("rows", &ParsedCsv::rows)
      .def_prop_ro("stop", [](const ParsedCsv& done) { return name_of(done.stop); })
      .def_ro("field", &ParsedCsv::field)
      .def_prop_ro("text", [](const ParsedCsv& done) { return shown(done.text); })
      .def_prop_ro("rounded", [](const ParsedCsv& done) {
        std::vector<std::tuple<Index, Index, std::string>> found;
        for (const CsvRounded& one : done.rounded) found.emplace_back(one.column, one.line, one.text);
        return found;
      });
  m.def("parse_csv", &parse_rows);
  m.def("csv_records", [](const Bytes& text, char delimiter, Index most) {
    Index records = 0;
    std::size_t bytes = 0;
    {
      const nb::gil_scoped_release unlocked;
      bytes = csv_records(text_of(text), text.shape(0), delimiter, most, &records);
    }
    return std::tuple(bytes, records);
  });
  m.def("format_csv", &rows_as_text);
  m.attr("most_csv") = most_csv;
}

}  // namespace

void bind_text(nb::module_& m) {
  bind_csv(m);
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
  m.def("parse_labelled", [](const Bytes& text, const Integers& label_pointers, const Integers& labels,
                             const Integers& pointers, const Integers& columns, const Reals& values) {
    const auto rows = static_cast<Index>(std::min(pointers.shape(0), label_pointers.shape(0))) - 1;
    if (rows < 1) throw std::invalid_argument("parse_labelled: pointers are too few");
    const LabelledTarget to{label_pointers.data(),
                            labels.data(),
                            static_cast<Index>(labels.shape(0)),
                            pointers.data(),
                            columns.data(),
                            values.data(),
                            static_cast<Index>(std::min(columns.shape(0), values.shape(0))),
                            rows};
    nb::gil_scoped_release unlocked;
    return parse_labelled(text_of(text), text.shape(0), to);
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
         const Values& values, Bits& to) {
        const TextField kind = field_named(field);
        const auto n = static_cast<Index>(values.shape(0));
        if (to.shape(0) < most_text_bytes(n, rows.has_value(), kind))
          throw std::invalid_argument("format_entries: there is no room for the text.");
        const nb::gil_scoped_release unlocked;
        return format_entries(n, rows ? rows->data() : nullptr, columns ? columns->data() : nullptr, kind,
                              values.data(), reinterpret_cast<char*>(to.data()));
      },
      nb::arg("rows").none(), nb::arg("columns").none(), nb::arg("field"), nb::arg("values"), nb::arg("to"));
  m.def("most_text_bytes", [](Index n, bool coordinates, const std::string& field) {
    return most_text_bytes(n, coordinates, field_named(field));
  });
}

}  // namespace flagstone::python
