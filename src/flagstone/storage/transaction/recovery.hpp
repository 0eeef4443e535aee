#pragma once
// What was committed, brought to where it belongs: by the writer itself, or after its death.
#include <memory>
#include <string>
#include <vector>

#include "flagstone/storage/file/directory.hpp"
#include "flagstone/storage/transaction/writer_lock.hpp"

namespace flagstone {

struct Committed;

/// Writes what a record says into the indexes and checksums of its arrays, then clears the journals. `places`: of the
/// arrays of the record, in its order; null for those that take no part any more. May be repeated.
void finish(const Committed& found, const std::vector<std::shared_ptr<const Directory>>& places);

/// Finishes, under the lock of the array in `directory`, what was committed there; then, where a writer died, gives
/// back what it had taken. Locks the other arrays of that transaction for as long. Another array is touched only where
/// its own journal names this very transaction: what was replaced since, or what somebody else's record names, is left
/// as it is. Returns those that were.
std::vector<std::string> recover(const std::shared_ptr<const Directory>& directory, WriterLock& lock);

/// Gives back to the file system what the shards of an array hold and no index names: of updates that were given up,
/// and the old versions of what was updated. Under the array's lock, after recover(). Cost: a read of every index.
void give_back_free_slots(const Directory& directory);

}  // namespace flagstone
