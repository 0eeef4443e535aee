#include <algorithm>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/maintenance/check.hpp"
#include "flagstone/storage/zarr/metadata/checksum.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

class Checking {
 public:
  Checking(Ring& ring, const std::string& directory, std::size_t staging, const Progress& progress)
      : ring_(ring), staging_(staging), progress_(progress) {
    const Array given = open_zarr_array_as_it_is(directory);
    const ArrayMetadata& metadata = zarr_store(given)->metadata();
    auto store = std::make_shared<ZarrStore>(directory, metadata, ZarrStore::Options{.ignore_damage = true});
    store_ = store.get();
    array_ = Array(given.shape(), given.dtype(), given.chunks(), std::move(store), directory);
  }

  CheckReport run() {
    const ChunkLayout& layout = store_->layout();
    if (const std::string file = store_->directory() + "/zarr.json"; store_->metadata().version == 3) try {
        check_metadata(file, read_text(file), array_stamp(store_->directory()));
      } catch (const FormatError& error) {
        damaged(file, {}, error.what());
      }
    const ArrayMetadata& metadata = store_->metadata();
    report_.chunks = static_cast<std::uint64_t>(count(layout.grid));
    if (Journal(Directory(store_->directory())).head().state == JournalHead::State::writing) {
      report_.notes.push_back(store_->directory() +
                              " is the next one of a ring of epochs; what it holds counts for nothing");
      return std::move(report_);
    }
    const ChunkLayout shards(metadata.shape, metadata.shards, metadata.dtype);
    for (const Shape& shard : shards.touched(whole(metadata.shape)))
      if (!metadata.sharded || shard_is_readable(shard)) read_all(shards.chunk_box(shard));
    return std::move(report_);
  }

 private:
  void damaged(const std::string& file, const Shape& chunk, const std::string& what) {
    report_.damages.push_back({file, chunk, what});
  }

  bool shard_is_readable(const Shape& shard) {
    const std::string path = store_->path_of(shard);
    ZarrStore::ShardFacts facts;
    try {
      facts = store_->facts(shard);
    } catch (const Error& error) {
      damaged(path, {}, error.what());
      return false;
    }
    if (!facts.file) return false;
    if (facts.sums.state == ShardSums::State::damaged)
      damaged(store_->sums_path(), {}, "the checksums of " + path + " are damaged; fl.repair writes them anew");
    if (facts.sums.state == ShardSums::State::unknown && facts.sums.epoch > 0)
      report_.notes.push_back(path +
                              " is not the file that its checksums were made for (another program wrote it, or "
                              "its writer died); its chunks cannot be verified");
    std::vector<ShardEntry> present;
    std::copy_if(facts.entries.begin(), facts.entries.end(), std::back_inserter(present),
                 [](const ShardEntry& entry) { return !entry.absent(); });
    std::sort(present.begin(), present.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    for (std::size_t i = 1; i < present.size(); ++i)
      if (present[i - 1].offset + present[i - 1].bytes > present[i].offset) {
        damaged(path, {}, "two chunks overlap at byte " + std::to_string(present[i].offset));
        break;
      }
    return true;
  }

  /// The chunks of a box: many at once where all is well, one by one where something is not.
  void read_all(const Box& box) {
    std::vector<Shape> chunks = store_->layout().touched(box);
    const std::size_t each = std::max<std::size_t>(1, chunk_bytes(array_));
    const auto together = static_cast<Index>(std::max<std::size_t>(1, staging_ / each));
    for (std::size_t first = 0; first < chunks.size();) {
      // A run along the last dimension is a box.
      std::size_t n = 1;
      const auto follows = [&](std::size_t i) {
        Shape next = chunks[first];
        if (next.empty()) return false;
        next.back() += static_cast<Index>(i - first);
        return chunks[i] == next;
      };
      while (static_cast<Index>(n) < together && first + n < chunks.size() && follows(first + n)) ++n;
      read_run(chunks, first, n);
      first += n;
    }
  }

  void read_run(const std::vector<Shape>& chunks, std::size_t first, std::size_t n) {
    Box box = store_->layout().chunk_box(chunks[first]);
    const Box last = store_->layout().chunk_box(chunks[first + n - 1]);
    if (n > 1) box.shape.back() = last.start.back() + last.shape.back() - box.start.back();
    try {
      for (std::size_t i = first; i < first + n; ++i) account(chunks[i], 1);
      read(box);
    } catch (const Error&) {
      for (std::size_t i = first; i < first + n; ++i) {
        const Box one = store_->layout().chunk_box(chunks[i]);
        try {
          read(one);
        } catch (const Error& error) {
          damaged(store_->path_of(chunks_shard(chunks[i])), chunks[i], error.what());
          unverified(chunks[i]);
        }
      }
    }
    if (progress_) progress_(report_.bytes);
  }

  Shape chunks_shard(Shape chunk) const {
    const ArrayMetadata& metadata = store_->metadata();
    for (std::size_t d = 0; d < chunk.size(); ++d) chunk[d] /= metadata.shards[d] / metadata.chunks[d];
    return chunk;
  }

  /// Counts a chunk as it should be; `unverified` takes it back.
  void account(const Shape& chunk, std::uint64_t once) {
    const StoredChunk stored = located(chunk);
    if (stored.bytes == 0) return;
    report_.stored += once;
    report_.bytes += stored.bytes;
    report_.verified += stored.crc || store_->metadata().codec.summed_inside() ? once : 0;
  }

  void unverified(const Shape& chunk) {
    const StoredChunk stored = located(chunk);
    if (stored.bytes > 0 && (stored.crc || store_->metadata().codec.summed_inside())) --report_.verified;
  }

  StoredChunk located(const Shape& chunk) const {
    try {
      return store_->locate(chunk);
    } catch (const Error&) {
      return {};  // said when it is read
    }
  }

  void read(const Box& box) {
    const std::size_t bytes = static_cast<std::size_t>(count(box.shape)) * size_of(array_.dtype());
    if (memory_.size() < bytes) memory_ = Buffer(bytes);
    read_box(ring_, array_, box,
             {memory_.data(), array_.dtype(), box.shape, c_strides(box.shape, size_of(array_.dtype())), 0}, staging_);
  }

  Ring& ring_;
  std::size_t staging_;
  const Progress& progress_;
  Array array_;
  ZarrStore* store_ = nullptr;
  Buffer memory_;
  CheckReport report_;
};

}  // namespace

CheckReport check_array(Ring& ring, const std::string& directory, std::size_t staging, const Progress& progress) {
  return Checking(ring, directory, staging, progress).run();
}

}  // namespace flagstone
