#pragma once
// The shards of a Zarr array that are on the disk, found in its directories: a grid may have more places than there
// are files in the world.
#include <functional>
#include <string>
#include <vector>

#include "flagstone/storage/zarr/metadata/array_metadata.hpp"
#include "flagstone/storage/zarr/shard/commit_journal.hpp"

namespace flagstone {

/// The shards of one directory, whose path is given, in no order.
using ShardsSeen = std::function<void(const std::string& directory, const std::vector<Shape>& shards)>;

/// Calls `seen` for every directory in which shards may lie, after it was listed: what it lists may be removed then.
/// `pulse` is called for every name. Cost: a listing of the directories. Memory: the names of one of them at each
/// level.
void for_existing_shards(const Directory& place, const ArrayMetadata& about, const std::function<void()>& pulse,
                         const ShardsSeen& seen);

}  // namespace flagstone
