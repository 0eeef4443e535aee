#pragma once
// Files and trees that outlive a power failure; names in one directory are sync_directory's (directory.hpp).
#include <string>

namespace flagstone {

/// fdatasync of an open file. StorageError names `path`.
void sync_file(int descriptor, const std::string& path);
/// fdatasync of every file and fsync of every directory of a tree, or of one file, leaves first; links are part of
/// their directory.
void sync_tree(const std::string& path);

}  // namespace flagstone
