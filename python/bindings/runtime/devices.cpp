// Memories beside the host's: opened here, given to engines.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/runtime/spaces/cuda_loader.hpp"
#include "flagstone/runtime/spaces/emulated.hpp"

namespace flagstone::python {
namespace {

EmulatedFault::Step step_of(const std::string& name) {
  if (name == "allocation") return EmulatedFault::Step::allocation;
  if (name == "copy_in") return EmulatedFault::Step::copy_in;
  if (name == "copy_out") return EmulatedFault::Step::copy_out;
  if (name == "launch") return EmulatedFault::Step::launch;
  throw Error("devices: '" + name + "' is no step; allocation, copy_in, copy_out and launch are.");
}

Kernel kernel_of(const std::string& name) {
  for (std::size_t k = 0; k < kernel_count; ++k)
    if (name_of(static_cast<Kernel>(k)) == name) return static_cast<Kernel>(k);
  throw Error("devices: there is no kernel '" + name + "'.");
}

using Faults = std::vector<std::tuple<std::string, std::uint64_t, bool>>;

std::shared_ptr<Device> emulated(const std::string& name, std::uint64_t memory, double bandwidth, double latency,
                                 const Faults& faults, std::optional<std::uint64_t> reorder, std::size_t workspace,
                                 const std::vector<std::string>& lacks) {
  EmulatedOptions options{.name = name,
                          .memory = memory,
                          .bytes_per_second = bandwidth,
                          .latency_seconds = latency,
                          .reorder = reorder,
                          .bytes_per_workspace = workspace};
  for (const auto& [step, at, lost] : faults) options.faults.push_back({step_of(step), at, lost});
  for (const std::string& kernel : lacks) options.lacks.push_back(kernel_of(kernel));
  return open_emulated(std::move(options));
}

std::pair<std::vector<DeviceProperties>, std::string> cards() {
  std::string why_not;
  std::vector<DeviceProperties> found = cuda_devices(&why_not);
  return {std::move(found), std::move(why_not)};
}

}  // namespace

void bind_devices(nb::module_& m) {
  nb::class_<DeviceCounts>(m, "DeviceCounts")
      .def_ro("copies_in", &DeviceCounts::copies_in)
      .def_ro("copies_out", &DeviceCounts::copies_out)
      .def_ro("bytes_in", &DeviceCounts::bytes_in)
      .def_ro("bytes_out", &DeviceCounts::bytes_out)
      .def_ro("launches", &DeviceCounts::launches)
      .def_ro("synchronizing", &DeviceCounts::synchronizing)
      .def_ro("locked", &DeviceCounts::locked)
      .def_ro("most_locked", &DeviceCounts::most_locked);

  nb::class_<DeviceProperties>(m, "DeviceProperties")
      .def_ro("kind", &DeviceProperties::kind)
      .def_ro("name", &DeviceProperties::name)
      .def_ro("description", &DeviceProperties::description)
      .def_ro("memory", &DeviceProperties::memory);

  nb::class_<Device>(m, "Device")
      .def_prop_ro("kind", [](const Device& d) { return d.properties().kind; })
      .def_prop_ro("name", [](const Device& d) { return d.properties().name; })
      .def_prop_ro("description", [](const Device& d) { return d.properties().description; })
      .def_prop_ro("memory", [](const Device& d) { return d.properties().memory; })
      .def_prop_ro("counts", &Device::counts);

  nb::class_<SpaceStatistics>(m, "SpaceStatistics")
      .def_ro("name", &SpaceStatistics::name)
      .def_ro("budget", &SpaceStatistics::budget)
      .def_ro("peak", &SpaceStatistics::peak)
      .def_ro("bytes_in", &SpaceStatistics::bytes_in)
      .def_ro("bytes_out", &SpaceStatistics::bytes_out)
      .def_ro("copies_in", &SpaceStatistics::copies_in)
      .def_ro("copies_out", &SpaceStatistics::copies_out)
      .def_ro("launches", &SpaceStatistics::launches)
      .def_ro("tasks", &SpaceStatistics::tasks)
      .def_ro("busy_seconds", &SpaceStatistics::busy_seconds);

  m.def("cuda_devices", &cards, nb::call_guard<nb::gil_scoped_release>());
  m.def("open_cuda", &open_cuda, nb::arg("ordinal"), nb::arg("memory"), nb::arg("precision"),
        nb::call_guard<nb::gil_scoped_release>());
  m.def("open_cuda_memory", &open_cuda_memory, nb::arg("ordinal"), nb::arg("memory"),
        nb::call_guard<nb::gil_scoped_release>());
  m.def("open_emulated", &emulated, nb::arg("name"), nb::arg("memory"), nb::arg("bandwidth") = 0.0,
        nb::arg("latency") = 0.0, nb::arg("faults") = Faults{}, nb::arg("reorder") = nb::none(),
        nb::arg("workspace") = 0, nb::arg("lacks") = std::vector<std::string>{},
        nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace flagstone::python
