#include "flagstone/algorithms/linalg/matmul.hpp"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"

namespace flagstone::python {
namespace {

Job matmul_job(const linalg::Operand& a, const linalg::Operand& b, const std::optional<Array>& c_in, const Array& c_out,
               std::complex<double> alpha, std::complex<double> beta, const std::shared_ptr<Checkpoint>& checkpoint,
               const std::shared_ptr<linalg::MatmulNotes>& notes) {
  return {[=](Graph& graph) {
    linalg::matmul(graph, a, b, c_in ? &*c_in : nullptr, c_out,
                   {.alpha = alpha, .beta = beta, .checkpoint = checkpoint, .notes = notes});
  }};
}

}  // namespace

void bind_matmul(nb::module_& m) {
  nb::class_<linalg::Operand>(m, "Operand")
      .def("__init__", [](linalg::Operand* self, const Array& array, bool transpose, bool conjugate) {
        new (self) linalg::Operand{array, transpose, conjugate};
      });
  nb::class_<linalg::MatmulNotes>(m, "MatmulNotes")
      .def(nb::init<>())
      .def_ro("a", &linalg::MatmulNotes::a)
      .def_ro("b", &linalg::MatmulNotes::b)
      .def_ro("scratch_bytes", &linalg::MatmulNotes::scratch_bytes);
  m.def(
      "check_matmul",
      [](const linalg::Operand& a, const linalg::Operand& b, const std::optional<Array>& c) {
        return linalg::check_matmul(a, b, c ? &*c : nullptr);
      },
      nb::arg("a"), nb::arg("b"), nb::arg("c").none());
  m.def("output_chunks", [](Index rows, Index cols, const std::string& dtype) {
    return linalg::output_chunks(rows, cols, dtype_from_name(dtype));
  });
  m.def("matmul_job", &matmul_job, nb::arg("a"), nb::arg("b"), nb::arg("c_in").none(), nb::arg("c_out"),
        nb::arg("alpha"), nb::arg("beta"), nb::arg("checkpoint") = nb::none(), nb::arg("notes") = nb::none());
}

}  // namespace flagstone::python
