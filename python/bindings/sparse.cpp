// Products with a streamed CSR matrix.
#include <nanobind/stl/optional.h>

#include "bindings/bindings.hpp"
#include "flagstone/algorithms/sparse/csr_ops.hpp"

namespace flagstone::python {
namespace {

using sparse::CsrOperand;
using Product = void (*)(Graph&, const CsrOperand&, const Array&, const Array*, const Array&);

template <Product product>
Job job(const CsrOperand& a, const Array& x, const std::optional<Array>& shift, const Array& y) {
  return {[=, a = sparse::read_once(a)](Graph& graph) {
    product(graph, a, x, shift ? &*shift : nullptr, y);
    graph.barrier();
  }};
}

template <Product product>
void bind_product(nb::module_& m, const char* name) {
  m.def(name, &job<product>, nb::arg("a"), nb::arg("x"), nb::arg("shift").none(), nb::arg("y"));
}

}  // namespace

void bind_sparse(nb::module_& m) {
  bind_product<sparse::multiply>(m, "csr_multiply_job");
  bind_product<sparse::multiply_transposed>(m, "csr_multiply_transposed_job");
  bind_product<sparse::gram_multiply>(m, "csr_gram_job");
}

}  // namespace flagstone::python
