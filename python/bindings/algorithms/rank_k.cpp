#include "flagstone/algorithms/linalg/rank_k.hpp"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::python {
namespace {

linalg::Half half_from_name(const std::string& name) {
  return name == "lower" ? linalg::Half::lower : name == "upper" ? linalg::Half::upper : linalg::Half::both;
}

}  // namespace

void bind_rank_k(nb::module_& m) {
  nb::class_<linalg::RankKNotes>(m, "RankKNotes")
      .def(nb::init<>())
      .def_ro("text", &linalg::RankKNotes::text)
      .def_ro("scratch_bytes", &linalg::RankKNotes::scratch_bytes);
  nb::class_<linalg::RankKOptions>(m, "RankKOptions")
      .def(
          "__init__",
          [](linalg::RankKOptions* self, std::complex<double> alpha, std::complex<double> beta, bool hermitian,
             const std::string& half, double most) {
            new (self) linalg::RankKOptions{alpha, beta, hermitian, half_from_name(half), false, most};
          },
          nb::arg("alpha"), nb::arg("beta"), nb::arg("hermitian"), nb::arg("half"), nb::arg("most") = 0.0);
  m.def(
      "check_rank_k",
      [](const linalg::Operand& a, const std::optional<linalg::Operand>& b, const std::optional<Array>& c,
         const linalg::RankKOptions& options) {
        linalg::check_rank_k(a, b ? &*b : nullptr, c ? &*c : nullptr, options);
      },
      nb::arg("a"), nb::arg("b").none(), nb::arg("c").none(), nb::arg("options"));
  m.def(
      "rank_k_job",
      [](const linalg::Operand& a, const std::optional<linalg::Operand>& b, const std::optional<Array>& c_in,
         const Array& c_out, linalg::RankKOptions options, const std::shared_ptr<Checkpoint>& checkpoint,
         const std::shared_ptr<linalg::RankKNotes>& notes) -> Job {
        options.checkpoint = checkpoint, options.notes = notes;
        return {[=](Graph& graph) {
          *options.notes = {};
          linalg::rank_k(graph, a, b ? &*b : nullptr, c_in ? &*c_in : nullptr, c_out, options);
        }};
      },
      nb::arg("a"), nb::arg("b").none(), nb::arg("c_in").none(), nb::arg("c_out"), nb::arg("options"),
      nb::arg("checkpoint").none(), nb::arg("notes"));
}

}  // namespace flagstone::python
