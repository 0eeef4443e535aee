// Eigenpairs of Hermitian matrices and operators.
#include "flagstone/algorithms/eigenpairs/svds.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::python {
namespace {

using namespace spectral;

/// A job that also tells what was found.
struct EigshJob : Job {
  std::shared_ptr<EigshResult> result = std::make_shared<EigshResult>();
};

EigshJob eigsh_job(const EigshInput& a, EigshOptions options, const Array& vectors,
                   const std::shared_ptr<Checkpoint>& checkpoint) {
  options.checkpoint = checkpoint;
  EigshJob job;
  job.build = [=, result = job.result](Graph& graph) { eigsh(graph, a, options, vectors, *result); };
  return job;
}

struct SvdsJob : Job {
  std::shared_ptr<SvdsResult> result = std::make_shared<SvdsResult>();
};

SvdsJob svds_job(const SvdsInput& a, EigshOptions options, const Array& found, const Array& other,
                 const std::shared_ptr<Checkpoint>& checkpoint) {
  options.checkpoint = checkpoint;
  SvdsJob job;
  job.build = [=, result = job.result](Graph& graph) { svds(graph, a, options, found, other, *result); };
  return job;
}

template <class SomeJob>
void bind_result(nb::class_<SomeJob, Job> job) {
  job.def_prop_ro("values", [](const SomeJob& self) { return self.result->values; })
      .def_prop_ro("residuals", [](const SomeJob& self) { return self.result->residuals; })
      .def_prop_ro("method", [](const SomeJob& self) { return self.result->method; })
      .def_prop_ro("applications", [](const SomeJob& self) { return self.result->applications; })
      .def_prop_ro("passes", [](const SomeJob& self) { return self.result->passes; })
      .def_prop_ro("converged", [](const SomeJob& self) { return self.result->converged; })
      .def_prop_ro("verified", [](const SomeJob& self) { return self.result->verified; });
}

/// A block of vectors as a NumPy array that keeps its memory.
nb::object block_of(const Array& array) {
  const nb::capsule owner(new Array(array), [](void* held) noexcept { delete static_cast<Array*>(held); });
  const std::vector<std::size_t> shape(array.shape().begin(), array.shape().end());
  const auto code = is_complex(array.dtype()) ? nb::dlpack::dtype_code::Complex : nb::dlpack::dtype_code::Float;
  const nb::dlpack::dtype dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(array.dtype())),
                                1};
  return nb::cast(nb::ndarray<nb::numpy>(array.store().memory(), shape.size(), shape.data(), owner, nullptr, dtype),
                  nb::rv_policy::reference);
}

/// function(x, y) sets y := A x, with Python's lock.
Applied applied(nb::object function) {
  return [held = shared_object(std::move(function))](const Array& x, const Array& y) {
    const nb::gil_scoped_acquire lock;
    (*held)(block_of(x), block_of(y));
  };
}

EigshOptions options_of(const std::string& who, Index n, Index k, const std::string& which, double tol,
                        const std::string& method, Index block, Index ncv, Index keep, int most, int passes,
                        std::uint64_t seed, bool verify, const std::string& dtype, double symmetry,
                        const std::optional<Array>& start) {
  EigshOptions options;
  options.method = method;
  SchurOptions& o = options.solver;
  o.who = who, o.k = k, o.block = block, o.ncv = ncv, o.keep = keep, o.which = which_from_name(which), o.tol = tol,
  o.seed = seed;
  o.most = most, o.passes = passes, o.verify = verify, o.dtype = dtype_from_name(dtype), o.symmetry = symmetry;
  o.start = start;
  return completed(options, n);
}

}  // namespace

void bind_eigsh(nb::module_& m) {
  nb::class_<EigshInput>(m, "EigshInput")
      .def_static("of_dense", [](const Array& a) { return EigshInput{.dense = a, .n = a.shape()[0]}; })
      .def_static("of_sparse", [](const sparse::CsrOperand& a) { return EigshInput{.sparse = a, .n = a.matrix.rows}; })
      .def_static("of_function", [](nb::object function,
                                    Index n) { return EigshInput{.applied = applied(std::move(function)), .n = n}; })
      .def_ro("n", &EigshInput::n);
  nb::class_<EigshOptions>(m, "EigshOptions")
      .def(
          "__init__",
          [](EigshOptions* self, const std::string& who, Index n, Index k, const std::string& which, double tol,
             const std::string& method, Index block, Index ncv, Index keep, int most, int passes, std::uint64_t seed,
             bool verify, const std::string& dtype, double symmetry, const std::optional<Array>& start) {
            new (self) EigshOptions(options_of(who, n, k, which, tol, method, block, ncv, keep, most, passes, seed,
                                               verify, dtype, symmetry, start));
          },
          nb::arg("who"), nb::arg("n"), nb::arg("k"), nb::arg("which"), nb::arg("tol"), nb::arg("method"),
          nb::arg("block"), nb::arg("ncv"), nb::arg("keep"), nb::arg("most"), nb::arg("passes"), nb::arg("seed"),
          nb::arg("verify"), nb::arg("dtype"), nb::arg("symmetry"), nb::arg("start").none())
      .def_ro("method", &EigshOptions::method)
      .def_prop_ro("block", [](const EigshOptions& o) { return o.solver.block; })
      .def_prop_ro("ncv", [](const EigshOptions& o) { return o.solver.ncv; })
      .def_prop_ro("most", [](const EigshOptions& o) { return o.solver.most; });
  bind_result(nb::class_<EigshJob, Job>(m, "EigshJob"));
  nb::class_<SvdsInput>(m, "SvdsInput")
      .def(
          "__init__",
          [](SvdsInput* self, const std::optional<Array>& dense, bool transpose,
             const std::optional<sparse::CsrOperand>& sparse) {
            new (self) SvdsInput{.sparse = sparse, .dense = dense, .transpose = transpose};
          },
          nb::arg("dense").none(), nb::arg("transpose"), nb::arg("sparse").none())
      .def_prop_ro("right", &SvdsInput::right)
      .def_prop_ro("side", &SvdsInput::side)
      .def("chunks", &SvdsInput::chunks, nb::arg("k"), nb::arg("block"));
  bind_result(nb::class_<SvdsJob, Job>(m, "SvdsJob"));
  m.def("svds_job", &svds_job, nb::arg("a"), nb::arg("options"), nb::arg("found"), nb::arg("other"),
        nb::arg("checkpoint") = nb::none());
  m.def("vectors_chunks", &vectors_chunks);
  m.def("eigsh_job", &eigsh_job, nb::arg("a"), nb::arg("options"), nb::arg("vectors"),
        nb::arg("checkpoint") = nb::none());
}

}  // namespace flagstone::python
