#include "flagstone/base/error.hpp"

#include <cstring>

namespace flagstone {

StorageError::StorageError(const std::string& what, int error_number, std::string file, std::uint64_t at)
    : Error(what + ": " + file + ": " + std::strerror(error_number)),
      number(error_number),
      filename(std::move(file)),
      offset(at) {}

}  // namespace flagstone
