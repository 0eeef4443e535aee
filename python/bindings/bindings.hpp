#pragma once
// What the binding files share: one function per file, and how NumPy memory becomes a Tile.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <functional>
#include <optional>

#include "flagstone/runtime/runtime.hpp"

namespace flagstone::python {

namespace nb = nanobind;

/// The stream of tasks of one call: what Runtime.run executes and Runtime.plan counts.
struct Job {
  std::function<void(Graph&)> build;
};

/// Elements of a NumPy array, without a copy. Strides in bytes.
Tile tile_of(const nb::ndarray<nb::ro>& array);

/// Raises KeyboardInterrupt in the Python functions that run as tasks now, at their next step in the interpreter.
void interrupt_tasks();

void bind_base(nb::module_& m);
void bind_errors(nb::module_& m);
void bind_storage(nb::module_& m);
void bind_text(nb::module_& m);
void bind_csr(nb::module_& m);
void bind_gauge(nb::module_& m);
void bind_runtime(nb::module_& m);
void bind_elementwise(nb::module_& m);
void bind_restructure(nb::module_& m);
void bind_matmul(nb::module_& m);
void bind_tasks(nb::module_& m);
void bind_sparse(nb::module_& m);
void bind_pca(nb::module_& m);

}  // namespace flagstone::python
