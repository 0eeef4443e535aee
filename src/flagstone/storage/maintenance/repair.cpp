#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/codec/decode.hpp"
#include "flagstone/storage/file/crc32c.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/maintenance/repair.hpp"
#include "flagstone/storage/transaction/recovery.hpp"
#include "flagstone/storage/transaction/transaction.hpp"
#include "flagstone/storage/zarr/metadata/checksum.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

class Repairing {
 public:
  Repairing(const std::string& directory, bool accept) : accept_(accept), directory_(directory) {
    const Array array = open_zarr_array_as_it_is(directory);
    metadata_ = zarr_store(array)->metadata();
    layout_ = ChunkLayout(metadata_.shape, metadata_.chunks, metadata_.dtype);
    slot_ = align_up(layout_.chunk_bytes + (metadata_.codec.raw() ? 0 : page_bytes));
    opened_ = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    sums_ = std::make_unique<ChunkSums>(opened_, directory, metadata_);
  }
  ~Repairing() {
    sums_.reset();
    if (opened_ >= 0) ::close(opened_);
  }
  Repairing(const Repairing&) = delete;

  RepairReport run() {
    if (!metadata_.sharded) return {};
    const auto place = std::make_shared<const Directory>(directory_);
    WriterLock lock(*place);  // until all of it is written
    mend_journal(place, lock);
    metadata();
    had_sums_ = sums_->there();
    const ChunkLayout shards(metadata_.shape, metadata_.shards, metadata_.dtype);
    for (const Shape& shard : shards.touched(whole(metadata_.shape))) {
      const std::string path = directory_ + "/" + metadata_.key(shard);
      struct stat status;
      if (::stat(path.c_str(), &status) == 0)
        repair(shard, path);
      else
        missing(shard, path);
    }
    sums_->sync();
    if (report_.lost.empty()) give_back_free_slots(*place);  // else they may be the last copy of something
    return std::move(report_);
  }

 private:
  struct Slot {
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t crc = 0;
  };

  /// What was committed is finished; a journal that cannot be read goes.
  void mend_journal(const std::shared_ptr<const Directory>& place, WriterLock& lock) {
    try {
      for (const std::string& left : recover(place, lock))
        report_.lost.push_back({left,
                                {},
                                "its part of the last commit: it was replaced or moved since, and is left as "
                                "it is"});
    } catch (const FormatError& error) {
      const std::string path = directory_ + "/__flagstone/journal";
      ::unlink(path.c_str());
      report_.repaired.push_back(path + " was damaged and is removed");
      report_.lost.push_back({path, {}, "the last commit may be missing"});
    }
  }

  /// zarr.json has no copy here: it is right as it is, or lost.
  void metadata() {
    const std::string file = directory_ + "/zarr.json", stamp = array_stamp(directory_);
    if (metadata_.version != 3) return;
    const std::string text = read_text(file);
    if (!metadata_damaged(file, text, stamp)) return;
    if (!accept_) {
      report_.lost.push_back({file, {}, "it is not what was written, and nobody has written it since"});
      return;
    }
    stamp_metadata(file, text, stamp);
    report_.repaired.push_back(file + " counts as right as it is");
  }

  /// A shard whose file is not there, and which held chunks: gone, unless somebody meant it.
  void missing(const Shape& shard, const std::string& path) {
    const std::size_t number = sums_->number_of(shard);
    const ShardSums sums = sums_->last_known(number);
    const auto stored =
        std::count_if(sums.chunks.begin(), sums.chunks.end(), [](const ChunkSum& sum) { return sum.epoch > 0; });
    if (sums.state != ShardSums::State::known || stored == 0) return;
    const std::string what = std::to_string(stored) + " of its chunks were stored";
    if (!accept_) {
      report_.lost.push_back({path, {}, "the file is missing, and " + what});
      return;
    }
    sums_->invalidate(number);
    report_.repaired.push_back(path + " is missing, and " + what + ": they count as fill value now");
  }

  void repair(const Shape& shard, const std::string& path) {
    auto file = File::open(path, File::Mode::update);
    const std::size_t number = sums_->number_of(shard);
    std::vector<ShardEntry> entries;
    try {
      entries = read_shard_index(*file, metadata_);
    } catch (const FormatError& error) {
      rebuild_index(shard, *file, number, error.what());
      return;
    }
    ShardSums sums = sums_->load(number, stamp_of(*file, crc_of(entries)));
    if (sums.state == ShardSums::State::known) {
      keep_or_accept(shard, *file, number, entries, sums);
    } else if (sums.state == ShardSums::State::damaged || (accept_ && had_sums_)) {
      record(*file, number, entries, sums);
      report_.repaired.push_back(path + ": checksums were written anew for the chunks as they are now" +
                                 (sums.state == ShardSums::State::damaged ? " (the old ones were damaged)" : ""));
    }
  }

