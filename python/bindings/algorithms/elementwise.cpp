// Programs of fused element-wise expressions, and passes that run them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/algorithms/pass.hpp"
#include "bindings/core/bindings.hpp"
#include "flagstone/algorithms/elementwise/tile.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::python {
namespace {

Job job_of(const Pass& pass) {
  return {[pass](Graph& graph) {
    elementwise::Scheme scheme;
    elementwise::run(graph, pass, scheme);
    pass.keep(std::move(scheme));
  }};
}

int constant(kernel::Program& program, const nb::ndarray<nb::ro>& value) {
  const Tile tile = tile_of(value);
  if (count(tile.shape) != 1) throw ShapeError("expression: a constant is one value.");
  return program.constant(tile.dtype, tile.data);
}

kernel::Finish finish_from_name(const std::string& name) {
  if (name == "mean") return kernel::Finish::mean;
  if (name == "var") return kernel::Finish::var;
  if (name == "std") return kernel::Finish::std;
  if (name == "index") return kernel::Finish::index;
  return kernel::Finish::value;
}

/// The function gets the start of a block and views of the values there.
void visit(Pass& pass, std::vector<int> values, nb::object function, const std::vector<bool>& last, double touches) {
  const std::vector<Access> accesses(values.size());
  const auto shared = shared_object(std::move(function));
  pass.visit.values = std::move(values);
  pass.visit.body = [shared, accesses](const Box& box, std::span<const Tile> tiles) {
    call_with_views(*shared, &box.start, accesses, tiles);
  };
  pass.visit.last = last;
  pass.visit.touches = touches;
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  nb::class_<kernel::Program>(m, "Program")
      .def(nb::init<>())
      .def("input", [](kernel::Program& p, const std::string& dtype) { return p.input(dtype_from_name(dtype)); })
      .def("constant", &constant)
      .def("cast",
           [](kernel::Program& p, int a, const std::string& dtype) { return p.cast(a, dtype_from_name(dtype)); })
      .def(
          "apply",
          [](kernel::Program& p, const std::string& verb, int a, int b, int c) {
            return p.apply(kernel::verb_from_name(verb), a, b, c);
          },
          nb::arg("verb"), nb::arg("a"), nb::arg("b") = -1, nb::arg("c") = -1)
      .def("dtype", [](const kernel::Program& p, int value) { return std::string(name_of(p.dtype(value))); });

  nb::class_<Pass>(m, "Pass")
      .def("__init__",
           [](Pass* self, const kernel::Program& program, const Shape& start, const Shape& shape) {
             new (self) Pass{{.program = program, .start = start, .shape = shape}};
           })
      .def("operand",
           [](Pass& pass, const Array& array, bool transpose) {
             pass.operands.push_back({array, transpose});
           })
      .def("store",
           [](Pass& pass, int value, const Array& array) {
             pass.stores.push_back({value, array});
           })
      .def(
          "reduce",
          [](Pass& pass, int value, const std::string& fold, const std::string& finish, double ddof,
             const std::vector<bool>& reduced, const Array& out, bool keepdims) {
            pass.reductions.push_back(
                {value, kernel::fold_from_name(fold), finish_from_name(finish), ddof, reduced, out, keepdims});
          },
          nb::arg("value"), nb::arg("fold"), nb::arg("finish"), nb::arg("ddof"), nb::arg("reduced"), nb::arg("out"),
          nb::arg("keepdims"))
      .def("visit", &visit, nb::arg("values"), nb::arg("function"), nb::arg("last"), nb::arg("touches"))
      .def("visit_needs",
           [](Pass& pass, std::uint64_t scratch, std::uint64_t held) {
             pass.visit.scratch = scratch;
             pass.visit.held = held;
           })
      .def("cut", [](Pass& pass, const Shape& tile) { pass.tile = tile; })
      .def("tile", [](const Pass& pass) { return pass.tile.empty() ? elementwise::choose_tile(pass) : pass.tile; })
      .def("job", &job_of)
      .def_prop_ro("passes", [](const Pass& pass) { return pass.scheme().passes(); })
      .def_prop_ro("why", [](const Pass& pass) { return pass.scheme().why; })
      .def_prop_ro("scratch_bytes", [](const Pass& pass) { return pass.scheme().scratch_bytes; });
}

}  // namespace flagstone::python
