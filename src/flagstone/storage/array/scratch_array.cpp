#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/base/grid.hpp"
#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/array/scratch_array.hpp"

namespace flagstone {
namespace {

/// Tile i of the grid (C order) lies at i * slot of a file, contiguous and in C order; a tile at the array's edge is
/// smaller than its slot, so that every offset is known beforehand. The rest of the slot is a hole.
class TemporaryStore final : public ArrayStore {
 public:
  /// `named`: where is the file itself, else the directory of a nameless one.
  TemporaryStore(Shape shape, Dtype dtype, Shape tile, std::string where, bool named, Written when = Written::always,
                 std::optional<ScratchSpace> space = {})
      : shape_(std::move(shape)),
        tile_(std::move(tile)),
        item_(size_of(dtype)),
        slot_(align_up(static_cast<std::uint64_t>(count(tile_)) * item_)),
        where_(std::move(where)),
        named_(named),
        when_(when),
        space_(std::move(space)) {
    written_.resize(static_cast<std::size_t>(count(grid_of(shape_, tile_))));
  }

  /// Takes over the named file and the tiles that it is said to hold; false where it is not there, or too short.
  bool adopt(const std::vector<std::uint8_t>& tiles) {
    struct stat status;
    if (tiles.size() != written_.size() || ::lstat(where_.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
        static_cast<std::uint64_t>(status.st_size) < bytes())
      return false;
    file_ = File::open(where_, File::Mode::update);
    for (std::size_t i = 0; i < tiles.size(); ++i) written_[i] = tiles[i] != 0;
    return reserved_ = true;
  }

  Transfer read(const Box& box) const override {
    const Cell cell = cell_of(box);
    std::lock_guard lock(mutex_);
    // Without a file before the first write: that is the geometry, which requests_of refuses to turn into requests.
    return transfer_of(box, cell, written_[cell.number] ? file_ : nullptr);
  }

  Transfer write(const Box& box) override {
    const Cell cell = cell_of(box);
    if (!(cell.tile == box)) throw ShapeError(refusal(box, "writes take whole tiles"));
    std::lock_guard lock(mutex_);
    make();
    return transfer_of(box, cell, file_);
  }

  bool reserve() override {
    std::lock_guard lock(mutex_);
    return make();
  }

  Transfer planned_write(const Box& box) override {
    const Cell cell = cell_of(box);
    if (!(cell.tile == box)) throw ShapeError(refusal(box, "writes take whole tiles"));
    return transfer_of(box, cell, nullptr);
  }

  void written(const Box& box) override {
    std::lock_guard lock(mutex_);
    written_[cell_of(box).number] = true;
  }

  bool stored(const Box& box) const override {
    const Cell cell = cell_of(box);
    std::lock_guard lock(mutex_);
    return written_[cell.number];
  }

  void checkpoint() override {
    std::lock_guard lock(mutex_);
    if (named_ && file_) file_->sync();
  }

  std::uint64_t scratch_bytes() const { return named_ ? 0 : bytes(); }
  Written when(const Box& tile) const {
    const bool early = early_ && intersect(*early_, tile).shape == tile.shape;
    return early ? Written::always : when_;
  }
  void write_early(const Box& box) { early_ = box; }

  std::size_t run_bytes(const Shape& box) const override {
    Shape part = box;
    for (std::size_t d = 0; d < part.size(); ++d) part[d] = std::min(part[d], tile_[d]);
    return span_of(part, c_strides(tile_, item_));
  }

 private:
  std::uint64_t bytes() const { return slot_ * written_.size(); }

  bool make() {
    if (file_) return reserved_;
    auto promise = space_ ? std::make_unique<Reservation>(space_->who, space_->directory, space_->quota) : nullptr;
    if (promise) promise->take(bytes());
    std::error_code ignored;  // the next line says it
    if (named_) std::filesystem::remove(where_, ignored);
    auto file = named_ ? File::open(where_, File::Mode::create) : File::temporary(where_);
    reserved_ = file->allocate(bytes());
    file_ = std::move(file);
    promise_ = std::move(promise);
    return reserved_;
  }

  /// The tile that holds a box, and its number in C order.
  struct Cell {
    std::size_t number = 0;
    Box tile;
  };

  Cell cell_of(const Box& box) const {
    if (box.start.size() != shape_.size() || count(box.shape) == 0) throw ShapeError(refusal(box, "it is empty"));
    Cell cell{0, box};
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      const Index at = box.start[d] / tile_[d];
      cell.number =
          cell.number * static_cast<std::size_t>(ceil_div(shape_[d], tile_[d])) + static_cast<std::size_t>(at);
      cell.tile.start[d] = at * tile_[d];
      cell.tile.shape[d] = std::min(tile_[d], shape_[d] - cell.tile.start[d]);
    }
    if (!(intersect(box, cell.tile) == box)) throw ShapeError(refusal(box, "it crosses tiles"));
    return cell;
  }

