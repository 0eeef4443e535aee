#pragma once
// The loop that read_box and write_box share: pieces of a box on their way, buffers for those that need one.
#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "flagstone/base/memory.hpp"
#include "flagstone/storage/array/array.hpp"
#include "flagstone/storage/box/box.hpp"
#include "flagstone/storage/box/box_pieces.hpp"
#include "flagstone/storage/box/codec_pool.hpp"
#include "flagstone/storage/ring/ring.hpp"

namespace flagstone {

/// One piece on its way. `memory` holds the tile's buffer and behind it the staging buffer; a piece that travels
/// straight between the file and the caller's memory has no tile. Of one that is computed in a workspace it holds what
/// is stored and no more: the rest is the workspace's, and needed only while it is computed.
struct BoxPiece {
  std::size_t which = 0;  // of the caller's boxes
  Box part;               // of it
  Box unit;               // what travels: `part`, or the whole chunk around it
  Transfer transfer;
  bool write = false;
  std::byte* straight = nullptr;   // where `part` lies in the caller's memory
  bool packed = false;             // computed in a workspace
  Workspace* workspace = nullptr;  // while it is
  std::size_t more_later = 0;      // bytes of `memory` that its next transfer takes
  Buffer memory;
  std::size_t waiting = 0;        // requests not yet completed
  std::size_t unseen = 0;         // and completed ones that nobody has looked at
  bool failed = false;            // one that joined several chunks: they will be asked for one by one
  std::vector<bool> there = {};   // which are, where transfer.arriving wants to know
  std::size_t first_missing = 0;  // of them
  std::size_t arrived = 0;        // bytes before it

  std::byte* tile() const { return straight ? straight : workspace ? workspace->tile.data() : memory.data(); }
  std::byte* staging() const;
  std::byte* base() const { return transfer.staging_bytes > 0 ? staging() : tile(); }
  std::size_t bytes() const;  // of `memory`
  /// transfer.convert, in the workspace where there is one.
  void convert();
};

/// Buffers for pieces, reused; together at most options.staging bytes, or one buffer of any size.
class StagingPool {
 public:
  explicit StagingPool(const BoxOptions& options) : options_(options) {}
  ~StagingPool();
  std::optional<Buffer> take(std::size_t bytes);
  void give(Buffer buffer);

 private:
  const BoxOptions& options_;
  std::size_t held_ = 0, taken_ = 0;
  std::vector<Buffer> idle_;
};

/// It alone reaps. After the first error nothing more is started, what is in flight is drained (the kernel still uses
/// the memory), and the error leaves as itself. Behind virtio a disk hands over all that was under way at once: the
/// next requests leave before the last are copied and summed, and so reads keep half of the buffers for them.
class BoxTransfer {
 public:
  BoxTransfer(Ring& ring, const Array& array, std::span<const BoxTile> boxes, const BoxOptions& options);
  virtual ~BoxTransfer() = default;
  void run();

 protected:
  /// The next piece of boxes_[which_].
  virtual std::optional<Box> next() = 0;
  /// Says how `piece.part` travels (unit, transfer, write, straight).
  virtual void prepare(BoxPiece& piece) = 0;
  /// Before a write leaves: fills the tile's buffer.
  virtual void fill(BoxPiece&) {}
  /// The transfer is complete; true: `piece.transfer` is the next one and leaves at once.
  /// This and fill() of a packed piece: on the pool's threads, several at once.
  virtual bool arrived(BoxPiece& piece) = 0;

  Tile in_buffer(const BoxPiece& piece) const;
  /// The caller's memory for a part of one of its boxes.
  Tile in_memory(std::size_t which, const Box& part) const;
  Tile in_memory(const BoxPiece& piece) const { return in_memory(piece.which, piece.part); }
  /// `piece.part` inside the buffer of `piece.unit`.
  Tile part_in_buffer(const BoxPiece& piece) const;
  static void replace_memory(BoxPiece& piece, std::size_t bytes);

  Ring& ring_;
  const Array& array_;
  const std::span<const BoxTile> boxes_;
  std::size_t which_ = 0;

 private:
  static constexpr std::uint64_t segments_per_piece = std::uint64_t{1} << 32;  // tag = piece * this + segment

  void move();
  void prepare_next();
  void start_all();  // what there is room for
  bool start();      // next_; false when the buffers in flight leave no room for it
  void leave(BoxPiece& piece);
  BoxPiece& piece_of(const Completion& completion) { return pieces_[completion.tag / segments_per_piece]; }
  void note(const Completion& completion);
  void completed(const Completion& completion);
  void tell(BoxPiece& piece, std::size_t segment);
  void settle(BoxPiece& piece);
  void compute(BoxPiece& piece, bool before_it_leaves);
  bool collect();
  void done(BoxPiece& piece);
  void pulse();

  /// Keeps the first error.
  template <class Work>
  void guarded(Work&& work) {
    try {
      work();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  }

  std::size_t number_of(const BoxPiece& piece) const { return static_cast<std::size_t>(&piece - pieces_.data()); }

  std::optional<BoxPiece> next_;
  std::vector<BoxPiece> pieces_;
  std::vector<std::size_t> idle_;  // of pieces_
  const BoxOptions& options_;
  StagingPool pool_;
  std::size_t reading_ = 0;  // bytes of buffers that the disk is filling
  std::chrono::steady_clock::time_point next_pulse_;
  std::exception_ptr error_;
  const bool packed_;
  CodecPool codecs_;
};

/// ShapeError unless the box lies in the array and the memory is as large.
void check_box_and_memory(const char* who, const Array& array, const Box& box, const Tile& tile);
/// The elements of a box of an array in memory.
Tile memory_tile(const Array& array, const Box& box);

}  // namespace flagstone