  /// What is stored in place of an index entry; false where it cannot be read.
  bool load(const File& file, const ShardEntry& entry) {
    if (entry.bytes > layout_.most_packed()) return false;
    if (buffer_.size() < entry.bytes) buffer_ = Buffer(align_up(entry.bytes));
    try {
      read_exactly(file, buffer_.data(), entry.bytes, entry.offset);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  void keep_or_accept(const Shape& shard, const File& file, std::size_t number, const std::vector<ShardEntry>& entries,
                      ShardSums& sums) {
    std::size_t accepted = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].absent() || sums.chunks[i].epoch == 0) continue;
      const bool readable = load(file, entries[i]);
      if (readable && crc32c(buffer_.data(), entries[i].bytes) == sums.chunks[i].crc) continue;
      if (!accept_ || !readable) {
        report_.lost.push_back({file.path(), metadata_.chunk_of(shard, i),
                                readable ? "it does not match its checksum" : "it cannot be read"});
        continue;
      }
      sums.chunks[i].crc = crc32c(buffer_.data(), entries[i].bytes);
      ++accepted;
    }
    if (accepted == 0) return;
    sums_->save(number, sums);
    report_.repaired.push_back(file.path() + ": " + std::to_string(accepted) + " chunks count as right as they are");
  }

  void record(const File& file, std::size_t number, const std::vector<ShardEntry>& entries, const ShardSums& old) {
    ShardSums sums;
    sums.epoch = old.epoch + 1;
    sums.chunks.resize(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (!entries[i].absent() && load(file, entries[i]))
        sums.chunks[i] = {crc32c(buffer_.data(), entries[i].bytes), sums.epoch};
    sums.stamp = stamp_of(file, crc_of(entries));
    sums_->save(number, sums);
  }

  /// What lies in slot `i`, if it can be a chunk: packed ones tell how long they are.
  bool slot_at(const File& file, std::uint64_t i, Slot& slot) {
    ShardEntry entry{i * slot_, layout_.chunk_bytes};
    if (!metadata_.codec.raw()) {
      const std::uint64_t end = file.size() - std::min(file.size(), metadata_.index_bytes());
      if (entry.offset >= end || !load(file, {entry.offset, std::min(slot_, end - entry.offset)})) return false;
      entry.bytes =
          encoded_length(metadata_.codec, {buffer_.data(), std::min(slot_, end - entry.offset)}, layout_.chunk_bytes);
      if (entry.bytes == 0) return false;
    }
    if (!load(file, entry)) return false;
    slot = {entry.offset, entry.bytes, crc32c(buffer_.data(), entry.bytes)};
    return true;
  }

  void rebuild_index(const Shape& shard, File& file, std::size_t number, const std::string& why) {
    const ShardSums sums = sums_->last_known(number);
    if (sums.state != ShardSums::State::known) {
      report_.lost.push_back(
          {file.path(), {}, "its index is damaged and no checksums tell which chunk is where: " + why});
      return;
    }
    if (file.size() > sums.stamp.bytes) {
      report_.lost.push_back(
          {file.path(),
           {},
           "it is longer than what was written here, so another program wrote it; it is left as it is"});
      return;
    }
    file.truncate(sums.stamp.bytes);  // of a file that was cut, zeros come back: they may have been zeros
    std::multimap<std::uint32_t, Slot> found;
    const std::uint64_t slots = ceil_div(static_cast<Index>(file.size()), static_cast<Index>(slot_));
    for (std::uint64_t i = 0; i < slots; ++i)
      if (Slot slot; slot_at(file, i, slot)) found.emplace(slot.crc, slot);
    std::vector<ShardEntry> entries(sums.chunks.size());
    std::size_t whole_ones = 0;
    // Each slot once, though equal chunks lie in several: first the chunks that lie in their own.
    const auto take = [&](std::size_t i, bool own_slot) {
      const auto [first, last] = found.equal_range(sums.chunks[i].crc);
      const auto at =
          std::find_if(first, last, [&](const auto& slot) { return !own_slot || slot.second.offset == i * slot_; });
      if (at == last) return;
      entries[i] = {at->second.offset, at->second.bytes};
      found.erase(at);
      ++whole_ones;
    };
    for (const bool own_slot : {true, false})
      for (std::size_t i = 0; i < entries.size(); ++i)
        if (sums.chunks[i].epoch != 0 && entries[i].absent()) take(i, own_slot);
    std::set<std::uint64_t> taken;
    for (const ShardEntry& entry : entries)
      if (!entry.absent()) taken.insert(entry.offset);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (sums.chunks[i].epoch == 0 || !entries[i].absent()) continue;  // 0: it was never written
      std::uint64_t offset = i * slot_;
      for (std::uint64_t other = 0; taken.contains(offset); ++other) offset = other * slot_;
      taken.insert(offset);
      entries[i] = {offset, layout_.chunk_bytes};
      report_.lost.push_back({file.path(), metadata_.chunk_of(shard, i), "it is in no slot of the shard"});
    }
    // The checksums first, for the index that will be there: a death between the two leaves an index that is damaged
    // still, and is written once more; the other way round they would be of an index that has gone, and count no more.
    ShardSums fresh = sums;
    fresh.stamp = stamp_of(file, crc_of(entries));
    sums_->save(number, fresh);
    sums_->sync();
    write_shard_index(file, entries, sums.stamp.bytes);
    file.sync();
    report_.repaired.push_back(file.path() + ": the index was written anew; " + std::to_string(whole_ones) +
                               " chunks were found by their checksums");
  }

  bool accept_, had_sums_ = false;
  std::string directory_;
  ArrayMetadata metadata_;
  ChunkLayout layout_;
  std::uint64_t slot_ = 0;
  int opened_ = -1;
  std::unique_ptr<ChunkSums> sums_;
  Buffer buffer_;
  RepairReport report_;
};

}  // namespace

RepairReport repair_array(const std::string& directory, bool accept) { return Repairing(directory, accept).run(); }

}  // namespace flagstone
