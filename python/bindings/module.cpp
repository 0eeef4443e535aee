#include "bindings/core/bindings.hpp"
#include "flagstone/base/version.hpp"

NB_MODULE(_core, m) {
  using namespace flagstone::python;
  nanobind::set_leak_warnings(false);  // the library never prints
  m.attr("__version__") = flagstone::version();
  bind_errors(m);
  bind_base(m);
  bind_pages(m);
  bind_storage(m);
  bind_files(m);
  bind_lazy(m);
  bind_functions(m);
  bind_scratch(m);
  bind_checkpoint(m);
  bind_record(m);
  bind_text(m);
  bind_csr(m);
  bind_gauge(m);
  bind_devices(m);
  bind_device_block(m);
  bind_runtime(m);
  bind_elementwise(m);
  bind_along(m);
  bind_random(m);
  bind_stencil(m);
  bind_restructure(m);
  bind_sort(m);
  bind_matmul(m);
  bind_factor(m);
  bind_qr(m);
  bind_rank_k(m);
  bind_tasks(m);
  bind_sparse(m);
  bind_pca(m);
  bind_eigsh(m);
  bind_cluster(m);
  bind_labels(m);
  bind_topics(m);
  bind_subspace(m);
  bind_nuclear(m);
}
