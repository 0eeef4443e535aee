// C++ exceptions become the Python classes of flagstone.errors, which registers them here at import.
#include "flagstone/base/pivot_error.hpp"

#include <filesystem>
#include <string>

#include "bindings/core/bindings.hpp"
#include "flagstone/storage/scratch/scratch.hpp"

namespace flagstone::python {
namespace {

// Borrowed for the life of the process: the classes live in a module that is never unloaded.
nb::handle translate;

/// A message on one line; it may quote what a damaged file holds, which need not be UTF-8.
nb::object text_of(const std::exception& error) {
  std::string text = error.what();
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

void raise(const char* kind, const std::exception& error, nb::object detail) {
  try {
    nb::object exception = translate(kind, text_of(error), detail);
    PyErr_SetObject(exception.type().ptr(), exception.ptr());
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

void to_python(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const BudgetError& error) {
    raise("BudgetError", error, nb::cast(error.least));
  } catch (const StorageError& error) {
    const bool whole = dynamic_cast<const ScratchError*>(&error) != nullptr;
    raise(whole ? "ScratchError" : "StorageError", error,
          nb::make_tuple(error.number, nb::steal(PyUnicode_DecodeFSDefault(error.filename.c_str())), error.offset));
  } catch (const ShapeError& error) {
    raise("ShapeError", error, nb::none());
  } catch (const DeviceError& error) {
    raise("DeviceError", error, nb::none());
  } catch (const FormatError& error) {
    raise("FormatError", error, nb::none());
  } catch (const ConvergenceError& error) {
    raise("ConvergenceError", error, nb::none());
  } catch (const PivotError& error) {
    raise("PivotError", error, nb::make_tuple(error.index, error.row, error.col));
  } catch (const NumericalError& error) {
    raise("NumericalError", error, nb::none());
  } catch (const Error& error) {
    raise("Error", error, nb::none());
  } catch (const std::filesystem::filesystem_error& error) {  // a link in a circle, a folder that may not be looked at
    const std::string path = error.path1().string();
    raise("StorageError", StorageError("storage: cannot look at", error.code().value(), path),
          nb::make_tuple(error.code().value(), nb::steal(PyUnicode_DecodeFSDefault(path.c_str())), 0));
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  // translator(kind, message, detail) -> exception instance
  m.def("register_errors", [](nb::object translator) { translate = translator.release(); });
  nb::register_exception_translator(to_python);
}

}  // namespace flagstone::python
