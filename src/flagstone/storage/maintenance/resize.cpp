#include "flagstone/storage/maintenance/resize.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <set>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/base/memory.hpp"
#include "flagstone/storage/file/text_file.hpp"
#include "flagstone/storage/transaction/recovery.hpp"
#include "flagstone/storage/transaction/transaction.hpp"
#include "flagstone/storage/zarr/metadata/checksum.hpp"
#include "flagstone/storage/zarr/metadata/json.hpp"
#include "flagstone/storage/zarr/shard/shard_list.hpp"
#include "flagstone/storage/zarr/store/zarr_store.hpp"
#include "flagstone/storage/zarr/zarr.hpp"

namespace flagstone {
namespace {

/// Calls f for every place of a grid.
template <class F>
void for_each(const Shape& grid, F&& f) {
  if (count(grid) == 0) return;
  Shape at(grid.size(), 0);
  do f(at);
  while (advance(at, grid));
}

/// Whether every element of a whole chunk that lies outside `inside` is the fill value.
bool outside_is_fill(const Tile& chunk, const Shape& inside, const std::vector<std::byte>& fill) {
  const std::size_t item = fill.size(), last = chunk.shape.size() - 1;
  Shape rows = chunk.shape;
  rows[last] = 1;
  bool same = true;
  for_each(rows, [&](const Shape& at) {
    bool within = true;
    const std::byte* row = chunk.data;
    for (std::size_t d = 0; d < last; ++d) within = within && at[d] < inside[d], row += at[d] * chunk.strides[d];
    for (Index i = within ? inside[last] : 0; same && i < chunk.shape[last]; ++i)
      same = std::memcmp(row + i * chunk.strides[last], fill.data(), item) == 0;
  });
  return same;
}

/// Makes what lies outside an array's shape along some dimensions absent, or the fill value.
class Cleaning {
 public:
  Cleaning(Ring& ring, const std::shared_ptr<const Directory>& place, const std::shared_ptr<WriterLock>& lock,
           const BoxOptions& options)
      : ring_(ring),
        place_(place),
        lock_(lock),
        options_(options),
        array_(open_zarr_array(place->path(), true)),
        store_(*zarr_store(array_)) {}

  const ArrayMetadata& metadata() const { return store_.metadata(); }

  /// `beyond`: how far the outside may be looked for; equal extents are not looked at.
  void run(const Shape& beyond) {
    remove_shards(beyond);
    Transaction transaction;
    const Shape& shape = metadata().shape;
    std::set<Shape> edge;  // shards that reach beyond the shape
    const Shape grid = grid_of(shape, metadata().shards);
    existing([&](const std::string&, const std::vector<Shape>& shards) {
      for (const Shape& shard : shards) {
        bool at_edge = false;
        for (std::size_t d = 0; d < shape.size(); ++d)
          at_edge =
              at_edge || (beyond[d] > shape[d] && shape[d] % metadata().shards[d] != 0 && shard[d] == grid[d] - 1);
        if (at_edge && inside(shard, grid)) edge.insert(shard);
      }
    });
    for (const Shape& shard : edge) clean(shard, beyond, transaction);
    transaction.commit();
  }

  /// Refuses, before anything happens, what run() would refuse once the array has this shape: shards at its edges that
  /// another program laid out.
  void check(const Shape& after) const {
    const ArrayMetadata& about = metadata();
    const Shape grid = grid_of(about.shape, about.shards);
    existing([&](const std::string&, const std::vector<Shape>& shards) {
      for (const Shape& shard : shards) {
        bool cut = false;
        for (std::size_t d = 0; d < grid.size(); ++d)
          cut = cut || (after[d] < about.shape[d] && after[d] % about.shards[d] != 0 &&
                        shard[d] == after[d] / about.shards[d]);
        if (cut && inside(shard, grid)) store_.check_ours(shard);
      }
    });
  }

 private:
  void existing(const ShardsSeen& seen) const { for_existing_shards(*place_, metadata(), options_.pulse, seen); }
  static bool inside(const Shape& at, const Shape& grid) {
    bool within = true;
    for (std::size_t d = 0; d < at.size(); ++d) within = within && at[d] < grid[d];
    return within;
  }

  /// Shards that lie outside altogether; gone from the disk when it returns.
  void remove_shards(const Shape& beyond) {
    const ArrayMetadata& about = metadata();
    const Shape kept = grid_of(about.shape, about.shards);
    Shape most = kept;
    for (std::size_t d = 0; d < most.size(); ++d) most[d] = std::max(kept[d], ceil_div(beyond[d], about.shards[d]));
    existing([&](const std::string& directory, const std::vector<Shape>& shards) {
      bool removed = false;
      for (const Shape& shard : shards) {
        if (inside(shard, kept) || !inside(shard, most)) continue;
        if (options_.pulse) options_.pulse();
        commit_step("remove shard");
        if (::unlink(place_->file(about.key(shard)).c_str()) == 0)
          removed = true;
        else if (errno != ENOENT && errno != ENOTDIR)
          throw StorageError("resize: cannot remove a shard", errno, store_.path_of(shard));
      }
      if (removed) sync_directory(directory);
    });
  }

