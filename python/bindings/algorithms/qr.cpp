// QR by a tree: jobs, shapes of reflectors.
#include "flagstone/algorithms/factor/qr.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"

namespace flagstone::python {
namespace {

using linalg::Operand;

/// A job that tells how it goes through memory.
struct QrJob : Job {
  std::shared_ptr<std::string> order = std::make_shared<std::string>();
};

/// `turned`: `a` is the adjoint of what was given, and of what is returned.
QrJob qr_job(const std::string& who, bool turned, const Operand& a, const std::optional<Operand>& q, const Operand& r,
             const std::shared_ptr<Checkpoint>& checkpoint, bool saved) {
  QrJob job;
  job.build = [=, order = job.order](Graph& graph) {
    const linalg::QrOptions options{who, turned, order, checkpoint, saved, {}};
    if (q)
      linalg::qr(graph, a, *q, r, options);
    else
      linalg::qr_r(graph, a, r, options);
  };
  return job;
}

QrJob qr_factor_job(const std::string& who, bool turned, const Operand& a, const Array& v, const Array& t,
                    const Array& r, const std::optional<Operand>& triangle, bool saved,
                    const std::shared_ptr<Checkpoint>& checkpoint) {
  QrJob job;
  job.build = [=, order = job.order](Graph& graph) {
    linalg::qr_factor(graph, a, {v, t, r}, triangle ? &*triangle : nullptr,
                      {who, turned, order, checkpoint, saved, {}});
  };
  return job;
}

linalg::QrTree tree_of(const std::pair<Index, Index>& shape, const std::string& dtype) {
  return {shape.first, shape.second, dtype_from_name(dtype)};
}

/// `given`: the reflectors are the caller's.
Job apply_q_job(const std::string& who, const std::pair<Index, Index>& shape, const Array& v, const Array& t,
                const Array& r, const Operand& b, bool adjoint, const Operand& out, bool given) {
  return {[=](Graph& graph) {
    linalg::apply_q(graph, {shape.first, shape.second, v.dtype()}, {v, t, r}, b, adjoint, out,
                    {.who = who, .turned = out.transpose, .given = given});
  }};
}

}  // namespace

void bind_qr(nb::module_& m) {
  nb::class_<QrJob, Job>(m, "QrJob").def_prop_ro("order", [](const QrJob& job) { return *job.order; });
  m.def("check_qr", &linalg::check_qr);
  m.def("qr_job", &qr_job, nb::arg("who"), nb::arg("turned"), nb::arg("a"), nb::arg("q").none(), nb::arg("r"),
        nb::arg("checkpoint") = nb::none(), nb::arg("saved") = false);
  m.def("qr_factor_job", &qr_factor_job, nb::arg("who"), nb::arg("turned"), nb::arg("a"), nb::arg("v"), nb::arg("t"),
        nb::arg("r"), nb::arg("triangle").none(), nb::arg("saved") = false, nb::arg("checkpoint") = nb::none());
  m.def("apply_q_job", &apply_q_job, nb::arg("who"), nb::arg("shape"), nb::arg("v"), nb::arg("t"), nb::arg("r"),
        nb::arg("b"), nb::arg("adjoint"), nb::arg("out"), nb::arg("given") = true);
  m.def("reflector_shapes", [](const std::pair<Index, Index>& shape, const std::string& dtype) {
    return linalg::reflector_shapes(tree_of(shape, dtype));
  });
  m.def("qr_tile", [](const std::pair<Index, Index>& shape, const std::string& dtype) {
    const linalg::QrTree tree = tree_of(shape, dtype);
    return std::pair{tree.rows, tree.cols};
  });
}

}  // namespace flagstone::python
