// Arrays written anew with other chunks, dimensions in another order, another dtype.
#include "flagstone/algorithms/restructure/restructure.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "bindings/core/bindings.hpp"

namespace flagstone::python {
namespace {

/// A job, and the scheme that its last graph was built with: by then the budget is known.
struct Restructure {
  struct State {
    restructure::Job job;
    std::mutex mutex;
    restructure::Scheme scheme;
  };
  std::shared_ptr<State> state = std::make_shared<State>();

  restructure::Scheme last() const {
    std::lock_guard lock(state->mutex);
    return state->scheme;
  }
};

Job job_of(const Restructure& given) {
  return {[state = given.state](Graph& graph) {
    const restructure::Scheme scheme = restructure::run(graph, state->job);
    std::lock_guard lock(state->mutex);
    state->scheme = scheme;
  }};
}

}  // namespace

void bind_restructure(nb::module_& m) {
  nb::class_<Restructure>(m, "Restructure")
      .def(
          "__init__",
          [](Restructure* self, const Array& source, const std::vector<std::size_t>& axes, bool conjugate,
             const Array& to, const std::string& scratch, const std::string& who, std::optional<std::uint64_t> quota,
             const std::shared_ptr<Checkpoint>& checkpoint) {
            Restructure made;
            made.state->job = {{source, axes}, conjugate, to, {scratch, who, quota}, checkpoint};
            restructure::check(made.state->job);
            new (self) Restructure(std::move(made));
          },
          nb::arg("source"), nb::arg("axes"), nb::arg("conjugate"), nb::arg("to"), nb::arg("scratch"), nb::arg("who"),
          nb::arg("quota").none(), nb::arg("checkpoint") = nb::none())
      .def("job", &job_of)
      .def_prop_ro("passes", [](const Restructure& self) { return self.last().passes(); })
      .def_prop_ro("why", [](const Restructure& self) { return self.last().why; })
      .def_prop_ro("scratch_bytes",
                   [](const Restructure& self) { return restructure::scratch_bytes(self.state->job, self.last()); })
      .def_prop_ro("box", [](const Restructure& self) { return self.last().first.box; });
}

}  // namespace flagstone::python
