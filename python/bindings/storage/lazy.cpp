// Arrays that are computed where they are loaded: expressions, joins and other places, elements by position.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/lazy/elementwise_array.hpp"
#include "flagstone/storage/lazy/generated_array.hpp"
#include "flagstone/storage/lazy/kernel_array.hpp"
#include "flagstone/storage/lazy/mapped_array.hpp"
#include "flagstone/storage/lazy/structured_array.hpp"

namespace flagstone::python {
namespace {

using Element = nb::ndarray<nb::ro>;

const void* element(const Element& value, Dtype dtype) {
  const Tile tile = tile_of(value);
  if (count(tile.shape) != 1 || tile.dtype != dtype)
    throw ShapeError("lazy array: one value of " + std::string(name_of(dtype)) + " is needed.");
  return tile.data;
}

AxisMap::Kind kind_from_name(const std::string& name) {
  using Kind = AxisMap::Kind;
  for (const auto& [known, kind] : {std::pair{"same", Kind::same},
                                    {"flip", Kind::flip},
                                    {"roll", Kind::roll},
                                    {"repeat", Kind::repeat},
                                    {"tile", Kind::tile},
                                    {"select", Kind::select},
                                    {"stretch", Kind::stretch},
                                    {"join", Kind::join}})
    if (name == known) return kind;
  throw ShapeError("lazy array: there is no axis '" + name + "'.");
}

}  // namespace

void bind_lazy(nb::module_& m) {
  m.def("elementwise_array", [](const kernel::Program& program, int value,
                                const std::vector<std::pair<Array, bool>>& operands, const Shape& shape) {
    std::vector<LazyOperand> given;
    for (const auto& [array, transposed] : operands) given.push_back({array, transposed});
    return elementwise_array(std::make_shared<const kernel::Program>(program), value, std::move(given), shape);
  });
  m.def("structured_array", [](const Array& member, const std::string& kind, bool lower, bool unit_diagonal) {
    using Kind = Structure::Kind;
    const Kind named = kind == "symmetric" ? Kind::symmetric : kind == "hermitian" ? Kind::hermitian : Kind::triangular;
    return structured_array(member, {named, lower, unit_diagonal});
  });
  m.def("mapped_array", [](std::vector<Array> members, const std::vector<std::tuple<std::string, int, Index>>& axes) {
    std::vector<AxisMap> given;
    for (const auto& [kind, source, amount] : axes) given.push_back({kind_from_name(kind), source, amount});
    return mapped_array(std::move(members), given);
  });
  m.def("constant_array", [](const Shape& shape, const Element& value) {
    const Dtype dtype = tile_of(value).dtype;
    return constant_array(shape, dtype, element(value, dtype));
  });
  m.def(
      "linear_array",
      [](Index count, const Element& start, const Element& step, const std::optional<Element>& last) {
        const Dtype dtype = tile_of(start).dtype;
        return linear_array(count, dtype, element(start, dtype), element(step, dtype),
                            last ? element(*last, dtype) : nullptr);
      },
      nb::arg("count"), nb::arg("start"), nb::arg("step"), nb::arg("last") = nb::none());
  m.def("diagonal_array", [](Index rows, Index cols, Index diagonal, const Element& value) {
    const Dtype dtype = tile_of(value).dtype;
    return diagonal_array(rows, cols, dtype, diagonal, element(value, dtype));
  });
  m.def("lower_triangle", &lower_triangle);
  m.def(
      "kernel_array",
      [](const std::string& kernel, double gamma, double coef0, double degree, std::vector<double> length,
         std::vector<double> centre, const std::pair<Array, bool>& x, const std::pair<Array, bool>& y,
         const std::string& dtype) {
        return kernel_array(
            {kernel::pair_value_from_name(kernel), gamma, coef0, degree, std::move(length), std::move(centre)},
            {x.first, x.second}, {y.first, y.second}, dtype_from_name(dtype));
      },
      nb::arg("kernel"), nb::arg("gamma"), nb::arg("coef0"), nb::arg("degree"), nb::arg("length"), nb::arg("centre"),
      nb::arg("x"), nb::arg("y"), nb::arg("dtype"));
}

}  // namespace flagstone::python
