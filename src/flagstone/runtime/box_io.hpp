#pragma once
// Boxes that travel beside runs, inside the limit; and the limit itself: its default, what is named where it is too
// small.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "flagstone/base/bytes.hpp"
#include "flagstone/runtime/graph/options.hpp"
#include "flagstone/storage/box/box.hpp"

namespace flagstone {

/// Where no limit is given: $FLAGSTONE_MEMORY, else 60 % of what the machine or its cgroup allows. Error where that
/// variable holds no size.
std::uint64_t default_memory();
/// The limit to name for a need: whole MiB with one to spare, for what the process grows by until then.
std::uint64_t limit_for(std::uint64_t least);
/// BudgetError of `who` where the limit is below `least` by more than Runtime::allowed_drift.
/// `resident_at_entry`: of the process when the call began, for the sentence; 0: what is now.
void check_least(const std::string& who, std::uint64_t least, std::uint64_t memory,
                 std::uint64_t resident_at_entry = 0);

inline constexpr std::size_t box_staging = 16 * MiB;  // most bytes that a transfer holds beside its boxes
inline constexpr std::size_t box_piece = 32 * MiB;    // of values that take a copy on their way: so many at once

/// Bytes that a call is about to take.
struct RoomAsked {
  std::string who;   // "read"
  std::string what;  // "256 x 256 of float64"
  std::uint64_t bytes = 0;
  std::uint64_t kept = 0;                // of them: held already, for this
  std::uint64_t resident_at_entry = 0;   // of the process when the call began, for the refusal; 0: what is now
  std::function<void()> give_back = {};  // lets go of what the caller keeps for later; asked before a refusal
};

/// What the caller of a transfer adds to it.
struct BoxCall {
  std::uint64_t untouched = 0;        // bytes of the boxes' memory that have no pages yet
  std::size_t staging = box_staging;  // at most
  BufferShelf shelf = {};             // where staging comes from and goes to
  std::function<void()> pulse = {};   // called now and then on the calling thread; what it throws ends the transfer
};

/// What one transfer gets of a limit.
struct BoxShare {
  std::size_t staging = 0;
  std::size_t hands = 1;  // threads that unpack or pack, each beside staging: one chunk and its codec
};
/// Of what `options.memory` leaves beside `held` bytes: staging first, then as many threads as chunks fit, at most the
/// workers. Raw chunks take none, and all of `most` bytes of staging.
BoxShare share_of_limit(const RuntimeOptions& options, const Array& array, std::uint64_t held, std::size_t most);

/// Gives what was freed back to the system: codecs free, and the allocator keeps for every thread that unpacked.
void trim_heap();

/// Beside its box of so many bytes, a read takes staging and what unpacks one chunk.
std::uint64_t bytes_beside_read(const Array& array, std::uint64_t box_bytes);
/// The same for a write, which changes chunks that it covers in part; `copied`: values go through pieces in the array's
/// dtype and order first.
std::uint64_t bytes_beside_write(const Array& array, std::uint64_t box_bytes, bool copied = false);

/// A ring, and from the first packed request on threads, of transfers that no run is needed for: a run has its own (its
/// ring has a reaper, its workers live as long as it does). One transfer at a time; another thread's waits.
class BoxIo {
 public:
  /// `options` must outlive it, and be complete: a limit, workers.
  explicit BoxIo(const RuntimeOptions& options);
  ~BoxIo();
  BoxIo(const BoxIo&) = delete;

  void read(const Array& array, std::span<const BoxTile> boxes, const BoxCall& call = {});
  void write(const Array& array, std::span<const BoxTile> boxes, const BoxCall& call = {});
  /// BudgetError where resident memory would go beyond the limit, all that can be given back being given back; returns
  /// what is left beside.
  std::uint64_t check_room(const RoomAsked& asked) const;
  /// The ring for something else that travels beside runs, none of the others being under way.
  void lend(const std::function<void(Ring&)>& use);
  /// How the disk is talked to.
  std::string describe() const;

 private:
  BoxOptions options_of(const Array& array, const BoxCall& call);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flagstone
