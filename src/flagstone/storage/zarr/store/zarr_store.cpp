#include "flagstone/storage/zarr/store/zarr_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/chunk/chunk_read.hpp"
#include "flagstone/storage/chunk/zero_copy.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/file/build_name.hpp"
#include "flagstone/storage/file/crc32c.hpp"

namespace flagstone {
namespace {

constexpr std::size_t files_held_open = 32;  // of one array; the usual limit of a process is 1024

std::string name_of_chunk(const Shape& chunk) {
  std::string text;
  for (Index at : chunk) text += (text.empty() ? "" : ", ") + std::to_string(at);
  return "chunk (" + text + ")";
}

}  // namespace

ZarrStore::ZarrStore(std::string directory, ArrayMetadata metadata, const Options& options)
    : directory_(from_root(directory)),
      opened_(::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
      metadata_(std::move(metadata)),
      layout_(metadata_.shape, metadata_.chunks, metadata_.dtype),
      options_(options),
      sums_(opened_, directory_, metadata_) {
  layout_.fill = metadata_.fill;
  layout_.stores_fill = !metadata_.fill_known;
  options_.writable ? layout_.pack_with(metadata_.codec, directory_) : layout_.decode_with(metadata_.codec, directory_);
  layout_.mismatch = [this](const Shape& chunk, std::uint32_t expected) { mismatched(chunk, expected); };
  if (options_.new_sums) sums_.make();
  const bool sums = metadata_.sharded && sums_.there();  // from now on they tell of this array, whatever takes its path
  keeps_sums_ = options_.writable && sums;
  hold_existing();
  layout_.sums = keeps_sums_;
  layout_.verify = options_.verify;
}

bool ZarrStore::verified() const {
  std::lock_guard lock(mutex_);
  return sums_.there();
}

ZarrStore::~ZarrStore() {
  if (opened_ >= 0) ::close(opened_);
}

bool ZarrStore::still_there() const {
  struct stat now, then;
  return opened_ < 0 || (::stat(directory_.c_str(), &now) == 0 && ::fstat(opened_, &then) == 0 &&
                         now.st_ino == then.st_ino && now.st_dev == then.st_dev);
}

/// By path while that names the directory that was opened, else through its descriptor (it was renamed, or another
/// array took its path). StorageError(ENOENT): absent; (ESTALE): the directory was removed.
std::shared_ptr<File> ZarrStore::open_file(const Shape& shard, File::Mode mode) const {
  try {
    if (still_there()) {
      auto file = File::open(path_of(shard), mode);
      if (still_there()) return file;
    }
    return File::open("/proc/self/fd/" + std::to_string(opened_) + "/" + metadata_.key(shard), mode);
  } catch (const StorageError& error) {
    if (error.number == ENOENT && opened_ >= 0 &&
        ::faccessat(opened_, metadata_.version == 2 ? ".zarray" : "zarr.json", F_OK, 0) != 0 &&
        !(absent_at_first_.contains(shard) && sums_.never_stored(sums_.number_of(shard))))
      throw StorageError("read: the array was replaced or removed meanwhile; open it again", ESTALE, directory_);
    throw;
  }
}

void ZarrStore::hold_existing() {
  const Shape shards = metadata_.shards;
  Shape grid = metadata_.shape;
  double number = 1;
  for (std::size_t d = 0; d < grid.size(); ++d) {
    grid[d] = ceil_div(grid[d], shards[d]);
    number *= static_cast<double>(grid[d]);
  }
  if (!metadata_.sharded || number > static_cast<double>(files_held_open)) return;
  for (const Shape& shard : ChunkLayout(metadata_.shape, shards, metadata_.dtype).touched(whole(metadata_.shape))) {
    if (::access(path_of(shard).c_str(), F_OK) != 0) {
      absent_at_first_.insert(shard);
      continue;
    }
    const auto at = shards_.try_emplace(shard).first;
    try {
      hold(shard, at->second);
    } catch (const StorageError&) {
      shards_.erase(at);  // said when it is needed
    }
  }
}

ZarrStore::Place ZarrStore::place_of(const Shape& chunk) const {
  Place place{chunk, 0};
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    const Index per_shard = metadata_.shards[d] / metadata_.chunks[d];
    place.shard[d] = chunk[d] / per_shard;
    place.entry = place.entry * static_cast<std::size_t>(per_shard) + static_cast<std::size_t>(chunk[d] % per_shard);
  }
  return place;
}

void ZarrStore::hold(const Shape& shard, Shard& loaded) const {
  if (loaded.file) return;
  loaded.file = open_file(shard, options_.writable ? File::Mode::update : File::Mode::read);
  open_.push_back(shard);
  if (open_.size() <= files_held_open) return;
  if (const auto oldest = shards_.find(open_.front()); oldest != shards_.end())
    oldest->second.file.reset();  // requests on the way keep their own hold
  open_.pop_front();
}

ZarrStore::Shard& ZarrStore::load(const Shape& shard) const {
  if (!looked_) look_again();
  const auto at = shards_.try_emplace(shard).first;
  Shard& loaded = at->second;
  if (loaded.indexed) {
    if (loaded.exists) hold(shard, loaded);
    return loaded;
  }
  try {
    check_unchanged();
    hold(shard, loaded);
    loaded.exists = true;
    read_index(shard, loaded);
    loaded.indexed = true;
  } catch (const std::exception& error) {
    const auto* storage = dynamic_cast<const StorageError*>(&error);
    const bool absent = storage && storage->number == ENOENT && !loaded.exists;
    const std::size_t lost = absent ? chunks_missed(shard) : 0;
    if (absent && lost == 0) {
      loaded.indexed = true;  // an absent shard: all fill value
      return loaded;
    }
    std::erase(open_, shard);
    shards_.erase(at);
    if (lost > 0 && heads() == seen_)
      throw FormatError("open: " + path_of(shard) + " is missing, and " + std::to_string(lost) +
                        " of its chunks were stored; restore it from a copy, or let them be the fill value with "
                        "fl.repair(path, accept=True).");
    if (!transacting_ && !(heads() == seen_)) throw_changed();  // read while its index was overwritten
    throw;
  }
  return loaded;
}

/// Chunks that the checksums know of a shard whose file is not there.
std::size_t ZarrStore::chunks_missed(const Shape& shard) const {
  if (options_.new_sums || !metadata_.sharded || sums_.replaced()) return 0;
  const ShardSums sums = sums_.last_known(sums_.number_of(shard));
  if (sums.state != ShardSums::State::known) return 0;
  return static_cast<std::size_t>(
      std::count_if(sums.chunks.begin(), sums.chunks.end(), [](const ChunkSum& sum) { return sum.epoch > 0; }));
}

void ZarrStore::read_index(const Shape& shard, Shard& loaded) const {
  loaded.file_bytes = loaded.file->size();
  if (const ShardRecord* record = overlaid(shard, loaded.file_bytes)) {
    loaded.entries = record->entries;
    loaded.sums = {ShardSums::State::unknown, record->epoch, stamp_of(*loaded.file, crc_of(record->entries)),
                   record->sums};
    if (!record->sums.empty()) loaded.sums.state = ShardSums::State::known;
    return;
  }
  loaded.entries = read_shard_index(*loaded.file, metadata_);
  loaded.sums = sums_.load(sums_.number_of(shard), stamp_of(*loaded.file, crc_of(loaded.entries)));
}

void ZarrStore::check_sums(const Shard& shard) const {
  if (shard.sums.state != ShardSums::State::damaged || options_.ignore_damage) return;
  throw FormatError("open: " + sums_.path() + ": the checksums of " + shard.file->path() +
                    " are damaged themselves; fl.check tells what is whole, fl.repair writes them anew.");
}

/// A chunk was read and is not what was written; or it was replaced between looking it up and reading it.
void ZarrStore::mismatched(const Shape& chunk, std::uint32_t expected) const {
  const Place place = place_of(chunk);
  std::lock_guard lock(mutex_);
  Shard& shard = load(place.shard);
  const auto replaced = [&] {
    return !shard.exists || shard.sums.state != ShardSums::State::known ||
           shard.sums.chunks[place.entry].crc != expected;
  };
  if (replaced()) return;
  if (!transacting_ && !(heads() == seen_)) throw_changed();
  hold(place.shard, shard);
  Shard now;
  now.file = shard.file;
  now.exists = now.indexed = true;
  read_index(place.shard, now);
  const bool touched = stamp_of(*shard.file, 0).modified != shard.sums.stamp.modified;
  if (!shard.unsynced) shard = std::move(now);
  if (replaced()) return;
  throw FormatError("read: " + shard.file->path() + ": " + name_of_chunk(chunk) + " does not match its checksum" +
                    "; it is damaged: restore it from a copy or write it again (fl.check lists all that are)" +
                    (touched ? ". The file was changed after it was written: if another program did that on purpose, "
                               "fl.repair(path, accept=True) takes it as it is."
                             : "."));
}

/// An unsharded chunk is a file of its own; nothing is remembered of it, there may be millions.
StoredChunk ZarrStore::locate_file(const Shape& chunk) const {
  try {
    auto file = open_file(chunk, File::Mode::read);
    const std::uint64_t bytes = file->size();
    if (bytes == 0 || (metadata_.codec.raw() && bytes != layout_.chunk_bytes))
      throw FormatError("open: " + file->path() + ": the chunk has " + std::to_string(bytes) + " bytes, " +
                        (bytes == 0 ? "it is empty" : std::to_string(layout_.chunk_bytes) + " are needed") +
                        "; the file is damaged, write or copy it again.");
    return {std::move(file), 0, bytes, bytes};
  } catch (const StorageError& error) {
    if (error.number == ENOENT) return {};
    throw;
  }
}

StoredChunk ZarrStore::locate(const Shape& chunk) const {
  if (!metadata_.sharded) return locate_file(chunk);
  const Place place = place_of(chunk);
  std::lock_guard lock(mutex_);
  const Shard& shard = load(place.shard);
  check_sums(shard);
  if (!shard.exists || shard.entries[place.entry].absent()) return {};
  const ShardEntry& entry = shard.entries[place.entry];
  if (metadata_.codec.raw() && entry.bytes != layout_.chunk_bytes)
    throw FormatError("open: " + shard.file->path() + ": " + name_of_chunk(chunk) + " has " +
                      std::to_string(entry.bytes) + " bytes, " + std::to_string(layout_.chunk_bytes) +
                      " are needed; the file is damaged, write or copy it again.");
  StoredChunk stored{shard.file, entry.offset, entry.bytes, shard.file_bytes - entry.offset};
  if (shard.sums.state == ShardSums::State::known && shard.sums.chunks[place.entry].epoch > 0)
    stored.crc = shard.sums.chunks[place.entry].crc;
  return stored;
}

bool ZarrStore::absent_for_good(const Shape& chunk) const {
  const Place place = place_of(chunk);
  const ShardSums sums = facts(place.shard).sums;
  return sums.state == ShardSums::State::known && sums.chunks[place.entry].epoch == 0;
}

ZarrStore::ShardFacts ZarrStore::facts(const Shape& shard) const {
  std::lock_guard lock(mutex_);
  const Shard& loaded = load(shard);
  if (!loaded.exists) return {};
  return {loaded.file, loaded.entries, loaded.sums};
}

std::uint64_t ZarrStore::stored_bytes() const {
  std::uint64_t sum = 0;
  for (const Shape& chunk : layout_.touched(whole(layout_.shape))) sum += locate(chunk).bytes;
  return sum;
}

std::uint64_t ZarrStore::pass_bytes() const {
  std::uint64_t sum = 0;
  for (const Shape& chunk : layout_.touched(whole(layout_.shape))) sum += align_up(locate(chunk).bytes);
  return sum;
}

Transfer ZarrStore::read(const Box& box) const {
  return read_chunks(layout_, box, [this](const Shape& chunk) { return locate(chunk); });
}

Transfer ZarrStore::geometry(const Box& box) const {
  return geometry_of_chunks(layout_, box, [this](const Shape& chunk) { return locate(chunk); });
}

std::optional<Transfer> ZarrStore::read_straight(const Box& box, const Tile& to) const {
  return flagstone::read_straight(layout_, box, to, [this](const Shape& chunk) { return locate(chunk); });
}

Shape ZarrStore::neighbourhood() const {
  return metadata_.sharded && layout_.short_chunks() ? metadata_.shards : Shape{};
}

std::vector<PartRead> ZarrStore::read_joined(const Box& box, const Tile& to, std::size_t most_bytes) const {
  return read_joined_chunks(layout_, box, to, most_bytes, [this](const Shape& chunk) { return locate(chunk); });
}

ZarrStore* zarr_store(const Array& array) { return array ? dynamic_cast<ZarrStore*>(&array.store()) : nullptr; }

}  // namespace flagstone