  void clean(const Shape& shard, const Shape& beyond, Transaction& transaction) {
    const ZarrStore::ShardFacts facts = store_.facts(shard);
    if (!facts.file) return;
    const Shape per_shard = grid_of(metadata().shards, metadata().chunks);
    std::size_t entry = 0;
    for_each(per_shard, [&](const Shape& at) {
      const ShardEntry& stored = facts.entries[entry++];
      if (stored.absent()) return;
      Shape chunk = at, inside = metadata().chunks;
      bool none = false, part = false;
      for (std::size_t d = 0; d < at.size(); ++d) {
        chunk[d] += shard[d] * per_shard[d];
        const Index left = metadata().shape[d] - chunk[d] * metadata().chunks[d];
        none = none || left <= 0;
        part = part || (left < inside[d] && beyond[d] > metadata().shape[d]);
        inside[d] = std::clamp<Index>(left, 0, inside[d]);
      }
      if (none) {
        transaction.add_locked(array_, lock_);
        store_.drop(chunk);
      } else if (part && !filled(*facts.file, stored, inside)) {
        transaction.add_locked(array_, lock_);
        rewrite(store_.layout().chunk_box(chunk));
      }
    });
  }

  bool filled(const File& file, const ShardEntry& stored, const Shape& inside) {
    const ChunkLayout& layout = store_.layout();
    if (!stored_) {
      stored_ = Buffer(align_up(layout.most_packed()));
      if (layout.decode) whole_ = Buffer(align_up(layout.chunk_bytes) + layout.decode_scratch);
    }
    if (stored.bytes > layout.most_packed())
      throw FormatError("resize: " + file.path() + ": a chunk is longer than it can be; fl.check tells which.");
    read_exactly(file, stored_.data(), stored.bytes, stored.offset);
    std::byte* data = stored_.data();
    if (layout.decode) {
      data = whole_.data();
      layout.decode({stored_.data(), stored.bytes, 0}, data, data + align_up(layout.chunk_bytes));
    }
    return outside_is_fill({data, layout.dtype, layout.chunks, layout.chunk_strides, 0}, inside, layout.fill);
  }

  /// The same elements again: what is written is filled outside the array.
  void rewrite(const Box& box) {
    const std::size_t item = size_of(array_.dtype());
    const std::size_t bytes = static_cast<std::size_t>(count(box.shape)) * item;
    if (memory_.size() < bytes) memory_ = Buffer(align_up(bytes));
    const Tile tile{memory_.data(), array_.dtype(), box.shape, c_strides(box.shape, item), 0};
    read_box(ring_, array_, box, tile, options_);
    write_box(ring_, array_, box, tile, options_);
  }

  Ring& ring_;
  const std::shared_ptr<const Directory> place_;
  const std::shared_ptr<WriterLock> lock_;
  const BoxOptions options_;
  const Array array_;
  ZarrStore& store_;
  Buffer stored_, whole_, memory_;
};

/// A commit that changes nothing: handles that read look at the array anew.
void tell_readers(const Directory& place) {
  const Journal journal(place);
  std::random_device device;
  commit_step("tell readers");
  Journal(place).commit(journal.head(), (std::uint64_t{device()} << 32) | device(), {});
  commit_step("told");
  Journal(place).clear();
}

/// Names are listed by the million: the pulse is taken at its own pace.
BoxOptions seldom(const BoxOptions& options) {
  if (!options.pulse) return options;
  BoxOptions paced = options;
  paced.pulse = [pulse = options.pulse, every = options.between_pulses,
                 next = std::make_shared<std::chrono::steady_clock::time_point>()] {
    const auto now = std::chrono::steady_clock::now();
    if (now < *next) return;
    *next = now + every;
    pulse();
  };
  return paced;
}

}  // namespace

void resize_array(Ring& ring, const std::string& directory, const Shape& shape, const BoxOptions& given) {
  const BoxOptions options = seldom(given);
  const auto place = std::make_shared<const Directory>(directory);
  const auto lock = std::make_shared<WriterLock>(*place);
  if (Journal(*place).head().state == JournalHead::State::writing)
    throw StorageError("resize: this array is the next one of a ring of epochs; resize it after they have ended", EBUSY,
                       directory);
  recover(place, *lock);
  const std::string file = place->file("zarr.json");
  const std::string text = read_text(file);
  const ArrayMetadata old = parse_array_metadata(text, directory + "/zarr.json");
  if (!old.sharded)
    throw FormatError("resize: " + directory +
                      "/zarr.json: it is not sharded: another program made it; fl.convert "
                      "makes an array that grows in place.");
  if (shape.size() != old.shape.size())
    throw ShapeError("resize: the array has " + std::to_string(old.shape.size()) + " dimensions and " +
                     std::to_string(shape.size()) + " extents were given; give one for each.");
  if (std::any_of(shape.begin(), shape.end(), [](Index extent) { return extent < 0; }))
    throw ShapeError("resize: the shape is " + to_string(shape) + "; extents must not be negative.");
  const std::string fresh = with_member(text, "shape", shape);  // the rest stays as somebody wrote it
  const ArrayMetadata now = parse_array_metadata(fresh, directory + "/zarr.json");  // refuses what overflows
  Cleaning before(ring, place, lock, options);
  before.check(shape);
  before.run(shape);
  if (shape == old.shape) return;
  commit_step("resize checksums");
  ChunkSums::carry(place->descriptor(), directory, old, now, [&](const std::function<void(const Shape&)>& one) {
    for_existing_shards(*place, old, options.pulse, [&](const std::string&, const std::vector<Shape>& shards) {
      for (const Shape& shard : shards) one(shard);
    });
  });
  commit_step("resize");
  write_text(file, fresh);
  if (::access(array_stamp(directory).c_str(), F_OK) == 0) stamp_metadata(file, fresh, array_stamp(directory));
  commit_step("resized");
  ChunkSums::adopt(place->descriptor());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] < old.shape[d]) {
      tell_readers(*place);
      break;
    }
  Cleaning(ring, place, lock, options).run(old.shape);
}

}  // namespace flagstone
