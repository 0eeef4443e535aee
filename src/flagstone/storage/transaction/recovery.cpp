#include "flagstone/storage/transaction/recovery.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "flagstone/base/error.hpp"
#include "flagstone/storage/transaction/writer_lock.hpp"
#include "flagstone/storage/zarr/shard/commit_journal.hpp"
#include "flagstone/storage/zarr/shard/free_slots.hpp"
#include "flagstone/storage/zarr/shard/shard_index.hpp"
#include "flagstone/storage/zarr/shard/shard_list.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

namespace fs = std::filesystem;
using Place = std::shared_ptr<const Directory>;

/// Whether a shard is shorter than a record says because it was cut: one that another program wrote ends with an index.
bool was_cut(const File& file, const ArrayMetadata& metadata, std::uint64_t bytes) {
  if (file.size() >= bytes) return false;
  try {
    read_shard_index(file, metadata);
    return false;
  } catch (const FormatError&) {
    return true;
  }
}

/// Indexes and checksums as a record says, on the disk when it returns; may be repeated. A shard that another program
/// replaced since has another length and is left alone. One that was cut gets its length back, where checksums tell
/// which chunks lost something: else what was committed would be given up with them.
void write_indexes(const Directory& directory, const ArrayRecord& record) {
  const Array array = open_zarr_array(directory.self());
  const ArrayMetadata& metadata = zarr_store(array)->metadata();
  ChunkSums sums(directory.descriptor(), directory.path(), metadata);
  for (const ShardRecord& shard : record.shards) {
    std::shared_ptr<File> file;
    try {
      file = File::open(directory.file(metadata.key(shard.shard)), File::Mode::update);
    } catch (const StorageError& error) {
      if (error.number == ENOENT) continue;
      throw;
    }
    if (!shard.sums.empty() && was_cut(*file, metadata, shard.file_bytes)) file->truncate(shard.file_bytes);
    if (file->size() != shard.file_bytes || shard.entries.size() != static_cast<std::size_t>(metadata.entries()))
      continue;
    commit_step("index");
    write_shard_index(*file, shard.entries, shard.file_bytes);
    commit_step("index sync");
    file->sync();
    if (shard.sums.empty()) continue;
    commit_step("checksums");
    sums.save(sums.number_of(shard.shard),
              {ShardSums::State::known, shard.epoch, stamp_of(*file, crc_of(shard.entries)), shard.sums});
  }
  commit_step("checksums sync");
  sums.sync();
}

void clear(const Directory& directory) {
  if (Journal(directory).head().state == JournalHead::State::idle) return;
  commit_step("clear");
  Journal(directory).clear();
}

/// The next writer does it again where it fails, or its process dies.
void settle(const Directory& directory, WriterLock& lock) {
  if (!lock.inherited()) return;
  try {
    give_back_free_slots(directory);
    lock.settled();
  } catch (const Error&) {  // only space
  }
}

}  // namespace

void finish(const Committed& found, const std::vector<Place>& places) {
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i]) write_indexes(*places[i], found.record[i]);
  clear(*found.holder);  // first: what points to it counts for nothing then
  for (const Place& place : places)
    if (place) clear(*place);
}

std::vector<std::string> recover(const Place& directory, WriterLock& lock) {
  std::optional<Committed> found = committed(directory);
  if (!found) {
    clear(*directory);  // it points to what was never committed
    settle(*directory, lock);
    return {};
  }
  std::vector<std::unique_ptr<WriterLock>> locks;  // of the other arrays
  std::vector<Place> locked;
  std::vector<Place> places;
  std::vector<std::string> left;
  for (const ArrayRecord& array : found->record) {
    Place place = found->holder->at(array.path);
    const bool own = place && place->same(*found->holder);
    if (place && !own && !points_to(*place, *found)) place = nullptr;
    if (place && !place->same(*directory)) {
      locks.push_back(std::make_unique<WriterLock>(*place));
      locked.push_back(place);
    }
    if (!place) left.push_back((fs::path(found->holder->path()) / array.path).lexically_normal().string());
    places.push_back(std::move(place));
  }
  const std::optional<Committed> again = committed(directory);  // another one may have finished it before the locks
  if (again && again->id == found->id) finish(*found, places);
  settle(*directory, lock);
  for (std::size_t i = 0; i < locks.size(); ++i) settle(*locked[i], *locks[i]);
  return left;
}

void give_back_free_slots(const Directory& directory) {
  if (Journal(directory).head().state != JournalHead::State::idle) return;  // of a ring of epochs
  const Array array = open_zarr_array(directory.self());
  const ZarrStore& store = *zarr_store(array);
  const ArrayMetadata& metadata = store.metadata();
  if (!metadata.sharded) return;
  commit_step("give back");
  ::unlinkat(directory.descriptor(), "__flagstone/shard", 0);  // one that was being made
  for_existing_shards(directory, metadata, {}, [&](const std::string&, const std::vector<Shape>& shards) {
    for (const Shape& shard : shards) try {
        const auto file = File::open(directory.file(metadata.key(shard)), File::Mode::update);
        punch_free_slots(*file, metadata, store.layout().slot_bytes());
      } catch (const StorageError& error) {
        if (error.number != ENOENT) throw;
      }
  });
}

}  // namespace flagstone
