// Random numbers by place.
#include "flagstone/algorithms/random/generate.hpp"

#include <nanobind/stl/string.h>

#include "bindings/core/bindings.hpp"

namespace flagstone::python {
namespace {

template <class T>
using Numbers = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Draw {
  std::shared_ptr<const kernel::Draw> draw;
};

}  // namespace

void bind_random(nb::module_& m) {
  nb::class_<Draw>(m, "Draw").def(
      "__init__",
      [](Draw* self, const std::string& distribution, std::uint64_t key, std::uint32_t call, double shift, double scale,
         std::uint64_t low, std::uint64_t span, const Numbers<double>& cumulative) {
        auto made = std::make_shared<kernel::Draw>();
        made->distribution = kernel::distribution_from_name(distribution);
        made->stream = {{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}, call};
        made->shift = shift, made->scale = scale, made->low = low, made->span = span;
        if (made->distribution == kernel::Distribution::permutation)
          made->permutation = kernel::Permutation(made->stream, span);
        made->cumulative.assign(cumulative.data(), cumulative.data() + cumulative.shape(0));
        new (self) Draw{std::move(made)};
      },
      nb::arg("distribution"), nb::arg("key"), nb::arg("call"), nb::arg("shift"), nb::arg("scale"), nb::arg("low"),
      nb::arg("span"), nb::arg("cumulative"));
  m.def("generate_job", [](const Draw& draw, const Array& out) {
    return Job{[=](Graph& graph) { random::generate(graph, draw.draw, out); }};
  });
}

}  // namespace flagstone::python
