// write_box: chunks that are covered are written, the others are read, changed and written.
#include <algorithm>

#include "flagstone/base/bytes.hpp"
#include "flagstone/storage/array/requests.hpp"
#include "flagstone/storage/box/box_transfer.hpp"
#include "flagstone/storage/chunk/coalesce.hpp"

namespace flagstone {
namespace {

class Writing final : public BoxTransfer {
 public:
  Writing(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options)
      : BoxTransfer(ring, array, boxes, options), flat_(takes_any_box(array)), staging_(options.staging) {}

 private:
  std::optional<Box> next() override {
    for (; which_ < boxes_.size(); ++which_, begun_ = false) {
      const Box& box = boxes_[which_].box;
      if (count(box.shape) == 0) continue;
      if (!begun_) begin(box);
      if (auto part = windows_ ? next_joined(box) : pieces_->next()) return part;
    }
    return std::nullopt;
  }
  void prepare(BoxPiece& piece) override {
    if (joined_) {
      piece.unit = piece.part;
      piece.write = true;
      const Tile from = in_memory(piece);
      piece.straight = from.data;
      piece.transfer = in_pieces(array_.store().write_joined(piece.part, from));
      return;
    }
    piece.unit = flat_ ? piece.part : chunk_around(array_, piece.part);
    piece.write = piece.unit == piece.part;
    piece.transfer = in_pieces(piece.write ? array_.store().write(piece.unit) : array_.store().read(piece.unit));
    if (!piece.packed || piece.write) return;
    const Transfer later = array_.store().planned_write(piece.unit);
    piece.more_later = later.staging_bytes - later.work_bytes;
  }
  void fill(BoxPiece& piece) override {
    if (!piece.straight) copy(in_memory(piece), part_in_buffer(piece));
    piece.convert();
    if (piece.transfer.settle) piece.transfer.settle(piece.transfer.segments);
  }
  bool arrived(BoxPiece& piece) override {
    if (piece.write) {
      array_.store().written(piece.unit);
      return false;
    }
    piece.convert();
    piece.transfer = in_pieces(array_.store().write(piece.unit));  // same geometry; its staging may be larger
    piece.write = true;
    replace_memory(piece, piece.bytes());
    fill(piece);
    return true;
  }

  void begin(const Box& box) {
    begun_ = true;
    pieces_.reset();
    const std::size_t slot = align_up(chunk_bytes(array_) + (array_.store().pack_bytes() > 0 ? page_bytes : 0));
    windows_ = neighbourhoods(array_, box, std::min(most_joined_bytes, staging_ / 8) / slot);
    if (!windows_) pieces_ = pieces_to_write(array_, box, staging_, flat_);
  }
  /// Short chunks, several by one request where they lie together; those that are covered in part one by one.
  std::optional<Box> next_joined(const Box& box) {
    for (;;) {
      joined_ = false;
      if (auto part = pieces_ ? pieces_->next() : std::nullopt) return part;
      const auto window = windows_->next();
      if (!window) return std::nullopt;
      Box part = intersect(*window, box);
      joined_ = part == intersect(*window, whole(array_.shape()));
      if (joined_) return part;
      pieces_ = pieces_to_write(array_, part, staging_, flat_);
    }
  }

  const bool flat_;
  const std::size_t staging_;
  bool begun_ = false;                // boxes_[which_]
  bool joined_ = false;               // what travels next of it is whole chunks
  std::optional<BoxPieces> windows_;  // of boxes_[which_]
  std::optional<BoxPieces> pieces_;   // of it, or of a window that is covered in part
};

}  // namespace

void write_boxes(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options) {
  for (const auto& [box, from] : boxes) check_box_and_memory("write_box", array, box, from);
  if (!array.in_memory()) return Writing(ring, array, boxes, options).run();
  for (const auto& [box, from] : boxes) copy(from, memory_tile(array, box));
}

void write_box(Ring& ring, const Array& array, const Box& box, const Tile& from, const BoxOptions& options) {
  const BoxTile one{box, from};
  write_boxes(ring, array, {&one, 1}, options);
}

}  // namespace flagstone
