#include "flagstone/storage/zarr_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/codec.hpp"
#include "flagstone/storage/crc32c.hpp"

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
    : directory_(std::move(directory)),
      opened_(::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
      metadata_(std::move(metadata)),
      layout_(metadata_.shape, metadata_.chunks, metadata_.dtype),
      options_(options),
      sums_(opened_, directory_, metadata_) {
  layout_.fill = metadata_.fill;
  layout_.decode_with(metadata_.codec, directory_);
  layout_.mismatch = [this](const Shape& chunk, std::uint32_t expected) { mismatched(chunk, expected); };
  if (options_.new_sums) sums_.make();
  keeps_sums_ = options_.writable && sums_.there();
  hold_existing();
  if (!options_.writable) return;
  if (!metadata_.codec.raw() && can_encode(metadata_.codec))
    layout_.encode = [this](const Shape& chunk, const std::byte* decoded, std::byte* encoded) {
      const std::size_t packed = encode_chunk(metadata_.codec, {decoded, layout_.chunk_bytes}, size_of(metadata_.dtype),
                                              {encoded, layout_.slot_bytes()});
      pend(chunk, {packed, keeps_sums_ ? crc32c(encoded, packed) : 0});
    };
  else if (keeps_sums_)
    layout_.summed = [this](const Shape& chunk, std::uint32_t crc) { pend(chunk, {layout_.chunk_bytes, crc}); };
}

void ZarrStore::pend(const Shape& chunk, const Pending& pending) {
  std::lock_guard lock(mutex_);
  pending_[chunk] = pending;
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
        ::faccessat(opened_, metadata_.version == 2 ? ".zarray" : "zarr.json", F_OK, 0) != 0)
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
    if (::access(path_of(shard).c_str(), F_OK) != 0) continue;
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
  const auto at = shards_.try_emplace(shard).first;
  Shard& loaded = at->second;
  if (loaded.indexed) {
    if (loaded.exists) hold(shard, loaded);
    return loaded;
  }
  try {
    hold(shard, loaded);
    loaded.exists = true;
    read_index(shard, loaded);
    loaded.indexed = true;
  } catch (const std::exception& error) {
    const auto* storage = dynamic_cast<const StorageError*>(&error);
    if (storage && storage->number == ENOENT && !loaded.exists) {
      loaded.indexed = true;  // an absent shard: all fill value
      return loaded;
    }
    std::erase(open_, shard);
    shards_.erase(at);
    throw;
  }
  return loaded;
}

void ZarrStore::read_index(const Shape& shard, Shard& loaded) const {
  loaded.file_bytes = loaded.file->size();
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
  hold(place.shard, shard);
  Shard now;
  now.file = shard.file;
  now.exists = now.indexed = true;
  read_index(place.shard, now);
  const ShardStamp before = shard.sums.stamp;
  const bool touched = stamp_of(*shard.file, 0).modified != before.modified;
  if (!shard.unsynced) shard = std::move(now);
  if (replaced()) return;
  throw FormatError("read: " + shard.file->path() + ": " + name_of_chunk(chunk) + " does not match its checksum" +
                    (touched ? " (the file was changed after it was written)" : "") +
                    "; it is damaged: restore it from a copy or write it again (fl.check lists all that are).");
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
  return layout_.read(box, [this](const Shape& chunk) { return locate(chunk); });
}

void ZarrStore::make(const Shape& shard, Shard& fresh) {
  if (!still_there())
    throw StorageError("write: the array was replaced or moved meanwhile; open it again", ESTALE, directory_);
  const std::string path = path_of(shard);
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (std::filesystem::create_directories(parent, error)) {
    for (auto up = parent; up.string().size() >= directory_.size(); up = up.parent_path())
      new_directories_.insert(up.string());
  }
  if (error) throw StorageError("storage: cannot create a directory", error.value(), parent.string());
  new_directories_.insert(parent.string());
  fresh.file_bytes =
      align_up(static_cast<std::uint64_t>(metadata_.entries()) * layout_.slot_bytes() + metadata_.index_bytes());
  fresh.entries.assign(static_cast<std::size_t>(metadata_.entries()), ShardEntry{});
  const auto file = File::open(path, File::Mode::create);
  if (metadata_.codec.raw())
    file->allocate(fresh.file_bytes);
  else
    file->truncate(fresh.file_bytes);  // packed slots are sparse: their tails never take space
  write_shard_index(*file, fresh.entries, fresh.file_bytes);
  fresh.exists = fresh.indexed = true;
}

