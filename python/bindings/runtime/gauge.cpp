// What calibrate and the quick probe measure with.
#include "flagstone/gauge/disk.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bindings/core/bindings.hpp"
#include "flagstone/gauge/kernel_rates.hpp"
#include "flagstone/gauge/processor.hpp"
#include "flagstone/gauge/profile.hpp"

namespace flagstone::python {
namespace {

nb::dict facts_of(const gauge::Device& device) {
  nb::dict facts;
  facts["machine"] = device.machine;
  facts["file_system"] = device.file_system;
  facts["number"] = device.number;
  facts["processor"] = device.processor;
  facts["processors"] = device.processors;
  return facts;
}

gauge::Device device_of(const nb::dict& facts) {
  return {.machine = nb::cast<std::string>(facts["machine"]),
          .file_system = nb::cast<std::string>(facts["file_system"]),
          .number = nb::cast<std::string>(facts["number"])};
}

}  // namespace

void bind_gauge(nb::module_& m) {
  using unlocked = nb::call_guard<nb::gil_scoped_release>;

  nb::class_<gauge::Moved>(m, "Moved")
      .def_ro("bytes_read", &gauge::Moved::bytes_read)
      .def_ro("bytes_written", &gauge::Moved::bytes_written)
      .def_ro("requests", &gauge::Moved::requests)
      .def_ro("seconds", &gauge::Moved::seconds)
      .def_ro("request_seconds", &gauge::Moved::request_seconds);

  nb::class_<gauge::Disk>(m, "DiskGauge")
      .def(nb::init<const std::string&, std::uint64_t, const std::string&>(), nb::arg("directory"), nb::arg("bytes"),
           nb::arg("io") = "auto", unlocked())
      .def("fill", &gauge::Disk::fill, nb::arg("bytes"), nb::arg("depth") = 2, unlocked())
      .def(
          "measure",
          [](gauge::Disk& disk, std::uint64_t request_bytes, unsigned depth, std::uint64_t stride, bool random,
             double write_share, double seconds) {
            return disk.measure({.request_bytes = request_bytes,
                                 .depth = depth,
                                 .stride = stride,
                                 .random = random,
                                 .write_share = write_share,
                                 .seconds = seconds});
          },
          nb::arg("request_bytes"), nb::arg("depth"), nb::arg("stride") = 0, nb::arg("random") = false,
          nb::arg("write_share") = 0.0, nb::arg("seconds") = 0.25, unlocked())
      .def("sync", &gauge::Disk::sync, unlocked())
      .def_prop_ro("filled", &gauge::Disk::filled)
      .def_prop_ro("direct", &gauge::Disk::direct)
      .def_prop_ro("io", &gauge::Disk::describe);

  nb::class_<gauge::Rate>(m, "Rate").def_ro("elapsed", &gauge::Rate::elapsed).def_ro("busy", &gauge::Rate::busy);
  m.def(
      "gemm_rate",
      [](const std::string& dtype, Index n, int workers, double seconds) {
        return gauge::gemm_rate(dtype_from_name(dtype), n, {workers, seconds});
      },
      nb::arg("dtype"), nb::arg("n"), nb::arg("workers"), nb::arg("seconds"), unlocked());
  m.def(
      "copy_rate",
      [](std::uint64_t bytes, int workers, double seconds) {
        return gauge::copy_rate(bytes, {workers, seconds});
      },
      nb::arg("bytes"), nb::arg("workers"), nb::arg("seconds"), unlocked());
  m.def(
      "encode_rate",
      [](int workers, double seconds) {
        return gauge::encode_rate({workers, seconds});
      },
      nb::arg("workers"), nb::arg("seconds"), unlocked());
  m.def(
      "decode_rate",
      [](int workers, double seconds) {
        return gauge::decode_rate({workers, seconds});
      },
      nb::arg("workers"), nb::arg("seconds"), unlocked());

  nb::class_<gauge::KernelWork>(m, "KernelWork")
      .def_ro("flops", &gauge::KernelWork::flops)
      .def_ro("rate", &gauge::KernelWork::rate);
  m.def("rated_kernels", &gauge::rated_kernels);
  m.def(
      "kernel_rate",
      [](const std::string& kernel, const std::string& dtype, Index n, int workers, double seconds) {
        return gauge::kernel_rate(kernel, dtype_from_name(dtype), n, {workers, seconds});
      },
      nb::arg("kernel"), nb::arg("dtype"), nb::arg("n"), nb::arg("workers"), nb::arg("seconds"), unlocked());

  m.attr("profile_version") = gauge::profile_version;
  m.def("rate_bounds", [] {
    std::vector<std::tuple<std::string, double, double>> rows;
    for (const gauge::RateBounds& one : gauge::rate_bounds()) rows.emplace_back(one.name, one.low, one.high);
    return rows;
  });
  m.def("profile_device", [](const std::string& directory) { return facts_of(gauge::device_of(directory)); });
  m.def("profile_file", [](const nb::dict& device) { return gauge::profile_file(device_of(device)); });
  m.def("read_profile", [](const std::string& file) {
    const auto found = gauge::read_profile(file);
    return found ? std::optional(found->text) : std::nullopt;
  });
}

}  // namespace flagstone::python
