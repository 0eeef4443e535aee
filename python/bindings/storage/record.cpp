// Records of long calls, and what killed ones left.
#include "flagstone/storage/output/record.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"
#include "flagstone/storage/output/leftovers.hpp"

namespace flagstone::python {
namespace {

/// A Python function that is called without Python's lock; none: an empty one.
template <class Argument>
std::function<void(Argument)> listener(nb::object function) {
  if (function.is_none()) return {};
  return [function = shared_object(std::move(function))](Argument told) {
    nb::gil_scoped_acquire lock;
    (*function)(told);
  };
}

Record make(const std::string& operation, const std::string& text, const std::string& scratch, nb::object warn,
            nb::object saved) {
  return Record::written(operation, text,
                         {.scratch = scratch,
                          .warn = listener<const std::string&>(std::move(warn)),
                          .saved = listener<int>(std::move(saved))});
}

}  // namespace

void bind_record(nb::module_& m) {
  using unlocked = nb::call_guard<nb::gil_scoped_release>;

  m.attr("record_format") = record_format;
  m.def("record_text", &record_text, nb::arg("operation"), nb::arg("arguments"), nb::arg("threads_per_task"),
        nb::arg("language") = "", nb::arg("devices") = "");
  m.def("worth_a_record", &worth_a_record);
  m.def("checkpoint_seconds", &checkpoint_seconds);
  m.def("set_checkpoint_seconds", &set_checkpoint_seconds, nb::arg("seconds").none());
  m.def("nominal_seconds", &nominal_seconds, nb::arg("flops"), nb::arg("nbytes"));
  nb::class_<Record>(m, "Record")
      .def(nb::new_(&make), nb::arg("operation"), nb::arg("text"), nb::arg("scratch") = "",
           nb::arg("warn") = nb::none(), nb::arg("saved") = nb::none())
      .def("output", &Record::output, nb::arg("path"), nb::arg("replace"), nb::arg("bytes_needed") = 0, unlocked())
      .def("begin_again", &Record::begin_again, nb::arg("path"), nb::arg("why"), unlocked())
      .def_prop_ro("checkpoint", &Record::checkpoint)
      .def_prop_ro("resumed", &Record::resumed)
      .def_prop_ro("done", &Record::done);

  nb::class_<Leftover>(m, "Leftover")
      .def_ro("path", &Leftover::path)
      .def_ro("build", &Leftover::build)
      .def_ro("notes", &Leftover::notes)
      .def_ro("record", &Leftover::record)
      .def_ro("nbytes", &Leftover::bytes)
      .def_ro("live", &Leftover::live)
      .def_ro("operation", &Leftover::operation)
      .def_ro("done", &Leftover::done)
      .def_ro("saves", &Leftover::saves)
      .def_ro("process", &Leftover::process)
      .def_ro("age", &Leftover::age)
      .def_prop_ro("resumable", &Leftover::resumable);
  m.def("leftovers_of", &leftovers_of, unlocked());
  m.def("registered_outputs", &registered_outputs, unlocked());
  m.def("sweep_leftovers", &sweep_leftovers, unlocked());
}

}  // namespace flagstone::python