  /// Bytes from the first to behind the last element of a box in a tile with these strides.
  std::size_t span_of(const Shape& extents, const Shape& strides) const {
    std::size_t last = 0;
    for (std::size_t d = 0; d < extents.size(); ++d) last += static_cast<std::size_t>((extents[d] - 1) * strides[d]);
    return last + item_;
  }

  /// The pages around the box: for a whole tile, the tile.
  Transfer transfer_of(const Box& box, const Cell& cell, const std::shared_ptr<File>& file) const {
    Transfer transfer;
    transfer.strides = c_strides(cell.tile.shape, item_);
    std::uint64_t first = 0;
    for (std::size_t d = 0; d < box.start.size(); ++d)
      first += static_cast<std::uint64_t>((box.start[d] - cell.tile.start[d]) * transfer.strides[d]);
    const std::uint64_t begin = align_down(first);
    transfer.origin = first - begin;
    transfer.buffer_bytes = align_up(transfer.origin + span_of(box.shape, transfer.strides));
    transfer.tile_bytes = static_cast<std::size_t>(count(box.shape)) * item_;
    Segment segment;
    segment.file = file;
    segment.offset = cell.number * slot_ + begin;
    segment.row_bytes = transfer.buffer_bytes;
    transfer.segments.push_back(std::move(segment));
    return transfer;
  }

  std::string refusal(const Box& box, const std::string& why) const {
    return "temporary array: the box " + to_string(box.shape) + " at " + to_string(box.start) +
           " does not fit the tiles of " + to_string(tile_) + ": " + why + "; use boxes of the grid.";
  }

  const Shape shape_, tile_;
  const std::size_t item_;
  const std::uint64_t slot_;
  const std::string where_;
  const bool named_;
  const Written when_;
  std::optional<Box> early_;  // before tasks know the array
  const std::optional<ScratchSpace> space_;
  mutable std::mutex mutex_;
  std::shared_ptr<File> file_;            // from the first write on
  std::unique_ptr<Reservation> promise_;  // of the file's bytes
  bool reserved_ = false;
  std::vector<bool> written_;
};

}  // namespace

static void check_tiles(const Shape& shape, const Shape& box) {
  bool fits = box.size() == shape.size();
  for (Index extent : box) fits = fits && extent > 0;
  if (!fits)
    throw ShapeError("temporary array: tiles of " + to_string(box) + " do not divide an array of " + to_string(shape) +
                     "; give one positive extent for each dimension.");
}

Array temporary_array(const Shape& shape, Dtype dtype, const Shape& box, const std::string& directory) {
  check_tiles(shape, box);
  return Array(shape, dtype, box, std::make_shared<TemporaryStore>(shape, dtype, box, directory, false));
}

Array temporary_array(const Shape& shape, Dtype dtype, const Shape& box, const ScratchSpace& space, Written written) {
  check_tiles(shape, box);
  auto store = std::make_shared<TemporaryStore>(shape, dtype, box, space.directory, false, written, space);
  return Array(shape, dtype, box, std::move(store));
}

static TemporaryStore* temporary_store(const Array& array) {
  return array.in_memory() ? nullptr : dynamic_cast<TemporaryStore*>(&array.store());
}

std::uint64_t scratch_bytes(const Array& array) {
  const auto* store = temporary_store(array);
  return store ? store->scratch_bytes() : 0;
}

Written when_written(const Array& array, const Box& tile) {
  const auto* store = temporary_store(array);
  return store ? store->when(tile) : Written::always;
}

void write_early(const Array& array, const Box& box) {
  if (auto* store = temporary_store(array)) store->write_early(box);
}

Array kept_array(const Shape& shape, Dtype dtype, const Shape& box, const std::string& path,
                 const std::vector<std::uint8_t>& tiles, Written written) {
  check_tiles(shape, box);
  auto store = std::make_shared<TemporaryStore>(shape, dtype, box, path, true, written);
  store->adopt(tiles);
  return Array(shape, dtype, box, std::move(store));
}

}  // namespace flagstone
