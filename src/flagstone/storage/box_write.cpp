// write_box: chunks that are covered are written, the others are read, changed and written.
#include "flagstone/storage/box_traffic.hpp"
#include "flagstone/storage/transfer.hpp"

namespace flagstone {
namespace {

class Writing final : public Traffic {
 public:
  Writing(Ring& ring, const Array& array, const Box& box, const Tile& tile, const BoxOptions& options)
      : Traffic(ring, array, box, tile, options),
        flat_(takes_any_box(array)),
        pieces_(pieces_to_write(array, box, options.staging, flat_)) {}

 private:
  std::optional<Box> next() override { return pieces_.next(); }
  void prepare(Flight& flight) override {
    flight.unit = flat_ ? flight.part : chunk_around(array_, flight.part);
    flight.write = flight.unit == flight.part;
    flight.transfer = in_pieces(flight.write ? array_.store().write(flight.unit) : array_.store().read(flight.unit));
  }
  void fill(Flight& flight) override {
    copy(in_memory(flight.part), part_in_buffer(flight));
    if (flight.transfer.convert) flight.transfer.convert(flight.tile(), flight.staging());
  }
  bool arrived(Flight& flight) override {
    if (flight.write) {
      array_.store().written(flight.unit);
      return false;
    }
    if (flight.transfer.convert) flight.transfer.convert(flight.tile(), flight.staging());
    flight.transfer = in_pieces(array_.store().write(flight.unit));  // same geometry; its staging may be larger
    flight.write = true;
    replace_memory(flight, flight.bytes());
    fill(flight);
    return true;
  }
  const bool flat_;
  BoxPieces pieces_;
};

}  // namespace

void write_box(Ring& ring, const Array& array, const Box& box, const Tile& from, const BoxOptions& options) {
  check_box_and_memory("write_box", array, box, from);
  if (count(box.shape) == 0) return;
  if (array.in_memory()) return copy(from, memory_tile(array, box));
  Writing(ring, array, box, from, options).run();
}

}  // namespace flagstone
