#pragma once
// Zarr stores whose directory cannot be renamed, because a lower layer of an overlay holds it.
#include <string>

namespace flagstone {

// Written into the lock before a directory is removed where it lies: for what was built to take its place, for nothing.
inline constexpr char replacing = 'r', deleting = 'd';

/// Removes a store: its metadata first, which makes it nothing, then those of its members, then the rest; who finds the
/// lock goes on with that. False, with errno: nothing was removed.
bool remove_in_place(const std::string& path);
/// Whether a directory is what remove_in_place() leaves when it is interrupted.
bool half_removed(const std::string& path);

}  // namespace flagstone