void ZarrStore::check_layout(const Shape& shard, const Shard& loaded) const {
  const std::uint64_t slot = layout_.slot_bytes();
  bool ours = loaded.file_bytes >= loaded.entries.size() * slot + metadata_.index_bytes();
  for (std::size_t i = 0; ours && i < loaded.entries.size(); ++i)
    ours = loaded.entries[i].absent() || loaded.entries[i].offset == i * slot;
  if (!ours)
    throw FormatError("write: " + path_of(shard) +
                      ": another program laid this shard out; copy the array (fl.from_numpy, fl.matmul with out=) "
                      "instead of writing into it.");
}

StoredChunk ZarrStore::slot(const Shape& chunk) {
  const Place place = place_of(chunk);
  std::lock_guard lock(mutex_);
  Shard& shard = load(place.shard);
  if (!shard.exists) {
    make(place.shard, shard);
    hold(place.shard, shard);
  } else if (!shard.unsynced) {
    check_layout(place.shard, shard);
    check_sums(shard);
    if (keeps_sums_) sums_.invalidate(sums_.number_of(place.shard));
  }
  if (!shard.unsynced && keeps_sums_) {
    shard.sums.state = ShardSums::State::known;
    shard.sums.chunks.resize(shard.entries.size());
    ++shard.sums.epoch;
  }
  shard.unsynced = true;
  return {shard.file, place.entry * layout_.slot_bytes(), layout_.slot_bytes(), layout_.slot_bytes()};
}

Transfer ZarrStore::write(const Box& box) {
  if (!options_.writable)
    throw StorageError("write: the array is open for reading only; open it with mode r+", EROFS, directory_);
  return layout_.write(box, [this](const Shape& chunk) { return slot(chunk); });
}

std::size_t ZarrStore::write_staging(const Box& box) {
  const std::uint64_t slot = layout_.slot_bytes();
  return layout_.write(box, [slot](const Shape&) { return StoredChunk{nullptr, 0, slot, slot}; }).staging_bytes;
}

void ZarrStore::written(const Box& box) {
  std::lock_guard lock(mutex_);
  const std::uint64_t slot = layout_.slot_bytes();
  for (const Shape& chunk : layout_.touched(box)) {
    const Place place = place_of(chunk);
    Shard& shard = shards_.at(place.shard);
    const std::uint64_t offset = place.entry * slot;
    Pending pending{layout_.chunk_bytes, 0};
    if (layout_.encode || layout_.summed) {
      const auto at = pending_.find(chunk);
      if (at == pending_.end()) throw Error("storage: " + name_of_chunk(chunk) + " was written without being packed.");
      pending = at->second;
      pending_.erase(at);
    }
    shard.entries[place.entry] = {offset, pending.bytes};
    if (keeps_sums_) shard.sums.chunks[place.entry] = {pending.crc, shard.sums.epoch};
    // The tail of a packed chunk's slot goes back to the file system.
    const std::uint64_t used = align_up(shard.entries[place.entry].bytes);
    if (used == slot || !layout_.encode) continue;
    hold(place.shard, shard);
    // Where holes are not supported the tail only costs space.
    ::fallocate(shard.file->buffered(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + used),
                static_cast<off_t>(slot - used));
  }
}

void ZarrStore::flush() {
  std::lock_guard lock(mutex_);
  for (auto& [name, shard] : shards_) {
    if (!shard.unsynced) continue;
    hold(name, shard);
    shard.file->sync();  // the chunks first: an index never names what is not on disk
    write_shard_index(*shard.file, shard.entries, shard.file_bytes);
    shard.file->sync();
    shard.unsynced = false;
    if (!keeps_sums_) continue;
    shard.sums.stamp = stamp_of(*shard.file, crc_of(shard.entries));
    sums_.save(sums_.number_of(name), shard.sums);
  }
  sums_.sync();
  for (const std::string& path : new_directories_) sync_directory(path);
  new_directories_.clear();
}

ZarrStore* zarr_store(const Array& array) { return array ? dynamic_cast<ZarrStore*>(&array.store()) : nullptr; }

}  // namespace flagstone
