#pragma once
// Files and trees that outlive a power failure; names in one directory are sync_directory's (directory.hpp). What goes
// with its process anyway (goes_with_us, build_name.hpp) is left as it is by all of them: here and nowhere else it is
// decided whether a file is synced.
#include <string>

namespace flagstone {

/// fdatasync of an open file. StorageError(`what`) names `path`.
void sync_file(int descriptor, const std::string& path, const char* what = "storage: cannot sync");
/// fdatasync of every file and fsync of every directory of a tree, or of one file, leaves first; links are part of
/// their directory.
void sync_tree(const std::string& path);

}  // namespace flagstone
