#include "flagstone/algorithms/pca/pca.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"

namespace flagstone::python {
namespace {

using namespace spectral;

/// A job that also tells what was chosen and found.
struct PcaJob : Job {
  std::shared_ptr<PcaChoice> choice = std::make_shared<PcaChoice>();
  std::shared_ptr<PcaResult> result = std::make_shared<PcaResult>();
};

PcaJob pca_job(const PcaInput& x, PcaOptions options, const Array& scores, const MachineProfile& profile,
               const std::shared_ptr<Checkpoint>& checkpoint) {
  options.checkpoint = checkpoint;
  PcaJob job;
  job.build = [=, choice = job.choice, result = job.result](Graph& graph) {
    *choice = choose_pca(x, options, graph.budget(), profile);
    pca(graph, x, options, *choice, scores, *result);
  };
  return job;
}

/// Numbers of a result as a NumPy array that shares its memory.
auto numpy_of(std::vector<double> PcaResult::*member) {
  return [member](const PcaJob& job) {
    auto* held = new std::shared_ptr<PcaResult>(job.result);
    nb::capsule owner(held, [](void* result) noexcept { delete static_cast<std::shared_ptr<PcaResult>*>(result); });
    std::vector<double>& values = job.result.get()->*member;
    return nb::ndarray<nb::numpy, double, nb::ndim<1>>(values.data(), {values.size()}, owner);
  };
}

}  // namespace

void bind_pca(nb::module_& m) {
  nb::class_<PcaInput>(m, "PcaInput")
      .def(
          "__init__",
          [](PcaInput* self, const std::optional<Array>& dense, bool transpose,
             const std::optional<sparse::CsrOperand>& sparse) {
            new (self) PcaInput{dense, transpose, sparse};
          },
          nb::arg("dense").none(), nb::arg("transpose"), nb::arg("sparse").none())
      .def_prop_ro("rows", &PcaInput::rows)
      .def_prop_ro("cols", &PcaInput::cols);
  nb::class_<PcaOptions>(m, "PcaOptions")
      .def("__init__",
           [](PcaOptions* self, Index k, bool center, const std::string& method, double tol, std::uint64_t seed) {
             new (self) PcaOptions{.k = k, .center = center, .method = method, .tol = tol, .seed = seed};
           });
  nb::class_<PcaChoice>(m, "PcaChoice")
      .def_ro("method", &PcaChoice::method)
      .def_ro("block", &PcaChoice::block)
      .def_ro("passes", &PcaChoice::passes)
      .def_ro("least_passes", &PcaChoice::least_passes)
      .def_ro("most_passes", &PcaChoice::most_passes)
      .def_ro("note", &PcaChoice::note);
  const auto shares = nb::rv_policy::automatic;  // the arrays have an owner: a property's default policy refuses that
  nb::class_<PcaJob, Job>(m, "PcaJob")
      .def_prop_ro("choice", [](const PcaJob& job) { return *job.choice; })
      .def_prop_ro("method", [](const PcaJob& job) { return job.result->method; })
      .def_prop_ro("passes", [](const PcaJob& job) { return job.result->passes; })
      .def_prop_ro("components", numpy_of(&PcaResult::components), shares)
      .def_prop_ro("singular_values", numpy_of(&PcaResult::singular_values), shares)
      .def_prop_ro("explained_variance", numpy_of(&PcaResult::explained_variance), shares)
      .def_prop_ro("explained_variance_ratio", numpy_of(&PcaResult::explained_variance_ratio), shares)
      .def_prop_ro("mean", numpy_of(&PcaResult::mean), shares)
      .def_prop_ro("residual", numpy_of(&PcaResult::residual), shares);
  m.def("check_pca", &check_pca, nb::call_guard<nb::gil_scoped_release>());
  m.def("scores_chunks", &scores_chunks);
  m.def("scores_dtype", [](const PcaInput& x) { return std::string(name_of(scores_dtype(x))); });
  m.def("pca_job", &pca_job, nb::arg("x"), nb::arg("options"), nb::arg("scores"), nb::arg("profile"),
        nb::arg("checkpoint") = nb::none());
}

}  // namespace flagstone::python
