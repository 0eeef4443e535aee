// read_box: chunks of raw bytes go straight into the caller's memory where they lie there as they are stored; the
// others through buffers.
#include <cerrno>
#include <cstdint>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/base/error.hpp"
#include "flagstone/storage/box_traffic.hpp"
#include "flagstone/storage/transfer.hpp"

namespace flagstone {
namespace {

/// Rows that are scattered take an entry each in the kernel's lists, of which a request has a few hundred; and what is
/// short is verified sooner.
constexpr std::size_t straight_request_bytes = 512 * KiB;

class Reading final : public Traffic {
 public:
  Reading(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options)
      : Traffic(ring, array, boxes, options), staging_(options.staging) {}

 private:
  std::optional<Box> next() override {
    if (slabs_)
      if (auto slab = slabs_->next()) return slab;
    slabs_.reset();
    for (; which_ < boxes_.size(); ++which_, chunks_.reset()) {
      if (!chunks_) chunks_.emplace(boxes_[which_].box, array_.chunks(), array_.chunks());
      const auto chunk = chunks_->next();
      if (!chunk) continue;
      straight_ = array_.store().read_straight(*chunk, in_memory(which_, *chunk));
      if (straight_) return chunk;
      slabs_ = pieces_to_read(array_, *chunk, staging_);
      return slabs_->next();
    }
    return std::nullopt;
  }
  void prepare(Flight& flight) override {
    flight.unit = flight.part;
    if (straight_) {
      flight.transfer = in_pieces(std::move(*straight_), straight_request_bytes);
      flight.straight = in_memory(flight).data;
      straight_.reset();
    } else {
      flight.transfer = in_pieces(array_.store().read(flight.part));
      if (flight.packed && unpacks_into(flight)) flight.straight = in_memory(flight).data;
    }
  }
  bool arrived(Flight& flight) override {
    flight.convert();
    if (!flight.straight) copy(in_buffer(flight), in_memory(flight));
    return false;
  }

  /// Whether the memory is a whole chunk, as one is unpacked.
  bool unpacks_into(const Flight& flight) const {
    const Tile to = in_memory(flight);
    return to.strides == flight.transfer.strides && to.shape == array_.chunks();
  }

  std::optional<BoxPieces> chunks_;  // of boxes_[which_]
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
