// Outputs that may be resumed: what their writer left, and what it promises about it.
#include <unistd.h>

#include <algorithm>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"

namespace flagstone {

void ZarrStore::checkpoint() {
  flush(false);
  final_ = true;
}

/// Where a killed writer had begun to overwrite an index or its checksums, the chunks of that shard count as never
/// written.
void ZarrStore::adopt() {
  final_ = true;
  for (const Shape& shard : shards_of_shape()) {
    std::lock_guard lock(mutex_);
    bool damaged = false;
    try {
      Shard& loaded = load(shard);
      if (set_idle(shard, loaded)) {
        if (keeps_sums_) sums_.invalidate(sums_.number_of(shard));
        continue;
      }
      loaded.reserved = loaded.exists;
      damaged = loaded.exists && keeps_sums_ && loaded.sums.state != ShardSums::State::known;
    } catch (const FormatError&) {
      damaged = true;
    }
    if (!damaged) continue;
    std::erase(open_, shard);
    shards_.erase(shard);
    if (keeps_sums_) sums_.invalidate(sums_.number_of(shard));
    ::unlink(path_of(shard).c_str());
  }
}

bool ZarrStore::stored(const Box& box) const {
  const auto chunks = layout_.touched(box);
  return std::all_of(chunks.begin(), chunks.end(), [this](const Shape& chunk) {
    const StoredChunk found = locate(chunk);
    return found.file != nullptr;
  });
}

}  // namespace flagstone
