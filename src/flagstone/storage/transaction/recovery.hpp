#pragma once
// What was committed, brought to where it belongs: by the writer itself, or after its death.
#include <memory>
#include <string>
#include <vector>

#include "flagstone/storage/file/directory.hpp"

namespace flagstone {

struct Committed;

/// Writes what a record says into the indexes and checksums of its arrays, then clears the journals. `places`: of the
/// arrays of the record, in its order; null for those that take no part any more. May be repeated.
void finish(const Committed& found, const std::vector<std::shared_ptr<const Directory>>& places);

/// Finishes, under the lock of the array in `directory`, what was committed there. Locks the other arrays of that
/// transaction for as long. Another array is touched only where its own journal names this very transaction: what was
/// replaced since, or what somebody else's record names, is left as it is. Returns those that were.
std::vector<std::string> recover(const std::shared_ptr<const Directory>& directory);

}  // namespace flagstone
