#pragma once
// Names of what lies in scratch.
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

namespace flagstone::scratch_names {

/// The name of what was made of a file as it is: device, inode, size and time.
std::string key_of(const struct stat& status);
/// The entries of a folder whose names end so, sorted; none where there is no folder.
std::vector<std::string> ending(const std::string& folder, const std::string& suffix);
/// The hidden builds in a folder that are directories, sorted.
std::vector<std::string> half_built(const std::string& folder);
/// The name of the result or import that a path of scratch belongs to, built or being built.
std::string entry_of(const std::string& place);
/// What a file, or the files of a directory, take on the disk; what goes meanwhile takes nothing.
std::uint64_t disk_bytes(const std::string& path);

}  // namespace flagstone::scratch_names
