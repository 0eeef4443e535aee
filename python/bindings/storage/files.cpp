// Locks, syncs, versions of stored files, and ranges that are read from front to back.
#include <nanobind/stl/string.h>

#include <memory>

#include "bindings/core/bindings.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/file/lock.hpp"
#include "flagstone/storage/file/space.hpp"
#include "flagstone/storage/file/stamp.hpp"
#include "flagstone/storage/file/sync.hpp"
#include "flagstone/storage/formats/range_reader.hpp"

namespace flagstone::python {
namespace {

/// What was read, with its memory: the array keeps it.
nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> read_range(RangeReader& reader, std::uint64_t count) {
  auto read = std::make_unique<RangeReader::Read>();
  {
    const nb::gil_scoped_release unlocked;
    *read = reader.read(count);
  }
  const std::span<const std::byte> bytes = read->bytes;
  const nb::capsule owner(read.release(), [](void* held) noexcept { delete static_cast<RangeReader::Read*>(held); });
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), {bytes.size()}, owner};
}

}  // namespace

void bind_files(nb::module_& m) {
  using unlocked = nb::call_guard<nb::gil_scoped_release>;

  m.def("free_bytes", &free_bytes, unlocked());
  m.def(
      "sync_file", [](int file, const std::string& path) { sync_file(file, path); }, nb::arg("descriptor"),
      nb::arg("path"), unlocked());
  m.def("sync_folder", &sync_directory, unlocked());
  m.def("sync_tree", &sync_tree, unlocked());
  m.def("goes_with_us", &goes_with_us);
  m.def("stored_stamp", &stored_stamp, unlocked());
  m.attr("build_mark") = build_mark;
  nb::class_<FileLock>(m, "FileLock")
      .def_static("make", &FileLock::make, nb::arg("path"), nb::arg("mode") = 0666, unlocked())
      .def_static("take", &FileLock::take, unlocked())
      .def_static("wait", &FileLock::wait, unlocked())
      .def("__bool__", [](const FileLock& lock) { return static_cast<bool>(lock); })
      .def("fileno", &FileLock::descriptor)
      .def("is_at", &FileLock::is_at)
      .def("close", &FileLock::close);

  nb::class_<RangeReader>(m, "RangeReader")
      .def(nb::init<const std::string&, std::uint64_t, std::uint64_t>(), nb::arg("path"), nb::arg("offset"),
           nb::arg("nbytes"), unlocked())
      .def("read", &read_range)
      .def_prop_ro("crc", &RangeReader::crc);
}

}  // namespace flagstone::python
