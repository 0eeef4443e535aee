// The scratch directory, its quota and its listing.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bindings/core/bindings.hpp"
#include "flagstone/storage/scratch/imports.hpp"
#include "flagstone/storage/scratch/listing.hpp"
#include "flagstone/storage/scratch/quota.hpp"
#include "flagstone/storage/scratch/scratch.hpp"

namespace flagstone::python {

void bind_scratch(nb::module_& m) {
  using unlocked = nb::call_guard<nb::gil_scoped_release>;

  m.def("file_system", &file_system, unlocked());
  m.def("default_scratch", &default_scratch, unlocked());
  m.def("prepare_scratch", &prepare_scratch, unlocked());
  m.def("import_path", &import_path, unlocked());
  m.def("describe_import", &describe_import, unlocked());

  nb::class_<ScratchResult>(m, "ScratchResult")
      .def(nb::init<const std::string&, const std::string&>(), unlocked())
      .def_prop_ro("path", &ScratchResult::path)
      .def("discard", &ScratchResult::discard, unlocked());

  nb::class_<Reservation>(m, "Reservation")
      .def(nb::init<std::string, std::string, std::optional<std::uint64_t>>(), nb::arg("who"), nb::arg("scratch"),
           nb::arg("quota").none())
      .def("take", &Reservation::take, nb::arg("nbytes"), nb::arg("entry") = "", unlocked())
      .def("wrote", &Reservation::wrote, unlocked())
      .def("look", &Reservation::look, unlocked())
      .def("grow", &Reservation::grow, unlocked())
      .def("release", &Reservation::release, unlocked())
      .def_prop_ro("path", &Reservation::path);
  m.def("scratch_held", &scratch_held, unlocked());
  m.def("usual_quota", &usual_quota, unlocked());
  m.def("use_import", &use_import, unlocked());
  m.def(
      "sweep_imports",
      [](const std::string& scratch, double days) {
        return sweep_imports(scratch, std::chrono::seconds(static_cast<std::int64_t>(days * 86400)));
      },
      nb::arg("scratch"), nb::arg("days") = 30.0, unlocked());

  m.def("scratch_entries", [](const std::string& scratch) {
    std::vector<std::tuple<std::string, std::string, std::uint64_t, std::string>> rows;
    const nb::gil_scoped_release looking;
    for (const ScratchEntry& entry : scratch_entries(scratch))
      rows.emplace_back(entry.path, name_of(entry.kind), entry.bytes, entry.source);
    return rows;
  });
  m.def("clearable_scratch", &clearable_scratch, unlocked());
  m.def("clear_scratch", [](const std::string& scratch) {
    const nb::gil_scoped_release clearing;
    const ScratchCleared cleared = clear_scratch(scratch);
    return std::pair(cleared.entries, cleared.bytes);
  });
}

}  // namespace flagstone::python
