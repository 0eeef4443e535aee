// read_box: chunks of raw bytes go straight into the caller's memory where they lie there as they are stored; the
// others through buffers.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/array/requests.hpp"
#include "flagstone/storage/box/box_transfer.hpp"
#include "flagstone/storage/chunk/coalesce.hpp"

namespace flagstone {
namespace {

/// Rows that are scattered take an entry each in the kernel's lists, of which a request has a few hundred; and what is
/// short is verified sooner.
constexpr std::size_t straight_request_bytes = 512 * KiB;

/// Bytes of short chunks that are looked up together: the disk waits for the first ones, and has little left to do
/// while the next are looked up.
constexpr std::size_t located_bytes = 1 * MiB;

class Reading final : public BoxTransfer {
 public:
  Reading(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options)
      : BoxTransfer(ring, array, boxes, options), staging_(options.staging) {}

 private:
  std::optional<Box> next() override {
    for (; which_ < boxes_.size(); ++which_, begun_ = false) {
      if (!begun_) begin(boxes_[which_].box);
      if (windows_ ? next_joined() : next_chunk()) return part_;
    }
    return std::nullopt;
  }
  void prepare(BoxPiece& piece) override {
    piece.unit = piece.part;
    if (windows_) {
      piece.transfer = in_pieces(std::move(joined_[joined_begun_++].transfer), straight_request_bytes);
      piece.straight = in_memory(piece).data;
    } else if (straight_) {
      piece.transfer = in_pieces(std::move(*straight_), straight_request_bytes);
      piece.straight = in_memory(piece).data;
      straight_.reset();
    } else {
      piece.transfer = in_pieces(array_.store().read(piece.part));
      if (piece.packed && unpacks_into(piece)) piece.straight = in_memory(piece).data;
    }
  }
  bool arrived(BoxPiece& piece) override {
    piece.convert();
    if (!piece.straight) copy(in_buffer(piece), in_memory(piece));
    return false;
  }

  void begin(const Box& box) {
    begun_ = true;
    windows_ = neighbourhoods(array_, box, std::clamp<std::size_t>(located_bytes / chunk_bytes(array_), 32, 1024));
    if (!windows_) chunks_.emplace(box, array_.chunks(), array_.chunks());
  }
  /// Short chunks, several by one request. The buffers hold some of these requests at once, half of them under way.
  bool next_joined() {
    while (joined_begun_ == joined_.size()) {
      const auto window = windows_->next();
      if (!window) return false;
      const Box part = intersect(*window, boxes_[which_].box);
      joined_ = array_.store().read_joined(part, in_memory(which_, part), std::min(most_joined_bytes, staging_ / 8));
      joined_begun_ = 0;
    }
    part_ = joined_[joined_begun_].part;
    return true;
  }
  bool next_chunk() {
    for (;;) {
      if (auto slab = slabs_ ? slabs_->next() : std::nullopt) {
        part_ = *std::move(slab);
        return true;
      }
      slabs_.reset();
      const auto chunk = chunks_->next();
      if (!chunk) return false;
      straight_ = array_.store().read_straight(*chunk, in_memory(which_, *chunk));
      if (!straight_) slabs_ = pieces_to_read(array_, *chunk, staging_);
      part_ = *chunk;
      if (straight_) return true;
    }
  }

  /// Whether the memory is a whole chunk, as one is unpacked.
  bool unpacks_into(const BoxPiece& piece) const {
    const Tile to = in_memory(piece);
    return to.strides == piece.transfer.strides && to.shape == array_.chunks();
  }

  bool begun_ = false;  // boxes_[which_]
  Box part_;            // what travels next of it
  std::optional<BoxPieces> windows_;
  std::vector<PartRead> joined_;     // of a window
  std::size_t joined_begun_ = 0;     // of them
  std::optional<BoxPieces> chunks_;  // where there are no windows
  std::optional<BoxPieces> slabs_;   // of a chunk that is too large for one buffer
  std::optional<Transfer> straight_;
  const std::size_t staging_;
};

}  // namespace

void read_boxes(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options) {
  bool empty = true;
  for (const auto& [box, to] : boxes) {
    check_box_and_memory("read_box", array, box, to);
    empty = empty && count(box.shape) == 0;
  }
  if (empty) return;
  if (array.in_memory()) {
    for (const auto& [box, to] : boxes) copy(memory_tile(array, box), to);
    return;
  }
  // Several chunks of one moment: where another process commits meanwhile, they are read again.
  for (int attempt = 0;; ++attempt) {
    const std::uint64_t before = array.store().look();
    std::exception_ptr error;
    try {
      Reading(ring, array, boxes, options).run();
    } catch (const Error&) {
      error = std::current_exception();
    }
    if (array.store().look() == before) {
      if (error) std::rethrow_exception(error);
      return;
    }
    if (attempt == 20)
      throw StorageError("read: the array is changed faster than it can be read; read smaller parts", EAGAIN,
                         array.path());
  }
}

void read_box(Ring& ring, const Array& array, const Box& box, const Tile& to, const BoxOptions& options) {
  const BoxTile one{box, to};
  read_boxes(ring, array, {&one, 1}, options);
}

}  // namespace flagstone
