// write_box: chunks that are covered are written, the others are read, changed and written.
#include "flagstone/storage/box_traffic.hpp"
#include "flagstone/storage/transfer.hpp"

namespace flagstone {
namespace {

class Writing final : public Traffic {
 public:
  Writing(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options)
      : Traffic(ring, array, boxes, options), flat_(takes_any_box(array)), staging_(options.staging) {}

 private:
  std::optional<Box> next() override {
    for (; which_ < boxes_.size(); ++which_, pieces_.reset()) {
      if (count(boxes_[which_].box.shape) == 0) continue;
      if (!pieces_) pieces_ = pieces_to_write(array_, boxes_[which_].box, staging_, flat_);
      if (auto piece = pieces_->next()) return piece;
    }
    return std::nullopt;
  }
  void prepare(Flight& flight) override {
    flight.unit = flat_ ? flight.part : chunk_around(array_, flight.part);
    flight.write = flight.unit == flight.part;
    flight.transfer = in_pieces(flight.write ? array_.store().write(flight.unit) : array_.store().read(flight.unit));
    if (!flight.packed || flight.write) return;
    const Transfer later = array_.store().planned_write(flight.unit);
    flight.more_later = later.staging_bytes - later.work_bytes;
  }
  void fill(Flight& flight) override {
    copy(in_memory(flight), part_in_buffer(flight));
    flight.convert();
    if (flight.transfer.settle) flight.transfer.settle(flight.transfer.segments);
  }
  bool arrived(Flight& flight) override {
    if (flight.write) {
      array_.store().written(flight.unit);
      return false;
    }
    flight.convert();
    flight.transfer = in_pieces(array_.store().write(flight.unit));  // same geometry; its staging may be larger
    flight.write = true;
    replace_memory(flight, flight.bytes());
    fill(flight);
    return true;
  }
  const bool flat_;
  const std::size_t staging_;
  std::optional<BoxPieces> pieces_;  // of boxes_[which_]
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
