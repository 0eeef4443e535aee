#pragma once
// What tells a stored operand from a later version of itself.
#include <string>

namespace flagstone {

/// A hash of the inode, size and times of a file, or of all files of a directory but those in `__flagstone` (locks and
/// journals). Where no checksums would notice other bytes, the time of the last change of an inode is among them, which
/// nobody can set. Of a path inside a file (a member of it), the file's. StorageError where it cannot be looked at.
std::string stored_stamp(const std::string& path);

}  // namespace flagstone
