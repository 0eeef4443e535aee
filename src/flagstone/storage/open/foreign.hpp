#pragma once
// Files that are not read here, told by their first bytes; text and what is packed by their names.
#include <optional>
#include <string>

namespace flagstone {

/// "an HDF5 file": what a regular file is that only the Python package reads; none for a .npy. FormatError for what
/// neither reads, and for an empty file.
std::optional<std::string> foreign_format(const std::string& path);

}  // namespace flagstone
