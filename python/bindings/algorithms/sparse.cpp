// Products with a streamed CSR matrix.
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/pca/sparse_statistics.hpp"
#include "flagstone/algorithms/sparse/csr_ops.hpp"
#include "flagstone/algorithms/sparse/csrmm.hpp"
#include "flagstone/algorithms/sparse/folds.hpp"
#include "flagstone/algorithms/sparse/semiring_product.hpp"
#include "flagstone/kernel/elementwise/expression.hpp"

namespace flagstone::python {
namespace {

using sparse::CsrOperand;
using sparse::FoldRequest;
using Product = void (*)(Graph&, const CsrOperand&, const Array&, const Array*, const Array&);

/// Not Python lists: one number a row would take 32 bytes there.
template <class T>
using Numbers = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> vector_of(const Numbers<T>& numbers) {
  return {numbers.data(), numbers.data() + numbers.shape(0)};
}

sparse::Fold fold_named(const std::string& name) {
  using sparse::Fold;
  return name == "sum"       ? Fold::sum
         : name == "min"     ? Fold::min
         : name == "max"     ? Fold::max
         : name == "nonzero" ? Fold::nonzero
         : name == "counts"  ? Fold::counts
                             : Fold::moments;
}

template <Product product>
Job job(const CsrOperand& a, const Array& x, const std::optional<Array>& shift, const Array& y) {
  return {[=, a = sparse::read_once(a)](Graph& graph) {
    product(graph, a, x, shift ? &*shift : nullptr, y);
    graph.barrier();
  }};
}

Job csrmm_job(const CsrOperand& a, bool transposed, const linalg::Operand& x, const std::optional<Array>& y_in,
              const linalg::Operand& y, std::complex<double> alpha, std::complex<double> beta,
              const std::shared_ptr<Checkpoint>& checkpoint, const std::shared_ptr<sparse::CsrmmNotes>& notes,
              bool gram) {
  return {[=](Graph& graph) {
    const sparse::CsrmmOptions options{transposed, alpha, beta, checkpoint, notes, gram};
    sparse::csrmm(graph, a, x, y_in ? &*y_in : nullptr, y, options);
    graph.barrier();
  }};
}

Job semiring_job(const CsrOperand& a, const std::string& semiring, bool transposed, const linalg::Operand& x,
                 const std::optional<Array>& there, const linalg::Operand& y, const std::optional<Array>& found,
                 const std::optional<Array>& old, const std::optional<linalg::Operand>& mask, bool complement,
                 bool compact, const std::shared_ptr<Checkpoint>& checkpoint,
                 const std::shared_ptr<sparse::CsrmmNotes>& notes) {
  sparse::SemiringProduct product{.semiring = semiring_from_name(semiring),
                                  .transposed = transposed,
                                  .x = x,
                                  .there = there.value_or(Array{}),
                                  .y = y,
                                  .found = found.value_or(Array{})};
  product.finish.old = old.value_or(Array{});
  product.finish.mask = mask.value_or(linalg::Operand{});
  product.finish.complement = complement, product.finish.compact = compact;
  product.checkpoint = checkpoint, product.notes = notes;
  return {[=](Graph& graph) {
    sparse::semiring_product(graph, a, product);
    graph.barrier();
  }};
}

template <Product product>
void bind_product(nb::module_& m, const char* name) {
  m.def(name, &job<product>, nb::arg("a"), nb::arg("x"), nb::arg("shift").none(), nb::arg("y"));
}

}  // namespace

void bind_sparse(nb::module_& m) {
  using sparse::Transform;
  nb::class_<Transform>(m, "CsrTransform")
      .def(nb::init<>())
      .def("scale",
           [](Transform& t, const std::string& kind, const Numbers<double>& factors) {
             using Kind = Transform::Step::Kind;
             const Kind which = kind == "rows"      ? Kind::rows
                                : kind == "columns" ? Kind::columns
                                : kind == "power"   ? Kind::power
                                : kind == "turn"    ? Kind::turn
                                                    : Kind::scale;
             t.steps.push_back({which, vector_of(factors)});
           })
      .def("cast",
           [](Transform& t, const std::string& dtype) {
             using Kind = Transform::Step::Kind;
             t.dtype = dtype_from_name(dtype);
             if (is_complex(*t.dtype)) t.steps.push_back({Kind::turn, {1, 0}});
             if (real_part_of(*t.dtype) == Dtype::float32) t.steps.push_back({Kind::single, {}});
             if (*t.dtype == Dtype::boolean) t.steps.push_back({Kind::truth, {}});
           })
      .def("map",
           [](Transform& t, const std::string& verb) {
             t.steps.push_back({Transform::Step::Kind::map, {}, kernel::verb_from_name(verb)});
           })
      .def("part",
           [](Transform& t, const std::string& part) {
             using Kind = Transform::Step::Kind;
             const Kind which = part == "conj"   ? Kind::conjugate
                                : part == "real" ? Kind::real_part
                                : part == "imag" ? Kind::imaginary_part
                                                 : Kind::magnitude;
             t.steps.push_back({which, {}});
           })
      .def("select", [](Transform& t, const Numbers<Index>& place) { t.place = vector_of(place); });
  m.def("transformed_csr", [](const CsrOperand& a, Transform& t) { return sparse::transformed(a, std::move(t)); });
  m.def("chosen_csr",
        [](const CsrOperand& a, Index first, Index last) { return sparse::chosen(a, sparse::RowChoice(first, last)); });
  m.def("chosen_csr", [](const CsrOperand& a, const Numbers<Index>& rows) {
    return sparse::chosen(a, sparse::RowChoice(std::span(rows.data(), rows.shape(0))));
  });
  m.def("csr_statistics_job", [](const CsrOperand& a, const Array& moments) {
    return Job{[a = sparse::read_once(a), moments](Graph& graph) {
      const CsrStatistics found = spectral::stream_statistics(graph, a);
      if (graph.planning() || !moments.in_memory()) return;
      auto* to = reinterpret_cast<double*>(moments.store().memory());
      std::copy(found.column_sums.begin(), found.column_sums.end(), to);
      std::copy(found.column_squares.begin(), found.column_squares.end(), to + found.column_sums.size());
    }};
  });
  nb::class_<FoldRequest>(m, "CsrFold")
      .def("__init__", [](FoldRequest* self, const std::string& fold, bool rows, const Array& out) {
        new (self) FoldRequest{fold_named(fold), rows, out, fold == "column moments"};
      });
  m.def("csr_folds_job", [](const CsrOperand& a, const std::string& real, const std::vector<FoldRequest>& folds) {
    return Job{[=, a = sparse::read_once(a)](Graph& graph) {
      sparse::fold_several(graph, a, dtype_from_name(real), folds);
      graph.barrier();
    }};
  });
  nb::class_<sparse::CsrmmNotes>(m, "CsrmmNotes")
      .def(nb::init<>())
      .def_ro("reads", &sparse::CsrmmNotes::reads)
      .def_prop_ro("text", &sparse::CsrmmNotes::text);
  m.def("csrmm_chunks", [](const CsrOperand& a, bool transposed, Index cols, const std::string& dtype) {
    return sparse::csrmm_chunks(a, transposed, cols, dtype_from_name(dtype));
  });
  m.def("csrmm_job", &csrmm_job, nb::arg("a"), nb::arg("transposed"), nb::arg("x"), nb::arg("y_in").none(),
        nb::arg("y"), nb::arg("alpha"), nb::arg("beta"), nb::arg("checkpoint").none(), nb::arg("notes").none(),
        nb::arg("gram") = false);
  m.def("touched_csr", &sparse::touched, nb::call_guard<nb::gil_scoped_release>());
  m.def("csr_semiring_job", &semiring_job, nb::arg("a"), nb::arg("semiring"), nb::arg("transposed"), nb::arg("x"),
        nb::arg("there").none(), nb::arg("y"), nb::arg("found").none(), nb::arg("old").none() = nb::none(),
        nb::arg("mask").none() = nb::none(), nb::arg("complement") = false, nb::arg("compact") = false,
        nb::arg("checkpoint").none() = nb::none(), nb::arg("notes").none() = nb::none());
  bind_product<sparse::multiply>(m, "csr_multiply_job");
}

}  // namespace flagstone::python
