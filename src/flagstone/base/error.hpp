#pragma once
// What the user sees when something is wrong: who, what was given, what is needed, what to do.
#include <cstdint>
#include <stdexcept>
#include <string>

namespace flagstone {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Shapes, tiles or dtypes do not conform.
struct ShapeError : Error {
  using Error::Error;
};
/// The limit cannot hold the least working set; raised before any data I/O. `least` is the limit that works.
struct BudgetError : Error {
  BudgetError(const std::string& text, std::uint64_t least_bytes) : Error(text), least(least_bytes) {}
  std::uint64_t least;
};
/// The system said no after retries.
struct StorageError : Error {
  StorageError(const std::string& what, int error_number, std::string file, std::uint64_t at = 0);
  int number;  // errno
  std::string filename;
  std::uint64_t offset;
};
/// A device, a memory beside the host's, said no: no memory, a copy or kernel that failed, a device that is lost.
struct DeviceError : Error {
  using Error::Error;
};
/// Not a format we read, or a damaged file.
struct FormatError : Error {
  using Error::Error;
};
/// Not positive definite, singular, NaN where numbers are needed.
struct NumericalError : Error {
  using Error::Error;
};
/// An iteration did not reach its tolerance.
struct ConvergenceError : NumericalError {
  using NumericalError::NumericalError;
};

}  // namespace flagstone
