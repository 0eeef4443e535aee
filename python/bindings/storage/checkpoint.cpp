// What long operations need to go on: shared with jobs, or used from Python between two pieces of work.
#include "flagstone/storage/output/checkpoint.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/bindings.hpp"

namespace flagstone::python {
namespace {

/// `saved` hears the number of every save; a job saves without Python's lock.
std::shared_ptr<Checkpoint> make(const std::string& directory, double every, nb::object saved) {
  std::function<void(int)> hear;
  if (!saved.is_none())
    hear = [saved = shared_object(std::move(saved))](int number) {
      nb::gil_scoped_acquire lock;
      (*saved)(number);
    };
  nb::gil_scoped_release unlocked;  // reads what is there
  return std::make_shared<Checkpoint>(directory, every, std::move(hear));
}

void save(Checkpoint& checkpoint, double done, const std::vector<std::pair<std::string, nb::bytes>>& parts) {
  std::vector<Checkpoint::Part> views;
  for (const auto& [name, bytes] : parts)
    views.push_back(Checkpoint::part(name, static_cast<const std::byte*>(bytes.data()), bytes.size()));
  nb::gil_scoped_release unlocked;
  checkpoint.save(done, views);
}

nb::bytes load(const Checkpoint& checkpoint, const std::string& name) {
  const std::vector<std::byte> part = checkpoint.load<std::byte>(name);
  return nb::bytes(part.data(), part.size());
}

}  // namespace

void bind_checkpoint(nb::module_& m) {
  nb::class_<Checkpoint>(m, "Checkpoint")
      .def(nb::new_(&make), nb::arg("directory"), nb::arg("every"), nb::arg("saved") = nb::none())
      .def("due", &Checkpoint::due)
      .def("save", &save, nb::arg("done"), nb::arg("parts"))
      .def("load", &load)
      .def("has", &Checkpoint::has)
      .def("forget", &Checkpoint::forget_all, nb::arg("prefix"))
      .def_prop_ro("done", &Checkpoint::done)
      .def_prop_ro("saves", &Checkpoint::saves);
}

}  // namespace flagstone::python
