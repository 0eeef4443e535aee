// Factorizations, and solves with their factors.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/factor/cholesky.hpp"
#include "flagstone/algorithms/factor/lu_transposed.hpp"
#include "flagstone/algorithms/factor/lu_triangles.hpp"
#include "flagstone/algorithms/factor/solve.hpp"
#include "flagstone/algorithms/factor/substitute.hpp"

namespace flagstone::python {
namespace {

Job cholesky_job(const std::string& who, const linalg::Operand& a, const linalg::Operand& factor, double shift,
                 const std::shared_ptr<Checkpoint>& checkpoint) {
  return {[=](Graph& graph) {  // the upper factor is made of the transpose
    linalg::cholesky(graph, a, factor,
                     {.who = who, .turned = factor.transpose, .shift = shift, .checkpoint = checkpoint});
  }};
}

/// `given`: by the caller, so that NaN and Inf are looked for.
Job substitute_job(const std::string& who, const std::vector<linalg::TriangularOperand>& factors,
                   const linalg::Operand& b, const Array& x, const std::optional<Array>& diagonal,
                   std::optional<Index> identity, bool saved, const std::shared_ptr<Checkpoint>& checkpoint,
                   bool given) {
  return {[=](Graph& graph) {
    linalg::substitute(graph, who.c_str(), factors, b, x,
                       {.diagonal = diagonal ? &*diagonal : nullptr,
                        .identity = identity,
                        .checkpoint = checkpoint,
                        .saved = saved,
                        .given = given,
                        .whose = factors.size() > 1 ? Whose::given_factor : Whose::matrix});
  }};
}

Job solve_definite_job(const std::string& who, const linalg::Operand& a, const linalg::Operand& b, const Array& x,
                       const std::optional<Array>& diagonal, const std::shared_ptr<Checkpoint>& checkpoint) {
  return {
      [=](Graph& graph) { linalg::solve_definite(graph, who, a, b, x, diagonal ? &*diagonal : nullptr, checkpoint); }};
}

Job factor_and_solve_job(const std::string& who, const linalg::Operand& a, const Array& factor, double shift,
                         const linalg::Operand& b, const Array& x, const std::optional<Array>& diagonal,
                         const std::shared_ptr<Checkpoint>& checkpoint) {
  return {[=](Graph& graph) {
    linalg::factor_and_solve(graph, a, {factor}, {.who = who, .shift = shift, .checkpoint = checkpoint}, b, x,
                             diagonal ? &*diagonal : nullptr);
  }};
}

Job lu_job(const std::string& who, const linalg::Operand& a, const Array& factor, const Array& pivots, bool saved,
           const std::shared_ptr<Checkpoint>& checkpoint) {
  return {[=](Graph& graph) {
    linalg::lu(graph, who.c_str(), a, {factor, linalg::lu_tile(a.rows())}, pivots,
               {.checkpoint = checkpoint, .saved = saved});
  }};
}

Job lu_triangles_job(const linalg::Operand& a, const Array& l, const Array& u, const Array& pivots, bool saved,
                     const std::shared_ptr<Checkpoint>& checkpoint) {
  return {[=](Graph& graph) {
    linalg::lu_triangles(graph, "lu", a, l, u, pivots, {.checkpoint = checkpoint, .saved = saved});
  }};
}

/// `given`: as above; else the same call made the factor.
Job lu_solve_job(const std::string& who, const Array& factor, const Array& pivots, int trans, const linalg::Operand& b,
                 const Array& x, const std::optional<Array>& diagonal, const std::shared_ptr<Checkpoint>& checkpoint,
                 bool given) {
  return {[=](Graph& graph) {
    const linalg::LuSolveOptions options{.diagonal = diagonal ? &*diagonal : nullptr,
                                         .checkpoint = checkpoint,
                                         .given = given,
                                         .whose = given ? Whose::given_factor : Whose::own_factor};
    const linalg::LuColumns columns(factor, linalg::lu_tile(b.rows()));
    const auto rows = linalg::RowOrder::lapack;
    if (trans == 0)
      linalg::lu_solve(graph, who.c_str(), columns, pivots, rows, b, x, options);
    else
      linalg::lu_solve_transposed(graph, who.c_str(), columns, pivots, rows, trans == 2, b, x, options);
  }};
}

Job solve_general_job(const std::string& who, const linalg::Operand& a, const linalg::Operand& b, const Array& x,
                      const std::optional<Array>& diagonal, const std::shared_ptr<Checkpoint>& checkpoint) {
  return {[=](Graph& graph) {
    linalg::solve_general(graph, who.c_str(), a, b, x, diagonal ? &*diagonal : nullptr, checkpoint);
  }};
}

}  // namespace

void bind_factor(nb::module_& m) {
  m.def("check_cholesky", &linalg::check_cholesky, nb::arg("who"), nb::arg("a"));
  m.def(
      "factor_tile", [](Index n, const std::string& dtype) { return linalg::factor_tile(n, dtype_from_name(dtype)); },
      nb::arg("n"), nb::arg("dtype"));
  m.def("cholesky_job", &cholesky_job, nb::arg("who"), nb::arg("a"), nb::arg("factor"), nb::arg("shift"),
        nb::arg("checkpoint") = nb::none());
  nb::class_<linalg::TriangularOperand>(m, "TriangularOperand")
      .def(
          "__init__",
          [](linalg::TriangularOperand* self, const linalg::Operand& matrix, bool lower, bool unit, bool turned) {
            new (self) linalg::TriangularOperand{matrix, lower, unit, turned};
          },
          nb::arg("matrix"), nb::arg("lower"), nb::arg("unit"), nb::arg("turned") = false)
      .def("adjoint", [](const linalg::TriangularOperand& self) { return linalg::adjoint(self); });
  m.def("right_tile", &linalg::right_tile, nb::arg("columns"));
  m.def(
      "check_substitute",
      [](const std::string& who, const linalg::TriangularOperand& t, const linalg::Operand& b) {
        linalg::check_substitute(who.c_str(), t, b, nullptr);
      },
      nb::arg("who"), nb::arg("t"), nb::arg("b"));
  m.def("substitute_job", &substitute_job, nb::arg("who"), nb::arg("factors"), nb::arg("b"), nb::arg("x"),
        nb::arg("diagonal").none(), nb::arg("identity") = nb::none(), nb::arg("saved") = false,
        nb::arg("checkpoint") = nb::none(), nb::arg("given") = true);
  m.def(
      "check_lu", [](const std::string& who, const linalg::Operand& a) { linalg::check_lu(who.c_str(), a); },
      nb::arg("who"), nb::arg("a"));
  m.def("lu_tile", &linalg::lu_tile, nb::arg("n"));
  m.def("lu_job", &lu_job, nb::arg("who"), nb::arg("a"), nb::arg("factor"), nb::arg("pivots"), nb::arg("saved"),
        nb::arg("checkpoint") = nb::none());
  m.def("factor_and_solve_job", &factor_and_solve_job, nb::arg("who"), nb::arg("a"), nb::arg("factor"),
        nb::arg("shift"), nb::arg("b"), nb::arg("x"), nb::arg("diagonal").none(), nb::arg("checkpoint") = nb::none());
  m.def("lu_triangles_job", &lu_triangles_job, nb::arg("a"), nb::arg("l"), nb::arg("u"), nb::arg("pivots"),
        nb::arg("saved"), nb::arg("checkpoint") = nb::none());
  m.def("lu_solve_job", &lu_solve_job, nb::arg("who"), nb::arg("factor"), nb::arg("pivots"), nb::arg("trans"),
        nb::arg("b"), nb::arg("x"), nb::arg("diagonal").none(), nb::arg("checkpoint") = nb::none(),
        nb::arg("given") = true);
  m.def("solve_general_job", &solve_general_job, nb::arg("who"), nb::arg("a"), nb::arg("b"), nb::arg("x"),
        nb::arg("diagonal").none(), nb::arg("checkpoint") = nb::none());
  m.def("solve_definite_job", &solve_definite_job, nb::arg("who"), nb::arg("a"), nb::arg("b"), nb::arg("x"),
        nb::arg("diagonal").none(), nb::arg("checkpoint") = nb::none());
}

}  // namespace flagstone::python
