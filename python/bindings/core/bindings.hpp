#pragma once
// What the binding files share: one function per file, and how NumPy memory becomes a Tile.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "flagstone/runtime/runtime.hpp"
#include "flagstone/storage/box/box.hpp"

namespace flagstone::python {

namespace nb = nanobind;

/// The stream of tasks of one call: what Runtime.run executes and Runtime.plan counts.
struct Job {
  std::function<void(Graph&)> build;
};

/// Elements of a NumPy array, without a copy. Strides in bytes.
Tile tile_of(const nb::ndarray<nb::ro>& array);

nb::dlpack::dtype dlpack_of(Dtype dtype);

/// Calls a function on a worker's thread, with the lock: `first` where it is given, then a view of each tile but
/// scratch (read-only where it is only read). Error when the function kept one beyond its end.
void call_with_views(const nb::object& function, const Shape* first, std::span<const Access> accesses,
                     std::span<const Tile> tiles);

/// A Python object that others than Python hold; the last of them drops it with the lock.
std::shared_ptr<nb::object> shared_object(nb::object object);

/// Where results that nobody looks at any more are kept (pages.cpp), for the buffers of reads.
BufferShelf shelf_of_reads();
/// Gives them back to the system; so many bytes.
std::size_t release_kept_pages();

/// Whether the calling thread, which holds Python's lock, is inside a task's function.
bool inside_task();

/// Raises KeyboardInterrupt in the Python functions that run as tasks now, at their next step in the interpreter.
void interrupt_tasks();

void bind_base(nb::module_& m);
void bind_errors(nb::module_& m);
void bind_pages(nb::module_& m);
void bind_storage(nb::module_& m);
void bind_files(nb::module_& m);
void bind_lazy(nb::module_& m);
void bind_functions(nb::module_& m);
void bind_scratch(nb::module_& m);
void bind_checkpoint(nb::module_& m);
void bind_record(nb::module_& m);
void bind_text(nb::module_& m);
void bind_csr(nb::module_& m);
void bind_gauge(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_device_block(nb::module_& m);
void bind_runtime(nb::module_& m);
void bind_elementwise(nb::module_& m);
void bind_along(nb::module_& m);
void bind_random(nb::module_& m);
void bind_stencil(nb::module_& m);
void bind_restructure(nb::module_& m);
void bind_sort(nb::module_& m);
void bind_matmul(nb::module_& m);
void bind_factor(nb::module_& m);
void bind_qr(nb::module_& m);
void bind_rank_k(nb::module_& m);
void bind_tasks(nb::module_& m);
void bind_sparse(nb::module_& m);
void bind_pca(nb::module_& m);
void bind_eigsh(nb::module_& m);
void bind_cluster(nb::module_& m);
void bind_labels(nb::module_& m);
void bind_topics(nb::module_& m);
void bind_subspace(nb::module_& m);
void bind_nuclear(nb::module_& m);

}  // namespace flagstone::python
